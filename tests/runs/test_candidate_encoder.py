"""``retrieval.candidate_encoder``: its vectors join the search of candidates; without it nothing is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wardround.agents import get_agent
from wardround.log import LogReader
from wardround.records import Store
from wardround.runs import RunSettings, banks, execute, start
from wardround.runs.worker import open_surroundings
from wardround.tasks.benchmarks import Benchmark
from wardround.tools.retrieval import EncoderConfig, LexicalEncoder, Vectors


class Recorded(LexicalEncoder):
    """The lexical encoder, with what it was asked and whether it was closed."""

    def __init__(self) -> None:
        super().__init__(64)
        self.asked: list[tuple[str, ...]] = []
        self.closed = False

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(tuple(texts))
        return super().encode(texts)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Recorded]]:
    made: list[tuple[str, Recorded]] = []

    def open_one(config: EncoderConfig, *_: Any) -> Recorded:
        made.append((config.name, Recorded()))
        return made[-1][1]

    monkeypatch.setattr(banks, "open_encoder", open_one)
    return made


def played(benchmark: Path, store: Path, out: Path, **named: Any) -> list[Any]:
    what = {"benchmark": str(benchmark), "store": str(store), "tasks": ("diagnoses",), "limit": 1}
    folder = start(out, RunSettings.of(**what, **named))
    execute(folder)
    with LogReader(folder.logs) as reader:
        return [turn.prompt for one in reader.trajectories() for turn in one.turns]


def test_it_is_opened_once_by_a_worker_and_asked_labels_and_queries(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, opened: list[tuple[str, Recorded]]
) -> None:
    where = (synthetic_benchmark_path, synthetic_store_path)
    plain = played(*where, tmp_path / "plain")
    assert opened == [], "by default there is none"
    encoded = played(*where, tmp_path / "encoded", candidate_encoder="lexical/64")
    assert [name for name, _ in opened] == ["lexical/64", "lexical/64"], "once to check the run, once by its worker"
    assert all(encoder.closed for _, encoder in opened)
    (_, checked), (_, used) = opened
    assert checked.asked == []
    spaces = Benchmark.open(synthetic_benchmark_path).spaces
    asked = [texts for texts in used.asked if len(texts) > 1]
    assert len(asked) == len(set(asked)), "equal labels are encoded once"
    assert set(asked) >= {space.labels.labels for space in spaces.values()}
    assert [texts for texts in used.asked if len(texts) == 1], "no query reached it"
    assert encoded != plain, "what was found is the same as without it"


def test_evidence_is_searched_with_the_encoder_of_the_run(
    synthetic_benchmark_path: Path, synthetic_store_path: Path
) -> None:
    benchmark, encoder = Benchmark.open(synthetic_benchmark_path), Recorded()
    settings = RunSettings.of(
        benchmark=str(synthetic_benchmark_path), store=str(synthetic_store_path), tools=("retrieve_evidence",)
    )
    sample = benchmark.samples("diagnoses")[0]
    there = open_surroundings(
        settings, Store.open(synthetic_store_path), benchmark, sample, get_agent("react"), encoder=encoder
    )
    found = there.call("retrieve_evidence", {"query": "fever since yesterday"})
    assert not found.is_error
    assert any("fever since yesterday" in texts for texts in encoder.asked)
