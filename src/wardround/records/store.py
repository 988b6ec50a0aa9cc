"""The store: all records of one source, and its charts.

``rows`` and ``scan`` are for trusted code (builders, audits): they return everything, clocks included. Agents get a
:class:`Chart`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import RecordError, Sealed, UserError, parse_time
from wardround.records.chart.censor import first_versions
from wardround.records.chart.chart import Chart, Policy, StoredRecord, Withheld
from wardround.records.reading.source_files import read_keys, subject_number
from wardround.records.shards.layout import (
    AVAILABLE,
    EVENT,
    LATE,
    PENDING,
    PUBLISHED,
    SPEC_FOLDER,
    STORE_VERSION,
    SUBJECT_KEYS,
    SUBJECTS,
    TableLayout,
    bucket_numbers,
    damaged,
    dictionary_file,
    map_checked,
    read_manifest,
    shard_folder,
    table_layout,
)
from wardround.records.shards.shard_file import Shard, TableShard, read_dictionary
from wardround.records.specs.spec import ARROW_TYPES, SourceSpec
from wardround.records.specs.spec_file import load_source_spec


class Store:
    """A finished store, opened for reading. Safe to share between threads."""

    def __init__(self, path: Path, spec: SourceSpec, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self.spec = spec
        self.manifest = manifest
        self.table_names: tuple[str, ...] = tuple(manifest["tables"])
        self.digest: str = manifest["digest"]
        files: Mapping[str, str] = manifest["files"]
        self._dictionaries = {
            name: read_dictionary(path, name, files[dictionary_file(name)]) for name in manifest["dictionaries"]
        }
        self._shards = [Shard(shard_folder(path, number), sha256) for number, sha256 in enumerate(manifest["indexes"])]
        subjects = map_checked(path / SUBJECTS, files[SUBJECTS])
        self.subjects: npt.NDArray[np.int64] = np.load(io.BytesIO(subjects), allow_pickle=False)
        """The ids of all subjects, sorted."""
        self._empty: dict[str, pa.RecordBatch] = {}
        self._layouts = {
            name: table_layout(spec.tables[name], body["columns"], self._dictionaries)
            for name, body in manifest["tables"].items()
        }

    @classmethod
    def open(cls, path: Path | str) -> Store:
        """Open a store. UserError: the folder has none, it is unfinished, or another version of wardround made it.

        RecordError: its files were changed. Shards are checked when they are read.
        """
        path = Path(path)
        manifest = read_manifest(path)
        for name, sha256 in manifest["files"].items():
            if name.startswith(SPEC_FOLDER):
                map_checked(path / name, sha256)
        spec = load_source_spec(path / SPEC_FOLDER)
        if spec.sha256 != manifest["spec_sha256"]:
            raise damaged(path / SPEC_FOLDER, "it is not the spec that the records were ingested with")
        return cls(path, replace(spec, numbered_by=manifest.get("people_of") or ""), manifest)

    def chart(
        self, subject_id: int, as_of: datetime | str, *, policy: Policy = "known_at", withheld: Withheld | None = None
    ) -> Chart:
        """Return the record of one subject as of a moment, without withheld tables and rows.

        ``as_of``: a time of the record, also as text ("2180-05-06 22:23"). RecordError: no such subject.
        """
        if isinstance(as_of, str):
            try:
                as_of = parse_time(as_of)
            except ValueError:
                raise UserError(f"{as_of!r} is no time of a record; write it as 2180-05-06 22:23") from None
        if as_of.tzinfo is not None:
            raise UserError(f"as_of must be a time of the record, without a time zone, not {as_of!r}")
        if policy not in get_args(Policy):
            raise UserError(f"policy must be one of {', '.join(get_args(Policy))}, not {policy!r}")
        place = int(self.subjects.searchsorted(subject_id))
        if place == len(self.subjects) or self.subjects[place] != subject_id:
            raise RecordError(f"no subject {subject_id!r} in {self.path}")
        return Chart(
            subject_id=subject_id,
            person=self.person_of(subject_id),
            as_of=as_of,
            policy=policy,
            spec=self.spec,
            layouts=self._layouts,
            inside=Sealed(
                StoredRecord(
                    as_of=as_of,
                    policy=policy,
                    layouts=self._layouts,
                    rows=partial(self._stored, subject_id),
                    withheld=withheld,
                )
            ),
        )

    def __repr__(self) -> str:
        tables = len(self.table_names)
        return f"Store({str(self.path)!r}: {self.spec.name}, {len(self.subjects):,} subjects, {tables} tables)"

    @cached_property
    def _subject_keys(self) -> dict[int, str]:
        sha256 = self.manifest["files"].get(SUBJECT_KEYS)
        return {} if sha256 is None else read_keys(map_checked(self.path / SUBJECT_KEYS, sha256))

    def subject_key(self, subject_id: int) -> str:
        """Return the source's id of a subject: its text, or the number itself."""
        return self._subject_keys.get(subject_id, str(subject_id))

    def subject_of(self, key: str) -> int:
        """Return the number of the subject with an id of the source. UserError: there is none."""
        try:
            number = subject_number(key.strip()) if self._subject_keys else int(key)
        except ValueError:
            raise UserError(f"no subject {key!r} in {self.path}: its subjects are whole numbers") from None
        place = int(self.subjects.searchsorted(number))
        if place == len(self.subjects) or self.subjects[place] != number:
            raise UserError(f"no subject {key!r} in {self.path}")
        return number

    def person_of(self, subject_id: int) -> int:
        """Return the person of a subject: the subject's own number, unless the source has several records of one
        person. Splits, banks and statistics use it."""
        return self._people.get(subject_id, subject_id)

    @cached_property
    def _people(self) -> dict[int, int]:
        """By subject with another person's number: that number, from our own export or from the source."""
        people = {int(subject): int(person) for subject, person in (self.manifest.get("same_person") or {}).items()}
        return people if self.spec.person is None else people | self._read_people(*self.spec.person.split("."))

    def _read_people(self, table: str, column: str) -> dict[int, int]:
        people: dict[int, int] = {}

        def last(number: int) -> int:
            while number in people and people[number] != number:
                number = people[number]
            return number

        for shard in range(self.shard_count if table in self.table_names else 0):
            found = self.shard_rows(shard, table)
            if found is not None:
                _, subjects, batch = found
                names = batch.column(column).to_pylist()
                for subject, name in zip(subjects.tolist(), names, strict=True):
                    if name:  # the named person may refer to yet another, and references may form a circle
                        people[last(subject)] = last(subject_number(name))
        return {subject: last(subject) for subject in people}

    def rows(self, subject_id: int, table: str, *, versions: bool = False) -> pa.RecordBatch:
        """Return every row of a subject in a table: ``row_id``, all columns, labels and clocks. Trusted.

        Of amended rows the first version, or all with ``versions``.
        """
        layout = self._layout(table)
        batch = self._stored(subject_id, table)
        if batch is None:
            return self._no_rows(table)
        return _open_rows(layout, batch if versions else _first_ones(batch))

    def scan(self, table: str, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield (subject id, rows) for every subject that has rows in a table, shard by shard. Trusted."""
        layout = self._layout(table)
        for shard in self._shards:
            part = shard.table(table)
            for subject_id, batch in part.read_all() if part is not None else ():
                rows = _open_rows(layout, _first_ones(batch))
                yield subject_id, rows if columns is None else rows.select(list(columns))

    @property
    def shard_count(self) -> int:
        """The number of shards."""
        return len(self._shards)

    def shard_rows(self, shard: int, table: str) -> tuple[TableLayout, npt.NDArray[np.int64], pa.RecordBatch] | None:
        """Return a table's layout, the subject of every row and the stored rows of one shard, subjects in order.

        Trusted; None if the shard has no such rows.
        """
        part = self._apart(shard).table(table)
        return None if part is None else (self._layout(table), *part.whole())

    def shard_tables(self, shard: int) -> list[tuple[TableLayout, TableShard]]:
        """Return the tables of one shard with rows. Trusted code only.

        Its files stay mapped while the result is in use: to read all shards, keep one at a time.
        """
        own = self._apart(shard)
        return [(self._layouts[name], part) for name in self.table_names if (part := own.table(name)) is not None]

    def _apart(self, shard: int) -> Shard:
        """Return a shard that stays open only while it is in use, not with the store."""
        return Shard(self._shards[shard].folder, self._shards[shard].index_sha256)

    def open_rows(self, shard: int, table: str) -> tuple[npt.NDArray[np.int64], pa.RecordBatch] | None:
        """Return the subject of every row of a table in one shard, and the rows with all versions as in ``rows``.

        Trusted code only; None if the shard has no such rows."""
        found = self.shard_rows(shard, table)
        return None if found is None else (found[1], _open_rows(found[0], found[2]))

    def late_columns(self, table: str) -> Mapping[str, tuple[str, ...]]:
        """Return by late clock the columns whose cells become known at a time of their own."""
        return {group.clock: tuple(sorted(group.columns)) for group in self._layout(table).late}

    def dictionary(self, name: str) -> pa.Table:
        """Return a dictionary of codes. RecordError: unknown name, or its file was missing at ingest."""
        if name not in self._dictionaries:
            raise RecordError(
                f"no dictionary {name!r} in this store; there are {', '.join(sorted(self._dictionaries))}"
            )
        return self._dictionaries[name]

    def splits(self) -> Mapping[int, str]:
        """Return the split of each subject as the source has it (MEDS: train, tuning, held_out), if any.

        UserError: a subject is in two splits.
        """
        name = self.spec.splits
        if name is None or name not in self._dictionaries:
            return {}
        table = self._dictionaries[name]
        found: dict[int, str] = {}
        for subject, split in zip(
            table.column("subject_id").to_pylist(), table.column("split").to_pylist(), strict=True
        ):
            if found.setdefault(subject, split) != split:
                both = " and ".join(sorted((str(split), str(found[subject]))))
                raise UserError(
                    f"{self.path}: subject {subject} is in the splits {both}; correct {name} and ingest again"
                )
        return found

    def _no_rows(self, table: str) -> pa.RecordBatch:
        """The result of ``rows`` for a subject without rows, made once: most tables of most subjects are empty."""
        if table not in self._empty:
            self._empty[table] = _no_rows(self._layout(table))
        return self._empty[table]

    def _layout(self, table: str) -> TableLayout:
        if table not in self._layouts:
            raise RecordError(f"no table {table!r} in this store; there are {', '.join(self.table_names)}")
        return self._layouts[table]

    def _stored(self, subject_id: int, table: str) -> pa.RecordBatch | None:
        number = int(bucket_numbers(np.array([subject_id]), len(self._shards))[0]) if len(self._shards) > 1 else 0
        part = self._shards[number].table(table)
        return None if part is None else part.read(subject_id)


def _first_ones(batch: pa.RecordBatch) -> pa.RecordBatch:
    first = first_versions(batch)
    return batch if first.all() else batch.filter(pa.array(first))


def _open_rows(layout: TableLayout, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return stored rows with ids first, then file columns, labels and clocks."""
    view = layout.whole_view(batch)
    rows = batch.select(view.places)
    for place, name in view.added:
        join = layout.joined[name]
        rows = rows.add_column(place, view.schema.field(place), join.source.take(batch.column(join.places)))
    return rows


def _no_rows(layout: TableLayout) -> pa.RecordBatch:
    fields = [(name, ARROW_TYPES[kind]) for name, kind in layout.all_columns.items()]
    clocks = [EVENT, AVAILABLE]
    clocks += [PUBLISHED] if layout.spec.published.time is not None else []
    clocks += [PENDING] if layout.spec.pending is not None else []
    clocks += [group.clock for group in layout.late if group.clock.startswith(LATE)]
    schema = pa.schema([("row_id", pa.string()), *fields, *((name, pa.timestamp("us")) for name in clocks)])
    return pa.RecordBatch.from_pylist([], schema=schema)


# Text cases: published reports and examination questions without a patient's record. Their runs still have a store, one
# without subjects, so that code that needs a chart fails with one clear line.


TEXT_CASE_SOURCE = "text-cases"
"""Source name of all text cases: one report is one subject in every benchmark."""
_SPEC = SourceSpec(
    name=TEXT_CASE_SOURCE,
    title="Cases told in words, without records",
    sha256="",
    tables={},
    dictionaries={},
    order=(),
    files={},
    sensitivity="open",
)
_MANIFEST: dict[str, Any] = {"version": STORE_VERSION, "digest": "", "tables": {}, "files": {}, "assumptions": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCaseRecord:
    """One text case. ``subject_id``: number of its report or question."""

    subject_id: int
    text: str


class NoRecords(Store):
    """The store of a benchmark of text cases: without subjects, tables or charts."""

    def __init__(self) -> None:
        self.path = Path()
        self.spec = _SPEC
        self.manifest = _MANIFEST
        self.table_names = ()
        self.digest = ""
        self.subjects = np.empty(0, np.int64)
        self._dictionaries = {}
        self._shards = []
        self._people = {}
        self._layouts = {}
