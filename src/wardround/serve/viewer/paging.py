"""A transcript cut into pages of a bounded size: whole calls where they fit, texts in parts where one alone is long.

Sizes are characters of the page, after escaping: a text of quotes is five times as long there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import escape

from wardround.serve.viewer.transcript import CallSection, TextBlock

FIRST_PAGE, PAGE = 60_000, 180_000
"""Characters of a page's transcript, the first beside the record; pictures are not counted."""
PART = 30_000
"""Characters of one part of a text."""
_FRAME, _ROW, _CELL = 400, 20, 14
"""What stands around a block, a row and a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptPage:
    """The sections of one page; ``goes_on``: whether its first one began on the page before."""

    sections: tuple[CallSection, ...]
    goes_on: bool = False

    @property
    def label(self) -> str:
        """Which calls stand on it."""
        turns = [one.turn.ordinal + 1 for one in self.sections if one.turn is not None]
        if not turns:
            return "notes" if self.sections else "none"
        return f"{turns[0]}" if len(turns) == 1 else f"{turns[0]} to {turns[-1]}"


def paged(sections: Sequence[CallSection], *, first: int = FIRST_PAGE, most: int = PAGE) -> tuple[TranscriptPage, ...]:
    """Cut a transcript into pages, the first of at most ``first`` characters; at least one page."""
    filler = _Filler(room=first, most=most)
    for section in sections:
        filler.add(section)
    return filler.finish()


@dataclass(slots=True, kw_only=True)
class _Filler:
    """Pages that are full, and the one that is being filled."""

    room: int
    most: int
    pages: list[TranscriptPage] = field(default_factory=list)
    held: list[CallSection] = field(default_factory=list)
    goes_on: bool = False

    def add(self, section: CallSection) -> None:
        """Put a section on the page, whole on the next one where it fits there alone, else block by block."""
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
        """The pages with the last one."""
        return (*self.pages, TranscriptPage(sections=tuple(self.held), goes_on=self.goes_on))


def labels(pages: Iterable[TranscriptPage]) -> list[str]:
    """Return what each page is called; where one is called as one before it, it is numbered."""
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
    """Characters that a block takes on a page."""
    if block.table is None:
        return _FRAME + escaped_size(block.text)
    table = block.table
    around = _FRAME + escaped_size(table.caption) + escaped_size(table.rest)
    return around + _row_size([name for name, _ in table.columns]) + sum(map(_row_size, table.rows))


def parts_of(block: TextBlock) -> Iterator[TextBlock]:
    """A block, or the parts of a long one: tables between rows, texts between lines or, where need be, within one."""
    if block_size(block) <= PART:
        yield block
        return
    if block.table is not None and max(map(_row_size, block.table.rows)) + len(block.table.caption) > PART:
        block = replace(block, table=None)  # a row alone is too long: its text can be cut anywhere
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
    """Characters of a text after escaping."""
    return len(escape(text))
