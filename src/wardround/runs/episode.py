"""What an episode of a run is bound to and what is said of it, whoever plays it: our agents or an outside one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from wardround.benchmarks import Benchmark, Sample, get_task
from wardround.imaging import Imaging
from wardround.knowledge import Knowledge
from wardround.records import Store
from wardround.retrieval import Encoder, RetrievalSettings
from wardround.runs.settings import EpisodeKey
from wardround.tools import Aids, Environment, open_toolset
from wardround.tools.toolsets import USUAL

DEFAULT_AIDS = Aids()
NO_IMAGES = Imaging()


def open_environment(
    store: Store,
    benchmark: Benchmark,
    sample: Sample,
    *,
    result_tokens: int,
    encoder: Encoder | None = None,
    retrieval: RetrievalSettings | None = None,
    toolset: str = USUAL,
    more_tools: Sequence[str] = (),
    aids: Aids = DEFAULT_AIDS,
    knowledge: Knowledge | None = None,
    images: Imaging = NO_IMAGES,
) -> Environment:
    """Bind the tools to a sample's subject and clock, with the benchmark's candidate tables.

    ``encoder`` and ``retrieval`` are what evidence is found with; ``more_tools`` are offered
    beside those of the ``toolset``.
    ``aids`` are what the session does for a language model, ``knowledge`` what it may read beside the chart,
    ``images`` where the chart's images are opened.
    """
    space = benchmark.space(get_task(sample.task))
    chart = store.chart(sample.subject_id, sample.prediction_time, policy=benchmark.policy)
    return Environment(
        chart,
        open_toolset(toolset, more=more_tools),
        benchmark.spaces_of(sample.person),
        max_result_tokens=result_tokens,
        encoder=encoder,
        retrieval=retrieval,
        answer_space=None if space is None else space.name,
        aids=aids,
        knowledge=knowledge,
        images=images.of(chart, store.subject_key(sample.subject_id)),
    )


def episode_facts(key: EpisodeKey, sample: Sample, benchmark: Benchmark, *, resumed_turns: int = 0) -> dict[str, Any]:
    """Return what the log keeps of an episode from its beginning; never its target."""
    return {
        **asdict(key),
        "subject_id": sample.subject_id,
        "prediction_time": sample.prediction_time.isoformat(sep=" "),
        "policy": benchmark.policy,
        "resumed_turns": resumed_turns,
    }
