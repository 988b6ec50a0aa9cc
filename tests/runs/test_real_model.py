"""Four episodes with the real small model. Needs ``WARDROUND_REAL_MODEL=1``; a bad answer is no fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.records import Store
from wardround.tasks.benchmarks import build_ehrshot

LITTLE = """
[model]
tool_calls = "auto"
temperature = 0.0

[budget]
turns = 2
context_tokens = 3200
reply_tokens = 96
result_tokens = 200
"""


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("settings") / "little.toml"
    path.write_text(LITTLE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ehrshot(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ehrshot") / "benchmark"
    build_ehrshot(synthetic_store, path, seed=3, tasks=("guo_los",), per_task=2, allow_missing=True)
    return path


def played(url: str, settings: Path, out: Path, **options: object) -> list[dict[str, object]]:
    """Run one sample of each agent and return the scored episodes."""
    words = ["run", str(settings), "--model", "openai/smollm2", "--base-url", url, "--limit", "1", "--out", str(out)]
    words += ["--workers", "1", "--concurrency", "1"]
    for name, value in options.items():
        words += [f"--{name}", *(value if isinstance(value, list) else [str(value)])]
    assert main(words) == 0
    assert main(["report", str(out)]) == 0
    return [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_agents_with_tools_end_as_episodes_end(
    real_model_url: str, little: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    rows = played(
        real_model_url,
        little,
        tmp_path / "run",
        benchmark=synthetic_benchmark_path,
        store=synthetic_store_path,
        agent=["react", "retrosum"],
        task="transfers",
    )
    assert {row["agent"] for row in rows} == {"react", "retrosum"}
    assert all(row["finish"] in ("finish", "text", "length", "turn_limit", "time_limit") for row in rows)
    assert all(row["use"]["usage"]["input_tokens"] > 0 for row in rows)  # type: ignore[index]


def test_a_label_is_bound_and_has_a_probability(
    real_model_url: str, little: Path, ehrshot: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    rows = played(
        real_model_url,
        little,
        tmp_path / "run",
        benchmark=ehrshot,
        store=synthetic_store_path,
        agent=["direct+probabilities", "rag+probabilities"],
        task="guo_los",
    )
    assert len(rows) == 2
    for row in rows:
        assert row["answer"] in (["0"], ["1"])  # whatever it wrote, the last call is bound to the labels
        chances = row["probabilities"]
        assert isinstance(chances, dict)
        assert sum(chances.values()) == pytest.approx(1)
