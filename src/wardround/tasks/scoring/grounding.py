"""Grounding: of the rows an answer cites, how many exist, were read, and speak for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from wardround.clinical.codes import normalise_label


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundingCounts:
    """Citations of one or many episodes. ``passed`` ones exist on the chart, were read and support their answer;
    ``backed`` of the ``answers`` have at least one of those."""

    citations: int = 0
    existing: int = 0
    read: int = 0
    supporting: int = 0
    passed: int = 0
    answers: int = 0
    backed: int = 0

    @classmethod
    def total(cls, counts: Iterable[GroundingCounts]) -> GroundingCounts:
        """Add up the counts of many episodes, column by column; most of them cite nothing."""
        telling = [one for one in counts if one.citations or one.answers]
        return cls(**{name: sum(map(attrgetter(name), telling)) for name in cls.__slots__})

    @property
    def share(self) -> float | None:
        """The grounding metric: passed / citations; None where nothing was cited."""
        return self.passed / self.citations if self.citations else None


def grounding_counts(citations: Iterable[Mapping[str, Any]], answer: Sequence[str] | None) -> GroundingCounts:
    """Count the citation checks of an outcome (``answer``, ``row_id``, ``exists``, ``read``, ``supports``)."""
    checked = list(citations)
    passed = [one for one in checked if one["exists"] and one["read"] and one["supports"]]
    answers = {normalise_label(text) for text in answer or ()}
    return GroundingCounts(
        citations=len(checked),
        existing=sum(bool(one["exists"]) for one in checked),
        read=sum(bool(one["read"]) for one in checked),
        supporting=sum(bool(one["supports"]) for one in checked),
        passed=len(passed),
        answers=len(answers),
        backed=len(answers & {normalise_label(one["answer"]) for one in passed}),
    )
