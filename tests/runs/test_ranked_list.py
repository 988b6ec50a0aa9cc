"""An answer kind of a plug-in file goes through build, run, report and compare, and touches no file of ours."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, text, tools
from forking import run_command

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLUGIN = ("--plugin", str(EXAMPLES / "ranked_list.py"))
LIMIT = 4


def printed(*words: object) -> str:
    done = run_command(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bench(synthetic_store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranked") / "bench"
    task = EXAMPLES / "ranked_labs.toml"
    words = ["--store", synthetic_store_path, "--out", folder, "--task-file", task]
    assert "ranked_labs" in printed("bench", "build", "tasks", *PLUGIN, *words)
    return folder


class Clinician:
    """Answers by tool with the first right name second, in writing with it first and one more third."""

    def __init__(self, bench: Path) -> None:
        self.targets: dict[str, list[str]] = {}
        for one in map(json.loads, (bench / "samples.jsonl").read_text(encoding="utf-8").splitlines()):
            asked = f"Subject: {one['subject_id']}\n- Current time: {one['prediction_time']}"
            self.targets[asked] = one["target"]
        self.prompts: list[str] = []

    def __call__(self, body: Any) -> Answer:
        asked = "\n".join(str(message["content"]) for message in body["messages"])
        self.prompts.append(asked)
        first, second, *_ = next(target for question, target in self.targets.items() if question in asked)
        if body.get("tools"):
            names = ["no such test", first, "nor this", "nor that", "nor those", second]
            return tools(("finish", json.dumps({"response": names})))
        return text(f"Reasoning: it is so.\nAnswer: {json.dumps([first, 'no such test', second])}")


def test_a_ranked_list_goes_through_build_run_report_and_compare(
    bench: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    clinician = Clinician(bench)
    with FakeServer(clinician) as server:
        words = ["--store", synthetic_store_path, "--benchmark", bench, "--limit", LIMIT, "--workers", 2]
        words += ["--model", "openai/test-model", "--base-url", server.url, "--agent", "react", "direct"]
        printed("run", *PLUGIN, *words, "--out", tmp_path / "run")
    assert all("likely first" in prompt for prompt in clinician.prompts)
    assert not any("candidate table `" in prompt for prompt in clinician.prompts)

    report = printed("report", *PLUGIN, tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * LIMIT
    for row in rows:
        ideal = sum(1 / log2(rank + 1) for rank in range(1, 1 + min(5, row["score"]["wanted"])))
        by_tool = row["agent"] == "react"
        gain = 1 / log2(3) if by_tool else 1 + 1 / log2(4)
        assert row["figures"] == pytest.approx({"reciprocal rank": 0.5 if by_tool else 1.0, "nDCG": gain / ideal})
        assert len(row["answer"]) == (5 if by_tool else 3)
    assert "reciprocal rank  0.500" in report
    assert "nDCG" in (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")

    compared = json.loads(printed("compare", *PLUGIN, tmp_path / "run", tmp_path / "run", "--json"))
    pairs = [(row["contender"].partition(" ")[0], row["baseline"].partition(" ")[0], row) for row in compared]
    found = {row["metric"]: row for second, first, row in pairs if (second, first) == ("direct", "react")}
    assert found.keys() == {"reciprocal rank", "nDCG"}
    assert found["reciprocal rank"]["test"]["difference"]["estimate"] == pytest.approx(0.5)


def test_without_the_plug_in_it_is_named(bench: Path) -> None:
    refused = run_command("bench", "show", bench)
    assert refused.returncode == 2
    assert "was made with a plug-in; name it: --plugin" in refused.stderr
