"""A candidate found, and how several rankings become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RANK_OFFSET = 3  # reciprocal rank fusion's k; the usual 60 suits lists of a thousand, these have a few dozen


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMatch:
    """A label with its similarity (0 to 1, comparable within one answer only) and the reason in words."""

    label: str
    similarity: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Label positions best first, how much the list counts, and what to say of its members."""

    labels: Sequence[int]
    weight: float
    why: str


def fuse(rankings: Iterable[Ranking], limit: int) -> list[tuple[int, float, str]]:
    """Weighted reciprocal rank fusion: (label, share of the best possible sum, reason of its best rank)."""
    sums: dict[int, float] = {}
    reasons: dict[int, tuple[float, str]] = {}
    ceiling = 0.0
    for ranking in rankings:
        ceiling += ranking.weight / (RANK_OFFSET + 1)
        for rank, label in enumerate(dict.fromkeys(ranking.labels), start=1):
            share = ranking.weight / (RANK_OFFSET + rank)
            sums[label] = sums.get(label, 0.0) + share
            if share > reasons.get(label, (0.0, ""))[0]:
                reasons[label] = (share, ranking.why)
    best = sorted(sums, key=lambda label: (-sums[label], label))[:limit]
    return [(label, sums[label] / ceiling, reasons[label][1]) for label in best]
