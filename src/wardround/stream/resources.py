"""FHIR resources as lines of a stream: flattened as at ingest, each version of a row told from its last update on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from wardround.bundles.playing import played_rows
from wardround.core import from_microseconds
from wardround.core.time import format_time
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.rules.language import NO_TIME
from wardround.records.sources.fhir.context import ResourceReading
from wardround.records.sources.fhir.files import Found, parsed_resources
from wardround.records.sources.fhir.flattener import resource_rows
from wardround.records.sources.fhir.references import NAMING_TYPES, Names
from wardround.records.sources.fhir.values import Malformed
from wardround.records.specs.spec import TableSpec
from wardround.records.specs.wall_clock import WallClock
from wardround.stream.ledger import Commit, StreamLedger
from wardround.stream.ledger_reading import RowVersion
from wardround.stream.lines import ENCODER, StreamLine, written_cell
from wardround.stream.reading import LineReader, row_id

_MARK = b'"resourceType"'
_NOWHERE = Path("resources")
"""Rows are handed on; nothing is written where a file of theirs would be."""


def is_resource(text: bytes) -> bool:
    """Whether a line is a resource and not a row."""
    return _MARK in text


@dataclass(frozen=True, slots=True)
class _FlatRow:
    place: int
    table: str
    row: Mapping[str, Any]


@dataclass(slots=True)
class ResourceLines:
    """Makes lines of resources, of the subjects who are ours. What they refer to for a name has to come before them.

    A row is known from its resource's last update on; where that is not said, from when the clocks of the source say. A
    resource that comes again is a later version of its rows; one that says nothing new is passed over.
    """

    reader: LineReader
    ledger: StreamLedger
    is_ours: Callable[[int], bool]
    time_zone: str | None = None
    _names: Names = field(default_factory=Names)
    _flat: FlatTables = field(init=False)
    _clock: WallClock | None = field(init=False)
    _played: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._flat = FlatTables(self.reader.spec, _NOWHERE, _NOWHERE)
        self._clock = WallClock.named(self.time_zone) if self.time_zone else None
        self._played = frozenset(played_rows(self.reader.spec))
        for text in self.ledger.naming():
            for found in parsed_resources(_NOWHERE, 0, text):
                self._names.learn(found)

    def read(self, texts: Mapping[int, bytes], commit: Commit, refused: dict[int, str]) -> dict[int, list[StreamLine]]:
        """Return the lines that some resources come to, by the places of these; versions and names go to the commit."""
        rows: list[_FlatRow] = []
        for place, text in texts.items():
            try:
                rows += self._flattened(place, text, commit)
            except (Malformed, ValueError) as error:
                refused[place] = str(error)
        lines: dict[int, list[StreamLine]] = {place: [] for place in texts}
        for each, line in zip(rows, self._versions(rows, self._timed(rows), commit), strict=True):
            if line is not None:
                lines[each.place].append(line)
        return lines

    def _flattened(self, place: int, text: bytes, commit: Commit) -> Iterator[_FlatRow]:
        for found in parsed_resources(_NOWHERE, place, text):
            if found.reason:
                raise ValueError(found.reason)
            if found.resource["resourceType"] in NAMING_TYPES:
                self._names.learn(found)
                commit.naming.append(ENCODER.encode(found.resource))
            if not self._is_ours(found):
                continue
            for table, row in resource_rows(self._on_the_wall(found), self._names, self._flat):
                if table in self._played:
                    yield _FlatRow(place, table, row)

    def _is_ours(self, found: Found) -> bool:
        """Whether a resource is of our part of the patients; one that names nobody is everybody's."""
        try:
            subject = ResourceReading(found=found, names=self._names, flat=self._flat).subject()
        except Malformed:
            return True
        return subject is None or self.is_ours(subject)

    def _on_the_wall(self, found: Found) -> Found:
        return replace(found, resource=self._clock.read(found.resource)) if self._clock else found

    def _timed(self, rows: Sequence[_FlatRow]) -> list[tuple[int, int]]:
        """Return when each row happened and became known."""
        times = [(NO_TIME, NO_TIME)] * len(rows)
        by_table: dict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(rows):
            by_table[each.table].append(place)
        for table, places in by_table.items():
            spec = self.reader.spec.tables[table]
            found = self.reader.clocks_of(spec, [rows[place].row for place in places])
            for place, event, known in zip(places, *(each.tolist() for each in found), strict=True):
                times[place] = event, known
        return times

    def _versions(
        self, rows: Sequence[_FlatRow], times: Sequence[tuple[int, int]], commit: Commit
    ) -> Iterator[StreamLine | None]:
        """Yield each row as a line; None where it says nothing new, or that what nobody was told of is not so."""
        ids = [row_id(self.reader.spec.tables[each.table], each.row) for each in rows]
        before = self.ledger.versions(ids) | commit.versions
        for each, name, (event, known) in zip(rows, ids, times, strict=True):
            spec = self.reader.spec.tables[each.table]
            cells = {key: written_cell(value) for key, value in each.row.items() if value is not None}
            said = {key: value for key, value in cells.items() if key != spec.version}
            digest = blake2b(ENCODER.encode(said), digest_size=16).digest()
            last = before.get(name)
            withdrawn = _is_withdrawn(spec, each.row)
            if (last is None and withdrawn) or (last is not None and last.cells == digest):
                yield None
                continue
            revision = 0 if last is None else last.revision + 1
            before[name] = commit.versions[name] = RowVersion(revision, digest)
            updated = each.row.get(spec.version or "")
            yield StreamLine(
                table=each.table,
                row={key: value for key, value in cells.items() if key in spec.public_columns or key == spec.subject}
                | {"row_id": name},
                known=written_cell(updated) if updated is not None else _moment(known),
                time=_moment(event),
                revision=revision,
                withdrawn=withdrawn,
            )


def _is_withdrawn(spec: TableSpec, row: Mapping[str, Any]) -> bool:
    return spec.amended is not None and row.get(spec.amended.status) in spec.amended.withdrawn


def _moment(time: int) -> str | None:
    return None if time == NO_TIME else format_time(from_microseconds(time))
