"""Passages and trajectories: what retrieval hands out, and how passages are cut and merged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from wardround.core import format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Events of one chart as lines of text, in time order.

    ``rows`` are places in the chart's event columns, one per line. ``start`` and ``end`` are the first and last time
    among them, None where no row has one. ``score`` is what it was chosen by (0 where nothing was scored). ``id`` names
    the rows it was cut from: the same rows of a grown history have the same id.
    """

    id: str
    lines: tuple[str, ...]
    rows: tuple[int, ...]
    start: datetime | None
    end: datetime | None
    score: float = 0.0

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorTrajectory:
    """The latest values of one indicator, oldest first. ``rows`` are their places, ``total`` how many there are."""

    name: str
    unit: str | None
    values: tuple[tuple[datetime | None, float], ...]
    rows: tuple[int, ...]
    total: int
    value_texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """One line: ``name (unit): value at time, ...``, with how many values are older."""
        unit = f" ({self.unit})" if self.unit else ""
        shown = ", ".join(
            f"{text} at {'no time' if time is None else format_time(time)}"
            for (time, _), text in zip(self.values, self.value_texts, strict=True)
        )
        older = self.total - len(self.values)
        return f"{self.name}{unit}: {shown}" + (f" ({older:,} older not shown)" if older else "")


def merge(*passages: Passage) -> Passage:
    """Eq. 5 of the EHR-RAG paper: the union of passages of one chart, each row once, in time order.

    Event columns are in time order, so the order of places is the order of times. The score is the best one.
    """
    lines: dict[int, str] = {}
    for passage in passages:
        lines.update(zip(passage.rows, passage.lines, strict=True))
    rows = tuple(sorted(lines))
    return Passage(
        id="+".join(sorted({passage.id for passage in passages if passage.rows})),
        lines=tuple(lines[row] for row in rows),
        rows=rows,
        start=min((passage.start for passage in passages if passage.start is not None), default=None),
        end=max((passage.end for passage in passages if passage.end is not None), default=None),
        score=max((passage.score for passage in passages), default=0.0),
    )


def chunk_bounds(rows: int, *, size: int, overlap: int) -> tuple[tuple[int, int], ...]:
    """Cut ``rows`` rows into chunks of ``size`` that share ``overlap`` with the one before, from the beginning.

    Cut from the beginning, a full chunk stays what it is when rows are added at the end, and so does its vector. No
    chunk holds nothing but rows of the one before.
    """
    if rows <= size:
        return ((0, rows),) if rows else ()
    step = size - overlap
    return tuple((start, min(start + size, rows)) for start in range(0, rows - overlap, step))
