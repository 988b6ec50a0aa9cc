"""Settings that decide a predictor's figures: predictors, tasks, shots, grids, seeds; part of the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from wardround.core import UserError, check_settings, setting

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
