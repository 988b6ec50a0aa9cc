"""What a stream did to a bank, as data in the run folder (``evolution.json``), so that the report needs no bank.

Made from the bank whenever a stream ends: Q and W as they were after every so many updates, who moved most, and why.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wardround.core import UserError, write_atomically
from wardround.memory import Bank
from wardround.memory.credit import EffectPosterior
from wardround.memory.graph import GraphReader
from wardround.memory.walk import DEFAULT_QUALITY
from wardround.runs.folder import RunFolder

RECORD = "evolution.json"
_SCHEMA = 1
_MOST_POINTS = 25
_MOST_LINES = 6
_MOST_ROWS = 30
_QUANTILES = (0.1, 0.5, 0.9)


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
    """Read it back; None where the run was no stream. UserError where it has another schema."""
    file = folder.path / RECORD
    if not file.is_file():
        return None
    record: dict[str, Any] = json.loads(file.read_text())
    if record["schema"] != _SCHEMA:
        raise UserError(f"{file} has schema {record['schema']}, this wardround reads {_SCHEMA}: evolve the bank again")
    return record


def stream_record(
    bank: Bank, steps: Sequence[StreamStep], snapshots: Mapping[str, int], bar_above: float
) -> dict[str, Any]:
    """Everything that is told of a stream; ``bar_above`` as runs that read the bank have it."""
    revisions = [step.revision for step in steps]
    after = _checkpoints(len(steps))
    moments = [(revisions[0] - 1 if revisions else 0) if not number else revisions[number - 1] for number in after]
    polar = _polar(bank)
    qualities: list[dict[Any, float | None]] = []
    weights: list[dict[Any, float | None]] = []
    for _, graph in bank.course(moments):  # each is there until the next is asked for
        qualities.append({name: graph.quality(name) for name in polar})
        weights.append({(one.source, one.target): one.weight for one in graph.every_edge()})
    named = {number: bisect_right(revisions, number) for number in snapshots.values()}
    return {
        "schema": _SCHEMA,
        "bank": str(bank.path),
        "updates": [asdict(step) for step in steps],
        "after": after,
        "snapshots": {name: named[number] for name, number in snapshots.items()},
        "barred": len(barred(bank, bar_above)),
        "live": sum(map(bank.liveness(), polar)),
        "quality": _told(qualities, start=DEFAULT_QUALITY),
        "weight": _told(weights, start=None),
        "experiences": [_row(bank, name, bar_above) for name in _most_met(bank, polar)],
    }


def _checkpoints(updates: int) -> list[int]:
    """After how many updates something is told: at most 26 of them, the first and the last among them."""
    points = min(updates, _MOST_POINTS)
    return sorted({round(updates * point / points) for point in range(points + 1)}) if points else [0]


def _polar(bank: Bank) -> list[str]:
    everything = bank.at(revision=bank.revision).every_experience
    return [one.id for one in everything if one.polar]


def _told(course: Sequence[Mapping[Any, float | None]], *, start: float | None) -> dict[str, Any]:
    """The spread of some values at some revisions, and the lines of those that moved most; ``start`` is what is taken
    for granted of those that have none."""
    names = sorted({name for values in course for name in values})
    at = [{name: start if (value := values.get(name)) is None else value for name in names} for values in course]
    spread = [_quantiles([value for value in values.values() if value is not None]) for values in at]
    moved = sorted(names, key=lambda name: (-_range(at, name), name))[:_MOST_LINES]
    lines = {_name(one): [values[one] for values in at] for one in moved if _range(at, one) > 0}
    return {"spread": spread, "lines": lines}


def _quantiles(values: Sequence[float]) -> list[float] | None:
    return [float(value) for value in np.quantile(values, _QUANTILES)] if values else None


def _range(at: Sequence[Mapping[Any, float | None]], name: Any) -> float:
    values = [value for one in at if (value := one[name]) is not None]
    return max(values) - min(values) if values else 0.0


def _name(one: Any) -> str:
    return one if isinstance(one, str) else " > ".join(part[:8] for part in one)


def barred(bank: Bank, bar_above: float) -> list[str]:
    """The live experiences that some task is not served, because they probably harm it."""
    live, graph = bank.liveness(), bank.graph()
    return [name for name in _polar(bank) if live(name) and _barred_tasks(graph, name, bar_above)]


def _barred_tasks(graph: GraphReader, name: str, bar_above: float) -> list[str]:
    return [task for task, effect in effects_of(graph, name).items() if effect.harm > bar_above]


def effects_of(graph: GraphReader, name: str) -> dict[str, EffectPosterior]:
    """The effect of an experience in each task for which coins were tossed."""
    found = {task: graph.effect(name, task) for task in graph.evidence(name)}
    return {task: effect for task, effect in found.items() if effect is not None}


def _most_met(bank: Bank, names: Sequence[str]) -> list[str]:
    """The experiences that were met in most episodes."""
    graph = bank.graph()
    met = {name: sum(one.episodes for one in graph.evidence(name).values()) for name in names}
    return sorted((name for name in met if met[name]), key=lambda name: (-met[name], name))[:_MOST_ROWS]


def _row(bank: Bank, name: str, bar_above: float) -> dict[str, Any]:
    """One experience with its effect by task, the counts it rests on, and where it is barred."""
    last = bank.history(name)[-1]
    graph = bank.graph()
    is_live: Callable[[str], bool] = bank.liveness()
    return {
        "id": name,
        "title": last.title,
        "live": is_live(name),
        "quality": graph.quality(name),
        "effects": {task: asdict(effect) for task, effect in effects_of(graph, name).items()},
        "barred": _barred_tasks(graph, name, bar_above),
    }
