"""``retrieve_evidence``: return the parts of the chart that are relevant to a question in words (ETHER without a
model).

The rows of each passage that are most similar to the question are shown; repeated statements are shown once. A cursor
reads the whole passage. Every row has its id, so that it can be cited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from wardround.core import ToolFailure, estimate_tokens, format_time
from wardround.tools.definition import Range, tool
from wardround.tools.render import SEPARATOR
from wardround.tools.retrieval import EvidenceIndex, IndicatorTrajectory, Passage
from wardround.tools.session import Page, Session, ToolResult

_CAPTION_TOKENS = 70
_ROWS_PER_PASSAGE = (12, 10, 8, 6, 5, 4, 3, 2, 1)
_INDICATORS_FIRST = 2
_CHARACTERS_PER_TOKEN = 3
_MOST_PASSAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of a result and the rows whose content is in it."""

    text: str
    rows: tuple[int, ...] = ()


@tool("retrieval")
def retrieve_evidence(
    session: Session,
    page: Page,
    *,
    query: Annotated[str, "What to look for, in a few clinical words."],
    limit: Annotated[int, Range(0, _MOST_PASSAGES), "How many passages; 0 for the usual number."] = 0,
) -> ToolResult:
    """Search the whole chart for what bears on a question: the latest values of the nearest measurements, and the
    nearest passages of all other events, early and recent ones before those in between."""
    wanted = " ".join(query.split())
    if not wanted:
        raise ToolFailure("retrieve_evidence: 'query' is empty; say in a few words what to look for.")
    index = session.evidence
    if not len(index):
        return ToolResult(text="evidence: the chart has no events yet.", rows_total=0, rows_shown=0)
    passages = index.text_evidence(wanted, limit or None)
    named = index.coarse_indicators(wanted, index.settings.fine)
    trajectories = index.trajectories(named)
    whole = page.part(partial(_read_passage, session, query, limit), "read_passage", {"query": query, "limit": limit})
    first, more = trajectories[:_INDICATORS_FIRST], trajectories[_INDICATORS_FIRST:]
    numbers = _indicator_lines(index, first, "latest values of the nearest indicators")
    room = page.tokens - _CAPTION_TOKENS - _tokens(numbers)
    words = _passage_lines(index, wanted, passages, whole.cursor, room)
    lines = [*numbers, *words, *_indicator_lines(index, more, "further indicators")]
    rows = sum(map(len, passages))
    short = wanted if len(wanted) <= 60 else wanted[:57] + "..."
    about = f"evidence for {short!r}: {_count(len(trajectories), 'indicator')}, "
    about += f"{_count(len(passages), 'passage')} of {rows:,} of the chart's {len(index):,} events"
    return _page(session, page, about, lines)


def _read_passage(session: Session, query: str, limit: int, page: Page) -> ToolResult:
    """Return one passage of a result, all rows in time order. The page's offset counts rows over all passages."""
    index = session.evidence
    passages = index.text_evidence(" ".join(query.split()), limit or None)
    start, place = 0, 0
    while page.offset >= start + len(passages[place]):
        start, place = start + len(passages[place]), place + 1
    passage = passages[place]
    lines = _rows(index, passage, range(len(passage)))
    return _page(session, page, f"passage {place + 1} of {len(passages)}{_span(passage)}", lines, first=start)


def _page(session: Session, page: Page, about: str, lines: Sequence[_Line], *, first: int = 0) -> ToolResult:
    """Return as many lines as the page holds, at least one; ``first`` is the offset of the first line."""
    budget = page.tokens - _CAPTION_TOKENS
    offset = page.offset - first
    shown: list[_Line] = []
    for line in lines[offset:]:
        budget -= estimate_tokens(line.text) + 1
        if shown and budget < 0:
            break
        shown.append(line)
    end = offset + len(shown)
    cursor = page.cursor(first + end) if end < len(lines) else None
    count = f", lines {offset + 1:,}-{end:,} of {len(lines):,}" if offset or cursor else ""
    rest = f", cursor={cursor} for the next" if cursor else ""
    rows = tuple(dict.fromkeys(row for line in shown for row in line.rows))
    columns = session.evidence.columns
    tables = sorted({columns.table_names[columns.table[row]] for row in rows})
    room = max(80, (page.tokens - _CAPTION_TOKENS) * _CHARACTERS_PER_TOKEN)
    texts = (
        line.text if len(line.text) <= room else f"{line.text[:room]} [{len(line.text) - room:,} more characters]"
        for line in shown
    )
    return ToolResult(
        text="\n".join([f"{about}{count}{rest}", *texts]),
        table=", ".join(tables) or None,
        row_ids=session.evidence.row_ids(rows),
        rows_total=len({row for line in lines for row in line.rows}),
        rows_shown=len(rows),
        cursor=cursor,
    )


def _indicator_lines(index: EvidenceIndex, trajectories: Sequence[IndicatorTrajectory], title: str) -> list[_Line]:
    if not trajectories:
        return []
    return [_Line(text=f"{title}, oldest first:"), *(_indicator_line(index, trajectory) for trajectory in trajectories)]


def _indicator_line(index: EvidenceIndex, trajectory: IndicatorTrajectory) -> _Line:
    unit = f" ({trajectory.unit})" if trajectory.unit else ""
    times = ["no time" if time is None else format_time(time) for time, _ in trajectory.values]
    values = zip(trajectory.value_texts, times, index.row_ids(trajectory.rows), strict=True)
    older = trajectory.total - len(trajectory.rows)
    text = ", ".join(f"{value} at {time} [{row_id}]" for value, time, row_id in values)
    text = f"{trajectory.name}{unit}: {text}" + (f" ({older:,} older not shown)" if older else "")
    return _Line(text=text, rows=trajectory.rows)


def _passage_lines(
    index: EvidenceIndex, query: str, passages: Sequence[Passage], whole: Callable[[int], str], room: int
) -> list[_Line]:
    """Return the best rows of each passage: as many as fit every passage into ``room`` tokens, at least one of each."""
    if not passages:
        return []
    starts = np.cumsum([0, *map(len, passages)]).tolist()
    ranked = [_ranked(index, query, passage) for passage in passages]
    for most in _ROWS_PER_PASSAGE:
        lines: list[_Line] = []
        for number, (passage, statements) in enumerate(zip(passages, ranked, strict=True), start=1):
            chosen = sorted(statements[:most])
            cut = len(chosen) < len(passage)
            count = f"{len(chosen)} of {len(passage)} rows, all: cursor={whole(starts[number - 1])}" if cut else "whole"
            lines.append(_Line(text=f"passage {number} of {len(passages)}{_span(passage)}, {count}"))
            rows = _rows(index, passage, [place for place, _ in chosen])
            for line, (_, repeated) in zip(rows, chosen, strict=True):
                note = f" ({repeated} more of the same in this passage)" if repeated else ""
                lines.append(_Line(text=line.text + note, rows=line.rows))
        if _tokens(lines) <= room:
            break
    return lines


def _ranked(index: EvidenceIndex, query: str, passage: Passage) -> list[tuple[int, int]]:
    """Return the statements of a passage, the most like the query first: the place of the latest row that makes it,
    and how many others do. When an event was is left out of the comparison."""
    places: dict[str, list[int]] = {}
    for place, line in enumerate(passage.lines):
        places.setdefault(line.partition("] ")[2], []).append(place)
    statements = [(made[-1], len(made) - 1) for made in places.values()]
    vectors = index.encoder.encode([query, *places])
    likeness = (vectors[1:] @ vectors[0]).astype(np.float64)
    order = np.lexsort(([-place for place, _ in statements], -likeness))
    return [statements[number] for number in order.tolist()]


def _tokens(lines: Sequence[_Line]) -> int:
    return sum(estimate_tokens(line.text) + 1 for line in lines)


def _rows(index: EvidenceIndex, passage: Passage, places: Sequence[int]) -> list[_Line]:
    rows = [passage.rows[place] for place in places]
    return [
        _Line(text=f"{row_id}{SEPARATOR}{passage.lines[place]}", rows=(row,))
        for place, row, row_id in zip(places, rows, index.row_ids(rows), strict=True)
    ]


def _span(passage: Passage) -> str:
    if passage.start is None or passage.end is None:
        return ", no times"
    return f", {format_time(passage.start)} to {format_time(passage.end)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
