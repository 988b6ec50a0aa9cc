"""The safety meters over a run's stays, by contender."""

from __future__ import annotations

from wardround.log import LogReader
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey
from wardround.runs.sources import open_benchmark
from wardround.scoring import PlantedKey, SafetyCounts, played_steps


def safety_counts(folder: RunFolder, key: PlantedKey) -> dict[str, SafetyCounts]:
    """Return the meters of every contender, over its finished stays."""
    samples = {sample.id: sample for sample in open_benchmark(folder).all_samples}
    counted: dict[str, SafetyCounts] = {}
    with LogReader(folder.logs) as reader:
        for trajectory in reader.trajectories():
            played = EpisodeKey.parse(trajectory.episode)
            counts = counted.setdefault(f"{played.agent} · {played.model}", SafetyCounts())
            counts.add(samples[played.sample].subject_id, played_steps(trajectory), key)
    return counted
