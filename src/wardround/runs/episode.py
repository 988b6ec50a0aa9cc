"""What an episode of a run is bound to and what is said of it, whoever plays it: our agents or an outside one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from wardround.benchmarks import Benchmark, Sample
from wardround.records import Store
from wardround.runs.settings import EpisodeKey
from wardround.tools import Environment


def open_environment(store: Store, benchmark: Benchmark, sample: Sample, *, result_tokens: int) -> Environment:
    """Bind the tools to a sample's subject and clock, with the benchmark's candidate tables."""
    chart = store.chart(sample.subject_id, sample.prediction_time, policy=benchmark.policy)
    return Environment(chart, candidates=benchmark.spaces, max_result_tokens=result_tokens)


def episode_facts(key: EpisodeKey, sample: Sample, benchmark: Benchmark, *, resumed_turns: int = 0) -> dict[str, Any]:
    """Return what the log keeps of an episode from its beginning; never its target."""
    return {
        **asdict(key),
        "subject_id": sample.subject_id,
        "prediction_time": sample.prediction_time.isoformat(sep=" "),
        "policy": benchmark.policy,
        "resumed_turns": resumed_turns,
    }
