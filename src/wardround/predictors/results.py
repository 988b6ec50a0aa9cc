"""Results of predictors as rows of a file: one per predictor, task, view, shots and replicate, appended as it is done.

A row is on disk before the next fit begins; a last line that a kill cut short is dropped and fitted again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wardround.core import UserError
from wardround.tasks.scoring import ClassMetrics, Interval, ScoreMetrics

SCHEMA = 1
PREDICTIONS = "predictions.jsonl"
MANIFEST = "predictions-manifest.json"


class FitKey(NamedTuple):
    """Names one fit of a run."""

    predictor: str
    task: str
    view: str
    k: str
    replicate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRow:
    """One fit and its figures on the test samples.

    ``train`` and ``dev`` count samples, subjects and samples per class; ``repeated`` those drawn again for want of
    others. ``dev_auroc`` chose the point ``chosen`` among ``points``; None: dev could not rank and the default holds.
    ``samples`` and ``probabilities`` (one per class) are kept of fits on the whole training split.
    """

    predictor: str
    task: str
    view: str
    k: str
    replicate: int
    classes: tuple[str, ...]
    class_names: tuple[str, ...]
    features: int
    train: Mapping[str, Any]
    dev: Mapping[str, Any]
    chosen: Mapping[str, float]
    dev_auroc: float | None
    points: int
    converged: bool
    iterations: int | None
    metrics: ClassMetrics
    scores: ScoreMetrics
    seconds: float
    samples: tuple[str, ...] = ()
    probabilities: tuple[tuple[float, ...], ...] = ()

    @property
    def key(self) -> FitKey:
        """The key of the row."""
        return FitKey(self.predictor, self.task, self.view, self.k, self.replicate)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> FitRow:
        """Read what :meth:`to_json` wrote."""
        values = {name: value for name, value in body.items() if name != "schema"}
        metrics, scores = dict(values["metrics"]), dict(values["scores"])
        for name in ("accuracy", "macro_f1"):
            metrics[name] = Interval(**metrics[name])
        metrics["class_f1"] = {name: Interval(**one) for name, one in metrics["class_f1"].items()}
        for name in ("auroc", "auprc", "brier", "macro_auroc"):
            scores[name] = None if scores[name] is None else Interval(**scores[name])
        return cls(
            **values
            | {
                "classes": tuple(values["classes"]),
                "class_names": tuple(values["class_names"]),
                "metrics": ClassMetrics(**metrics),
                "scores": ScoreMetrics(**scores),
                "samples": tuple(values["samples"]),
                "probabilities": tuple(map(tuple, values["probabilities"])),
            }
        )


def read_predictions(folder: Path) -> list[FitRow]:
    """Read a run's rows, in the order of the fits; none where no predictor was fitted."""
    return [FitRow.from_json(body) for body in _bodies(folder / PREDICTIONS)]


def append_row(folder: Path, row: FitRow) -> None:
    """Add a row and see it onto the disk."""
    with (folder / PREDICTIONS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row.to_json(), ensure_ascii=False, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def drop_torn_line(folder: Path) -> None:
    """Cut off a last line that was not written whole."""
    path = folder / PREDICTIONS
    if not path.is_file():
        return
    with path.open("rb+") as file:
        text = file.read()
        if text and not text.endswith(b"\n"):
            file.truncate(text.rfind(b"\n") + 1)


def _bodies(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    try:
        bodies = [json.loads(line) for line in lines[:-1]]
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); remove it and fit again") from error
    odd = {body.get("schema") for body in bodies} - {SCHEMA}
    if odd:
        raise UserError(f"{path} has schema {odd.pop()!r}; this version reads {SCHEMA}")
    return bodies
