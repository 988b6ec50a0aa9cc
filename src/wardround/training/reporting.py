"""Telling how far a trainer is."""

from __future__ import annotations

from typing import Any

from wardround.core import Progress, Reporter
from wardround.training.weights import needed


def reporting(report: Reporter, *, unit: str) -> Any:
    """A callback of a trainer (package transformers) that reports every step, counted in ``unit``."""

    class Reporting(needed("transformers").TrainerCallback):  # type: ignore[misc]  # its base is imported lazily
        def on_step_end(self, _arguments: Any, state: Any, _control: Any, **_: Any) -> None:
            report(Progress(label="training", done=state.global_step, total=state.max_steps, unit=unit))

    return Reporting()
