"""The predictors there are, by name: EHRSHOT's baselines on counts, a head on vectors, and those of plug-ins."""

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
    """``reads``: counts of a chart's events, or vectors that somebody supplies (``representations``). ``head`` makes
    what is fitted on them."""

    name: str
    title: str
    reads: Reads
    head: Callable[[PredictorSettings], Head]


PREDICTORS: Registry[Predictor] = Registry("predictors", one="predictor", of=Predictor)
"""Every predictor by name."""


def asked_predictors(settings: PredictorSettings) -> tuple[Predictor, ...]:
    """Return the predictors that are asked for; UserError for an unknown one, or where vectors are missing."""
    asked = tuple(map(PREDICTORS.get, settings.names))
    for predictor in asked:
        if predictor.reads == "vectors" and settings.representations is None:
            raise UserError(f"{predictor.name} needs its vectors: give --representations FILE (Parquet or npz)")
    return asked


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
