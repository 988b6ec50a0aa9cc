"""What decides a predictor's figures: which, on what, with which shots, grids and seeds. Written to the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from wardround.core import UserError

ALL_SHOTS = "all"
PAPER_SHOTS: tuple[str, ...] = ("1", "2", "4", "8", "12", "16", "24", "32", "48", "64", "128", "256", ALL_SHOTS)
"""Samples per class, those of EHRSHOT (up to 128) and of EHR-RAG (256 too); ``all`` is the whole training split."""
PREDICTORS = ("count-lr", "count-gbm", "clmbr-lr")
C_GRID = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1, 1e0, 1e2, 1e4)
"""EHRSHOT's inverse strengths of the L2 penalty."""
EHRSHOT_ITERATIONS = 100
"""Of EHRSHOT's final fit: it is made anew from class defaults and the best C, so that its max_iter=1000 is lost."""

Grid = Mapping[str, tuple[float, ...]]
GBM_GRIDS: Mapping[str, Grid] = {
    "ehrshot": {"max_depth": (3, 6, -1), "learning_rate": (0.02, 0.1, 0.5), "num_leaves": (10, 25, 100)},
    "small": {"max_depth": (3, -1), "learning_rate": (0.02, 0.1), "num_leaves": (25,)},
}
"""``ehrshot`` has 27 points; ``small`` has the 4 of them that differ most, for a first look and for slow machines."""

Hierarchy = Literal["auto", "none"]
Ties = Literal["loss", "first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorSettings:
    """Settings of one fitting.

    ``shots`` are samples per class, as text, ``all`` for the whole split. ``samples`` are the test samples to judge
    on, those that agents answered (None: all). ``hierarchy`` auto: every event counts for the ancestors of its code
    too, where the store has any. ``valued_events`` False leaves out events with a number or a text, as EHRSHOT's
    counts do. ``ties``: which of the points that rank dev samples alike is kept. ``final_iterations`` is the solver's
    limit in the last fit (EHRSHOT's was 100, not its 1,000).
    """

    names: tuple[str, ...] = ("count-lr", "count-gbm")
    tasks: tuple[str, ...] = ()
    shots: tuple[str, ...] = PAPER_SHOTS
    replicates: int = 5
    seed: int = 0
    split: str = "test"
    samples: tuple[str, ...] | None = None
    hierarchy: Hierarchy = "auto"
    valued_events: bool = True
    gbm_grid: str = "small"
    ties: Ties = "loss"
    iterations: int = 1_000
    final_iterations: int = 1_000
    resamples: int = 1_000
    threads: int = 1
    representations: str | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in PREDICTORS]
        if unknown or not self.names:
            raise UserError(f"no predictor {', '.join(unknown) or '(none named)'}; there are {', '.join(PREDICTORS)}")
        if "clmbr-lr" in self.names and self.representations is None:
            raise UserError("clmbr-lr needs its vectors: give --representations FILE (Parquet or npz)")
        for shot in self.shots:
            if shot != ALL_SHOTS and not (shot.isascii() and shot.isdigit() and int(shot) > 0):
                raise UserError(f"shots are numbers above 0 or {ALL_SHOTS!r}, not {shot!r}")
        for name in ("replicates", "iterations", "final_iterations", "resamples", "threads"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        if self.gbm_grid not in GBM_GRIDS:
            raise UserError(f"no grid {self.gbm_grid!r}; there are {', '.join(GBM_GRIDS)}")

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
