"""Evolving, the bank of a run, and the grid, on the synthetic hospital: the offline policy, and a served model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, error, text, tools
from wardround.agents import list_agents
from wardround.cli import main
from wardround.core import UserError
from wardround.learning import evolve, training_strata
from wardround.log import LogReader
from wardround.memory import REFLECTED_KINDS, Bank, Subject, contamination_check
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, execute, score_run, start
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.benchmarks.agentehr import build_agentehr
from wardround.tasks.benchmarks.drawing import split_of
from wardround.tasks.scoring import summarise

TASKS = ("diagnoses", "transfers")


def _places(settings: RunSettings) -> list[str]:
    return ["--benchmark", settings.run.benchmark, "--store", settings.run.store]


@pytest.fixture(scope="module")
def settings(synthetic_benchmark_path: Path, synthetic_store_path: Path) -> RunSettings:
    return RunSettings.of(
        benchmark=str(synthetic_benchmark_path),
        store=str(synthetic_store_path),
        tasks=TASKS,
        split="train",
        limit=3,
        agents=("retrosum",),
        window=3,
        final_summary=True,
    )


@pytest.fixture(scope="module")
def training(settings: RunSettings, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = start(tmp_path_factory.mktemp("evolve") / "training", settings)
    execute(folder)
    return folder


@pytest.fixture(scope="module")
def bank_path(training: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evolve") / "bank.sqlite"
    with Bank.open(path) as bank:
        evolve(training, bank)
    return path


def test_every_training_episode_is_reflected_on_once(training: RunFolder, tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        first = evolve(training, bank)
        assert first.episodes == 6
        assert first.added.total() == len(bank) > 0
        assert first.added["actor"] > 0
        assert first.added["summariser"] > 0
        assert not first.problems
        again = evolve(training, bank)
        assert (again.reflected, again.skipped, again.added.total()) == (0, 24, 0)


def test_another_bank_gets_the_same_from_the_same_run(training: RunFolder, bank_path: Path, tmp_path: Path) -> None:
    with Bank.open(tmp_path / "other.sqlite") as other, Bank.open(bank_path, writable=False) as bank:
        evolve(training, other)
        texts = [sorted((one.kind, one.title, one.content) for one in held.experiences()) for held in (bank, other)]
        assert texts[0] == texts[1]


def test_what_was_learnt_says_where_it_came_from_and_is_clean(
    training: RunFolder, bank_path: Path, synthetic_benchmark_path: Path
) -> None:
    benchmark = Benchmark.open(synthetic_benchmark_path)
    samples = {sample.id: sample for sample in benchmark.all_samples}
    with Bank.open(bank_path) as bank:
        for one in bank.experiences():
            origin = one.provenance
            assert samples[origin.sample].split == origin.split == "train"
            assert one.task in TASKS
            assert origin.sample in origin.episode
            assert origin.run.startswith("training:")
            assert one.score is not None
        assert contamination_check(bank, benchmark.all_samples, source="mimiciv").clean


def test_the_last_summary_reaches_the_reflection(training: RunFolder) -> None:
    with LogReader(training.logs) as reader:
        for trajectory in reader.trajectories():
            assert [turn.purpose for turn in trajectory.turns][-1] == "summarise"


def test_keys_of_another_length_fill_and_serve_a_bank_of_their_own(settings: RunSettings, tmp_path: Path) -> None:
    short = settings.changed(key_tokens=100, limit=1, tasks=("diagnoses",))
    folder = start(tmp_path / "training", short)
    execute(folder)
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        assert evolve(folder, bank).added.total() > 0
        assert bank.encoder == "lexical-1-1024-of-100-tokens"
    test = short.changed(split="test", agents=("reasoningbank",), bank=str(tmp_path / "bank.sqlite"))
    assert execute(start(tmp_path / "run", test)).done == 1
    with pytest.raises(UserError, match=r"memory\.key_tokens"):
        start(tmp_path / "other", test.changed(key_tokens=2_048))


def test_only_the_training_split_teaches(settings: RunSettings, tmp_path: Path) -> None:
    folder = start(tmp_path / "run", settings.changed(split="test"))
    with Bank.open(tmp_path / "bank.sqlite") as bank, pytest.raises(UserError, match="this run is on 'test'"):
        evolve(folder, bank)


ITEM = "### Item 1\nTitle: Look twice\nDescription: Always\nContent: Look again, then answer."
JUDGED = "Nothing carries it.\nVerdict: failure"


class Speaker:
    """Plays one turn, then finishes; writes lessons and verdicts, unless it is told to fail at them."""

    def __init__(self) -> None:
        self.fails = False
        self.reflections = 0

    def __call__(self, body: Any) -> Answer:
        if "tools" in body:
            acted = any(message["role"] == "tool" for message in body["messages"])
            return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))
        asked = body["messages"][-1]["content"]
        if "Your task now: summarise." in asked:
            return text("a summary")
        self.reflections += 1
        if self.fails:
            return error(400)
        return text(JUDGED if "Verdict:" in asked else ITEM)


@pytest.fixture
def spoken(settings: RunSettings, tmp_path: Path) -> Iterator[tuple[RunFolder, Speaker]]:
    """A played training run of a served model that can write."""
    speaker = Speaker()
    with FakeServer(speaker) as server:
        served = settings.changed(models=("openai/test-model",), base_url=server.url)
        folder = start(tmp_path / "run", served.changed(limit=2, tasks=("diagnoses",)))
        execute(folder)
        yield folder, speaker


def test_a_model_that_can_write_is_asked_for_every_kind(spoken: tuple[RunFolder, Speaker], tmp_path: Path) -> None:
    folder, speaker = spoken
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        found = evolve(folder, bank)
        assert set(found.added) == set(REFLECTED_KINDS)
        assert {one.tool for one in bank.experiences() if one.kind == "tool"} == {"get_table_names", "finish"}
        asked = speaker.reflections
        assert asked == 2 * (1 + 1 + 2 + 2), "actor, summariser, a verdict and its lesson, two tools"
        assert (evolve(folder, bank).reflected, speaker.reflections) == (0, asked)
    with LogReader(folder.path / "reflections") as reader:
        purposes = {turn.purpose for trajectory in reader.trajectories() for turn in trajectory.turns}
        assert purposes == {"reflect_actor", "reflect_summariser", "reflect_reasoning", "reflect_tool", "judge"}
    with Bank.open(tmp_path / "second.sqlite") as second:
        evolve(folder, second)
        assert speaker.reflections == asked, "another bank is filled from what was recorded"
        assert len(second) == found.added.total()


def test_a_reflection_that_fails_is_counted_and_tried_again(spoken: tuple[RunFolder, Speaker], tmp_path: Path) -> None:
    folder, speaker = spoken
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        speaker.fails = True
        assert (evolve(folder, bank, kinds=("actor",)).failed, len(bank)) == (2, 0)
        speaker.fails = False
        found = evolve(folder, bank, kinds=("actor",))
        assert (found.failed, found.added["actor"]) == (0, 2)


def test_a_run_serves_the_bank_as_it_stood_when_the_run_was_made(
    settings: RunSettings, bank_path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "bank.sqlite"
    copy.write_bytes(bank_path.read_bytes())
    test = settings.changed(split="test", agents=("retrosum-evolved",), bank=str(copy), final_summary=False)
    folder = start(tmp_path / "run", test)
    facts = folder.manifest["bank"]
    with Bank.open(copy) as bank:
        assert (facts["revision"], facts["experiences"]) == (bank.revision, len(bank))
        bank.retire(bank.experiences()[0].id, reason="a test")
    execute(RunFolder.open(folder.path))
    with LogReader(folder.logs) as reader:
        notes = [note for one in reader.trajectories() for note in one.notes if note.kind == "experiences"]
    assert {note.detail["kind"] for note in notes} == {"actor", "summariser"}
    assert {note.detail["bank_revision"] for note in notes} == {facts["revision"]}


def test_a_bank_that_is_another_one_now_is_refused(settings: RunSettings, bank_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bank.sqlite"
    copy.write_bytes(bank_path.read_bytes())
    folder = start(tmp_path / "run", settings.changed(split="test", agents=("reasoningbank",), bank=str(copy)))
    copy.unlink()
    with Bank.open(copy):
        pass
    with pytest.raises(UserError, match="older than the one this run was made with"):
        execute(RunFolder.open(folder.path))


def test_what_a_bank_needs_is_said_before_anything_is_played(
    settings: RunSettings, bank_path: Path, tmp_path: Path
) -> None:
    test = settings.changed(split="test")
    with pytest.raises(UserError, match="reasoningbank needs a bank"):
        start(tmp_path / "one", test.changed(agents=("reasoningbank",)))
    other = test.changed(agents=("reasoningbank",), bank=str(bank_path), encoder="lexical/64")
    with pytest.raises(UserError, match=r"set the same retrieval\.encoder"):
        start(tmp_path / "two", other)
    shorter = test.changed(agents=("reasoningbank",), bank=str(bank_path), key_tokens=100)
    with pytest.raises(UserError, match=r"not by 'lexical-1-1024-of-100-tokens': .* memory\.key_tokens"):
        start(tmp_path / "two", shorter)
    with pytest.raises(UserError, match="window must be at least 1"):
        test.changed(window=0)
    assert not (tmp_path / "one").exists()
    assert not (tmp_path / "two").exists()


def test_the_grid_plays_every_method_without_an_error_of_ours(
    settings: RunSettings, bank_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [
        "--benchmark",
        settings.run.benchmark,
        "--store",
        settings.run.store,
        "--bank",
        str(bank_path),
        "--workers",
        "1",
    ]
    windows = [f"--set=agent.{name}.window=3" for name in ("retrosum", "resum")]
    for number, extra in enumerate(([], ["--ablations"])):
        out = tmp_path / f"grid{number}"
        assert (
            main(
                [
                    "grid",
                    *common,
                    *extra,
                    "--limit",
                    "1",
                    *windows,
                    "--out",
                    str(out),
                ]
            )
            == 0
        )
        printed = capsys.readouterr().out
        names = [method.name for method in list_agents("retrosum") if (2, 4)[number] in method.tables]
        assert all(f"\n{name} " in printed for name in names)
        assert re.search(r"F1 less that of resum · offline\ntask .*p \(max-T\).*\ndiagnoses ", printed)
        with LogReader(out / "logs") as reader:
            played = {entry.facts["agent"] for entry in reader.episodes()}
            assert played == set(names)
            for trajectory in reader.trajectories():
                assert (trajectory.outcome or {})["finish"] == "finish", trajectory.episode
                assert not [seen.result_text for turn in trajectory.turns for seen in turn.results if seen.is_error]
                assert not [note for note in trajectory.notes if "failed" in note.detail]
        assert main(["grid", "--resume", str(out)]) == 0, "nothing is played twice"


def test_without_a_bank_the_grid_says_what_it_leaves_out(
    settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [
        "--benchmark",
        settings.run.benchmark,
        "--store",
        settings.run.store,
        "--task",
        "transfers",
        "--limit",
        "1",
    ]
    assert main(["grid", *common, "--workers", "1", "--out", str(tmp_path / "grid")]) == 0
    printed = capsys.readouterr().out
    assert "left out, because they need --bank" in printed
    assert set(RunFolder.open(tmp_path / "grid").settings.run.agents) == {"react", "reflexion", "resum", "retrosum"}


def played_strata(path: Path) -> set[str]:
    """The strata of a run's samples."""
    folder = RunFolder.open(path)
    benchmark = Benchmark.open(Path(folder.settings.run.benchmark))
    with LogReader(folder.logs) as reader:
        return {benchmark.sample(entry.facts["sample"]).stratum for entry in reader.episodes()}


def test_a_benchmark_without_a_common_stratum_teaches_with_all_it_has() -> None:
    benchmark = Benchmark(manifest={"name": "x"}, all_samples=(), spaces={})
    assert training_strata(benchmark) == ()


def test_evolve_from_the_command_line_and_again(
    settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank, out = tmp_path / "bank.sqlite", tmp_path / "training"
    common = [
        "--benchmark",
        settings.run.benchmark,
        "--store",
        settings.run.store,
        "--task",
        "transfers",
        "--workers",
        "1",
    ]
    assert main(["memory", "evolve", *common, "--limit", "2", "--out", str(out), "--bank", str(bank)]) == 0
    assert "contamination check: clean" in capsys.readouterr().out
    assert played_strata(out) == {"common"}, "the paper learns from the common stratum alone"
    both = ["--set", "run.strata=common,rare", "--out", str(tmp_path / "both"), "--bank", str(tmp_path / "both.sqlite")]
    assert main(["memory", "evolve", *common, *both]) == 0
    assert played_strata(tmp_path / "both") == {"common", "rare"}
    capsys.readouterr()
    assert main(["memory", "evolve", "--resume", str(out), "--bank", str(bank)]) == 0
    assert "nothing new; 8 reflections were there already" in capsys.readouterr().out
    assert main(["memory", "evolve", *common, "--out", str(out)]) == 2
    assert "name one with --bank" in capsys.readouterr().err


def test_a_bank_of_another_split_serves_nobody_its_evaluated_patients(
    settings: RunSettings, bank_path: Path, synthetic_store: Store, tmp_path: Path
) -> None:
    """The same patients, split otherwise: who taught the bank may be tested on now, and then teaches nobody."""
    other = build_agentehr(synthetic_store, tmp_path / "benchmark", seed=4, per_task=6)
    evaluated = {sample.subject_id for sample in other.all_samples if sample.split != "train"}
    with Bank.open(bank_path, writable=False) as bank:
        hashes = {bank.subject_hash(Subject(source="mimiciv", subject_id=subject)) for subject in evaluated}
        barred = {one.id for one in bank.experiences() if one.provenance.subject in hashes}
        assert 0 < len(barred) < len(bank)
    changed = settings.changed(benchmark=str(tmp_path / "benchmark"), split="test", limit=None)
    folder = start(tmp_path / "run", changed.changed(agents=("retrosum-evolved",), bank=str(bank_path), k=100))
    assert folder.manifest["bank"]["withheld_evaluated"] == len(barred)
    execute(folder)
    with LogReader(folder.logs) as reader:
        notes = [note.detail for one in reader.trajectories() for note in one.notes if note.kind == "experiences"]
    served = {one["id"] for note in notes for one in note["served"]}
    assert served
    assert not served & barred
    assert any(note["withheld"]["evaluated"] for note in notes)


def test_patients_of_the_dev_split_are_evaluated_on_too(
    settings: RunSettings, bank_path: Path, synthetic_store: Store, tmp_path: Path
) -> None:
    with Bank.open(bank_path, writable=False) as bank:
        taught = {one.provenance.subject for one in bank.experiences()}
        hashed = {
            n: bank.subject_hash(Subject(source="mimiciv", subject_id=n)) for n in synthetic_store.subjects.tolist()
        }
        count = len(bank)
    teachers = {number for number, text in hashed.items() if text in taught}
    seed = next(n for n in range(1000) if {split_of(one, n, (0.1, 0.8, 0.1)) for one in teachers} == {"dev"})
    build_agentehr(synthetic_store, tmp_path / "benchmark", seed=seed, per_task=60, fractions=(0.1, 0.8, 0.1))
    changed = settings.changed(benchmark=str(tmp_path / "benchmark"), split="test", limit=None, bank=str(bank_path))
    folder = start(tmp_path / "run", changed.changed(agents=("retrosum-evolved",)))
    assert folder.manifest["bank"]["withheld_evaluated"] == count


def test_an_empty_bank_is_refused_where_it_should_serve(settings: RunSettings, tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite"):
        pass
    empty = settings.changed(agents=("retrosum-evolved",), bank=str(tmp_path / "bank.sqlite"))
    with pytest.raises(UserError, match="holds no experience"):
        start(tmp_path / "run", empty.changed(split="test"))
    assert not (tmp_path / "run").exists()
    start(tmp_path / "training", empty)  # about to be filled


def test_wrong_arguments_leave_no_bank_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = tmp_path / "bank.sqlite"
    words = ["--benchmark", str(tmp_path / "none"), "--store", str(tmp_path / "none"), "--out", str(tmp_path / "run")]
    assert main(["memory", "evolve", *words, "--bank", str(bank)]) == 2
    assert not bank.exists()


def test_a_context_without_room_for_a_reflection_is_counted_and_named(
    spoken: tuple[RunFolder, Speaker], tmp_path: Path
) -> None:
    folder, _ = spoken
    manifest = json.loads((folder.path / "manifest.json").read_text())
    manifest["settings"]["budget"]["context_tokens"] = 2200
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        found = evolve(RunFolder.open(folder.path), bank, kinds=("actor",))
        assert (found.failed, found.reflected, len(bank)) == (2, 0, 0)
        assert [("has no room for" in problem, count) for problem, count in found.problems.items()] == [(True, 2)]


def test_the_last_usable_summary_reaches_the_reflection(settings: RunSettings, tmp_path: Path) -> None:
    """S_final of eq. 7 is the summary that stood at the end, not what a failed attempt said instead."""
    asked: list[str] = []

    def speaker(body: Any) -> Answer:
        said = body["messages"][-1]["content"] or ""
        if "tools" in body:
            acted = sum(message["role"] == "tool" for message in body["messages"])
            return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))
        if "Your task now: summarise." in said:
            return text(
                "<tool_call>no</tool_call>" if "[call] finish" in said else "Sure:\n<summary>\nKept: G1\n</summary>"
            )
        asked.append(said)
        return text(ITEM)

    with FakeServer(speaker) as server:
        served = settings.changed(models=("openai/test-model",), base_url=server.url, window=1)
        folder = start(tmp_path / "run", served.changed(limit=1, tasks=("diagnoses",)))
        execute(folder)
        with Bank.open(tmp_path / "bank.sqlite") as bank:
            evolve(folder, bank, kinds=("summariser",))
    [prompt] = asked
    assert "## Last summary\nKept: G1\n" in prompt


def test_the_grid_compares_with_resum_over_all_tasks_too_and_shows_failed_summaries(
    settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def speaker(body: Any) -> Answer:
        if "tools" not in body:
            return text("")
        acted = any(message["role"] == "tool" for message in body["messages"])
        return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))

    common = [*_places(settings), "--limit", "1", "--workers", "1"]
    agents = ["--agent", "react", "resum", "retrosum", "--task", *TASKS]
    with FakeServer(speaker) as server:
        served = [
            "--model",
            "openai/test-model",
            "--base-url",
            server.url,
            *(f"--set=agent.{name}.window=1" for name in ("retrosum", "resum")),
            "--aids",
            "none",
        ]
        assert main(["grid", *common, *agents, *served, "--out", str(tmp_path / "grid")]) == 0
    printed = capsys.readouterr().out
    assert "summaries failed" in printed
    rows = summarise(score_run(RunFolder.open(tmp_path / "grid")))
    assert [row.failed_summaries for row in rows] == [0, 0, 0, 1, 1, 2, 1, 1, 2]
    assert [row.summaries for row in rows] == [0, 0, 0, 1, 1, 2, 1, 1, 2]
    table = printed[printed.index("F1 less that of resum · openai/test-model\n") :].splitlines()
    lines = [line.split() for line in table[2:] if "retrosum" in line][:3]
    assert [(line[0], line[-2]) for line in lines] == [(TASKS[0], "–"), (TASKS[1], "–"), ("mean", "1.0000")]
    assert all("+0.000" in line for line in lines)
    page = (tmp_path / "grid" / "report" / "index.html").read_text()
    assert page.count('data-name="summaries failed">1 of 1</td>') == 4
    assert page.count('data-name="summaries failed">2 of 2</td>') == 2
    assert "summaries that failed and left the one before in place" in page


def test_a_baseline_nobody_is_called_is_refused_before_anything_is_played(
    settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [*_places(settings), "--limit", "1", "--workers", "1"]
    out = tmp_path / "grid"
    words = ["grid", *common, "--agent", "react", "retrosum", "--task", "transfers", "--out", str(out)]
    assert main([*words, "--baseline", "nope"]) == 2
    said = capsys.readouterr()
    assert "no contender 'nope'; there are react · offline, retrosum · offline." in said.err
    assert not list((out / "logs").iterdir())
    assert main(["grid", "--resume", str(out), "--baseline", "retrosum"]) == 0
    said = capsys.readouterr()
    assert "F1 less that of retrosum · offline" in said.out
    assert "left out" not in said.out, "what plays was settled when the run was made"


def test_settings_that_nobody_is_likely_to_want_are_noted(
    settings: RunSettings, bank_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = [*_places(settings), "--limit", "1", "--workers", "1"]
    actor_only = tmp_path / "actor.sqlite"
    with Bank.open(bank_path, writable=False) as full, Bank.open(actor_only) as bank:
        assert {one.kind for one in full.experiences()} >= {"actor", "summariser"}
        some = replace(full.experiences()[0], kind="actor", id="")
        bank.add([some], key=None)
    evolved = ["--agent", "retrosum-evolved", "react", "--task", "transfers", "--bank", str(actor_only)]
    assert main(["run", *common, *evolved, "--context-tokens", "7000", "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert "of 7,000 context tokens the reply (4,096) and the tools (" in said
    assert "the bank holds no summariser experiences, so retrosum-evolved is served none of these" in said
    assert main(["run", *common, "--task", "transfers", "--out", str(tmp_path / "other")]) == 0
    assert "note:" not in capsys.readouterr().err
