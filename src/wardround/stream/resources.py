"""FHIR resources as rows of the source's tables: flattened as at ingest; the clocks of the source say the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir.context import ResourceReading
from wardround.records.sources.fhir.files import Found, parsed_resources
from wardround.records.sources.fhir.flattener import on_the_wall, resource_rows
from wardround.records.sources.fhir.references import NAMING_TYPES, Names
from wardround.records.sources.fhir.values import Malformed
from wardround.records.specs.spec import SourceSpec
from wardround.records.specs.wall_clock import UndeclaredZone, WallClock
from wardround.stream.ledger import Commit
from wardround.stream.ledger_reading import LedgerReading
from wardround.stream.lines import ENCODER

_MARK = b'"resourceType"'
_NOWHERE = Path("resources")
"""Rows are handed on; nothing is written where a file of theirs would be."""


def is_resource(text: bytes) -> bool:
    """Whether a line is a resource and not a row."""
    return _MARK in text


@dataclass(slots=True)
class ResourceRows:
    """Makes rows of resources, of the subjects who are ours. What they refer to for a name has to come before them."""

    spec: SourceSpec
    ledger: LedgerReading
    is_ours: Callable[[int], bool]
    _names: Names = field(default_factory=Names)
    _flat: FlatTables = field(init=False)
    _clock: WallClock | None = field(init=False)

    def __post_init__(self) -> None:
        self._flat = FlatTables(self.spec, _NOWHERE, _NOWHERE)
        self._clock = WallClock.named(self.spec.time_zone) if self.spec.time_zone else None
        for text in self.ledger.naming():
            for found in parsed_resources(_NOWHERE, 0, text):
                self._names.learn(found)

    def read(self, text: bytes, commit: Commit) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the rows that a line of resources comes to, by their tables; names go to the commit.

        Malformed, ValueError: one of the resources cannot be read.
        """
        return list(self._rows(text, commit))

    def _rows(self, text: bytes, commit: Commit) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for found in parsed_resources(_NOWHERE, 0, text):
            if found.reason:
                raise ValueError(found.reason)
            if found.resource["resourceType"] in NAMING_TYPES:
                self._names.learn(found)
                commit.naming.append(ENCODER.encode(found.resource))
            if self._is_ours(found):
                yield from resource_rows(self._on_the_wall(found), self._names, self._flat)

    def _is_ours(self, found: Found) -> bool:
        """Whether a resource is of our part of the patients; one that names nobody is everybody's."""
        try:
            subject = ResourceReading(found=found, names=self._names, flat=self._flat).subject()
        except Malformed:
            return True
        return subject is None or self.is_ours(subject)

    def _on_the_wall(self, found: Found) -> Found:
        try:
            return on_the_wall(found, self._clock)
        except UndeclaredZone as error:
            raise ValueError(f"its times have an offset from UTC ({error}), and --time-zone was not said") from None
