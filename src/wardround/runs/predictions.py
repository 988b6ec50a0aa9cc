"""What predictors left in a run's folder, as rows of tables and as curves over the number of shots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

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


def _table_row(row: FitRow) -> ClassificationRow:
    names = dict(zip(row.classes, row.class_names, strict=True))
    whole = row.k == ALL_SHOTS
    return ClassificationRow(
        agent=row.predictor,
        model="" if whole else f"{row.k} per class",
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
