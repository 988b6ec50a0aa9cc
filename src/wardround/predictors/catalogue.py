"""The predictors by name: EHRSHOT's baselines on counts, a head on vectors, and plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wardround.core import Registry, UserError
from wardround.predictors.heads import Boosting, Head, Logistic
from wardround.predictors.settings import PredictorSettings

Reads = Literal["counts", "vectors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """A predictor: ``reads`` counts of a chart's events, or vectors from a file (``representations``).

    ``head`` makes the model that is fitted on them.
    """

    name: str
    title: str
    reads: Reads
    head: Callable[[PredictorSettings], Head]


PREDICTORS: Registry[Predictor] = Registry("predictors", one="predictor", of=Predictor)
"""Every predictor by name."""


def requested_predictors(settings: PredictorSettings) -> tuple[Predictor, ...]:
    """Return the requested predictors. UserError: one is unknown, or its vectors are missing."""
    predictors = tuple(map(PREDICTORS.get, settings.names))
    for predictor in predictors:
        if predictor.reads == "vectors" and settings.representations is None:
            raise UserError(f"{predictor.name} needs its vectors: give --representations FILE (Parquet or npz)")
    return predictors


def _logistic(settings: PredictorSettings) -> Head:
    return Logistic(
        iterations=settings.iterations,
        final_iterations=settings.final_iterations,
        threads=settings.threads,
        ties=settings.ties,
    )


def _boosting(settings: PredictorSettings) -> Head:
    return Boosting(grid=settings.gbm_grid, seed=settings.seed, threads=settings.threads, ties=settings.ties)


for _predictor in (
    Predictor(name="count-lr", title="Logistic regression on counts of events", reads="counts", head=_logistic),
    Predictor(name="count-gbm", title="Gradient boosting on counts of events", reads="counts", head=_boosting),
    Predictor(name="clmbr-lr", title="Logistic regression on vectors of charts", reads="vectors", head=_logistic),
):
    PREDICTORS.add(_predictor.name, _predictor)
