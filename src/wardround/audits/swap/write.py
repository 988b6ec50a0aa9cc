"""A copy of a source's raw files in which the future of some subjects is another one."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from wardround.audits.swap.change import Future, NewKeys, RepeatedRows, SeenValues
from wardround.audits.swap.files import RESOURCES, TABLES, files_below, read_lines, read_records, stem, write_records
from wardround.audits.swap.knowledge import Anchor, Clock, Clockwork, KnowledgeRule, SwapTable, fits, keys_of, latest
from wardround.audits.swap.raw_records import RawRecord, Resource, put
from wardround.core import UserError
from wardround.records.reading import subject_number

Clocks = Literal["certain", "strict"]
_STRETCHES = (0.4, 1.7, 0.75, 2.6)
_SAMPLE = 500
"""So many rows of other subjects are looked at for what a column may hold."""
_TURNS = 20
"""So often dependants follow their parents, which may be dependants: a chain of orders is shorter."""


@dataclass(slots=True, kw_only=True)
class SwapCounts:
    """What a swap did. ``uncovered`` files are in no swap table, ``unruled`` rows fit no rule: copied as they are."""

    subjects: int = 0
    rows: int = 0
    written: int = 0
    changed: int = 0
    uncovered: set[str] = field(default_factory=set)
    unruled: dict[str, int] = field(default_factory=dict)
    lines: dict[Path, bytearray] = field(default_factory=dict)
    """By file of the copy, how many rows stand in the place of each line of the original."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where minutes count from and whose they are, for sources that have no times and no numbers of subjects."""

    zeros: Mapping[str, datetime] = field(default_factory=dict)
    subjects: Mapping[str, int] = field(default_factory=dict)


NOWHERE = Placement()


@dataclass(slots=True)
class _File:
    """One raw file, and what its columns hold."""

    path: Path
    target: Path
    name: str
    seen: dict[tuple[str, int], SeenValues] = field(default_factory=dict)
    keys: dict[str, NewKeys] = field(default_factory=dict)
    outcomes: dict[tuple[str, int], RawRecord] = field(default_factory=dict)
    """Of every rule whose rows are how it ended, a row of anybody's."""
    subjects: set[int] = field(default_factory=set)
    ended: set[tuple[int, int]] = field(default_factory=set)
    """The subjects that have such a row, with the rule's place."""
    made: dict[int, _Made] | None = None
    """What became of its rows, by place, where rows of other files wait for them."""


@dataclass(slots=True)
class _Parent:
    """A row that others wait for."""

    anchor: Anchor
    file: _File
    place: int
    subject: int
    record: RawRecord


@dataclass(slots=True, kw_only=True)
class _Made:
    """What became of a row of a subject with another future. ``unknown``: the row itself could not be known."""

    record: RawRecord
    rows: list[RawRecord]
    rule: KnowledgeRule
    subject: int
    number: int
    unknown: bool
    late_links: list[tuple[RawRecord, str]]
    """Links of a known row to rows of the future."""


@dataclass(slots=True)
class _Course:
    """One subject's rows of one kind in one file, as they come."""

    future: Future
    start: int
    count: int = 0
    numbers: dict[int, int] = field(default_factory=dict)
    repeated: dict[int, RepeatedRows] = field(default_factory=dict)

    def number(self, record: RawRecord) -> int:
        """Return a row's number: that of the first that is equal. What was given twice is one thing, and stays one."""
        return self.start + self.numbers.setdefault(hash(repr(record.content)), self.count)


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
    order: bool = False,
    note: Note | None = None,
) -> tuple[list[Path], SwapCounts]:
    """Write the copy, a folder for each of ``folders``: files, columns, rows in their places, quotes and compression as
    they were, but for what changes. A subject without a moment is copied as it is; ``others`` says whether those not in
    ``moments`` are copied too. ``cut``: nothing comes after a moment, stays are open. ``clocks``: ``"strict"`` changes
    what could not be known at the moment, ``"certain"`` of that only what happened after it by its own event time.
    ``order``: nothing changes but the order of each subject's rows of the future. ``note`` is told
    what becomes of each record of a subject with a moment.
    """
    swap = _Swap(
        table=table,
        moments=moments,
        placement=placement,
        others=others,
        cut=cut,
        clocks=clocks,
        order=order,
    )
    swap.note = note
    targets = [target / str(place) for place in range(len(folders))]
    for folder, into in zip(folders, targets, strict=True):
        into.mkdir(parents=True)
        for path in files_below(folder):
            swap.add(path, path.relative_to(folder), into)
    if not swap.files:
        raise UserError(f"{', '.join(map(str, folders))}: no file of source {table.name!r} is there")
    swap.write()
    return targets, swap.counts


Note = Callable[[str, KnowledgeRule, RawRecord, Sequence[RawRecord]], None]
"""Is told of a file's name, the rule, a record and the records that stand in its place."""


def bare_key(text: str) -> str:
    """Return a person's key without the kind that a reference names: ``Patient/12`` and ``urn:uuid:12`` are ``12``."""
    return text.strip().rpartition("/")[2].removeprefix("urn:uuid:")


@dataclass(slots=True, kw_only=True)
class SwapSource:
    """Whose a record is and which rule it has, in the files of one source."""

    table: SwapTable
    placement: Placement = NOWHERE
    _subjects: dict[str, int | None] = field(default_factory=dict, init=False, repr=False)
    _anchors: dict[str, list[Anchor]] = field(default_factory=dict, init=False, repr=False)
    """By key, and by kind, what was answered before: both are asked for every row, several times."""

    def place(self, kind: str, record: RawRecord) -> int:
        """Return which rule of a file is that of a record; their number if none is."""
        rules = self.table.of(kind) or ()
        for place, rule in enumerate(rules):
            if rule.fits(record):
                return place
        return len(rules)

    def kind(self, record: RawRecord, name: str, path: Path) -> str:
        """Return under which name the table has a record of a file."""
        if isinstance(record, Resource):
            return str(record.body["resourceType"])
        return name if self.table.of(name) else stem(path)

    def records(self, folders: Iterable[Path], *, waited_for: bool = False) -> Iterator[tuple[str, RawRecord]]:
        """Yield every record that the table has a rule for, with its kind; only what clocks wait for, if so."""
        for folder in folders:
            for path in files_below(folder):
                name = path.relative_to(folder).with_name(stem(path)).as_posix()
                if not path.name.endswith(self.endings()) or not self.covers(path, name):
                    continue
                if waited_for and not self.is_waited_for(path, name):
                    continue
                for record in read_records(path):
                    yield self.kind(record, name, path), record

    def subject(self, record: RawRecord) -> int | None:
        """Return whose a record is."""
        if isinstance(record, Resource):
            keys = record.texts("subject.reference") or record.texts("patient.reference")
            if record.body["resourceType"] == "Patient":
                keys = [str(record.body["id"])]
        else:
            keys = record.texts(self.table.subject)
        if not keys:
            return None
        if keys[0] not in self._subjects:
            self._subjects[keys[0]] = self._number(bare_key(keys[0]))
        return self._subjects[keys[0]]

    def _number(self, key: str) -> int | None:
        if self.table.subject_by is not None:
            return self.placement.subjects.get(key)
        try:
            return int(key)
        except ValueError:
            return subject_number(key)

    def covers(self, path: Path, name: str) -> bool | None:
        """Say whether a file has rules; None where it holds nothing of a person."""
        if self.table.is_fixed(stem(path)):
            return None
        if self.table.form == "resources" or self.table.of(name) or self.table.of(stem(path)):
            return True
        return None if self.table.is_fixed(name) else False

    def endings(self) -> tuple[str, ...]:
        """Return how the names of its files end."""
        return RESOURCES if self.table.form == "resources" else TABLES

    def clockwork(self, *, own: bool = False) -> Clockwork:
        """Return clocks that know no other rows yet."""
        return Clockwork(
            minutes_of=self.table.minutes_of, zeros=self.placement.zeros, own=own, recorded=self.table.recorded
        )

    def anchors(self, kind: str, record: RawRecord) -> list[Anchor]:
        """Return the anchors that a record gives a moment for."""
        if kind not in self._anchors:
            folded = kind.casefold()
            self._anchors[kind] = [each for each in self.table.anchors if fnmatchcase(folded, each.file.casefold())]
        return [anchor for anchor in self._anchors[kind] if fits(anchor.where, record)]

    def is_waited_for(self, path: Path, name: str) -> bool:
        """Say whether a file may hold rows that others wait for."""
        return self.table.form == "resources" or any(
            fnmatchcase(each.casefold(), anchor.file.casefold())
            for anchor in self.table.anchors
            for each in (name, stem(path))
        )

    def set_anchors(self, work: Clockwork, held: Mapping[str, Sequence[RawRecord]]) -> None:
        """Let clocks know rows that others wait for, by anchor."""
        for anchor in self.table.anchors:
            moments: dict[str, list[datetime]] = {}
            work.anchors[anchor.name] = moments
            for record in held.get(anchor.name, ()):
                at = latest(anchor.latest, record, work)
                for key in keys_of(record, anchor.key) if at is not None else ():
                    moments.setdefault(key, []).append(at or datetime.min)


class _Swap:
    def __init__(
        self,
        *,
        table: SwapTable,
        moments: Mapping[int, datetime | None],
        placement: Placement,
        others: bool,
        cut: bool,
        clocks: Clocks,
        order: bool,
    ) -> None:
        self.table = table
        self.source = SwapSource(table=table, placement=placement)
        self.cut = cut
        self.moments = moments
        self.others = others
        self.order = order
        self.note: Note | None = None
        self.files: list[_File] = []
        self.parents: list[_Parent] = []
        self.work = self.source.clockwork()
        self.own = self.source.clockwork(own=True) if clocks == "certain" else None
        self.after = self.source.clockwork()
        """The clocks of the copy."""
        self.gone: dict[str, dict[str, str]] = {}
        """By anchor, keys of rows that are left out: the key of another row of the future, or nothing."""
        self.left: dict[tuple[str, int], list[str]] = {}
        """By anchor and subject, keys of rows of the future that are there."""
        self.needed: set[tuple[str, str]] = set()
        """Rows whose late link a clock of another row goes through, by path and key: they keep naming a row."""
        self.kept: set[tuple[str, str]] = set()
        """The rows that these name: they are not left out."""
        self.counts = SwapCounts(subjects=len(moments))
        self._keys = {anchor.name: anchor.key for anchor in table.anchors}
        self._through = {anchor.name for anchor in table.anchors if anchor.asks}

    def add(self, path: Path, relative: Path, into: Path) -> None:
        """Look at a file; copy one that says nothing of anybody."""
        name = relative.with_name(stem(path)).as_posix()
        covers = path.name.endswith(self.source.endings()) and self.source.covers(path, name)
        if covers:
            file = _File(path, into / relative, name)
            self.files.append(file)
            self._look(file)
            return
        if covers is False and path.name.endswith(self.source.endings()):
            self.counts.uncovered.add(name)
        (into / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, into / relative)

    def _look(self, file: _File) -> None:
        strangers = 0
        paths: dict[str, set[str]] = {}
        for number, record in enumerate(read_lines(file.path)):
            if record.is_blank:
                continue
            kind = self.source.kind(record, file.name, file.path)
            rules = self.table.of(kind) or ()
            keys = file.keys.setdefault(kind, NewKeys())
            if kind not in paths:
                paths[kind] = {path for rule in rules for path in rule.key}
            for path in paths[kind]:
                for text in record.texts(path):
                    keys.note(path, text)
            subject = self.source.subject(record)
            is_held = subject in self.moments and subject is not None
            if not is_held:
                if strangers >= _SAMPLE:
                    continue
                strangers += 1
            place = self.source.place(kind, record)
            if place < len(rules) and rules[place].outcome:
                file.outcomes.setdefault((kind, place), record)
                if subject is not None and is_held:
                    file.ended.add((subject, place))
            seen = file.seen.setdefault((kind, place), SeenValues())
            if seen.noted < _SAMPLE:
                seen.note(record)
            if is_held and subject is not None:
                file.subjects.add(subject)
                for cell in rules[place].cells if place < len(rules) else ():
                    for name, path in cell.asks:
                        if name in self._through:
                            self.needed.update((self._keys[name], key) for key in keys_of(record, path))
                for anchor in self.source.anchors(kind, record):
                    self.parents.append(_Parent(anchor, file, number, subject, record))

    def write(self) -> None:
        """Write every file."""
        for work in (self.work, self.own):
            if work is not None:
                held: dict[str, list[RawRecord]] = {}
                for parent in self.parents:
                    held.setdefault(parent.anchor.name, []).append(parent.record)
                self.source.set_anchors(work, held)
        if self.order:
            for file in self.files:
                write_records(file.path, file.target, self._reordered(file))
            return
        self._make_parents()
        for file in self.files:
            write_records(file.path, file.target, self._written(file))

    def _is_copied(self, record: RawRecord) -> bool:
        """Say whether a record of nobody's, or of somebody without a moment, is in the copy."""
        subject = self.source.subject(record)
        return self.others or subject in self.moments or (subject is None and self.table.form == "resources")

    # Rows that others wait for are made first: what waits for one that is left out waits for another one, or goes too.

    def _make_parents(self) -> None:
        for parent in self.parents:
            anchor = parent.anchor
            if anchor.asks and any((anchor.key, key) in self.needed for key in keys_of(parent.record, anchor.key)):
                for name, path in anchor.asks:
                    self.kept.update((self._keys[name], key) for key in keys_of(parent.record, path))
        for file in {id(parent.file): parent.file for parent in self.parents}.values():
            file.made = {place: made for place, _, made in self._rows(file) if made is not None}
        for _ in range(_TURNS):
            self._note_the_gone()
            made = [each for parent in self.parents if (each := self._of(parent)) is not None]
            if not sum(self._follow(each) for each in {id(one): one for one in made}.values()):
                break

    def _of(self, parent: _Parent) -> _Made | None:
        return None if parent.file.made is None else parent.file.made.get(parent.place)

    def _note_the_gone(self) -> None:
        """Note which rows that others name are not in the copy, and what its clocks say."""
        held: dict[str, list[RawRecord]] = {}
        there: dict[str, set[str]] = {}
        lost: dict[tuple[str, int], list[str]] = {}
        self.left, self.gone = {}, {}
        for parent in self.parents:
            made, name = self._of(parent), parent.anchor.name
            rows = [parent.record] if made is None else made.rows
            held.setdefault(name, []).extend(rows)
            keys = [key for row in rows for key in keys_of(row, parent.anchor.key)]
            there.setdefault(name, set()).update(keys)
            if made is not None and made.unknown:
                self.left.setdefault((name, parent.subject), []).extend(keys)
                if not rows:
                    lost.setdefault((name, parent.subject), []).extend(keys_of(parent.record, parent.anchor.key))
        for (name, subject), keys in lost.items():
            left = self.left.get((name, subject), [])
            for place, key in enumerate(keys):
                if key not in there[name]:
                    self.gone.setdefault(name, {})[key] = left[place % len(left)] if left else ""
        self.source.set_anchors(self.after, held)

    def _follow(self, made: _Made) -> bool:
        """Let a row follow the rows that it names; say whether one went."""
        rule, before = made.rule, len(made.rows)
        for path, anchor in rule.parents.items():
            if made.unknown:
                gone = self.gone.get(anchor, {})
                for row in list(made.rows):
                    other = next((gone[key] for key in keys_of(row, path) if key in gone), None)
                    if other:
                        put(row, path, other)
                    elif other == "" and not rule.keep_rows:
                        made.rows.remove(row)
        as_of = self.moments[made.subject]
        assert as_of is not None
        for row, path in made.late_links:
            self._link_of_known(made, row, path, as_of)
        if made.unknown and not rule.keep_rows:
            made.rows = [row for row in made.rows if not _is_known(rule.row, row, self.after, as_of)]
        return len(made.rows) < before

    def _link_of_known(self, made: _Made, row: RawRecord, path: str, as_of: datetime) -> None:
        """Let a known row that named one of the future name nothing, or another one: whatever leaves the rest of it as
        unknown as it was."""
        rule, own = made.rule, made.record.texts(path)
        left = self.left.get((rule.parents.get(path, ""), made.subject), ())
        others = [key for key in left if key not in own]
        is_needed = any((key, text) in self.needed for key in rule.key for text in made.record.texts(key))
        choices = [others[made.number % len(others)]] if others and (is_needed or made.number % 2) else []
        for key in [*choices, *([] if is_needed else [""]), *own[:1]]:
            put(row, path, key)
            if all(
                _is_known(cell.known, row, self.after, as_of) == _is_known(cell.known, made.record, self.work, as_of)
                for cell in rule.cells
                if path not in cell.paths
            ):
                break

    # One file, row by row in its order.

    def _rows(self, file: _File) -> Iterator[tuple[int, RawRecord, _Made | None]]:
        """Yield every record with its place, and what became of it if it changed."""
        courses: dict[tuple[int, str], _Course] = {}
        for place, record in enumerate(read_lines(file.path)):
            subject = self.source.subject(record)
            as_of = None if subject is None else self.moments.get(subject)
            if subject is None or as_of is None:
                yield place, record, None
                continue
            kind = self.source.kind(record, file.name, file.path)
            course = courses.get((subject, kind))
            if course is None:
                course = courses[subject, kind] = self._course(file, subject, as_of, kind)
            yield place, record, self._made(file, course, kind, subject, record)

    def _course(self, file: _File, subject: int, as_of: datetime, kind: str) -> _Course:
        future = Future(
            as_of=as_of,
            work=self.work,
            own=self.own,
            stretch=_STRETCHES[subject % len(_STRETCHES)],
            subject=self.table.subject,
            cut=self.cut,
            keys=file.keys.setdefault(kind, NewKeys()),
        )
        return _Course(future, zlib.crc32(f"{kind}{subject}".encode()))

    def _made(self, file: _File, course: _Course, kind: str, subject: int, record: RawRecord) -> _Made | None:
        rules, place, future = self.table.of(kind) or (), self.source.place(kind, record), course.future
        if place == len(rules):
            return None
        rule = rules[place]
        if any((path, text) in self.kept for path in rule.key for text in record.texts(path)):
            rule = replace(rule, keep_rows=True)
        future.seen = file.seen.get((kind, place), future.seen)
        if place not in course.repeated:
            course.repeated[place] = RepeatedRows(rule, future)
        number, unknown = course.number(record), future.is_unknown(record, rule)
        course.count += 1
        rows: list[RawRecord] = []
        links: list[tuple[RawRecord, str]] = []
        for each in course.repeated[place].of(record):
            rows += future.rows(each, rule, number if each is record else course.number(each))
            links += future.late_links
        if len(rows) == 1 and not unknown and rows[0].content == record.content:
            return None
        return _Made(
            record=record, rows=rows, rule=rule, subject=subject, number=number, unknown=unknown, late_links=links
        )

    def _written(self, file: _File) -> Iterator[RawRecord]:
        lines = bytearray()
        for rows in self._in_place(file):
            if self.others:  # of a whole hospital, from which few are taken, they would fill the memory
                lines.append(len(rows))
            yield from rows
        if self.others:
            self.counts.lines[file.target] = lines
        if not self.cut:
            for each in self._born(file):
                self.counts.written += 1
                yield each

    def _in_place(self, file: _File) -> Iterator[Sequence[RawRecord]]:
        """Yield what stands in the place of each record."""
        rows = self._rows(file) if file.made is None else self._from_made(file)
        for _, record, made in rows:
            subject = self.source.subject(record)
            if subject is None or subject not in self.moments:
                yield (record,) if self._is_copied(record) else ()
                continue
            if self.moments[subject] is not None:
                self.counts.rows += 1
                kind = self.source.kind(record, file.name, file.path)
                if made is None and self.source.place(kind, record) == len(self.table.of(kind) or ()):
                    self.counts.unruled[kind] = self.counts.unruled.get(kind, 0) + 1
            if made is None:
                self.counts.written += 1
                yield (record,)
                continue
            if file.made is None:
                self._follow(made)
            if self.note is not None:
                self.note(kind, made.rule, record, made.rows)
            changed = len(made.rows) != 1 or made.rows[0].content != record.content
            self.counts.changed += changed
            self.counts.written += len(made.rows)
            yield made.rows if changed else (record,)

    def _from_made(self, file: _File) -> Iterator[tuple[int, RawRecord, _Made | None]]:
        for place, record in enumerate(read_lines(file.path)):
            yield place, record, (file.made or {}).get(place)

    def _born(self, file: _File) -> Iterator[RawRecord]:
        """Yield the ends that somebody comes to who had none, in the one file where they belong."""
        kind = file.name if self.table.of(file.name) else stem(file.path)
        rules = self.table.of(kind) or ()
        alike = [
            other for other in self.files if (self.table.of(other.name) or self.table.of(stem(other.path))) is rules
        ]
        for place, rule in enumerate(rules if self.table.form == "tables" else ()):
            ends = [row for other in alike for (_, where), row in other.outcomes.items() if where == place]
            ended = {subject for other in alike for subject, where in other.ended if where == place}
            for subject, as_of in self.moments.items() if rule.outcome and ends else ():
                own = next((other for other in alike if subject in other.subjects), alike[0])
                if as_of is not None and subject not in ended and own is file:
                    yield self._course(file, subject, as_of, kind).future.born(ends[0], rule, str(subject))

    # The same rows in another order.

    def _reordered(self, file: _File) -> Iterator[RawRecord]:
        courses: dict[int, Future] = {}
        late: dict[tuple[int, str], list[RawRecord]] = {}
        places: list[tuple[int, str] | None] = []
        for record in read_lines(file.path):
            places.append(None)
            subject = self.source.subject(record)
            as_of = None if subject is None else self.moments.get(subject)
            if subject is None or as_of is None:
                continue
            kind = self.source.kind(record, file.name, file.path)
            rules, place = self.table.of(kind) or (), self.source.place(kind, record)
            if subject not in courses:
                courses[subject] = self._course(file, subject, as_of, kind).future
            if place < len(rules) and courses[subject].is_late(record, rules[place].row, rules[place].event):
                places[-1] = (subject, kind)
                late.setdefault((subject, kind), []).append(record)
        for whose, record in zip(places, read_lines(file.path), strict=True):
            if self._is_copied(record):
                yield record if whose is None else late[whose].pop()


def _is_known(clocks: Sequence[Clock], record: RawRecord, work: Clockwork, as_of: datetime) -> bool:
    known = latest(clocks, record, work)
    return known is not None and known <= as_of
