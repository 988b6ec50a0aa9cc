"""What a judge says of one answer, and the figures that code makes of it.

Efficiency: the share of the points of the reasoning that bring it on. Factuality: the share of those that are true.
Completeness: the share of the reference's points that the reasoning holds. R is their mean (GSEM, table 4). How the
points are marked is the judge's protocol: ``points`` is ours, ``medr-bench`` that of MedR-Bench's public code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Literal

from wardround.codes import LabelSet

REASONING_FIGURES = ("efficiency", "factuality", "completeness", "R")
JudgeProtocol = Literal["points", "medr-bench"]
POINTS: JudgeProtocol = "points"
MEDR_BENCH_JUDGE: JudgeProtocol = "medr-bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer says the same as the right one, and ``why``.

    ``judge`` and ``protocol`` say who decided (no protocol: words alone). ``reasoning`` holds the figures of the
    reasoning, none where that was not judged.
    """

    right: bool
    judge: str
    why: str = ""
    protocol: str = ""
    reasoning: Mapping[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """The figures of the reasoning, each named with its protocol: two protocols' are no measure of each other."""
        return {f"{name} ({self.protocol})": value for name, value in self.reasoning.items()}

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
