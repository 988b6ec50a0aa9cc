"""What predictors left in a run's folder, as rows of tables and as curves over the number of shots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from wardround.predictors import ALL_SHOTS, FitRow
from wardround.scoring import ClassificationRow, Interval

CLASSES_VIEW = "classes"
Value = Callable[[FitRow], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A predictor with ``k`` samples per class (None: all): mean, lowest and highest of its replicates."""

    k: int | None
    mean: float
    low: float
    high: float
    replicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A predictor on one task and view, over the shots."""

    predictor: str
    task: str
    view: str
    points: tuple[CurvePoint, ...]


def predictor_rows(rows: Iterable[FitRow]) -> tuple[ClassificationRow, ...]:
    """Return a table row per predictor, task and view: of the fit on all samples, else on the most shots there are."""
    best: dict[tuple[str, str, str], FitRow] = {}
    for row in rows:
        key = (row.task, row.view, row.predictor)
        if key not in best or _size(row) > _size(best[key]):
            best[key] = row
    return tuple(_table_row(row) for row in best.values())


def macro_f1_of(row: FitRow) -> float | None:
    """What figure 2 of the paper shows."""
    return row.metrics.macro_f1.estimate


def auroc_of(row: FitRow) -> float | None:
    """What EHRSHOT's figures show."""
    return _estimate(row.scores.auroc)


def curves(rows: Sequence[FitRow], value: Value) -> tuple[Curve, ...]:
    """Return a curve per task, view and predictor, in the order of the fits; fits without the value are left out."""
    found: dict[tuple[str, str, str], dict[int | None, list[float]]] = {}
    for row in rows:
        figure = value(row)
        if figure is not None:
            k = None if row.k == ALL_SHOTS else int(row.k)
            found.setdefault((row.task, row.view, row.predictor), {}).setdefault(k, []).append(figure)
    return tuple(
        Curve(
            task=task,
            view=view,
            predictor=predictor,
            points=tuple(
                CurvePoint(k=k, mean=fmean(values), low=min(values), high=max(values), replicates=len(values))
                for k, values in sorted(by_k.items(), key=lambda item: (item[0] is None, item[0] or 0))
            ),
        )
        for (task, view, predictor), by_k in found.items()
    )


def predictor_notes(rows: Sequence[FitRow], manifest: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Say how the predictors were made, and what of it a reader should know before comparing."""
    if manifest is None or not rows:
        return ()
    settings, features = manifest["settings"], manifest.get("features")
    notes = []
    if features:
        above = f", and for {features['ancestors']:,} ancestors ({', '.join(features['hierarchy'])})"
        events = "every event" if settings["valued_events"] else "events without a value"
        notes.append(
            f"Counts of {events} on {features['charts']:,} charts under {features['codes']:,} codes"
            f"{above if features['ancestors'] else ''}; the columns of a fit are what its training samples have."
        )
        if features["ages_unknown"]:
            notes.append(f"The age is unknown on {features['ages_unknown']:,} charts and taken as the mean.")
    if any(row.predictor == "count-gbm" for row in rows):
        notes.append(f"Boosting tried the grid {settings['gbm_grid']!r} ({_points(rows)} points).")
    repeated = sum(any((*row.train["repeated"].values(), *row.dev["repeated"].values())) for row in rows)
    unranked = sum(row.dev_auroc is None for row in rows)
    stopped = sum(not row.converged for row in rows)
    notes += [f"In {repeated:,} of {len(rows):,} fits a class was short and samples were repeated."] if repeated else []
    notes += [f"In {unranked:,} fits dev samples could not choose a setting: defaults."] if unranked else []
    notes += [f"{stopped:,} fits ended at the solver's limit of {settings['final_iterations']:,}."] if stopped else []
    notes += [f"Left out: {name}, {reason}." for name, reason in manifest["left_out"].items()]
    return tuple(notes)


def _points(rows: Iterable[FitRow]) -> int:
    return max((row.points for row in rows if row.predictor == "count-gbm"), default=0)


def _table_row(row: FitRow) -> ClassificationRow:
    names = dict(zip(row.classes, row.class_names, strict=True))
    whole = row.k == ALL_SHOTS
    return ClassificationRow(
        agent=row.predictor,
        model="" if whole else f"{row.k} per class, first draw",
        task=row.task if row.view == CLASSES_VIEW else f"{row.task} ({row.view})",
        class_names=names,
        episodes=row.metrics.n,
        metrics=row.metrics,
        scores=row.scores,
    )


def _size(row: FitRow) -> float:
    """The first replicate stands for a number of shots."""
    return (float("inf") if row.k == ALL_SHOTS else int(row.k)) - row.replicate / 1e6


def _estimate(interval: Interval | None) -> float | None:
    return None if interval is None else interval.estimate
