"""Construction from a training run: by rules with the offline policy, by a served model that fails on the way."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_server import Answer, FakeServer, error, text, tools
from wardround.cli import main
from wardround.core import UserError
from wardround.learning import ConstructionSettings, construct, stages
from wardround.log import LogReader
from wardround.memory import Bank, contamination_check
from wardround.memory.construction import MOST_CALLS
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.tasks.benchmarks import Benchmark
from wardround.tools.retrieval import VectorCache


@pytest.fixture(scope="module")
def training(training_run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return RunFolder.open(shutil.copytree(training_run_path, tmp_path_factory.mktemp("construct") / "training"))


@pytest.fixture(scope="module")
def settings(training: RunFolder) -> RunSettings:
    return training.settings


def test_the_offline_policy_gets_a_graph_by_rules_that_gsem_walk_is_served_from(
    training: RunFolder, settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bank.sqlite"
    assert main(["memory", "build", str(path), str(training.path)]) == 0
    said = capsys.readouterr().out
    assert "16 attempts" in said
    assert "0 model calls for the graph" in said
    assert "contamination check: clean" in said
    with Bank.open(path) as bank:
        made = bank.experiences()
        assert {one.kind for one in made} <= {"indication", "contraindication"}
        assert made
        assert all(one.evidence and one.entities and one.provenance.split == "train" for one in made)
        assert any(bank.graph().edges(one.id) for one in made)
        revision = bank.revision
        again = construct(training, bank, ConstructionSettings())
        assert (again.added, again.linked, bank.revision) == (0, 0, revision), "nothing is done twice"
    test = settings.changed(split="test", epochs=1, limit=2, agents=("gsem-walk", "gsem"), bank=str(path))
    folder = start(tmp_path / "run", test)
    execute(folder)
    with LogReader(folder.logs) as reader:
        notes = [note.detail for one in reader.trajectories() for note in one.notes if note.kind == "experiences"]
    assert len(notes) == 8
    assert {note["walker"] for note in notes} == {"beam", "model"}
    assert all(note["bank_revision"] == revision for note in notes)
    for walker in ("beam", "model"):
        assert any(note["served"] for note in notes if note["walker"] == walker)


def test_only_training_samples_whose_attempts_are_all_over_teach(settings: RunSettings, tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        with pytest.raises(UserError, match="this run is on 'test'"):
            construct(start(tmp_path / "test", settings.changed(split="test")), bank, ConstructionSettings())
        empty = construct(start(tmp_path / "begun", settings), bank, ConstructionSettings())
        assert (empty.cases, len(bank)) == (0, 0)


def test_what_is_forgotten_names_the_runs_that_still_hold_it(
    training: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = tmp_path / "bank.sqlite", tmp_path / "store"
    with Bank.open(path) as bank:
        construct(training, bank, ConstructionSettings())
        first = bank.experiences()[0]
        ((hashed, vector),) = bank.file.rows("SELECT text_hash, vector FROM key WHERE number = 1")
    cache = VectorCache(store / "vectors.sqlite")
    cache.put("any", {hashed: np.frombuffer(vector, "<f4"), "00" * 32: np.zeros(3, np.float32)})
    cache.close()
    asked = ["memory", "forget", str(path), first.provenance.sample, "--store", str(store), "--run", str(training.path)]
    assert main(asked) == 1
    said = capsys.readouterr().out
    assert "experiences are forgotten for good" in said
    assert "1 cached vectors" in said
    assert f"{training.path} still holds them" in said
    assert vector not in (store / "vectors.sqlite").read_bytes()
    with Bank.open(path) as bank:
        again = construct(training, bank, ConstructionSettings())
        assert (again.added, first.id in {one.id for one in bank.experiences()}) == (0, False), "it is not drawn again"


DRAFT = {"condition": "a question of labs", "exclusions": [], "task_type": "test", "steps": [1]}
PARTED = {"success_decision": "a", "failure_decision": "b", "why_fatal": "c", "consequence": "d"}


class Speaker:
    """Plays, and answers every question of construction; from some question on it fails, if told to."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.fails_after = 10**6

    def __call__(self, body: Any) -> Answer:
        if "tools" in body:
            acted = any(message["role"] == "tool" for message in body["messages"])
            return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))
        if self.asked.total() >= self.fails_after:
            return error(400)
        said = body["messages"][-1]["content"]
        self.asked[self._purpose(said)] += 1
        return text(json.dumps(self._value(said)))

    def _purpose(self, said: str) -> str:
        openings = {"Find where": "divergence", "An attempt at": "draft", "Name the few": "entities"}
        openings |= {"Show how": "edges", "Two experiences": "joint_use", "Which of these": "same"}
        return next(purpose for opening, purpose in openings.items() if said.startswith(opening))

    def _value(self, said: str) -> Any:
        number = self.asked["draft"]
        names = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
        return {
            "divergence": {"divergence_step": 1, **PARTED},
            "draft": {**DRAFT, "title": f"Lesson {number}", "content": f"read {names[number % 8]} rows, gout {number}"},
            "entities": {"entities": [{"entity": "labs", "role": "condition"}, {"entity": "rows", "role": "action"}]},
            "edges": {"edges": [{"from": "labs", "to": "rows"}]},
            "joint_use": {"joint_use": 0.9, "relation": "related"},
            "same": {"same": []},
        }[self._purpose(said)]


@pytest.fixture
def spoken(settings: RunSettings, tmp_path: Path) -> Iterator[tuple[RunFolder, Speaker]]:
    speaker = Speaker()
    with FakeServer(speaker) as server:
        served = settings.changed(models=("openai/test-model",), base_url=server.url, tasks=("labevents",), limit=3)
        folder = start(tmp_path / "run", served)
        execute(folder)
        yield folder, speaker


def test_a_construction_that_fails_on_the_way_goes_on_without_asking_twice(
    spoken: tuple[RunFolder, Speaker], tmp_path: Path, synthetic_benchmark_path: Path
) -> None:
    folder, speaker = spoken
    path = tmp_path / "bank.sqlite"
    found = []
    for limit in (9, 26, 10**6):
        speaker.fails_after = limit
        with Bank.open(path) as bank:
            found.append(construct(folder, bank, ConstructionSettings(), concurrency=1))
    assert [one.failed > 0 for one in found] == [True, True, False]
    whole = found[-1]
    assert (whole.cases, whole.unfinished, whole.attempts, whole.successes) == (3, 0, 6, 0)
    assert whole.drawn == {"contraindication": 6}, "every failure gives one, where nothing succeeded too"
    assert speaker.asked["divergence"] == speaker.asked["draft"] == speaker.asked["entities"] == 6, "each asked once"
    assert speaker.asked["edges"] == 6
    with Bank.open(path) as bank:
        made = bank.experiences()
        assert sum(one.added for one in found) == len(made)
        assert len(made) + whole.duplicates == 6
        assert all(one.facts["divergence"]["divergence_step"] == 1 for one in made)
        edges = [edge for one in made for edge in bank.graph().edges(one.id)]
        assert edges
        assert all(edge.synergy == 0.9 for edge in edges)
        benchmark = Benchmark.open(synthetic_benchmark_path)
        assert contamination_check(bank, benchmark.all_samples, source="mimiciv").clean
    assert whole.most_graph_calls <= MOST_CALLS
    calls = {stage.purpose: stage.calls for stage in stages(folder)}
    drawn = ("find_divergence", "draw_contraindication", "find_entities", "find_role_edges")
    assert {purpose: calls[purpose] for purpose in drawn} == dict.fromkeys(drawn, 6)
    assert calls["judge_joint_use"] == speaker.asked["joint_use"]
