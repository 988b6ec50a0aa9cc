"""Corrupt successes: answers that are right while the rows cited for them are wrong or were never read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring.episodes import EpisodeScore
from wardround.tasks.scoring.scorer import scorer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Successes:
    """Episodes with a right answer. ``cited`` of them cite rows, the others cannot be judged; ``corrupt`` of those cite
    at least one row that does not exist, was not read or does not support the answer (where the
    answer is a class, no row names it, and support is not checked).
    ``unread`` of those cite a missing or unread row; the others cite only rows that do not support the answer."""

    right: int = 0
    cited: int = 0
    corrupt: int = 0
    unread: int = 0

    @property
    def uncited(self) -> int:
        """Right answers without any citation."""
        return self.right - self.cited

    @property
    def share(self) -> float | None:
        """Return the share of corrupt ones among right answers with citations; None without such answers."""
        return self.corrupt / self.cited if self.cited else None

    @property
    def short(self) -> str:
        """The corrupt ones in a table's cell; empty where no right answer cites a row."""
        return "" if self.share is None else f"{self.corrupt} of {self.cited} ({self.share:.0%})"


def successes(scores: Iterable[EpisodeScore]) -> Successes:
    """Count right, cited and corrupt answers among some episodes."""
    right = [score for score in scores if score.right]
    cited = [score for score in right if score.grounding.citations]
    return Successes(
        right=len(right),
        cited=len(cited),
        corrupt=sum(map(_cites_a_wrong_row, cited)),
        unread=sum(map(_cites_an_unread_row, cited)),
    )


def _cites_a_wrong_row(score: EpisodeScore) -> bool:
    """Whether support counts depends on the kind of answer: a row that names a disease can be seen to support it, none
    names a class."""
    counts = score.grounding
    if scorer_of(get_task(score.task).answer).rows_name_answers:
        return counts.passed < counts.citations
    return _cites_an_unread_row(score)


def _cites_an_unread_row(score: EpisodeScore) -> bool:
    """A missing row cannot have been read, but an episode may have been shown its name."""
    return min(score.grounding.existing, score.grounding.read) < score.grounding.citations
