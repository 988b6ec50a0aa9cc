"""The safety meters over a run's stays, by contender."""

from __future__ import annotations

from collections.abc import Iterator

from wardround.log import LogReader
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey
from wardround.runs.sources import open_benchmark
from wardround.tasks.scoring import NotedStay, PlantedKey, SafetyCounts, SafetyPoint, played_steps, safety_curve


def safety_counts(folder: RunFolder, key: PlantedKey) -> dict[str, SafetyCounts]:
    """Return the meters of every contender, over its finished stays."""
    counted: dict[str, SafetyCounts] = {}
    for played, stay in _noted(folder):
        counts = counted.setdefault(f"{played.agent} · {played.model}", SafetyCounts())
        counts.add(stay.subject, played_steps(stay.played), key)
    return counted


def safety_curves(folder: RunFolder, key: PlantedKey) -> dict[str, list[SafetyPoint]]:
    """Return recall against safety over tau, of every contender from its own tau upwards."""
    stays: dict[str, list[NotedStay]] = {}
    for played, stay in _noted(folder):
        stays.setdefault(f"{played.agent} · {played.model}", []).append(stay)
    return {name: safety_curve(some, key) for name, some in stays.items()}


def _noted(folder: RunFolder) -> Iterator[tuple[EpisodeKey, NotedStay]]:
    samples = {sample.id: sample for sample in open_benchmark(folder).all_samples}
    with LogReader(folder.logs) as reader:
        for trajectory in reader.trajectories():
            played = EpisodeKey.parse(trajectory.episode)
            sample = samples[played.sample]
            yield played, NotedStay(played=trajectory, target=tuple(sample.target), subject=sample.subject_id)
