"""Vasopressors on a chart: which run, and at what rate, as far as the chart shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from wardround.definitions.charted import Charted, in_unit

PRESSORS = ("norepinephrine", "epinephrine", "dopamine", "phenylephrine", "vasopressin", "dobutamine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stretch of an infusion. ``end`` is None while it runs; ``rate``: ug/kg/min, of vasopressin units/h, None where
    the chart shows none that could be read."""

    drug: str
    start: datetime
    end: datetime | None
    rate: float | None


@dataclass(frozen=True)
class Infusions:
    """The infusions of vasopressors of the newest stay."""

    charted: Charted

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Every stretch. The rate worked out is hidden until a stretch ends: so long the rate that was set counts."""
        columns = ("endtime", "rate", "originalrate", "rateuom", "patientweight")
        found = []
        for drug in PRESSORS:
            unit = self.charted.unit(drug)
            for row in self.charted.rows(drug, columns):
                rate = row["originalrate"] if row["rate"] is None else row["rate"]
                known = rate is not None and row["rateuom"]
                said = in_unit(rate, row["rateuom"], unit, weight=row["patientweight"]) if known else None
                found.append(Run(drug=drug, start=row["starttime"], end=row["endtime"], rate=said))
        return tuple(found)

    def now(self, at: datetime) -> dict[str, float | None]:
        """Return the rates in force, by drug."""
        return _highest(run for run in self.runs if run.start <= at and (run.end is None or run.end > at))

    def until(self, at: datetime) -> dict[str, float | None]:
        """Return the rates that were in force up to a moment, by drug: a stretch that ends there counts still."""
        return _highest(run for run in self.runs if run.start < at and (run.end is None or run.end >= at))


def _highest(runs: Iterable[Run]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for run in runs:
        held = found.get(run.drug, 0.0)
        found[run.drug] = None if held is None or run.rate is None else max(held, run.rate)
    return found
