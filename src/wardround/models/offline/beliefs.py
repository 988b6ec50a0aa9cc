"""Weighing findings: every label's evidence combined as if independent, the best kept with the rows behind them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_ROWS_CITED = 2


@dataclass(slots=True)
class _Belief:
    doubt: float = 1.0
    rows: dict[str, None] = field(default_factory=dict)


class Beliefs:
    """Labels with how much speaks for them: 1 - the product of (1 - weight)."""

    def __init__(self) -> None:
        self._held: dict[str, _Belief] = {}

    def add(self, label: str, weight: float, rows: Iterable[str] = ()) -> None:
        """Add one piece of evidence."""
        belief = self._held.setdefault(label, _Belief())
        belief.doubt *= 1 - min(max(weight, 0.0), 0.99)
        belief.rows.update(dict.fromkeys(rows))

    def best(self, *, least: float, most: int, fewest: int = 1) -> list[str]:
        """Return labels held at ``least`` or more, strongest first, between ``fewest`` and ``most`` of them."""
        ranked = sorted(self._held, key=lambda label: (round(self._held[label].doubt, 9), label))
        return [
            label for place, label in enumerate(ranked[:most]) if place < fewest or 1 - self._held[label].doubt >= least
        ]

    def rows(self, label: str) -> list[str]:
        """Return some rows that speak for a label."""
        return list(self._held[label].rows)[:_ROWS_CITED]
