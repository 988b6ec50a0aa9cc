"""Stays in runs: the runner writes a prediction down before it hands out what comes next, and a run ends in figures."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from wardround.agents import StepPrediction
from wardround.cli import main
from wardround.core import UserError
from wardround.log import LogReader
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.runs.stays import stay_feed
from wardround.tasks.benchmarks import Benchmark

PROTOCOL = """
schema = 1
name = "try"

[[rule]]
id = "LABS"
category = "ROUTINE"
trigger = "hours since Creatinine >= 4"
actions = ["order Creatinine", "order Potassium", "order Sodium", "start Heparin"]
"""


class Notes:
    """A recorder that keeps notes only."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, Mapping[str, Any]]] = []

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        self.noted.append((kind, detail))

    def turn(self, *rest: object, **named: object) -> None: ...


def test_the_next_bundle_comes_after_the_prediction_is_written(
    synthetic_store: Store, synthetic_stays_path: Path
) -> None:
    sample = Benchmark.open(synthetic_stays_path).all_samples[0]
    recorder = Notes()
    feed = stay_feed(synthetic_store, sample, recorder)
    hours = [feed.first().hour]
    while (bundle := feed.after(StepPrediction())) is not None:
        assert [detail["step"] for _, detail in recorder.noted] == list(range(len(hours)))
        hours.append(bundle.hour)
    steps = sample.facts["stop"] - sample.facts["first"] - 1
    assert len(hours) == len(recorder.noted) == steps
    assert hours == sorted(hours)
    assert all(one.hour < hours[0] for one in feed.past)


def played(settings: Mapping[str, Any], out: Path) -> RunFolder:
    folder = start(out, RunSettings.of(**settings))
    execute(folder)
    return folder


@pytest.fixture(scope="module")
def run(synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("stays")
    (folder / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    settings = {
        "store": str(synthetic_store_path),
        "benchmark": str(synthetic_stays_path),
        "agents": ["trace", "trace-no-protocol"],
        "protocol": str(folder / "protocol.toml"),
    }
    return played(settings, folder / "run")


def test_a_run_of_stays_ends_in_recall(run: RunFolder) -> None:
    by_agent: dict[str, list[float]] = {}
    for score in score_run(run):
        by_agent.setdefault(score.agent, []).append(score.value)
        assert score.finish == "finish"
        assert score.steps is not None
        assert score.steps.cited <= score.steps.steps
    assert max(by_agent["trace-no-protocol"]) == 0
    assert max(by_agent["trace"]) > 0


def test_what_was_cited_held_when_it_was_cited(run: RunFolder) -> None:
    with LogReader(run.logs) as reader:
        notes: Sequence[Any] = [detail for _, detail in reader.notes("step")]
    cited = [(one, note) for note in notes for action in note["actions"] for one in action["because"]]
    assert cited
    assert all(one in note["held"] and one in note["read"] for one, note in cited)


def test_the_report_prints_the_figures(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run.path)]) == 0
    printed = capsys.readouterr().out
    assert "recall@5" in printed
    assert "cites a rule" in printed
    page = (run.path / "report" / "index.html").read_text(encoding="utf-8")
    assert "Stays, step by step" in page
    stay = next((run.path / "report" / "episodes").glob("*.html")).read_text(encoding="utf-8")
    assert "The stay, step by step" in stay
    assert all(f"<dt>{said}</dt>" in stay for said in ("state", "rules read", "proposed", "then done"))
    pages = "".join(file.read_text(encoding="utf-8") for file in (run.path / "report" / "episodes").glob("*.html"))
    assert "rule LABS: “IF hours since Creatinine &gt;= 4 THEN order Creatinine" in pages, "the text of the rule"
    assert re.search(r"<pre>\[\d{4}-\d\d-\d\d \d\d:00\]", stay), "the bundle of the hour"
    assert re.search(r"<dt>state</dt><dd>[^<]*(given now [+−]|rising|falling|steady)", stay)


def test_a_report_without_its_store_says_what_it_leaves_out(run: RunFolder, tmp_path: Path) -> None:
    """The store was moved: what was noted is still told."""
    copied = tmp_path / "run"
    shutil.copytree(run.path, copied)
    manifest = json.loads((copied / "manifest.json").read_text(encoding="utf-8"))
    manifest["store_digest"] = "0" * 64
    (copied / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert main(["report", str(copied), "--out", str(tmp_path / "report")]) == 0
    stay = next((tmp_path / "report" / "episodes").glob("*.html")).read_text(encoding="utf-8")
    assert "The store is missing" in stay
    assert "<dt>state</dt>" not in stay
    assert "<dt>proposed</dt>" in stay


def test_a_step_limit_ends_a_stay_and_what_was_said_counts(
    synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path
) -> None:
    settings = {"store": str(synthetic_store_path), "benchmark": str(synthetic_stays_path), "agents": ["trace"]}
    folder = played(settings | {"steps": 2, "limit": 1}, tmp_path / "run")
    (score,) = score_run(folder)
    assert score.finish == "step_limit"
    assert score.steps is not None
    assert score.steps.steps == 2


@pytest.mark.parametrize(("agent", "benchmark"), [("react", "stays"), ("trace", "charts")])
def test_an_agent_of_the_other_kind_is_refused_at_once(
    agent: str,
    benchmark: str,
    synthetic_store_path: Path,
    synthetic_stays_path: Path,
    synthetic_benchmark_path: Path,
    tmp_path: Path,
) -> None:
    place = synthetic_stays_path if benchmark == "stays" else synthetic_benchmark_path
    settings = RunSettings.of(store=str(synthetic_store_path), benchmark=str(place), agents=[agent])
    with pytest.raises(UserError, match=f"agent {agent!r} does not play"):
        start(tmp_path / "run", settings)
