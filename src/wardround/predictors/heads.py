"""The predictors by name, their settings and their heads: logistic regression and gradient boosting with their grids.

The optional packages are imported when a head is fitted.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from wardround.core import Registry, UserError, check_settings, import_extra, setting
from wardround.tasks.scoring.classification import auroc

ALL_SHOTS = "all"
PAPER_SHOTS: tuple[str, ...] = ("1", "2", "4", "8", "12", "16", "24", "32", "48", "64", "128", "256", ALL_SHOTS)
"""Samples per class, those of EHRSHOT (up to 128) and of EHR-RAG (256 too); ``all`` is the whole training split."""
C_GRID = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1, 1e0, 1e2, 1e4)
"""EHRSHOT's inverse strengths of the L2 penalty."""
EHRSHOT_ITERATIONS = 100
"""Iterations of EHRSHOT's final fit: built from class defaults and the best C, it loses max_iter=1000."""

Grid = Mapping[str, tuple[float, ...]]
GBM_GRIDS: Mapping[str, Grid] = {
    "ehrshot": {"max_depth": (3, 6, -1), "learning_rate": (0.02, 0.1, 0.5), "num_leaves": (10, 25, 100)},
    "small": {"max_depth": (3, -1), "learning_rate": (0.02, 0.1), "num_leaves": (25,)},
}
"""``ehrshot`` has 27 points; ``small`` has the 4 of them that differ most, for a first look and for slow machines."""

Hierarchy = Literal["auto", "none"]
Ties = Literal["loss", "first"]
GbmGrid = Literal["ehrshot", "small"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorSettings:
    """Settings of one fitting.

    ``shots`` are samples per class, as text, ``all`` for the whole split. ``samples`` are the test samples to judge
    on, those that agents answered (None: all). ``hierarchy`` auto: every event counts for the ancestors of its code
    too, where the store has any. ``valued_events`` False leaves out events with a number or a text, as EHRSHOT's
    counts do. ``ties``: which of the points that rank dev samples alike is kept. ``final_iterations`` is the solver's
    limit in the last fit (EHRSHOT's was 100, not its 1,000).
    """

    names: tuple[str, ...] = setting(
        ("count-lr", "count-gbm"), "which predictors (wardround list predictors)", flag="--predictor"
    )
    tasks: tuple[str, ...] = setting((), "only these tasks")
    shots: tuple[str, ...] = setting(
        PAPER_SHOTS, "samples per class, 'all' for every one", source="EHRSHOT; 256: EHR-RAG", flag="--shots"
    )
    replicates: int = setting(5, "draws of every number of shots", source="EHRSHOT", least=1, flag="--replicates")
    seed: int = setting(0, "seed of draws and intervals", flag="--predictor-seed")
    split: str = setting("test", "which samples are judged")
    samples: tuple[str, ...] | None = setting(None, "only these samples are judged, by id")
    hierarchy: Hierarchy = setting("auto", "auto: an event counts for the ancestors of its code too")
    valued_events: bool = setting(True, "count events with a value too (EHRSHOT's counts do not)")
    gbm_grid: GbmGrid = setting("small", "points tried by count-gbm", flag="--gbm-grid")
    ties: Ties = setting("loss", "points that rank alike: lowest loss, or first", flag="--ties")
    iterations: int = setting(1_000, "limit of the solver", source="EHRSHOT", least=1)
    final_iterations: int = setting(1_000, "of the last fit (EHRSHOT: 100)", least=1, flag="--final-iterations")
    resamples: int = setting(1_000, "of patients, for the intervals", least=1, flag="--resamples")
    threads: int = setting(1, "threads of one fit", least=1, flag="--threads")
    representations: str | None = setting(
        None, "vectors for clmbr-lr (Parquet or npz)", unit="file", flag="--representations"
    )

    def __post_init__(self) -> None:
        if not self.names:
            raise UserError("name a predictor (wardround list predictors)")
        for shot in self.shots:
            if shot != ALL_SHOTS and not (shot.isascii() and shot.isdigit() and int(shot) > 0):
                raise UserError(f"shots are numbers above 0 or {ALL_SHOTS!r}, not {shot!r}")
        check_settings(self)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The shots that are numbers, ascending."""
        return tuple(sorted({int(shot) for shot in self.shots if shot != ALL_SHOTS}))

    @property
    def with_all(self) -> bool:
        """Whether the whole training split is used too."""
        return ALL_SHOTS in self.shots

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


# The optional packages, imported when first used; a missing one is one clear line.


_PACKAGES = ("scikit-learn", "lightgbm", "scipy", "numpy")


def optional(module: str) -> Any:
    """Import a module of the extra [predictors]."""
    return import_extra(module, "predictors", what="a predictor")


def missing_packages() -> tuple[str, ...]:
    """Return the packages of the extra [predictors] that are not installed; nothing is imported."""
    modules = {"scikit-learn": "sklearn", "lightgbm": "lightgbm"}
    return tuple(package for package, module in modules.items() if importlib.util.find_spec(module) is None)


def package_versions() -> dict[str, str]:
    """Versions of what the fitted numbers depend on, for the manifest."""
    for module in ("sklearn", "lightgbm"):
        optional(module)
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


# What is fitted on features: a penalised logistic regression and gradient boosting, each with its grid.
#
# A head sees training and dev rows only. The point of its grid that ranks the dev rows best is kept; where dev rows
# cannot rank (none, or one class only) it is the default point, and the fit says so. Points that rank alike, the rule
# with few dev rows, are told apart by the dev rows' log loss: EHRSHOT takes the first, C = 1e-8, whose probabilities
# are all alike, so that its accuracy and F1 are those of a coin. ``first`` does as EHRSHOT does.


Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_DEFAULT_C = 1.0
_LEAST = 1e-15
_Point = TypeVar("_Point")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a head made of one sample of training rows. ``probabilities``: (test rows, classes).

    ``dev_auroc`` is that of the point ``chosen`` of ``points`` tried; None: dev rows could not rank. ``converged``
    is False where the solver ran out of iterations in the last fit.
    """

    probabilities: Floats
    chosen: Mapping[str, float]
    dev_auroc: float | None
    points: int
    converged: bool = True
    iterations: int | None = None


class Head(Protocol):
    """Fits on training rows, chooses on dev rows, answers for test rows."""

    def __call__(self, train: Any, truth: Integers, dev: Any, dev_truth: Integers, test: Any, classes: int) -> Fit: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """Columns divided by their largest value, L2-penalised multinomial logistic regression by L-BFGS."""

    iterations: int = 1_000
    final_iterations: int = 1_000
    threads: int = 1
    grid: Sequence[float] = C_GRID
    ties: Ties = "loss"

    def __call__(self, train: Any, truth: Integers, dev: Any, dev_truth: Integers, test: Any, classes: int) -> Fit:
        """Fit, choose, answer."""
        if len(np.unique(truth)) < 2:
            return _constant(truth, len_of(test), classes)
        train, dev, test = _used_columns(train, dev, test)
        scaler = optional("sklearn.preprocessing").MaxAbsScaler().fit(train)
        train, dev, test = (scaler.transform(rows) if len_of(rows) else rows for rows in (train, dev, test))
        with optional("threadpoolctl").threadpool_limits(limits=self.threads):
            grid = self.grid if _can_rank(dev_truth) else ()
            models = {c: self._fit(train, truth, c, self.iterations) for c in grid}
            tried = {c: _on_dev(model, dev, dev_truth, classes) for c, model in models.items()}
            best, value = _best(tried, _DEFAULT_C, self.ties)
            model = models.get(best)
            if model is None or self.final_iterations != self.iterations:
                model = self._fit(train, truth, best, self.final_iterations)
            return Fit(
                probabilities=_all_classes(model, test, classes),
                chosen={"C": best},
                dev_auroc=value,
                points=len(tried),
                converged=int(model.n_iter_.max()) < self.final_iterations,
                iterations=int(model.n_iter_.max()),
            )

    def _fit(self, rows: Any, truth: Integers, c: float, iterations: int) -> Any:
        model = optional("sklearn.linear_model").LogisticRegression(C=c, tol=1e-4, max_iter=iterations)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optional("sklearn.exceptions").ConvergenceWarning)  # said in the result
            return model.fit(rows, truth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosting:
    """LightGBM's gradient boosting, 100 trees, leaves of one sample allowed (few shots need them)."""

    grid: str = "small"
    seed: int = 0
    threads: int = 1
    ties: Ties = "loss"

    def __call__(self, train: Any, truth: Integers, dev: Any, dev_truth: Integers, test: Any, classes: int) -> Fit:
        """Fit, choose, answer."""
        if len(np.unique(truth)) < 2:
            return _constant(truth, len_of(test), classes)
        train, dev, test = _used_columns(train, dev, test)
        points = list(_points(GBM_GRIDS[self.grid])) if _can_rank(dev_truth) else []
        models = [self._fit(train, truth, point) for point in points]
        values = {n: _on_dev(model, dev, dev_truth, classes) for n, model in enumerate(models)}
        best, value = _best(values, 0, self.ties)
        default = {"max_depth": -1.0, "learning_rate": 0.1, "num_leaves": 25.0}
        model, chosen = (models[best], points[best]) if models else (self._fit(train, truth, default), default)
        return Fit(probabilities=_all_classes(model, test, classes), chosen=chosen, dev_auroc=value, points=len(points))

    def _fit(self, rows: Any, truth: Integers, point: Mapping[str, float]) -> Any:
        model = optional("lightgbm").LGBMClassifier(
            max_depth=int(point["max_depth"]),
            learning_rate=point["learning_rate"],
            num_leaves=int(point["num_leaves"]),
            min_child_samples=1,
            random_state=self.seed,
            n_jobs=self.threads,
            deterministic=True,
            force_col_wise=True,
            verbose=-1,
        )
        with _quiet_about_names():
            return model.fit(rows, truth)


def len_of(rows: Any) -> int:
    """Number of rows, of a sparse matrix too."""
    return int(rows.shape[0])


def _points(grid: Grid) -> Iterator[dict[str, float]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _best(tried: Mapping[_Point, tuple[float, float]], default: _Point, ties: Ties) -> tuple[_Point, float | None]:
    """The point of the best AUROC; among equals that of the lowest loss, or the first."""
    if not tried:
        return default, None
    best = max(tried, key=lambda point: (tried[point][0], -tried[point][1] if ties == "loss" else 0.0))
    return best, tried[best][0]


def _can_rank(dev_truth: Integers) -> bool:
    return len(np.unique(dev_truth)) > 1


def _on_dev(model: Any, dev: Any, dev_truth: Integers, classes: int) -> tuple[float, float]:
    """AUROC and log loss of the dev rows; of more than two classes the mean AUROC, one against rest, over those there
    are."""
    probabilities = _all_classes(model, dev, classes)
    loss = -float(np.mean(np.log(np.maximum(probabilities[np.arange(len(dev_truth)), dev_truth], _LEAST))))
    if classes == 2:
        return auroc(dev_truth == 1, probabilities[:, 1]), loss
    return float(np.mean([auroc(dev_truth == one, probabilities[:, one]) for one in np.unique(dev_truth)])), loss


def _all_classes(model: Any, rows: Any, classes: int) -> Floats:
    """Probabilities with a column for every class of the task; a class not fitted on has probability 0."""
    result = np.zeros((len_of(rows), classes))
    with _quiet_about_names():
        result[:, model.classes_.astype(int)] = model.predict_proba(rows)
    return result


def _constant(truth: Integers, rows: int, classes: int) -> Fit:
    """With one class to learn from, every answer is that class."""
    probabilities = np.zeros((rows, classes))
    probabilities[:, int(truth[0]) if len(truth) else 0] = 1.0
    return Fit(probabilities=probabilities, chosen={}, dev_auroc=None, points=0)


def _used_columns(train: Any, *others: Any) -> tuple[Any, ...]:
    """Leave out columns that are 0 in all training rows: no fit can use them, an L2 penalty keeps their weight at 0."""
    if not hasattr(train, "getnnz"):
        return train, *others
    used = np.flatnonzero(train.getnnz(axis=0))
    return train[:, used], *(rows[:, used] for rows in others)


@contextmanager
def _quiet_about_names() -> Iterator[None]:
    """LightGBM's wrapper names columns, then scikit-learn warns that a matrix has no names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*valid feature names.*")
        yield


# The predictors by name: EHRSHOT's baselines on counts, a head on vectors, and plug-ins.


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
