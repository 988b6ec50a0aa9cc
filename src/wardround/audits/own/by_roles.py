"""What must not be seen before what in a source that the plausibility audit has no table for: by its roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wardround.audits.own.questions import linked_columns
from wardround.records.specs.roles import MomentRole, SpanRole
from wardround.records.specs.spec import SourceSpec

_CARE = ("lab", "vital", "administration", "intake", "output")


def known_by_roles(spec: SourceSpec) -> Mapping[str, Any]:
    """Return deaths, outcomes, care and keys as ``plausibility.toml`` writes them; what no table plays is left out.

    ``names``: by table, its own column for each column by which outcomes name a stay. ``key_places``: (table, column,
    table that the column names, its key).
    """
    roles = spec.roles
    stays = [span for span in (roles.admission, roles.stay) if span is not None]
    outcomes = [outcome for span in stays for outcome in _ends(spec, span)]
    care = dict.fromkeys(role.table for name in _CARE for role in roles.rows(name))
    admission = roles.admission
    stay = None if admission is None else admission.id or spec.tables[admission.table].encounter
    outcomes += _summaries(spec, stay)
    return {
        "deaths": [_death(role) for role in roles.death],
        "outcomes": outcomes,
        "care": {table: spec.tables[table].encounter or "" for table in care},
        "names": {table: _names(spec, table, stays) for table in (*care, *(outcome[0] for outcome in outcomes))},
        "key_places": [
            (name, column, other, spec.tables[other].key[0])
            for name, table in spec.tables.items()
            for column, other in linked_columns(spec, table).items()
            if len(spec.tables[other].key) == 1
        ],
    }


def _death(role: MomentRole) -> list[Any]:
    return [role.table, role.code, list(role.starts)] if role.code else [role.table, role.time or "", ""]


def _ends(spec: SourceSpec, span: SpanRole) -> list[list[Any]]:
    key = span.id or spec.tables[span.table].encounter
    if key is None:
        return []
    if span.code is not None:
        return [[span.table, span.code, key, *span.stops]]
    columns = dict.fromkeys(part for end in span.ends for part in end.split("|"))
    return [[span.table, column, key] for column in columns if column in spec.tables[span.table].columns]


def _names(spec: SourceSpec, table: str, stays: list[SpanRole]) -> dict[str, str]:
    """Return a table's own column for the column that names each kind of stay: one so called, or that of its stay."""
    found = {}
    for span in stays:
        key = span.id or spec.tables[span.table].encounter
        own = key if key in spec.tables[table].columns else None
        if span is spec.roles.admission:
            own = spec.tables[table].encounter or own
        if key is not None and own is not None:
            found[key] = own
    return found


def _summaries(spec: SourceSpec, stay: str | None) -> list[list[Any]]:
    """What is written when a stay is over: its summary, and diagnoses and procedures of the stay as a whole."""
    coded = [role for name in ("diagnosis", "procedure") for role in spec.roles.rows(name) if role.precision == "stay"]
    tables = dict.fromkeys(role.table for role in (*spec.roles.rows("summary"), *coded))
    return [[name, "", stay] for name in tables if stay is not None and spec.tables[name].encounter]
