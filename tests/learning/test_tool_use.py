"""How a model used its tools: what counts as valid, useful and finished, and runs beside each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from log_doubles import ask, calling
from wardround.cli import main
from wardround.cli.train import mean_and_range
from wardround.core import Message, Usage
from wardround.learning import tool_use
from wardround.log import EpisodeLog, LogReader, ToolRecord, Trajectory
from wardround.models import Reply
from wardround.runs import RunFolder

LABS = '{"table_name": "labevents"}'
PROSE = Reply(
    message=Message(role="assistant", content="I would look at the labs."),
    usage=Usage(),
    finish_reason="stop",
    model="m",
    seconds=0.1,
)


def told(folder: Path, calls: list[tuple[str, str, str, bool]], *, finish: str = "finish") -> Trajectory:
    """Record an episode: a reply of prose, then calls with name, arguments, result and whether it is an error."""
    with EpisodeLog(folder / "w.sqlite") as log:
        recorder = log.begin("e", {"task": "t"})
        recorder.turn(ask((Message(role="user", content="?"),), 0), PROSE, [])
        for ordinal, (name, arguments, text, is_error) in enumerate(calls, start=1):
            reply = calling(ordinal, name, arguments)
            result = ToolRecord(call=reply.message.tool_calls[0], result_text=text, is_error=is_error)
            recorder.turn(ask((Message(role="user", content="?"),), ordinal), reply, [result])
        recorder.finish({"finish": finish})
    with LogReader(folder / "w.sqlite") as reader:
        return reader.trajectory("e")


def test_calls_are_counted_and_prose_is_none(tmp_path: Path) -> None:
    use = tool_use(told(tmp_path, [], finish="turns"))
    assert (use.calls.total(), use.valid, use.useful, use.finished) == (0, 0, 0, False)


def test_the_same_call_eight_times_is_useful_once(tmp_path: Path) -> None:
    use = tool_use(told(tmp_path, [("get_records", LABS, "rows", False)] * 8, finish="turns"))
    assert (use.calls["get_records"], use.valid, use.useful) == (8, 8, 1)


def test_errors_thoughts_and_the_answer_are_not_useful(tmp_path: Path) -> None:
    calls = [
        ("get_records", "{", "Error: no JSON", True),
        ("think", '{"response": "hm"}', "noted", False),
        ("get_records", LABS, "rows", False),
        ("get_records", LABS, "other rows", False),
        ("finish", '{"response": []}', "done", False),
    ]
    use = tool_use(told(tmp_path, calls))
    assert (use.calls.total(), use.valid, use.useful, use.finished) == (5, 4, 2, True)


@pytest.fixture(scope="module")
def runs(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """One run by rules, and another of the same samples that reads less."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    words += ["--agent", "react", "--task", "transfers", "--limit", "2", "--workers", "1"]
    for name, turns in (("short", "2"), ("long", "30")):
        assert main([*words, "--set", f"budget.turns={turns}", "--out", str(folder / name)]) == 0
    return {name: folder / name for name in ("short", "long")}


def test_seeds_after_and_a_run_beside(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    short, long = str(runs["short"]), str(runs["long"])
    assert main(["train", "compare", short, long, short, "--beside", long, "--json"]) == 0
    shift = json.loads(capsys.readouterr().out)
    assert (shift["samples"], len(shift["after"]), [one["run"] for one in shift["beside"]]) == (2, 2, ["long"])
    assert shift["after"][0] == shift["beside"][0]
    assert shift["after"][1] == shift["before"]
    gained = shift["after"][0]["useful"] - shift["before"]["useful"]
    assert gained > 0
    assert shift["useful_test"]["difference"]["estimate"] == pytest.approx(gained / 2)
    assert 0 <= shift["constant"] <= 1

    assert main(["train", "compare", short, long, short, "--beside", long]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"2 samples +before +long +after +after - before", printed)
    assert re.search(r"useful calls per episode .* to .*", printed)
    assert "the best constant answer, fitted on training people, scores" in printed


@pytest.mark.parametrize(
    ("seeds", "cell"),
    [
        ([None], "no calls"),
        ([None, None], "no calls"),
        ([0.25], "0.250"),
        ([0.25, None, 0.75], "0.500 (0.250 to 0.750)"),
    ],
)
def test_a_seed_without_calls_has_no_share_of_them(seeds: list[float | None], cell: str) -> None:
    assert mean_and_range(seeds) == cell


def test_runs_without_a_common_sample_are_refused(
    runs: dict[str, Path], teacher: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "compare", str(runs["long"]), str(teacher.path)]) == 2
    assert "these runs share no sample" in capsys.readouterr().err
