"""Every retrieval method, and evidence before other agents, played offline on EHRSHOT's tasks of invented patients."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from wardround.agents import list_agents
from wardround.cli.main import main
from wardround.core import UserError
from wardround.log import LogReader
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, codes_with_words, execute, start
from wardround.runs.banks import VECTORS
from wardround.tasks.benchmarks import build_ehrshot

METHODS = tuple(method.name for method in list_agents("ehr-rag"))
OTHERS = ("react", "retrosum+ether", "resum+rag", "react+ether+tool")
TASKS = ("guo_los", "lab_anemia")


@pytest.fixture(scope="module")
def benchmark_path(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ehrshot") / "benchmark"
    build_ehrshot(synthetic_store, path, seed=3, tasks=TASKS, per_task=4, allow_missing=True)
    return path


def played(benchmark: Path, store: Path, out: Path, **changed: object) -> RunFolder:
    given = {"agents": (*METHODS, *OTHERS), "limit": 1, "turns": 12, "window": 2, "split": "test", **changed}
    folder = start(out, RunSettings.of(benchmark=str(benchmark), store=str(store), **given))  # type: ignore[arg-type]
    counts = execute(folder, concurrency=4)
    assert counts.done == counts.total
    return folder


@pytest.mark.parametrize("context_tokens", [64_000, 8_000])
def test_every_method_answers_without_an_error(
    context_tokens: int, benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    budget = {"context_tokens": context_tokens, "reply_tokens": 1024}
    folder = played(benchmark_path, synthetic_store_path, tmp_path / "run", **budget)
    seen: dict[str, set[str]] = {}
    with LogReader(folder.logs) as reader:
        for trajectory in reader.trajectories():
            agent = trajectory.episode.split("|")[0]
            outcome = trajectory.outcome or {}
            assert outcome["finish"] == ("text" if agent in METHODS else "finish"), trajectory.episode
            assert len(outcome["answer"]) == 1
            assert outcome["answer"][0] in ("0", "1", "2", "3")
            assert not [seen.result_text for turn in trajectory.turns for seen in turn.results if seen.is_error]
            assert not [note for note in trajectory.notes if "failed" in note.detail]
            seen.setdefault(agent, set()).update(turn.purpose for turn in trajectory.turns)
            tools = {tool["function"]["name"] for turn in trajectory.turns for tool in turn.tools}
            assert ("retrieve_evidence" in tools) == agent.endswith("+tool")
            evidence = [note for note in trajectory.notes if note.kind == "evidence"]
            assert bool(evidence) == (agent != "react")
    both = {"argue_for", "argue_against", "act"}
    assert seen["ehr-rag"] == {"rerank", "refine", *both}
    assert seen["ehr-rag-no-ether"] == {"refine", *both}
    assert seen["ehr-rag-no-air"] == {"rerank", *both}
    assert seen["ehr-rag-no-der"] == {"rerank", "refine", "act"}
    assert seen["react-rag"] == {"search", "act"}
    assert all(seen[name] == {"act"} for name in ("direct", "rag", "uniform-rag", "rule-rag"))
    assert seen["retrosum+ether"] == {"rerank", "summarise", "act"}


def test_the_budget_is_that_of_the_benchmark_s_paper_unless_one_is_named(
    benchmark_path: Path, synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    found = {}
    for number, (benchmark, named) in enumerate(
        [(benchmark_path, None), (benchmark_path, 32_000), (synthetic_benchmark_path, None)]
    ):
        settings = RunSettings.of(
            benchmark=str(benchmark), store=str(synthetic_store_path), limit=1, context_tokens=named, agents=("direct",)
        )
        folder = start(tmp_path / str(number), settings)
        found[number] = (folder.settings.budget_tokens, RunFolder.open(folder.path).settings.budget.context_tokens)
    assert found == {0: (128_000, 128_000), 1: (32_000, 32_000), 2: (64_000, 64_000)}


def test_where_evidence_was_cut_the_run_warns_and_the_tables_have_a_column(
    benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [*_common(benchmark_path, synthetic_store_path), "--agent", "direct", "react", "--task", "guo_los"]
    assert main(["run", *common, "--out", str(tmp_path / "whole")]) == 0
    assert "evidence" not in capsys.readouterr().err
    small = ["--context-tokens", "3000", "--set", "budget.reply_tokens=500", "--turns", "2"]
    assert main(["run", *common, *small, "--out", str(tmp_path / "small")]) == 0
    said = capsys.readouterr().err
    assert "gives every method 128,000 context tokens; with 3,000 evidence may be cut" in said
    assert "direct: evidence was cut in 1 of 1 episodes" in said
    assert main(["report", str(tmp_path / "whole")]) == 0
    assert "evidence cut" not in capsys.readouterr().out
    assert main(["report", str(tmp_path / "small")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("evidence cut") == 2, "in the table of scores and in that of classes"
    assert printed.count("1 of 1 (-") == 2
    page = (tmp_path / "small" / "report" / "index.html").read_text()
    assert "cut the evidence of direct" in page
    assert page.count('<th class="number">evidence cut</th>') == 2


def test_charts_without_words_are_said_when_somebody_searches_by_them(
    benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [*_common(benchmark_path, synthetic_store_path), "--task", "guo_los"]
    assert main(["run", *common, "--agent", "ehr-rag", "--out", str(tmp_path / "described")]) == 0
    assert "have words" not in capsys.readouterr().err
    words, codes = codes_with_words(RunFolder.open(tmp_path / "described"))
    assert 0.9 * codes < words < codes, "table names are no words"
    with LogReader(tmp_path / "described" / "logs") as reader:
        [(_, chart)] = reader.notes("chart")
    assert chart["codes"] >= chart["described"] > 0


def test_mute_charts_name_the_command_that_helps(
    benchmark_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "wardround.tools.retrieval.chunks.described", lambda columns: np.zeros(len(columns.codes), bool)
    )
    common = [*_common(benchmark_path, synthetic_store_path), "--task", "guo_los", "--context-tokens", "20000"]
    assert main(["run", *common, "--agent", "rag", "react", "--out", str(tmp_path / "rag")]) == 0
    said = capsys.readouterr().err
    assert re.search(r"only 0 of [\d,]+ codes of the first charts have words; rag searches by words", said)
    assert "`wardround codes describe`" in said
    assert main(["run", *common, "--agent", "react", "--out", str(tmp_path / "react")]) == 0
    assert "have words" not in capsys.readouterr().err


def _common(benchmark: Path, store: Path) -> list[str]:
    return f"--benchmark {benchmark} --store {store} --workers 1 --limit 1".split()


def test_the_manifest_says_how_charts_were_searched(
    benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    common = _common(benchmark_path, synthetic_store_path)
    changed = ["--set", "retrieval.alpha=0.5", "--set", "retrieval.rounds=2", "--set", "retrieval.final=3"]
    agents = ["--agent", "ehr-rag", "react", "react+ether", "--task", "guo_los"]
    assert main(["run", *common, *agents, *changed, "--out", str(out)]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["run"]["agents"] == ["ehr-rag", "react", "react+ether"]
    retrieval = manifest["settings"]["retrieval"]
    assert (retrieval["alpha"], retrieval["rounds"], retrieval["final"], retrieval["coarse"]) == (0.5, 2, 3, 30)
    assert "agents/ehr_rag" in manifest["prompts"]
    assert RunFolder.open(out).settings.retrieval.alpha == 0.5
    with LogReader(out / "logs") as reader:
        rounds = {
            note.detail["round"]
            for trajectory in reader.trajectories()
            for note in trajectory.notes
            if note.kind == "retrieval"
        }
    assert rounds == {1, 2}
    assert (synthetic_store_path / VECTORS).exists()
    assert main(["run", "--resume", str(out)]) == 0
    assert main(["run", "--resume", str(out), "--set", "retrieval.alpha=0.9"]) == 2
    assert main(["run", "--resume", str(out), "--agent", "react+ether"]) == 2


def test_a_method_with_two_sides_is_refused_on_open_questions_before_it_costs_anything(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="argues for and against a label"):
        played(synthetic_benchmark_path, synthetic_store_path, tmp_path / "run", agents=("ehr-rag",))
    assert not (tmp_path / "run").exists()


def test_evidence_for_open_questions_is_found_by_their_own_query(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    agents = ("rag", "retrosum+ether")
    folder = played(synthetic_benchmark_path, synthetic_store_path, tmp_path / "run", agents=agents, limit=1)
    with LogReader(folder.logs) as reader:
        for trajectory in reader.trajectories():
            outcome = trajectory.outcome or {}
            assert outcome["finish"] in ("text", "finish"), trajectory.episode
            assert outcome["answer"] or trajectory.episode.startswith("rag|"), trajectory.episode
            assert [note for note in trajectory.notes if note.kind == "evidence"]


def test_the_grid_plays_the_paper_that_its_benchmark_is_for(
    benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = _common(benchmark_path, synthetic_store_path)
    rows = {"--task": (2, "direct"), "--ablations": (4, "ehr-rag")}
    for option, (table, first) in rows.items():
        out = tmp_path / f"grid{table}"
        chosen = ["--task", "lab_anemia"] if option == "--task" else ["--ablations"]
        few = [f"--set=predictors.{one}" for one in ("shots=1,all", "replicates=1", "resamples=50")]
        assert main(["grid", *common, *chosen, *few, "--out", str(out)]) == 0
        expected = {method.name for method in list_agents("ehr-rag") if table in method.tables}
        assert set(RunFolder.open(out).settings.run.agents) == expected
        assert f"less that of {first} · offline" in capsys.readouterr().out
