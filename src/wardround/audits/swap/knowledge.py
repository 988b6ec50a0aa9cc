"""Swap tables: for every file of a source, what could be known when, and what is an outcome."""

from __future__ import annotations

import re
import tomllib
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from typing import Any, Literal, Protocol

from wardround.core import RecordError, UserError

# Texts that are times, whatever their file: read on the clock on the wall, moved with their form kept.


_TIME = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?(?:([ T])(\d\d):(\d\d)(?::(\d\d))?(\.\d+)?(Z|[+-]\d\d:?\d\d)?)?")
_DATE = 10
"""A time written in so few letters is a day or a month."""
_LAST = time(23, 59, 59)
_END = datetime(9999, 12, 31, 23, 59, 59)


@lru_cache(maxsize=65_536)
def read_moment(text: str) -> datetime | None:
    """Return a time as written, its offset dropped; a day or month without a time is its last second. Kept: every clock
    of a row reads its times again."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, _, hour, minute, second, _, _ = found.groups()
    try:
        if day is None:
            return datetime(int(year), int(month), monthrange(int(year), int(month))[1], 23, 59, 59)
        if hour is None:
            return datetime.combine(datetime(int(year), int(month), int(day)), _LAST)
        return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))
    except ValueError:
        return None


def last_second(moment: datetime) -> datetime:
    """Return the last second of a moment's day."""
    return datetime.combine(moment, _LAST)


def spell(moment: datetime, form: str) -> str:
    """Write a moment in the form of another time's text; in a form without seconds, the minute that is not before it:
    what lies half a minute after an as-of time must not be written as that time."""
    found = _TIME.fullmatch(form.strip())
    if found is None or found[4] is None:
        return f"{moment:%Y-%m-%d}"
    if not found[7] and moment.second:
        moment += timedelta(seconds=60 - moment.second)
    clock = f"{moment:%H:%M:%S}" if found[7] else f"{moment:%H:%M}"
    return f"{moment:%Y-%m-%d}{found[4]}{clock}{found[9] or ''}"


def later(moment: datetime, as_of: datetime, stretch: float) -> datetime:
    """Return where a time lies in the other future: what lay after ``as_of`` still does, in the same order."""
    if moment <= as_of:
        return as_of + timedelta(hours=26) * stretch
    away = (moment - as_of).total_seconds() * stretch
    return as_of + timedelta(seconds=min(max(1.0, round(away)), (_END - as_of).total_seconds()))


# The words in which a swap table says when something could be known, read into functions of a row.
#
# ``storetime`` (a time), ``day chartdate`` (the end of a day), ``dated time`` (midnight stands for its day), ``zero``
# (where minutes count from), ``stay ends by hadm_id`` (the last moment of other rows with that key), ``discharge after
# time by subject_id unless admission`` (the next such moment, if no ``admission`` lies before it), ``stoptime + 1h``,
# ``a | b`` (the first that is filled), ``earlier(a, b)``, ``always``, ``never``. A key may be several columns,
# ``subject_id+time``, or the last part of a code, ``code:tail``.
#
# The same words give a fact's own event time, when nothing is assumed: ``Clockwork.own``.


_LAG = re.compile(r"(.+?)\s*\+\s*(\d+)\s*(min|h|d)")
_AFTER = re.compile(r"(.+?) after (.+) by (\S+?)(?: unless (.+))?")
_BY = re.compile(r"\s*(.+?)(?: after .+)? by (\S+?)(?: unless .+)?\s*")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class Cells(Protocol):
    """A row or a resource: the texts that stand at a path, empty ones left out."""

    def texts(self, path: str) -> Sequence[str]:
        """Return them."""


@dataclass(slots=True, kw_only=True)
class Clockwork:
    """What clocks need besides the row: moments of other rows, and where minutes count from, if times are minutes.

    ``own``: clocks give when a fact happened, as the record itself says, instead of when it could be known. A column in
    ``recorded`` says when something was written down and gives no time; a date is its first second; added hours, days
    and ``never`` are assumptions and count for nothing."""

    anchors: dict[str, dict[str, list[datetime]]] = field(default_factory=dict)
    minutes_of: str | None = None
    zeros: Mapping[str, datetime] = field(default_factory=dict)
    own: bool = False
    recorded: frozenset[str] = frozenset()

    def moment(self, cells: Cells, path: str) -> datetime | None:
        """Return the latest time that stands at a path."""
        if self.own and path in self.recorded:
            return None
        found = None
        for text in cells.texts(path):
            at = self.read(cells, path, text)
            if at is not None and (found is None or at > found):
                found = at
        return found

    def read(self, cells: Cells, path: str, text: str) -> datetime | None:
        """Read one text as a time: as written, or as minutes since the row's zero."""
        if self.minutes_of is None or not path.endswith("offset"):
            at = read_moment(text)
            return _first_second(at, text) if self.own and at is not None else at
        zero = self.zero(cells)
        try:
            return None if zero is None else zero + timedelta(minutes=float(text))
        except (ValueError, OverflowError):
            return None

    def zero(self, cells: Cells) -> datetime | None:
        """Return the moment from which a row's minutes count."""
        keys = cells.texts(self.minutes_of or "")
        return self.zeros.get(keys[0]) if keys else None


Clock = Callable[[Cells, Clockwork], "datetime | None"]


def read_clock(text: str) -> Clock:
    """Read one clock. RecordError: it is not written as above."""
    choices = [part.strip() for part in _split(text, "|")]
    if len(choices) > 1:
        clocks = [read_clock(part) for part in choices]
        return lambda cells, work: next((at for clock in clocks if (at := clock(cells, work)) is not None), None)
    lag = _LAG.fullmatch(text)
    if lag is not None:
        inner, delay = read_clock(lag[1]), int(lag[2]) * _UNITS[lag[3]]
        return lambda cells, work: at if (at := inner(cells, work)) is None or work.own else at + delay
    if text.startswith("earlier(") and text.endswith(")"):
        parts = [read_clock(part.strip()) for part in _split(text[8:-1], ",")]
        return lambda cells, work: min((at for part in parts if (at := part(cells, work)) is not None), default=None)
    return _atom(text)


def _split(text: str, mark: str) -> list[str]:
    """Cut at a mark that stands in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _atom(text: str) -> Clock:
    if text == "always":
        return lambda cells, work: datetime.min
    if text == "never":
        return lambda cells, work: None if work.own else datetime.max
    if text == "zero":
        return lambda cells, work: work.zero(cells)
    word, _, rest = text.partition(" ")
    if word in ("day", "dated") and " " not in rest.strip():
        path = rest.strip()
        return lambda cells, work: _by_the_day(work.moment(cells, path), work, always=word == "day")
    after = _AFTER.fullmatch(text)
    if after is not None:
        return _following(after[1], read_clock(after[2]), after[3], after[4])
    anchor, by, path = text.partition(" by ")
    if by:
        return lambda cells, work: max(_moments(cells, work, anchor, path.strip()), default=None)
    if " " in text or not text:
        raise RecordError(f"swap table: {text!r} is no clock")
    return lambda cells, work: work.moment(cells, text)


def _by_the_day(moment: datetime | None, work: Clockwork, *, always: bool) -> datetime | None:
    if moment is None or not (always or moment.time() == time.min):
        return moment
    return datetime.combine(moment, time.min) if work.own else last_second(moment)


def _first_second(moment: datetime, text: str) -> datetime:
    """Return a day's or month's first second for the last one that :func:`read_moment` gives; a time as it is."""
    form = text.strip()
    if len(form) > _DATE:
        return moment
    return datetime.combine(moment.replace(day=moment.day if len(form) == _DATE else 1), time.min)


def _following(anchor: str, start: Clock, path: str, other: str | None) -> Clock:
    def clock(cells: Cells, work: Clockwork) -> datetime | None:
        begun = start(cells, work)
        if begun is None:
            return None
        found = min((at for at in _moments(cells, work, anchor, path) if at >= begun), default=None)
        if found is None or other is None:
            return found
        return None if any(begun < at < found for at in _moments(cells, work, other, path)) else found

    return clock


def keys_of(cells: Cells, path: str) -> list[str]:
    """Return the keys that a row names at a path; references without the kind."""
    if "+" in path:
        parts = [keys_of(cells, part) for part in path.split("+")]
        return ["+".join(part[0] for part in parts)] if all(parts) else []
    if path.endswith(":tail"):
        return [text.rpartition("//")[2] for text in cells.texts(path.removesuffix(":tail"))]
    return [text.strip().rpartition("/")[2].removeprefix("urn:uuid:") for text in cells.texts(path)]


def _moments(cells: Cells, work: Clockwork, anchor: str, path: str) -> list[datetime]:
    if anchor not in work.anchors:
        raise RecordError(f"swap table: no anchor {anchor!r}")
    moments = work.anchors[anchor]
    return [at for key in keys_of(cells, path) for at in moments.get(key, ())]


def latest(clocks: Sequence[Clock], cells: Cells, work: Clockwork) -> datetime | None:
    """Return the latest of several clocks; None where none has a time."""
    found = None
    for clock in clocks:
        at = clock(cells, work)
        if at is not None and (found is None or at > found):
            found = at
    return found


# A swap table as data: for every file of a source, what of it could be known when, and what is an outcome.


_KNOWN = (
    "where",
    "row",
    "event",
    "cells",
    "items",
    "exchange",
    "repeat",
    "links",
    "key",
    "keep_sections",
    "keep_rows",
    "outcome",
    "moved",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRule:
    """Cells that are known later than their row. ``event``: when they happened, where ``known`` does not say that too.
    ``values``: only where the cell is one of these; ``to``: what it may become instead of any value that the column has
    elsewhere."""

    paths: tuple[str, ...]
    known: tuple[Clock, ...]
    event: tuple[Clock, ...] = ()
    asks: frozenset[tuple[str, str]] = frozenset()
    """Which anchors, and by which path, ``known`` asks for."""
    values: tuple[str, ...] = ()
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Rows of one ``group`` are one row until a moment: their number is a result."""

    group: tuple[str, ...]
    known: tuple[Clock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeRule:
    """What of a file's rows could be known when (``row``) and when it happened (``event``, by default by the clocks of
    ``row``). ``exchange``: a column's words for died and survived, or the column
    that gives the time of a death that now happens (``later``: some time later). ``links`` stay as they are; ``key`` is
    the row's own numbers. ``keep_sections``: headed parts of texts that are older than the text. ``outcome``: that
    there is such a row at all is how it ended, as a death is. ``moved``: columns whose late times move and are never
    taken away."""

    where: Mapping[str, tuple[str, ...]]
    row: tuple[Clock, ...]
    event: tuple[Clock, ...] = ()
    cells: tuple[CellRule, ...] = ()
    items: Mapping[str, tuple[Clock, ...]] = field(default_factory=dict)
    exchange: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeat: Repeat | None = None
    links: frozenset[str] = frozenset()
    key: tuple[str, ...] = ()
    keep_sections: tuple[str, ...] = ()
    keep_rows: bool = False
    outcome: bool = False
    moved: frozenset[str] = frozenset()
    parents: Mapping[str, str] = field(default_factory=dict)
    """The anchor whose rows a link names."""

    def fits(self, cells: Cells) -> bool:
        """Say whether the rule is for a row."""
        return fits(self.where, cells)


def fits(where: Mapping[str, tuple[str, ...]], cells: Cells) -> bool:
    """Say whether every column matches one of its patterns."""
    return all(any(_matches(text, words) for text in cells.texts(path) or ("",)) for path, words in where.items())


@lru_cache(maxsize=65_536)
def _matches(text: str, words: tuple[str, ...]) -> bool:
    """Kept, because the same few codes and kinds stand in most rows of a file."""
    return any(fnmatchcase(text.casefold(), word.casefold()) for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Moments of a file's rows, by key, that rows of other files wait for."""

    name: str
    file: str
    key: str
    latest: tuple[Clock, ...]
    asks: frozenset[tuple[str, str]] = frozenset()
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaySpan:
    """Rows that are stays of a kind: where they begin and end, and the columns that name them."""

    file: str
    start: tuple[Clock, ...]
    end: tuple[Clock, ...]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapTable:
    """What is known of one source. ``fixed`` files hold nothing of a person; ``recorded`` columns say when something
    was written down, never when it happened."""

    name: str
    form: Literal["tables", "resources"]
    subject: str
    subject_by: tuple[str, str] | None
    minutes_of: str | None
    fixed: tuple[str, ...]
    anchors: tuple[Anchor, ...]
    rules: Mapping[str, tuple[KnowledgeRule, ...]]
    recorded: frozenset[str] = frozenset()
    placed_by: tuple[str, str] | None = None
    """Of a source in minutes, columns of the file in ``subject_by``: the stay in hospital, and when it began."""
    spans: Mapping[str, StaySpan] = field(default_factory=dict)
    _asked: dict[str, tuple[KnowledgeRule, ...] | None] = field(default_factory=dict, init=False, repr=False)
    """What was answered before: it is asked for every row."""

    def of(self, name: str) -> tuple[KnowledgeRule, ...] | None:
        """Return the rules of a file; None where the table has none."""
        if name not in self._asked:
            self._asked[name] = self.rules[name] if name in self.rules else self._by_pattern(name.casefold())
        return self._asked[name]

    def _by_pattern(self, name: str) -> tuple[KnowledgeRule, ...] | None:
        return next((rules for pattern, rules in self.rules.items() if fnmatchcase(name, pattern.casefold())), None)

    def is_fixed(self, name: str) -> bool:
        """Say whether a file holds nothing of a person: dictionaries, places, staff."""
        return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in self.fixed)


def swap_sources() -> tuple[str, ...]:
    """Return the sources that have a swap table."""
    folder = resources.files("wardround.audits.swap") / "tables"
    return tuple(sorted(each.name.removesuffix(".toml") for each in folder.iterdir() if each.name.endswith(".toml")))


def load_swap_table(source: str) -> SwapTable:
    """Read the swap table of a source. UserError: there is none."""
    file = resources.files("wardround.audits.swap") / "tables" / f"{source}.toml"
    if not file.is_file():
        raise UserError(f"no swap table for source {source!r}; there are {', '.join(swap_sources())}")
    return parse_swap_table(file.read_text(encoding="utf-8"))


def parse_swap_table(text: str) -> SwapTable:
    """Read a swap table from its text. RecordError: a key or a clock that means nothing."""
    return swap_table(tomllib.loads(text))


def swap_table(content: Mapping[str, Any]) -> SwapTable:
    """Make a swap table of what was read of its file. RecordError: a key or a clock that means nothing."""
    source = content["source"]
    by = source.get("subject_by")
    numbers = tuple(source.get("numbers", ()))
    anchors = tuple(_anchor(name, part) for name, part in content.get("anchors", {}).items())
    return SwapTable(
        name=source["name"],
        form=source.get("form", "tables"),
        subject=source["subject"],
        subject_by=None if by is None else (by["file"], by["key"]),
        minutes_of=source.get("minutes_of"),
        fixed=tuple(source.get("fixed", ())),
        recorded=frozenset(source.get("recorded", ())),
        placed_by=None if by is None or "stay" not in by else (by["stay"], by["begins"]),
        anchors=anchors,
        rules={name: tuple(_rules(name, parts, numbers, anchors)) for name, parts in content["files"].items()},
        spans={name: _span(part) for name, part in content.get("stays", {}).items()},
    )


def _span(part: Mapping[str, Any]) -> StaySpan:
    start, end = _clocks(part["start"]), _clocks(part["end"])
    return StaySpan(file=part["file"], start=start, end=end, keys=tuple(part.get("keys", ())))


def _anchor(name: str, part: Mapping[str, Any]) -> Anchor:
    where = {path: _words(words) for path, words in part.get("where", {}).items()}
    latest, asks = _clocks(part["latest"]), _asks(part["latest"])
    return Anchor(name=name, file=part["file"], key=part["key"], latest=latest, asks=asks, where=where)


def _rules(name: str, parts: Any, numbers: tuple[str, ...], anchors: Sequence[Anchor]) -> Iterator[KnowledgeRule]:
    keys = {anchor.key: anchor.name for anchor in reversed(anchors)}  # of several the first
    for part in parts if isinstance(parts, list) else [parts]:
        strange = sorted(part.keys() - set(_KNOWN))
        if strange:
            raise RecordError(f"swap table, {name}: unknown key {', '.join(strange)}")
        repeat = part.get("repeat")
        yield KnowledgeRule(
            where={path: _words(words) for path, words in part.get("where", {}).items()},
            row=_clocks(part["row"]),
            event=_clocks(part.get("event", ())),
            cells=tuple(_cell_rule(paths, rule) for paths, rule in part.get("cells", {}).items()),
            items={path: _clocks(clocks) for path, clocks in part.get("items", {}).items()},
            exchange={path: _words(words) for path, words in part.get("exchange", {}).items()},
            repeat=None if repeat is None else Repeat(group=tuple(repeat["group"]), known=_clocks(repeat["known"])),
            links=frozenset(part.get("links", ())),
            key=(*_words(part.get("key", ())), *numbers),
            keep_sections=tuple(part.get("keep_sections", ())),
            keep_rows=part.get("keep_rows", False),
            outcome=part.get("outcome", False),
            moved=frozenset(part.get("moved", ())),
            parents={**{link: keys[link] for link in part.get("links", ()) if link in keys}, **dict(_parents(part))},
        )


def _parents(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the links that wait for the row that they name, with its anchor."""
    for names, rule in part.get("cells", {}).items():
        cell = _cell_rule(names, rule)
        yield from (
            (path, anchor)
            for anchor, path in cell.asks
            if len(cell.asks) == 1 and path in cell.paths and path in part.get("links", ())
        )


def _cell_rule(paths: str, rule: Any) -> CellRule:
    names = tuple(path.strip() for path in paths.split(","))
    if not isinstance(rule, Mapping):
        return CellRule(paths=names, known=_clocks(rule), asks=_asks(rule))
    values, to = tuple(rule.get("values", ())), tuple(rule.get("to", ()))
    event = _clocks(rule.get("event", ()))
    known = rule["known"]
    return CellRule(paths=names, known=_clocks(known), asks=_asks(known), event=event, values=values, to=to or values)


def _asks(texts: str | Sequence[str]) -> frozenset[tuple[str, str]]:
    parts = (part for text in _words(texts) for part in re.split(r"[|,()]", text))
    return frozenset((found[1], found[2]) for part in parts if (found := _BY.fullmatch(part)) is not None)


def _clocks(texts: str | Sequence[str]) -> tuple[Clock, ...]:
    return tuple(read_clock(text) for text in _words(texts))


def _words(words: str | Sequence[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
