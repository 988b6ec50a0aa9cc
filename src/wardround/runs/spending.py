"""What a run has cost so far, by the logs of all of its workers, and the limit at which it hands out no more."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import UserError
from wardround.log import LogReader
from wardround.runs.folder import RunFolder
from wardround.runs.settings import RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """``cost`` in US dollars of the calls that are recorded; ``unpriced`` counts those whose cost is not known."""

    cost: float
    unpriced: int

    @classmethod
    def of(cls, folder: RunFolder) -> Spending:
        """Sum over all logs of a run, also while they are being written."""
        with LogReader(folder.logs, may_be_empty=True) as reader:
            costs = list(reader.costs().values())
        return cls(cost=sum(cost for cost in costs if cost is not None), unpriced=costs.count(None))

    def reaches(self, limit: float | None) -> bool:
        """Say whether nothing more may be begun under this limit."""
        return limit is not None and self.cost >= limit


def must_have_prices(settings: RunSettings, limit: float | None) -> None:
    """Raise UserError where cost is limited and a model of the run has no price: its cost would never be known."""
    unpriced = [name for name in settings.run.models if settings.model_named(name).known_price is None]
    if limit is not None and unpriced:
        raise UserError(
            f"--max-cost needs the price of {', '.join(unpriced)}: a new run takes --set model.price=INPUT,OUTPUT "
            "(US dollars per million tokens)"
        )
