"""A swap table as data: for every file of a source, what of it could be known when, and what is an outcome."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from wardround.audits.swap.clocks import Cells, Clock, read_clock
from wardround.core import RecordError, UserError

_KNOWN = (
    "where",
    "row",
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
    """Cells that are known later than their row. ``values``: only where the cell is one of these; ``to``: what it may
    become instead of any value that the column has elsewhere."""

    paths: tuple[str, ...]
    known: tuple[Clock, ...]
    values: tuple[str, ...] = ()
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Rows of one ``group`` are one row until a moment: their number is a result."""

    group: tuple[str, ...]
    known: tuple[Clock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeRule:
    """What of a file's rows could be known when. ``exchange``: a column's words for died and survived, or the column
    that gives the time of a death that now happens (``later``: some time later). ``links`` stay as they are; ``key`` is
    the row's own numbers. ``keep_sections``: headed parts of texts that are older than the text. ``outcome``: that
    there is such a row at all is how it ended, as a death is. ``moved``: columns whose late times move and are never
    taken away."""

    where: Mapping[str, tuple[str, ...]]
    row: tuple[Clock, ...]
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
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapTable:
    """What is known of one source. ``fixed`` files hold nothing of a person."""

    name: str
    form: Literal["tables", "resources"]
    subject: str
    subject_by: tuple[str, str] | None
    minutes_of: str | None
    fixed: tuple[str, ...]
    anchors: tuple[Anchor, ...]
    rules: Mapping[str, tuple[KnowledgeRule, ...]]
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
    return SwapTable(
        name=source["name"],
        form=source.get("form", "tables"),
        subject=source["subject"],
        subject_by=None if by is None else (by["file"], by["key"]),
        minutes_of=source.get("minutes_of"),
        fixed=tuple(source.get("fixed", ())),
        anchors=tuple(_anchor(name, part) for name, part in content.get("anchors", {}).items()),
        rules={name: tuple(_rules(name, parts, numbers)) for name, parts in content["files"].items()},
    )


def _anchor(name: str, part: Mapping[str, Any]) -> Anchor:
    where = {path: _words(words) for path, words in part.get("where", {}).items()}
    return Anchor(name=name, file=part["file"], key=part["key"], latest=_clocks(part["latest"]), where=where)


def _rules(name: str, parts: Any, numbers: tuple[str, ...]) -> Iterator[KnowledgeRule]:
    for part in parts if isinstance(parts, list) else [parts]:
        strange = sorted(part.keys() - set(_KNOWN))
        if strange:
            raise RecordError(f"swap table, {name}: unknown key {', '.join(strange)}")
        repeat = part.get("repeat")
        yield KnowledgeRule(
            where={path: _words(words) for path, words in part.get("where", {}).items()},
            row=_clocks(part["row"]),
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
        )


def _cell_rule(paths: str, rule: Any) -> CellRule:
    names = tuple(path.strip() for path in paths.split(","))
    if not isinstance(rule, Mapping):
        return CellRule(paths=names, known=_clocks(rule))
    values, to = tuple(rule.get("values", ())), tuple(rule.get("to", ()))
    return CellRule(paths=names, known=_clocks(rule["known"]), values=values, to=to or values)


def _clocks(texts: str | Sequence[str]) -> tuple[Clock, ...]:
    return tuple(read_clock(text) for text in _words(texts))


def _words(words: str | Sequence[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
