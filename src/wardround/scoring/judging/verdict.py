"""What a judge says of one answer, and the figures that code makes of it.

Efficiency: the share of the points of the reasoning that bring it on. Factuality: the share of those that are true.
Completeness: the share of the reference's points that the reasoning holds. R is their mean. The definitions are ours:
the GSEM paper names the three and defines none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from wardround.codes import LabelSet

REASONING_FIGURES = ("efficiency", "factuality", "completeness", "R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer says the same as the right one, ``why``, by which ``judge``; the figures of its reasoning,
    none where that was not judged."""

    right: bool
    judge: str
    why: str = ""
    reasoning: Mapping[str, float] = field(default_factory=dict)

    def labels(self, answer: Collection[str], target: str) -> LabelSet:
        """Return how an answer is spelt: what the judge calls right is another spelling of the target."""
        spellings = dict.fromkeys(answer, target) if self.right else {}
        return LabelSet(name=self.judge, labels=(target,), aliases=spellings)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self) | {"reasoning": dict(self.reasoning)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Verdict:
        """Read what :meth:`to_json` wrote."""
        return cls(**body)


def reasoning_figures(
    points: int, useful: Collection[int], true: Collection[int], reference: int, covered: Collection[int]
) -> dict[str, float]:
    """Return efficiency, factuality, completeness and R of a reasoning of so many points, numbered from 1, against a
    reference of so many. None of them where there is no reference; without a single point, all are 0."""
    if not reference:
        return {}
    bring_on = set(useful) & set(range(1, points + 1))
    figures = {
        "efficiency": len(bring_on) / points if points else 0.0,
        "factuality": len(bring_on & set(true)) / len(bring_on) if bring_on else 0.0,
        "completeness": len(set(covered) & set(range(1, reference + 1))) / reference,
    }
    return figures | {"R": fmean(figures.values())}
