"""One question: when a subject is asked, what the answer is, which rows say so, and what the curated input shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from wardround.benchmarks.clinseek.timeline import Timeline

HOUR = 3_600_000_000
MOST_EVENTS = 100
"""Of a curated input (EHR-R1 has up to 100 events of the last 24 hours)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StayQuestion:
    """Times in microseconds. ``asked`` is the moment of the question and the end of the curated input, ``curated_from``
    where that input begins; ``event`` is when the answer comes about (None: it never does). An empty ``target``: the
    record does not say what the answer is.

    ``settled``: when all is known that made it be asked (an event that follows in time, a stay that went on);
    where ``told_late``, the row of the ``stay`` must show its end too.
    ``row_ids``: rows that no chart may show yet; ``late_cells``: cells that must be empty, by row.
    """

    subject: int
    asked: int
    curated_from: int
    target: tuple[str, ...]
    settled: int
    stay: str
    told_late: bool
    event: int | None = None
    row_ids: tuple[str, ...] = ()
    late_cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Asking(Protocol):
    """How a task is asked. One question per subject, chosen before anybody's answer is looked at where that can be."""

    def unavailable(self) -> str | None:
        """Say why no subject of this store can be asked, None if one can."""

    @property
    def hangs_on(self) -> str:
        """The columns that decide whether and when a question is asked, for people."""

    def questions(self, timeline: Timeline) -> Sequence[StayQuestion]:
        """Return every question that a subject could be asked."""

    def question(self, timeline: Timeline, dropped: Counter[str]) -> StayQuestion | None:
        """Return a subject's question; None where it has none, and count why."""
