"""What of a prompt is tool schemas: every call pays for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest

from wardround.core import Message
from wardround.log import LogReader
from wardround.records import Store
from wardround.runs import RunSettings, execute, start
from wardround.runs.worker import open_environment
from wardround.tasks.benchmarks import Benchmark, build_ehrshot
from wardround.tools import open_toolset

MOST = 0.30


def length(message: Message) -> int:
    return len(message.content or "") + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)


def schema_characters(benchmark: Benchmark, store: Store, key: str) -> int:
    """What an endpoint is sent of the tools of a sample."""
    environment = open_environment(store, benchmark, benchmark.sample(key))
    return sum(len(json.dumps(schema.to_wire())) for schema in environment.schemas)


@pytest.fixture(scope="module")
def families(
    synthetic_benchmark_path: Path,
    clinseek_path: Path,
    synthetic_store: Store,
    once: Callable[..., Path],
) -> dict[str, Path]:
    ehrshot = once(
        "synthetic-ehrshot", lambda path: build_ehrshot(synthetic_store, path, per_task=2, allow_missing=True)
    )
    return {"agentehr": synthetic_benchmark_path, "clinseek": clinseek_path, "ehrshot": ehrshot}


def test_tool_schemas_are_less_than_a_third_of_what_is_sent(
    families: dict[str, Path], synthetic_store: Store, synthetic_store_path: Path, tmp_path: Path
) -> None:
    shares = {}
    for name, path in families.items():
        settings = RunSettings.of(benchmark=str(path), store=str(synthetic_store_path), limit=10, agents=("react",))
        folder = start(tmp_path / name, settings)
        execute(folder)
        benchmark = Benchmark.open(path)
        tools = messages = 0
        with LogReader(folder.path) as log:
            for one in log.trajectories():
                tools += len(one.turns) * schema_characters(benchmark, synthetic_store, one.facts["sample"])
                messages += sum(length(message) for turn in one.turns for message in turn.prompt)
        shares[name] = tools / (tools + messages)
    assert fmean(shares.values()) <= MOST, shares


def test_the_usual_tools_stay_short() -> None:
    sent = {
        name: sum(len(json.dumps(one.to_wire())) for one in open_toolset(name).schemas)
        for name in ("usual", "agentehr")
    }
    over = sent["usual"] - 3_950
    assert over <= 0, (
        f"{over} characters too many: shorten a docstring or the help of an argument in tools/record_tools.py"
    )
    assert sent["usual"] < 0.7 * sent["agentehr"]
