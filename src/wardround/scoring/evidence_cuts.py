"""Where the budget cut a method's evidence: its figures are then those of the method in that budget, and tables say so.

An episode's loss is that of the prompt that lost most: the actor's, or one of a reader beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

PACKAGE = "curated"
NOTES = ("evidence", PACKAGE)
"""The kinds of notes in which an agent says what of its evidence a prompt shows; ``PACKAGE`` is that of an evidence
package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCut:
    """In how many of the ``of`` episodes with evidence events were left out, and the mean number of these."""

    episodes: int
    of: int
    events: float = 0.0

    def __str__(self) -> str:
        return f"{self.episodes:,} of {self.of:,} episodes ({self.events:,.0f} events each)"

    @property
    def short(self) -> str:
        """For a cell of a table."""
        return f"{self.episodes:,} of {self.of:,}" + (f" (-{self.events:,.0f})" if self.episodes else "")


def events_left_out(details: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many events the worst of an episode's prompts lost, by its notes; None where it had no evidence."""
    lost = [int(detail.get("events_left_out", 0)) for detail in details]
    return max(lost) if lost else None


def package_hours(details: Iterable[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return how many hours before the question an evidence package shows, and how many it would without a cut."""
    said = [(float(one["hours_shown"]), float(one["hours"])) for one in details if "hours" in one]
    return said[-1] if said else None


def evidence_cut(lost: Iterable[int | None]) -> EvidenceCut | None:
    """Sum up episodes; None where none had evidence."""
    known = [events for events in lost if events is not None]
    if not known:
        return None
    cut = [events for events in known if events]
    return EvidenceCut(episodes=len(cut), of=len(known), events=fmean(cut) if cut else 0.0)
