"""A copy of a source's raw files in which the future of some subjects is another one."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from wardround.audits.swap.change import Future, RawRecord, Resource, SeenValues, one_of_each
from wardround.audits.swap.files import RESOURCES, TABLES, files_below, read_records, stem, write_records
from wardround.audits.swap.knowledge import Clockwork, KnowledgeRule, SwapTable, fits, keys_of, latest
from wardround.core import UserError
from wardround.records.reading.source_files import subject_number

Clocks = Literal["certain", "strict"]
_STRETCHES = (0.4, 1.7, 0.75, 2.6)
_SAMPLE = 500
"""So many rows of other subjects are looked at for what a column may hold."""


@dataclass(slots=True, kw_only=True)
class SwapCounts:
    """What a swap did. ``uncovered`` files are in no swap table, ``unruled`` rows fit no rule: copied as they are."""

    subjects: int = 0
    rows: int = 0
    written: int = 0
    changed: int = 0
    uncovered: set[str] = field(default_factory=set)
    unruled: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where minutes count from and whose they are, for sources that have no times and no numbers of subjects."""

    zeros: Mapping[str, datetime] = field(default_factory=dict)
    subjects: Mapping[str, int] = field(default_factory=dict)


NOWHERE = Placement()


@dataclass(slots=True)
class _File:
    """One raw file: the records of audited subjects, by subject and kind, and what its columns hold."""

    path: Path
    target: Path
    held: dict[tuple[int, str], list[RawRecord]] = field(default_factory=dict)
    seen: dict[tuple[str, int], SeenValues] = field(default_factory=dict)
    outcomes: dict[tuple[str, int], RawRecord] = field(default_factory=dict)
    """Of every rule whose rows are how it ended, a row of anybody's."""


def write_swapped(
    table: SwapTable,
    folders: Sequence[Path],
    target: Path,
    moments: Mapping[int, datetime | None],
    *,
    placement: Placement = NOWHERE,
    others: bool = True,
    cut: bool = False,
    clocks: Clocks = "strict",
) -> tuple[list[Path], SwapCounts]:
    """Write the copy, a folder for each of ``folders``. A subject without a moment is copied as it is; ``others`` says
    whether those not in ``moments`` are copied too. ``cut``: nothing comes after a moment, stays are open. ``clocks``:
    ``"strict"`` changes what could not be known at the moment, ``"certain"`` of that only what happened after it by its
    own event time."""
    swap = _Swap(table, moments, placement, others, cut, clocks)
    targets = [target / str(place) for place in range(len(folders))]
    for folder, into in zip(folders, targets, strict=True):
        into.mkdir(parents=True)
        for path in files_below(folder):
            swap.read(path, path.relative_to(folder), into)
    if not swap.files:
        raise UserError(f"{', '.join(map(str, folders))}: no file of source {table.name!r} is there")
    swap.write()
    return targets, swap.counts


class _Swap:
    def __init__(
        self,
        table: SwapTable,
        moments: Mapping[int, datetime | None],
        placement: Placement,
        others: bool,
        cut: bool,
        clocks: Clocks,
    ) -> None:
        self.table = table
        self.cut = cut
        self.moments = moments
        self.placement = placement
        self.others = others
        self.files: list[_File] = []
        self.work = Clockwork(minutes_of=table.minutes_of, zeros=placement.zeros)
        self.own = None
        if clocks == "certain":
            self.own = Clockwork(minutes_of=table.minutes_of, zeros=placement.zeros, own=True, recorded=table.recorded)
        self.counts = SwapCounts(subjects=len(moments))
        self._endings = RESOURCES if table.form == "resources" else TABLES

    def read(self, path: Path, relative: Path, into: Path) -> None:
        """Hold what a file says of the audited subjects; copy a file that says nothing of anybody."""
        name = relative.with_name(stem(path)).as_posix()
        if not path.name.endswith(self._endings):
            return
        ruled = self.table.form == "resources" or self.table.of(name) or self.table.of(stem(path))
        if not ruled or self.table.is_fixed(stem(path)):
            if not self.table.is_fixed(stem(path)) and not self.table.is_fixed(name):
                self.counts.uncovered.add(name)
            (into / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, into / relative)
            return
        file = _File(path, into / relative)
        self.files.append(file)
        strangers = 0
        for record in read_records(path):
            kind = self._kind(record, name, path)
            subject = self._subject(record)
            if subject in self.moments and subject is not None:
                file.held.setdefault((subject, kind), []).append(record)
            elif strangers >= _SAMPLE:
                continue
            else:
                strangers += 1
            place = self._place(kind, record)
            rules = self.table.of(kind) or ()
            if place < len(rules) and rules[place].outcome:
                file.outcomes.setdefault((kind, place), record)
            seen = file.seen.setdefault((kind, place), SeenValues())
            if seen.noted < _SAMPLE:
                seen.note(record)

    def _place(self, kind: str, record: RawRecord) -> int:
        """Return which rule of a file is that of a record."""
        rules = self.table.of(kind) or ()
        return next((place for place, rule in enumerate(rules) if rule.fits(record)), len(rules))

    def _kind(self, record: RawRecord, name: str, path: Path) -> str:
        if isinstance(record, Resource):
            return str(record.body["resourceType"])
        return name if self.table.of(name) else stem(path)

    def _subject(self, record: RawRecord) -> int | None:
        if isinstance(record, Resource):
            keys = record.texts("subject.reference") or record.texts("patient.reference")
            if record.body["resourceType"] == "Patient":
                keys = [str(record.body["id"])]
        else:
            keys = record.texts(self.table.subject)
        if not keys:
            return None
        key = keys[0].strip().rpartition("/")[2].removeprefix("urn:uuid:")
        if self.table.subject_by is not None:
            return self.placement.subjects.get(key)
        try:
            return int(key)
        except ValueError:
            return subject_number(key)

    def write(self) -> None:
        """Write every file, others first and untouched."""
        for work in (self.work, self.own):
            if work is not None:
                self._set_anchors(work)
        for file in self.files:
            write_records(file.path, file.target, self._written(file))

    def _set_anchors(self, work: Clockwork) -> None:
        for anchor in self.table.anchors:
            moments = work.anchors.setdefault(anchor.name, {})
            for kind, record in self._all_held():
                if not fnmatchcase(kind.casefold(), anchor.file.casefold()) or not fits(anchor.where, record):
                    continue
                at = latest(anchor.latest, record, work)
                for key in keys_of(record, anchor.key) if at is not None else ():
                    moments.setdefault(key, []).append(at or datetime.min)

    def _all_held(self) -> Iterator[tuple[str, RawRecord]]:
        for file in self.files:
            for (_, kind), records in file.held.items():
                yield from ((kind, record) for record in records)

    def _written(self, file: _File) -> Iterator[RawRecord]:
        if self.others or self.table.form == "resources":
            for record in read_records(file.path):
                subject = self._subject(record)
                if subject is None or (subject not in self.moments and self.others):
                    yield record
        for kind in {kind for kind, _ in file.outcomes}:
            for subject, as_of in self.moments.items():
                if as_of is not None:
                    file.held.setdefault((subject, kind), [])
        for (subject, kind), records in file.held.items():
            as_of = self.moments[subject]
            for record in records if as_of is None else self._other_future(file, subject, as_of, kind, records):
                self.counts.written += 1
                yield record

    def _other_future(
        self, file: _File, subject: int, as_of: datetime, kind: str, records: Sequence[RawRecord]
    ) -> Iterator[RawRecord]:
        future = Future(
            as_of=as_of,
            work=self.work,
            own=self.own,
            stretch=_STRETCHES[subject % len(_STRETCHES)],
            subject=self.table.subject,
            cut=self.cut,
        )
        rules = self.table.of(kind) or ()
        by_rule: dict[int, list[tuple[int, RawRecord]]] = {}
        # What was given twice is one thing, and stays one in the other future.
        for number, record in zip(_first_of_equals(records), records, strict=True):
            place = self._place(kind, record)
            by_rule.setdefault(place, []).append((number, record))
        self.counts.rows += len(records)
        made: list[tuple[int, RawRecord]] = []
        for place, numbered in by_rule.items():
            if place == len(rules):
                self.counts.unruled[kind] = self.counts.unruled.get(kind, 0) + len(numbered)
                made += numbered
            else:
                future.seen = file.seen.get((kind, place), future.seen)
                made += self._by_rule(future, rules[place], numbered, f"{kind}{subject}")
        born = () if self.cut else self._born(file, future, kind, subject, by_rule)
        made += [(len(records), each) for each in born]
        # A database writes a row anew, at its end, when it is filled in: a subject's rows stand in the other order.
        yield from (record for _, record in sorted(made, key=lambda pair: pair[0], reverse=True))

    def _born(
        self, file: _File, future: Future, kind: str, subject: int, ruled: Mapping[int, object]
    ) -> Iterator[RawRecord]:
        """Yield the ends that somebody comes to who had none."""
        for (other, place), template in file.outcomes.items():
            if other == kind and place not in ruled:
                yield future.born(template, (self.table.of(kind) or ())[place], str(subject))

    def _by_rule(
        self, future: Future, rule: KnowledgeRule, numbered: Sequence[tuple[int, RawRecord]], salt: str
    ) -> Iterator[tuple[int, RawRecord]]:
        start = zlib.crc32(salt.encode())
        if rule.repeat is not None:
            left = list(one_of_each([record for _, record in numbered], rule, future))
            numbered = list(zip(_first_of_equals(left), left, strict=True))
        for number, record in numbered:
            made = future.rows(record, rule, start + number)
            self.counts.changed += len(made) != 1 or made[0].content != record.content
            yield from ((number, each) for each in made)


def _first_of_equals(records: Sequence[RawRecord]) -> Iterator[int]:
    """Yield of every record the number of the first that is equal to it."""
    numbers: dict[str, int] = {}
    for number, record in enumerate(records):
        yield numbers.setdefault(repr(record.content), number)
