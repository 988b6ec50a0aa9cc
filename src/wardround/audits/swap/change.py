"""Another future for one row or resource: change what nobody could know yet, exchange outcomes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import NAMESPACE_OID, uuid5

from wardround.audits.swap.knowledge import CellRule, Clock, Clockwork, KnowledgeRule, later, latest, read_moment, spell
from wardround.audits.swap.raw_records import RawRecord, put

# Another future for one row: what could not be known at a moment is changed, death and survival exchanged.


_SEEN = 48
"""So many different values of a column are remembered as what it may hold."""
_LONG = 400
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_KEY = re.compile(r"(|.*[^\d])(-?\d+)", re.DOTALL)
_UUID = re.compile(r"[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}")
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_HEADER = re.compile(r"[\W_]*([A-Za-z][A-Za-z ]{2,60}?)[\W_]*:")


@dataclass(slots=True)
class SeenValues:
    """Values that the columns of one file hold anywhere: what a changed cell may read."""

    values: dict[str, dict[str, None]] = field(default_factory=dict)
    noted: int = 0
    _words: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def note(self, record: RawRecord) -> None:
        """Remember what a record holds."""
        self.noted += 1
        for path in record.paths():
            held = self.values.setdefault(path, {})
            if len(held) < _SEEN:
                held.update(dict.fromkeys(text for text in record.texts(path) if len(text) < _LONG))

    def words(self, path: str) -> tuple[str, ...]:
        """Return what a column may hold besides times; asked when everything was noted."""
        if path not in self._words:
            self._words[path] = tuple(text for text in self.values.get(path, ()) if read_moment(text) is None)
        return self._words[path]


@dataclass(slots=True)
class _Keys:
    lowest: int
    highest: int
    rows: int = 0
    made: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class NewKeys:
    """Numbers that no row of a file has, of their column's type and in its range: the next ones behind the highest, or
    before the lowest where 32 bits, or 64, would not hold them. ``note`` what there is before asking."""

    _columns: dict[tuple[str, str], _Keys] = field(default_factory=dict)

    def note(self, path: str, text: str) -> None:
        """Remember a key that a row has."""
        if text.isdecimal():
            head, number = "", int(text)
        else:
            found = _KEY.fullmatch(text)
            if found is None or _UUID.fullmatch(text):
                return
            head, number = _head(found), int(found[2])
        held = self._columns.get((path, head))
        if held is None:
            held = self._columns[path, head] = _Keys(number, number)
        elif number < held.lowest:
            held.lowest = number
        elif number > held.highest:
            held.highest = number
        held.rows += 1

    def other(self, path: str, text: str, subject: str) -> str | None:
        """Return a key in the form of another; None where none is left."""
        found = _KEY.fullmatch(text)
        if found is None or _UUID.fullmatch(text):
            taken = self._columns.setdefault((path, "made"), _Keys(0, 0)).made
            taken[text] = taken.get(text, 0) + 1
            made = f"{text}-{taken[text]}"
            return str(uuid5(NAMESPACE_OID, made)) if _UUID.fullmatch(text) else made
        if (path, _head(found)) not in self._columns:
            self.note(path, text)
        held = self._columns[path, _head(found)]
        # A number that runs within each person, as a place in a list, goes on for each.
        whose = "" if held.rows <= held.highest - held.lowest + 1 else subject
        held.made[whose] = count = held.made.get(whose, 0) + 1
        narrow = held.lowest >= -_INT32 - 1 and held.highest <= _INT32
        limit = _INT32 if narrow else _INT64
        if held.highest + count <= limit:
            number = held.highest + count
        elif held.lowest - count >= (0 if held.lowest >= 0 else -limit - 1):
            number = held.lowest - count
        else:
            return None
        return str(number) if not found[1] else f"{found[1]}{number:0{len(found[2])}d}"


def _head(found: re.Match[str]) -> str:
    return "" if not found[1] else "text"


@dataclass(slots=True, kw_only=True)
class Future:
    """The other future of one subject after ``as_of``. ``stretch`` moves its times, their order kept. ``cut``: it has
    not come yet, as in files that were exported at that moment: rows are not there, late cells are empty. ``own``
    gives the event times of facts: then only what has one after ``as_of`` changes, and no time is taken away."""

    as_of: datetime
    work: Clockwork
    own: Clockwork | None = None
    stretch: float
    subject: str
    """The column that says whose a row is."""
    seen: SeenValues = field(default_factory=SeenValues)
    """What rows of the same rule hold elsewhere."""
    cut: bool = False
    keys: NewKeys = field(default_factory=NewKeys)
    """Numbers for rows that come to be."""
    late_links: list[tuple[RawRecord, str]] = field(default_factory=list)
    """Of the record that :meth:`rows` changed last: links to rows of the future, which were taken away."""

    def rows(self, record: RawRecord, rule: KnowledgeRule, number: int) -> list[RawRecord]:
        """Return what a record becomes: itself, changed, twice, or nothing."""
        self.late_links = []
        if not self.is_late(record, rule.row, rule.event):
            return [self._emptied(record, rule) if self.cut else self._known(record, rule, number)]
        if self.cut:  # of a kept row some parts are older than the row: those stay
            return [self._whole(record, rule, number)] if rule.keep_sections and rule.keep_rows else []
        return [] if rule.outcome else self._unknown(record, rule, number)

    def _emptied(self, record: RawRecord, rule: KnowledgeRule) -> RawRecord:
        """Take away what could not be known of a row that was; a cell that must hold something holds what it may."""
        changed = record.copy()
        for cell in rule.cells:
            for path in cell.paths if self._is_late_cell(record, cell, rule) else ():
                if not cell.to:
                    changed.change(path, lambda text: "")
                elif set(record.texts(path)) & set(cell.values):
                    changed.change(path, partial(_other_word, cell.to))
        for path, clocks in rule.items.items():
            for item in changed.items(path):
                if self.is_later_part(item, clocks):
                    changed.remove(path, item)
        return changed

    def _known(self, record: RawRecord, rule: KnowledgeRule, number: int) -> RawRecord:
        """Change what could not be known of a row that was. The rest stays as known or unknown as it is: cells that are
        times are emptied, and empty ones filled, where that is possible."""
        empties = number % 3 == 0 and rule.cells and not rule.exchange and self.own is None
        changed = record
        for empty, fill in ((True, True), (False, True), (False, False)):
            if empty and not empties:
                continue
            changed, self.late_links = record.copy(), []
            self._cells(changed, record, rule, number, empty=empty, fill=fill)
            if self._keeps(changed, record, rule):
                break
        self._items(changed, record, rule)
        return changed

    def _put_at(self, record: RawRecord, path: str, at: datetime, text: str) -> str:
        return text if read_moment(text) is None else self._spelt(record, at, path, text)

    def _keeps(self, changed: RawRecord, record: RawRecord, rule: KnowledgeRule) -> bool:
        """Say whether in the other future, too, a row is known, and of its cells the same ones."""
        if self._is_unknown(changed, rule.row):
            return False
        return all(self._is_unknown(changed, each.known) == self._is_unknown(record, each.known) for each in rule.cells)

    def born(self, template: RawRecord, rule: KnowledgeRule, subject: str) -> RawRecord:
        """Return a row that now comes to be, after another's: the death of somebody who lived."""
        made = template.copy()
        at = later(self.as_of, self.as_of, self.stretch)
        for path in made.paths():
            made.change(path, partial(self._put_at, made, path, at))
        made.change(self.subject, lambda text: subject)
        return made

    def _unknown(self, record: RawRecord, rule: KnowledgeRule, number: int) -> list[RawRecord]:
        """Nothing of a row could be known: it is left out, changed, or stands there twice."""
        fate = zlib.crc32(f"{number}".encode()) % 5
        if fate == 0 and not rule.keep_rows:
            return []
        changed = self._whole(record, rule, number)
        if fate != 1 or rule.keep_rows:
            return [changed]
        second = self._whole(record, rule, number + 7)
        return [changed, second] if self.renumber(second, rule) else [changed]

    def renumber(self, second: RawRecord, rule: KnowledgeRule) -> bool:
        """Give a row that came to be numbers of its own. False: there is none left in the range of their column."""
        for path in rule.key:
            for text in second.texts(path)[:1]:
                other = self.keys.other(path, text, "".join(second.texts(self.subject)))
                if other is None:
                    return False
                put(second, path, other)
        return True

    def _whole(self, record: RawRecord, rule: KnowledgeRule, number: int) -> RawRecord:
        """Change all of a row. One that has past times only waited for another row: they move past the moment."""
        changed = record.copy()
        late = {path for cell in rule.cells for path in cell.paths}
        times = [
            at for path in record.paths() for text in record.texts(path) if (at := self.work.read(record, path, text))
        ]
        past = max(times, default=self.as_of) <= self.as_of
        for path in record.paths():
            if not (path in rule.links or path in rule.exchange or path in late or path in (*rule.key, self.subject)):
                changed.change(path, partial(self._change, record, path, number, rule, explicit=past))
        self._cells(changed, record, rule, number, whole=True)
        return changed

    def _cells(
        self,
        changed: RawRecord,
        record: RawRecord,
        rule: KnowledgeRule,
        number: int,
        *,
        empty: bool = False,
        whole: bool = False,
        fill: bool = True,
    ) -> None:
        """Change the late cells; of a row that changes as a ``whole``, all that are not known."""
        late = [
            cell
            for cell in rule.cells
            if (self._is_unknown(record, cell.known) if whole else self._is_late_cell(record, cell, rule))
        ]
        for cell in late:
            for path in cell.paths:
                if path in rule.exchange or (whole and path in rule.links):
                    continue
                if cell.values and not set(record.texts(path)) & set(cell.values):
                    continue
                if (
                    empty
                    and path not in rule.moved
                    and any(self.work.read(record, path, text) for text in record.texts(path))
                ):
                    changed.change(path, lambda text: "")
                elif fill or record.texts(path):
                    self._cell(changed, record, path, cell, rule, number)
        self._exchange(changed, record, rule, {path for cell in late for path in cell.paths})

    def is_late(self, record: RawRecord, known: Sequence[Clock], event: Sequence[Clock] = ()) -> bool:
        """Say whether what has these clocks is of the future: not known, and where ``own`` is given, not happened."""
        if not self._is_unknown(record, known):
            return False
        happened = self._happened(record, event or known)
        return happened is not None and happened > self.as_of

    def _is_late_cell(self, record: RawRecord, cell: CellRule, rule: KnowledgeRule) -> bool:
        """Say so of a cell; that somebody has not died says nothing of when, and a death comes after the moment."""
        if self.is_late(record, cell.known, cell.event):
            return True
        outcomes = [path for path in cell.paths if path in rule.exchange]
        if not outcomes or any(record.texts(path) for path in outcomes) or not self._is_unknown(record, cell.known):
            return False
        return self._happened(record, cell.event or cell.known) is None

    def _happened(self, record: RawRecord, event: Sequence[Clock]) -> datetime | None:
        return datetime.max if self.own is None else latest(event, record, self.own)

    def is_unknown(self, record: RawRecord, rule: KnowledgeRule) -> bool:
        """Say whether a row could not be known, whatever ``own`` says."""
        return self._is_unknown(record, rule.row)

    def _is_unknown(self, record: RawRecord, clocks: Sequence[Clock]) -> bool:
        known = latest(clocks, record, self.work)
        return known is None or known > self.as_of

    def is_later_part(self, item: RawRecord, clocks: Sequence[Clock]) -> bool:
        """Say whether a part of a list is of the future; one without a time is as old as its resource."""
        known = latest(clocks, item, self.own or self.work)
        return known is not None and known > self.as_of

    def _cell(
        self, changed: RawRecord, record: RawRecord, path: str, cell: CellRule, rule: KnowledgeRule, number: int
    ) -> None:
        texts = record.texts(path)
        if not texts:
            self._invent(changed, record, path, cell, rule, number)
        elif path in rule.links:
            changed.change(path, lambda text: "")
            self.late_links.append((changed, path))
        elif cell.to:
            changed.change(path, lambda text: _next(cell.to, text, number))
        else:
            changed.change(path, partial(self._change, record, path, number, rule, explicit=True))

    def _invent(
        self, changed: RawRecord, record: RawRecord, path: str, cell: CellRule, rule: KnowledgeRule, number: int
    ) -> None:
        """Fill a cell that is empty, in every other row, as other rows have it filled: emptiness may tell too."""
        values = list(cell.to or self.seen.values.get(path, ()))
        if not values or number % 2 or path in rule.links:
            return
        text = values[number % len(values)]
        if self.work.read(record, path, text) is not None:
            text = self._spelt(record, later(self.as_of, self.as_of, self.stretch), path, text)
        changed.fill(path, text)

    def _exchange(self, changed: RawRecord, record: RawRecord, rule: KnowledgeRule, late: set[str]) -> None:
        """Let who dies live and who lives die, in all late cells of a row alike."""
        paths = {path: words for path, words in rule.exchange.items() if path in late}
        if not paths:
            return
        died = any(
            words[0] in record.texts(path) if len(words) == 2 else bool(record.texts(path))
            for path, words in paths.items()
        )
        for path, words in paths.items():
            if len(words) == 2:
                put(changed, path, words[1] if died else words[0])
            elif died:
                changed.change(path, lambda text: "")
            else:
                at = None if words[0] == "later" else self.work.moment(changed, words[0])
                if at is None or at <= self.as_of:
                    at = self.as_of + timedelta(hours=29) * self.stretch
                form = next(iter(self.seen.values.get(path, ())), record.time_form)
                changed.fill(path, self._spelt(record, at, path, form))

    def _items(self, changed: RawRecord, record: RawRecord, rule: KnowledgeRule) -> None:
        """Change the parts of lists that have times of their own: every other one goes."""
        for path, clocks in rule.items.items():
            for number, item in enumerate(changed.items(path)):
                if not self.is_later_part(item, clocks):
                    for part in item.paths():
                        item.change(part, partial(self._moved, item, part))
                elif number % 2:
                    changed.remove(path, item)
                else:
                    before = item.copy()
                    for part in item.paths():
                        item.change(part, partial(self._change, before, part, number, rule))

    def _moved(self, record: RawRecord, path: str, text: str) -> str:
        at = self.work.read(record, path, text)
        if at is None or at <= self.as_of:
            return text
        return self._spelt(record, later(at, self.as_of, self.stretch), path, text)

    def _change(
        self, record: RawRecord, path: str, number: int, rule: KnowledgeRule, text: str, *, explicit: bool = False
    ) -> str:
        """Return what a text becomes: a time moves, anything else becomes what the column holds elsewhere."""
        at = self.work.read(record, path, text)
        if at is not None:
            if at <= self.as_of and not explicit:
                return text
            return self._spelt(record, later(at, self.as_of, self.stretch), path, text)
        if rule.keep_sections and len(text) > _LONG:
            return _other_prose(text, rule.keep_sections)
        values = self.seen.words(path)
        if len(values) > 1:
            place = (number * 7919 + len(path)) % len(values)
            return values[place] if values[place] != text else values[place - 1]
        if path in rule.where:
            return text
        if _NUMBER.fullmatch(text):
            return f"{float(text) * 2 + 1:g}" if "." in text else str(int(float(text)) * 2 + 1)
        return f"{text} (otherwise)"

    def _spelt(self, record: RawRecord, at: datetime, path: str, form: str) -> str:
        zero = self.work.zero(record) if self.work.minutes_of and path.endswith("offset") else None
        if zero is not None:
            return str(-(-int((at - zero).total_seconds()) // 60))
        if read_moment(form) is not None and len(form.strip()) <= 10:
            at += timedelta(days=1)
        return spell(at, form)


def _next(values: Sequence[str], text: str, number: int) -> str:
    others = [each for each in values if each != text]
    return others[number % len(others)] if others else ""


def _other_word(words: Sequence[str], text: str) -> str:
    return next((word for word in words if word != text), "")


def _other_prose(text: str, kept: Sequence[str]) -> str:
    """Change the lines of a text but those below the headers that are older than it."""
    titles = {title.casefold() for title in kept}
    lines, keep = [], False
    for line in text.split("\n"):
        header = _HEADER.match(line)
        if header is not None:
            keep = header[1].strip().casefold() in titles
        lines.append(line if keep or header is not None or not line.strip() else f"{line} (otherwise)")
    return "\n".join(lines)


@dataclass(slots=True)
class RepeatedRows:
    """Rows of one rule and subject in groups whose number of rows may be a result: until it is known, a group has one
    row, every third group two."""

    rule: KnowledgeRule
    future: Future
    _groups: dict[tuple[str, ...], int] = field(default_factory=dict)

    def of(self, record: RawRecord) -> list[RawRecord]:
        """Return what stands in the place of the next row."""
        repeat, future = self.rule.repeat, self.future
        if repeat is None:
            return [record]
        if future.is_late(record, self.rule.row, self.rule.event) or not future.is_late(record, repeat.known):
            return [record]
        group = tuple(text for path in repeat.group for text in record.texts(path) or ("",))
        self._groups[group] = self._groups.get(group, 0) + 1
        if self._groups[group] > 1:
            return []
        if len(self._groups) % 3 or future.cut:
            return [record]
        second = record.copy()
        return [record, second] if future.renumber(second, self.rule) else [record]
