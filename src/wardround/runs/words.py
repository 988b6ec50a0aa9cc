"""Whether a run's charts have words to search by: retrieval by likeness is blind to codes without a description."""

from __future__ import annotations

from wardround.runs.execute import episode_keys
from wardround.runs.folder import RunFolder
from wardround.runs.sources import open_benchmark, open_store
from wardround.tools.retrieval import described_codes

_CHARTS = 5


def codes_with_words(folder: RunFolder) -> tuple[int, int]:
    """Return how many codes of a few of the run's charts have words, and how many there are."""
    store, benchmark = open_store(folder), open_benchmark(folder)
    wanted = dict.fromkeys(key.sample for key in episode_keys(folder.settings, benchmark))
    samples = [benchmark.sample(name) for name in list(wanted)[:_CHARTS]]
    charts = (one.chart(store, benchmark.policy) for one in samples)
    return described_codes(chart.event_columns() for chart in charts)
