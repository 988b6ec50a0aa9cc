"""The ancestors of event codes: an event of a code is an event of everything above it (EHRSHOT's ontology expansion).

Two sources, none of them guessed: the store's own dictionary of codes with ``parent_codes`` (MEDS), followed upwards,
and CCS categories of ICD codes. A code whose ICD version is not said and that both versions have gets no category.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from wardround.codes import CodeGrouper, load_ccs, plain_code
from wardround.core import RecordError
from wardround.records import Store

_ICD_SYSTEMS: Mapping[str, Literal["diagnoses", "procedures"]] = {
    "icd-diagnosis": "diagnoses",
    "icd-procedure": "procedures",
    "DIAGNOSIS//ICD": "diagnoses",
    "PROCEDURE//ICD": "procedures",
}
_SEPARATOR = "//"
_DEEPEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """Ancestors by code, never the code itself; codes without any are left out. ``sources``: where from."""

    ancestors: Mapping[str, tuple[str, ...]]
    sources: tuple[str, ...] = ()


def ancestry(codes: Iterable[str], store: Store) -> Ancestry:
    """Return the ancestors of these codes that the store and the packaged groupers know."""
    parents = stored_parents(store)
    groupers = {kind: load_ccs(kind) for kind in set(_ICD_SYSTEMS.values())}
    found: dict[str, tuple[str, ...]] = {}
    used: set[str] = set()
    for code in codes:
        above = climb(code, parents)
        category = ccs_category(code, groupers)
        used |= {"parent codes of the store"} if above else set()
        used |= {"CCS categories"} if category else set()
        if above or category:
            found[code] = tuple(dict.fromkeys((*above, *((category,) if category else ()))))
    return Ancestry(ancestors=found, sources=tuple(sorted(used)))


def stored_parents(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the parents of each code in the store's dictionaries; empty where there are none."""
    parents: dict[str, tuple[str, ...]] = {}
    for name in store.manifest["dictionaries"]:
        try:
            table = store.dictionary(name)
        except RecordError:
            continue
        if {"code", "parent_codes"} <= set(table.column_names):
            rows = zip(table.column("code").to_pylist(), table.column("parent_codes").to_pylist(), strict=True)
            parents.update({str(code): _names(above) for code, above in rows if above})
    return parents


def climb(code: str, parents: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return everything above a code, each once, nearest first. A circle in the hierarchy ends where it closes."""
    seen: dict[str, None] = {}
    level = [code]
    for _ in range(_DEEPEST):
        level = [one for below in level for one in parents.get(below, ()) if one != code and one not in seen]
        if not level:
            break
        seen.update(dict.fromkeys(level))
    return tuple(seen)


def ccs_category(code: str, groupers: Mapping[Literal["diagnoses", "procedures"], CodeGrouper]) -> str | None:
    """Return the CCS category of an ICD code, as a code of its own; None where it is not known or not certain."""
    for system, kind in _ICD_SYSTEMS.items():
        if not code.startswith(system + _SEPARATOR):
            continue
        parts = code.removeprefix(system + _SEPARATOR).split(_SEPARATOR)
        versions = [int(parts[0])] if len(parts) == 2 and parts[0].isdigit() else [9, 10]
        plain = plain_code(parts[-1])
        tables = groupers[kind].codes
        numbers = {tables[version][plain] for version in versions if plain in tables.get(version, {})}
        return f"ccs-{kind}{_SEPARATOR}{numbers.pop()}" if len(numbers) == 1 else None
    return None


def _names(above: object) -> tuple[str, ...]:
    """Read a list of codes; a store keeps it as text, a code a line."""
    names = above.split("\n") if isinstance(above, str) else above if isinstance(above, list) else []
    return tuple(str(name) for name in names if name)
