"""Episodes for readers of others: spans, logs of Inspect, JSON lines; and those readers, where a Python has them."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from wardround import __version__
from wardround.cli import main
from wardround.log import LogReader, Trajectory, spans_document

READERS = Path(__file__).parents[1] / "readers" / "read_exports.py"


@pytest.fixture(scope="module")
def run(synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored run of the offline policy: two episodes of a method that summarises."""
    out = tmp_path_factory.mktemp("exported") / "run"
    there = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--out", str(out)]
    asked = ["--agent", "retrosum", "--task", "diagnoses", "--limit", "2", "--set", "agent.retrosum.window=3"]
    assert main(["run", *there, *asked, "--workers", "1"]) == 0
    assert main(["report", str(out), "--no-episodes"]) == 0
    return out


@pytest.fixture(scope="module")
def episode(run: Path) -> Trajectory:
    """The first of its episodes."""
    with LogReader(run / "logs") as reader:
        return next(iter(reader.trajectories()))


def written(run: Path, what: str, out: Path, *more: str) -> list[dict[str, Any]]:
    assert main(["export", what, "--run", str(run), "--out", str(out), *more]) == 0
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_a_trace_is_the_agent_its_calls_and_its_tools(episode: Trajectory) -> None:
    (resource,) = spans_document(episode, version=__version__)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    agent, *others = scope["spans"]
    assert agent["name"] == "invoke_agent retrosum"
    assert "parentSpanId" not in agent
    assert {span["parentSpanId"] for span in others} == {agent["spanId"]}
    assert {span["traceId"] for span in others} == {agent["traceId"]}
    assert len({span["spanId"] for span in scope["spans"]}) == len(scope["spans"])
    chats = [span for span in others if span["name"].startswith("chat ")]
    assert len(chats) == len(episode.turns)
    tokens = [int(attributes(span)["gen_ai.usage.input_tokens"]) for span in chats]
    assert sum(tokens) == episode.usage.input_tokens == int(attributes(agent)["gen_ai.usage.input_tokens"])
    tools = [attributes(span)["gen_ai.tool.name"] for span in others if span["name"].startswith("execute_tool")]
    assert tools == [result.call.name for turn in episode.turns for result in turn.results]
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in scope["spans"])
    assert len(agent["traceId"]) == 32
    assert len(agent["spanId"]) == 16


def test_texts_are_asked_for_and_told_once(run: Path, episode: Trajectory, tmp_path: Path) -> None:
    result = max((result.result_text for turn in episode.turns for result in turn.results), key=len)
    quiet = json.dumps(written(run, "spans", tmp_path / "quiet.jsonl"))
    spoken = written(run, "spans", tmp_path / "spoken.jsonl", "--content")
    assert json.dumps(result)[1:-1] not in quiet
    texts = [attributes(span) for span in spoken[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    told = [json.loads(one["gen_ai.input.messages"]) for one in texts if "gen_ai.input.messages" in one]
    contents = [json.dumps(message) for messages in told for message in messages]
    assert len(contents) == len(set(contents)), "a history is not repeated"
    assert sum(one.get("gen_ai.tool.call.result") == result for one in texts) >= 1


def test_a_log_of_inspect_holds_every_prompt_once_and_whole(run: Path, episode: Trajectory, tmp_path: Path) -> None:
    assert main(["export", "inspect", "--run", str(run), "--out", str(tmp_path / "logs")]) == 0
    (file,) = (tmp_path / "logs").iterdir()
    with zipfile.ZipFile(file) as packed:
        header = json.loads(packed.read("header.json"))
        summaries = json.loads(packed.read("summaries.json"))
        sample = json.loads(packed.read(f"samples/{episode.facts['sample']}_epoch_1.json"))
    results = [json.loads(line) for line in (run / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    values = [result["score"]["f1"] for result in results]
    score = header["results"]["scores"][0]
    assert score["metrics"]["mean"]["value"] == pytest.approx(sum(values) / 2)
    assert score["metrics"]["stderr"]["value"] == pytest.approx(abs(values[0] - values[1]) / 2)
    assert [summary["id"] for summary in summaries] == [result["sample"] for result in results]
    assert sample["model_usage"]["offline"]["input_tokens"] == episode.usage.input_tokens
    pool = sample["events_data"]["messages"]
    assert len({message["id"] for message in pool}) == len(pool)
    asked = [event for event in sample["events"] if event["event"] == "model"]
    for event, turn in zip(asked, episode.turns, strict=True):
        used, paid = event["output"]["usage"], turn.usage
        assert (used["input_tokens"], used["output_tokens"]) == (paid.input_tokens, paid.output_tokens) > (0, 0)
        assert used["total_tokens"] == paid.input_tokens + paid.output_tokens
        told = [pool[place]["content"] for first, end in event["input_refs"] for place in range(first, end)]
        assert told == [message.content or "" for message in turn.prompt]


def test_lines_are_every_episodes(run: Path, episode: Trajectory, tmp_path: Path) -> None:
    whole = written(run, "trajectories", tmp_path / "whole.jsonl")
    assert len(whole[0]["turns"]) == len(episode.turns)
    branches = written(run, "conversations", tmp_path / "branches.jsonl")
    assert len(branches) == len(written(run, "atif", tmp_path / "atif.jsonl")) > len(whole), "summaries are branches"


def test_what_cannot_be_written_is_said(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "there.jsonl").touch()
    assert main(["export", "spans", "--run", str(run), "--out", str(tmp_path / "there.jsonl")]) == 2
    assert "is there already" in capsys.readouterr().err


def test_the_tools_they_are_for_open_them(run: Path, episode: Trajectory, tmp_path: Path) -> None:
    """``make test-exports`` makes a Python with those tools; their packages do not fit beside ours."""
    python = os.environ.get("WARDROUND_READERS")
    if python is None:
        pytest.skip("needs WARDROUND_READERS, a Python with inspect-ai and opentelemetry-proto (make test-exports)")
    assert main(["export", "inspect", "--run", str(run), "--out", str(tmp_path / "logs")]) == 0
    written(run, "spans", tmp_path / "spans.jsonl", "--content")
    words = [python, str(READERS), str(tmp_path / "logs"), str(tmp_path / "spans.jsonl")]
    seen = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout.splitlines()[-1])
    (log,) = seen["logs"].values()
    assert (log["task"], log["solver"], log["samples"], log["summaries"]) == ("diagnoses", "retrosum", 2, 2)
    assert log["prompts"] == [[message.content or "" for message in turn.prompt] for turn in episode.turns]
    assert log["tools"] == [result.call.name for turn in episode.turns for result in turn.results]
    assert seen["spans"] > 2 + len(episode.turns)
