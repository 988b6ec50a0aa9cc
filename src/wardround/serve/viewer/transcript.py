"""The transcript of an episode in pages, with result tables and served experiences."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from markupsafe import escape

from wardround.agents.loop import STEP_NOTE
from wardround.core import Message, Picture
from wardround.log import Note, ToolRecord, Trajectory, Turn
from wardround.tools.render import DITTO, SEPARATOR

# A tool's result as a typed table: the cells of its text, with the kind of every column.
#
# Only the text that the model was shown is read; a text that is not a table stays a text.


ColumnKind = Literal["number", "time", "text"]
_NUMBER = re.compile(r"[<>]?-?\d[\d,]*(\.\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?")
_FEWEST = 2
"""The smallest number of lines of a table, its header included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """Lines before the header, the columns with their kinds, rows of cells, and lines after them."""

    caption: str
    columns: tuple[tuple[str, ColumnKind], ...]
    rows: tuple[tuple[str, ...], ...]
    rest: str = ""

    def part(self, start: int, stop: int) -> ResultTable:
        """Return some of its rows; the lines after them only with the last part."""
        rest = self.rest if stop >= len(self.rows) else ""
        return replace(self, rows=self.rows[start:stop], rest=rest)


def read_table(text: str) -> ResultTable | None:
    """Return the table in a result's text; None if there is none, or if a cell contains the separator."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if SEPARATOR in line), None)
    if first is None:
        return None
    header = lines[first].split(SEPARATOR)
    rows = _rows(lines[first + 1 :], len(header))
    if len(rows) < _FEWEST - 1:
        return None
    columns = zip(*rows, strict=True)
    return ResultTable(
        caption="\n".join(lines[:first]),
        columns=tuple((name, _kind(cells)) for name, cells in zip(header, columns, strict=True)),
        rows=tuple(rows),
        rest="\n".join(lines[first + 1 + len(rows) :]).strip("\n"),
    )


def _rows(lines: Sequence[str], width: int) -> list[tuple[str, ...]]:
    """Return the lines with this number of cells, up to the first other line."""
    found: list[tuple[str, ...]] = []
    for line in lines:
        cells = tuple(line.split(SEPARATOR))
        if len(cells) != width:
            break
        found.append(cells)
    return found


def _kind(cells: Sequence[str]) -> ColumnKind:
    """Return the common kind of all filled cells; a sign for "as above" is ignored."""
    said = [cell for cell in cells if cell and cell != DITTO]
    if said and all(_NUMBER.fullmatch(cell) for cell in said):
        return "number"
    return "time" if said and all(_TIME.fullmatch(cell) for cell in said) else "text"


# The messages of an episode, in order: each once, under the first model call whose prompt has it.
#
# An assistant's messages are the replies, a tool's are the results; the others (question, reminders, summaries,
# experiences) are where they were added.


BlockKind = Literal["shown", "reasoning", "reply", "call", "result", "note"]
_SAID_ELSEWHERE = ("assistant", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """One text, or a part of one. ``table``: the same text as cells; ``missed``: the tool refused the call; ``part``:
    which of how many parts."""

    kind: BlockKind
    title: str
    text: str
    table: ResultTable | None = None
    missed: bool = False
    pictures: tuple[Picture, ...] = ()
    part: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSection:
    """The blocks of one model call, or the runtime's notes if there is no ``turn``."""

    turn: Turn | None
    blocks: tuple[TextBlock, ...]

    @property
    def anchor(self) -> str:
        """Its name in a page's address."""
        return "notes" if self.turn is None else f"turn-{self.turn.ordinal}"


def transcript(trajectory: Trajectory) -> tuple[CallSection, ...]:
    """Return the whole episode in order, the runtime's notes last."""
    shown: set[tuple[str, str | None]] = set()
    sections = [CallSection(turn=turn, blocks=tuple(_blocks(turn, shown))) for turn in trajectory.turns]
    notes = CallSection(turn=None, blocks=tuple(map(_note, trajectory.notes)))
    return (*sections, *([notes] if notes.blocks else []))


def _blocks(turn: Turn, shown: set[tuple[str, str | None]]) -> Iterator[TextBlock]:
    for message in turn.prompt:
        key = (message.role, message.content)
        if message.role not in _SAID_ELSEWHERE and key not in shown:
            shown.add(key)
            yield _message(message)
    if turn.reasoning:
        yield TextBlock(kind="reasoning", title="reasoning", text=turn.reasoning)
    if turn.reply.content:
        yield TextBlock(kind="reply", title="reply", text=turn.reply.content)
    if not turn.results:
        yield from (TextBlock(kind="call", title=call.name, text=call.arguments) for call in turn.reply.tool_calls)
    for record in turn.results:
        yield TextBlock(kind="call", title=record.call.name, text=record.call.arguments)
        yield _result(record)


def _message(message: Message) -> TextBlock:
    return TextBlock(kind="shown", title=message.role, text=message.content or "", pictures=_kept(message.pictures))


def _result(record: ToolRecord) -> TextBlock:
    counted = "" if record.rows_total is None else f": {record.rows_shown or 0:,} of {record.rows_total:,} rows"
    return TextBlock(
        kind="result",
        title=f"{record.call.name}{counted}{': refused' if record.is_error else ''}",
        text=record.result_text,
        table=None if record.is_error else read_table(record.result_text),
        missed=record.is_error,
        pictures=_kept(record.pictures),
    )


def _kept(pictures: Sequence[Picture]) -> tuple[Picture, ...]:
    return tuple(picture for picture in pictures if picture.data)


def _note(note: Note) -> TextBlock:
    title = note.kind
    if title == STEP_NOTE:
        title = f"{note.kind} {note.detail.get('step')}, {note.detail.get('hour')}"
    return TextBlock(kind="note", title=title, text=json.dumps(note.detail, ensure_ascii=False))


# A transcript in pages of limited size: whole calls if they fit; a long text is divided into parts.
#
# Sizes are characters of the page, after escaping, which can make a text five times as long.


FIRST_PAGE, PAGE = 60_000, 180_000
"""Characters of a page's transcript, the first beside the record; pictures are not counted."""
PART = 30_000
"""Characters of one part of a text."""
_FRAME, _ROW, _CELL = 400, 20, 14
"""Characters of the markup around a block, a row and a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptPage:
    """The sections of one page; ``goes_on``: whether its first one began on the page before."""

    sections: tuple[CallSection, ...]
    goes_on: bool

    @property
    def label(self) -> str:
        """The calls on the page."""
        turns = [section.turn.ordinal + 1 for section in self.sections if section.turn is not None]
        if not turns:
            return "notes" if self.sections else "none"
        return f"{turns[0]}" if len(turns) == 1 else f"{turns[0]} to {turns[-1]}"


def paged(sections: Sequence[CallSection], *, first: int = FIRST_PAGE, most: int = PAGE) -> tuple[TranscriptPage, ...]:
    """Divide a transcript into pages, the first of at most ``first`` characters; at least one page."""
    filler = _Filler(room=first, most=most)
    for section in sections:
        filler.add(section)
    return filler.finish()


@dataclass(slots=True, kw_only=True)
class _Filler:
    """Full pages, and the one that is being filled."""

    room: int
    most: int
    pages: list[TranscriptPage] = field(default_factory=list)
    held: list[CallSection] = field(default_factory=list)
    goes_on: bool = False

    def add(self, section: CallSection) -> None:
        """Add a section: to this page, to the next one if it fits there as a whole, else block by block."""
        parts = [part for block in section.blocks for part in parts_of(block)]
        size = _FRAME + sum(map(block_size, parts))
        if self.room < size <= self.most and self.held:
            self._turn_over(goes_on=False)
        self._hold(replace(section, blocks=()), _FRAME)
        for part in parts:
            self._add_block(section, part)

    def _add_block(self, section: CallSection, block: TextBlock) -> None:
        size = block_size(block)
        if size > self.room and self.held[-1].blocks:
            self._turn_over(goes_on=True)
            self._hold(replace(section, blocks=()), _FRAME)
        self.held[-1] = replace(section, blocks=(*self.held[-1].blocks, block))
        self.room -= size

    def _hold(self, section: CallSection, size: int) -> None:
        self.held.append(section)
        self.room -= size

    def _turn_over(self, *, goes_on: bool) -> None:
        self.pages.append(TranscriptPage(sections=tuple(self.held), goes_on=self.goes_on))
        self.held, self.room, self.goes_on = [], self.most, goes_on

    def finish(self) -> tuple[TranscriptPage, ...]:
        """Return the pages, with the last one."""
        return (*self.pages, TranscriptPage(sections=tuple(self.held), goes_on=self.goes_on))


def labels(pages: Iterable[TranscriptPage]) -> list[str]:
    """Return the label of each page; a repeated label gets a number."""
    called: Counter[str] = Counter()
    found = []
    for page in pages:
        called[page.label] += 1
        found.append(page.label if called[page.label] == 1 else f"{page.label} ({called[page.label]})")
    return found


def places(pages: Iterable[TranscriptPage]) -> dict[str, int]:
    """Return the number of the page, from 1, on which each section begins."""
    found: dict[str, int] = {}
    for number, page in enumerate(pages, start=1):
        for section in page.sections:
            found.setdefault(section.anchor, number)
    return found


def block_size(block: TextBlock) -> int:
    """Return the characters of a block on a page."""
    if block.table is None:
        return _FRAME + escaped_size(block.text)
    table = block.table
    around = _FRAME + escaped_size(table.caption) + escaped_size(table.rest)
    return around + _row_size([name for name, _ in table.columns]) + sum(map(_row_size, table.rows))


def parts_of(block: TextBlock) -> Iterator[TextBlock]:
    """Yield a block, or the parts of a long one: tables are divided between rows, texts between lines or, if necessary,
    within one."""
    if block_size(block) <= PART:
        yield block
        return
    if block.table is not None and max(map(_row_size, block.table.rows)) + len(block.table.caption) > PART:
        block = replace(block, table=None)  # a single row is too long: its text is divided anywhere
    parts = list(_table_parts(block) if block.table is not None else _text_parts(block))
    for number, part in enumerate(parts, start=1):
        yield replace(part, part=(number, len(parts)), pictures=block.pictures if number == 1 else ())


def _table_parts(block: TextBlock) -> Iterator[TextBlock]:
    table, start, size = block.table, 0, 0
    assert table is not None
    for place, row in enumerate(table.rows):
        size += _row_size(row)
        if size > PART and place > start:
            yield replace(block, table=table.part(start, place))
            start, size = place, _row_size(row)
    yield replace(block, table=table.part(start, len(table.rows)))


def _text_parts(block: TextBlock) -> Iterator[TextBlock]:
    held, size = "", 0
    for line in _short_lines(block.text):
        added = escaped_size(line)
        if held and size + added > PART:
            yield replace(block, text=held)
            held, size = "", 0
        held, size = held + line, size + added
    yield replace(block, text=held)


def _short_lines(text: str) -> Iterator[str]:
    longest = PART // 5  # escaped, a character becomes five at most
    for line in text.splitlines(keepends=True):
        yield from (line[start : start + longest] for start in range(0, len(line), longest))


def _row_size(cells: Iterable[str]) -> int:
    return _ROW + sum(_CELL + escaped_size(cell) for cell in cells)


def escaped_size(text: str) -> int:
    """Return the characters of a text after escaping."""
    return len(escape(text))


# The experiences that an episode was served, and why, from the runtime's notes.


Title = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedExperience:
    """One experience: its name, why it was served, and the result (shown, masked at random, rejected by a guard, no
    room in the prompt)."""

    id: str
    kind: str
    title: str
    why: str
    became: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """All experiences of an episode, and by reason how many the bank's guards rejected."""

    served: tuple[ServedExperience, ...]
    withheld: Mapping[str, int]
    revision: int | None


def serving_of(notes: Sequence[Note], title: Title) -> Serving | None:
    """Return the experiences of an episode; None if it used no bank."""
    asked = [note.detail for note in notes if note.kind == "experiences"]
    if not asked:
        return None
    no_room = {name for note in notes if note.kind == "experiences_left_out" for name in note.detail["left_out"]}
    withheld: dict[str, int] = {}
    for detail in asked:
        for reason, number in detail.get("withheld", {}).items():
            withheld[reason] = withheld.get(reason, 0) + number
    return Serving(
        served=tuple(one for detail in asked for one in served_by(detail, no_room, title)),
        withheld={reason: number for reason, number in withheld.items() if number},
        revision=next((detail["bank_revision"] for detail in asked if "bank_revision" in detail), None),
    )


def served_by(
    detail: Mapping[str, Any], no_room: Collection[str] = (), title: Title = str
) -> Iterator[ServedExperience]:
    """Yield the experiences of one note: served ones, those masked at random, and those that did not apply to the
    case."""
    kind = str(detail.get("kind", ""))
    for one in detail.get("served", ()):
        name = str(one["id"])
        became = "no room in the prompt" if name in no_room else "shown"
        yield _served(name, str(one.get("kind", kind)), title, became, _why(one))
    for name in detail.get("masked", ()):
        yield _served(name, kind, title, "masked at random")
    for name, reason in detail.get("barred", {}).items():
        yield _served(name, "", title, "not served", str(reason))


def _served(name: str, kind: str, title: Title, became: str, why: str = "") -> ServedExperience:
    return ServedExperience(id=name, kind=kind, title=title(name) or name, why=why, became=became)


def _why(one: Mapping[str, Any]) -> str:
    """Return why an experience was served: in words, with what did not match or could not be checked."""
    parts = [str(one["why"])] if one.get("why") else []
    if one.get("similarity") is not None:
        parts.append(f"similarity {one['similarity']:.3f}")
    for name, said in (("conflicts", "conflicts with"), ("unchecked", "not checked on the chart:")):
        if one.get(name):
            parts.append(f"{said} {', '.join(map(str, one[name]))}")
    return "; ".join(parts)
