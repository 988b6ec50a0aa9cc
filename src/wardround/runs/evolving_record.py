"""What a stream did to a bank, as data in the run folder (``evolution.json``), so that the report needs no bank.

Made from the bank whenever a stream ends: Q and W as they were after every so many updates, who moved most, and why.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wardround.core import UserError, write_atomically
from wardround.memory import Bank
from wardround.memory.effect import effect_of
from wardround.memory.graph import GraphReader
from wardround.memory.learning import RETIRED
from wardround.memory.walk import DEFAULT_QUALITY
from wardround.runs.folder import RunFolder

RECORD = "evolution.json"
_SCHEMA = 1
_MOST_POINTS = 25
_MOST_LINES = 6
_MOST_ROWS = 30
_QUANTILES = (0.1, 0.5, 0.9)
History = Sequence[tuple[int, float | None]]
"""A value by the revision from which it held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStep:
    """One update of a stream: the revision it made, what the episode scored, how many experiences it met."""

    revision: int
    task: str
    score: float
    shown: int
    masked: int


def write_record(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Write it into the run folder."""
    write_atomically(folder.path / RECORD, json.dumps(record, indent=1) + "\n")


def read_record(folder: RunFolder) -> dict[str, Any] | None:
    """Read it back; None where the run was no stream. UserError where it was written by a newer version."""
    file = folder.path / RECORD
    if not file.is_file():
        return None
    record: dict[str, Any] = json.loads(file.read_text())
    if record["schema"] > _SCHEMA:
        raise UserError(f"{file} was written by a newer wardround; upgrade this one")
    return record


def stream_record(bank: Bank, steps: Sequence[StreamStep], snapshots: Mapping[str, int]) -> dict[str, Any]:
    """Everything that is told of a stream."""
    revisions = [step.revision for step in steps]
    after = _checkpoints(len(steps))
    moments = [(revisions[0] - 1 if revisions else 0) if not number else revisions[number - 1] for number in after]
    qualities = {name: bank.quality_history(name) for name in _polar(bank)}
    weights: dict[tuple[str, str], History] = {ends: list(told) for ends, told in bank.weight_histories().items()}
    named = {number: bisect_right(revisions, number) for number in snapshots.values()}
    return {
        "schema": _SCHEMA,
        "bank": str(bank.path),
        "updates": [asdict(step) for step in steps],
        "after": after,
        "snapshots": {name: named[number] for name, number in snapshots.items()},
        "retired": len(bank.retired_because(RETIRED)),
        "live": sum(map(bank.liveness(), qualities)),
        "quality": _told(qualities, moments, start=DEFAULT_QUALITY),
        "weight": _told(weights, moments, start=None),
        "experiences": [_row(bank, name) for name in _most_met(bank, qualities)],
    }


def _checkpoints(updates: int) -> list[int]:
    """After how many updates something is told: at most 26 of them, the first and the last among them."""
    points = min(updates, _MOST_POINTS)
    return sorted({round(updates * point / points) for point in range(points + 1)}) if points else [0]


def _polar(bank: Bank) -> list[str]:
    everything = bank.at(revision=bank.revision).every_experience
    return [one.id for one in everything if one.polar]


def _told(histories: Mapping[Any, History], moments: Sequence[int], *, start: float | None) -> dict[str, Any]:
    """The spread of some values at some revisions, and the lines of those that moved most."""
    at = [{name: _at(told, moment, start) for name, told in histories.items()} for moment in moments]
    spread = [_quantiles([value for value in values.values() if value is not None]) for values in at]
    moved = sorted(histories, key=lambda name: (-_range(at, name), name))[:_MOST_LINES]
    lines = {_name(one): [values[one] for values in at] for one in moved if _range(at, one) > 0}
    return {"spread": spread, "lines": lines}


def _at(history: History, moment: int, start: float | None) -> float | None:
    """The last value up to a revision; before the first one what is taken for granted."""
    place = bisect_left(history, moment + 1, key=_revision_of)
    value = history[place - 1][1] if place else None
    return start if value is None else value


def _revision_of(one: tuple[int, float | None]) -> int:
    return one[0]


def _quantiles(values: Sequence[float]) -> list[float] | None:
    return [float(value) for value in np.quantile(values, _QUANTILES)] if values else None


def _range(at: Sequence[Mapping[Any, float | None]], name: Any) -> float:
    values = [value for one in at if (value := one[name]) is not None]
    return max(values) - min(values) if values else 0.0


def _name(one: Any) -> str:
    return one if isinstance(one, str) else " > ".join(part[:8] for part in one)


def _most_met(bank: Bank, names: Mapping[str, Any]) -> list[str]:
    """The experiences that were met in most episodes."""
    met = {name: _episodes(bank.graph(), name) for name in names}
    return sorted((name for name in met if met[name]), key=lambda name: (-met[name], name))[:_MOST_ROWS]


def _episodes(graph: GraphReader, name: str) -> int:
    return sum(trial.episodes for trial in graph.trials(name).values())


def _row(bank: Bank, name: str) -> dict[str, Any]:
    """One experience with its effect by task, and the counts it rests on."""
    last = bank.history(name)[-1]
    graph = bank.graph()
    effects = {task: asdict(effect_of(trial)) for task, trial in graph.trials(name).items()}
    is_live: Callable[[str], bool] = bank.liveness()
    return {
        "id": name,
        "title": last.title,
        "live": is_live(name),
        "quality": graph.quality(name),
        "effects": effects,
    }
