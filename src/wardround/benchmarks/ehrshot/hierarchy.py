"""Descent: which codes of a store lie below the roots of a concept, where the store has a hierarchy.

OMOP has ``concept_ancestor`` (every pair, numbers of concepts), MEDS ``parent_codes`` (one step, codes as text).
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from wardround.benchmarks.ehrshot.concepts import TaskConcept
from wardround.benchmarks.ehrshot.places import Places
from wardround.core import RecordError
from wardround.records import Store

_CODE = re.compile(r"[^\s\[\]'\",]+/[^\s\[\]'\",]+")


def descendants(store: Store, places: Places, concept: TaskConcept) -> frozenset[str]:
    """Return the codes below a concept's roots as the store writes them, empty where it keeps no hierarchy."""
    kind = places.hierarchy
    if not concept.roots or kind is None:
        return frozenset()
    return _omop(store, concept) if kind == "concept_ancestor" else _meds(store, concept)


def _omop(store: Store, concept: TaskConcept) -> frozenset[str]:
    concepts, pairs = _dictionary(store, "concept"), _dictionary(store, "concept_ancestor")
    if concepts is None or pairs is None or not pairs.num_rows:
        return frozenset()
    codes = concepts.column("concept_code").cast(pa.string())
    roots = concepts.filter(pc.is_in(codes, pa.array(concept.roots))).column("concept_id")
    below = pairs.filter(pc.is_in(pairs.column("ancestor_concept_id"), roots.combine_chunks()))
    ids = below.column("descendant_concept_id").combine_chunks()
    found = concepts.filter(pc.is_in(concepts.column("concept_id"), ids)).column("concept_code")
    return frozenset(map(str, found.to_pylist()))


def _meds(store: Store, concept: TaskConcept) -> frozenset[str]:
    codes = _dictionary(store, "codes")
    if codes is None or not {"code", "parent_codes"} <= set(codes.column_names):
        return frozenset()
    children: dict[str, list[str]] = {}
    for code, parents in zip(codes.column("code").to_pylist(), codes.column("parent_codes").to_pylist(), strict=True):
        for parent in _listed(parents):
            children.setdefault(parent, []).append(code)
    waiting = [name for name in children if name.rpartition("/")[2] in concept.roots]
    found: set[str] = set()
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return frozenset(found)


def _listed(parents: object) -> list[str]:
    """Read a list of codes, which a store may keep as text."""
    if isinstance(parents, str):
        return _CODE.findall(parents)
    return [str(parent) for parent in parents] if isinstance(parents, list) else []


def _dictionary(store: Store, name: str) -> pa.Table | None:
    try:
        return store.dictionary(name)
    except RecordError:
        return None
