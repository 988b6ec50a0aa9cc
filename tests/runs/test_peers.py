"""Peers' memories from a training run to a report: built, guarded, served, and nothing done twice."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.learning import ConstructionSettings, build_peer, construct
from wardround.log import LogReader
from wardround.memory import Bank, Experience, RecallQuestion, Subject, contamination_check, text_key
from wardround.memory.peer import PEERS, USED, PeerCase, PeerSettings, searched_text
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.runs.experiment import read_assignments, read_experiment
from wardround.runs.results import score_run
from wardround.runs.settings import EpisodeKey
from wardround.tasks.benchmarks import Benchmark, get_task
from wardround.tools.retrieval import LexicalEncoder

NAMES = PEERS.names


@pytest.fixture(scope="module")
def training(training_run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return RunFolder.open(shutil.copytree(training_run_path, tmp_path_factory.mktemp("peers") / "training"))


@pytest.fixture(scope="module")
def settings(training: RunFolder) -> RunSettings:
    return training.settings


@pytest.fixture(scope="module")
def banks(training: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every peer's memory of the same training run."""
    place = tmp_path_factory.mktemp("banks")
    made = {name: place / f"{name}.sqlite" for name in NAMES}
    for name, path in made.items():
        with Bank.open(path) as bank:
            assert not build_peer(training, bank, name, ConstructionSettings()).failed
    return made


@pytest.mark.parametrize("name", NAMES)
def test_every_peer_plays_with_its_own_memory_of_the_same_run(
    name: str, banks: dict[str, Path], settings: RunSettings, tmp_path: Path
) -> None:
    test = settings.changed(split="test", epochs=1, limit=1, agents=(name,), bank=str(banks[name]))
    folder = start(tmp_path / "run", test)
    execute(folder)
    with LogReader(folder.logs) as reader:
        played = list(reader.trajectories())
        notes = [note.detail for one in played for note in one.notes if note.kind == "experiences"]
    assert [note["peer"] for note in notes] == [name, name]
    assert all(note["served"] and 0 < note["tokens"] <= 1600 for note in notes), "by tokens, as a graph's are"
    if name == "mem0":
        assert max(len(note["served"]) for note in notes) > 5, "short texts are more than long ones"
    acting = [next(turn for turn in one.turns if turn.purpose == "act") for one in played]
    assert all("From a memory of earlier cases" in str(turn.prompt) for turn in acting)
    assert len(score_run(folder)) == 2


def test_agents_of_one_run_read_banks_of_their_own(
    banks: dict[str, Path], settings: RunSettings, tmp_path: Path
) -> None:
    own = {name: str(banks[name]) for name in ("reme", "flex")}
    agents = ("naive-rag", "reme", "flex", "react")
    asked = settings.changed(
        split="test", epochs=1, limit=1, agents=agents, bank=str(banks["naive-rag"]), memory={"banks": own}
    )
    folder = start(tmp_path / "run", asked)
    execute(folder)
    assert {name: facts["kinds"].keys() for name, facts in folder.manifest["banks"].items()} == {
        "reme": {"note"},
        "flex": {"note"},
    }
    held: dict[str, set[str]] = {}
    for name in ("naive-rag", "reme", "flex"):
        with Bank.open(banks[name], writable=False) as bank:
            held[name] = {one.id for one in bank.experiences()}
    with LogReader(folder.logs) as reader:
        notes = [
            (one.facts["agent"], note.detail)
            for one in reader.trajectories()
            for note in one.notes
            if note.kind == "experiences"
        ]
    assert Counter(agent for agent, _ in notes) == {"naive-rag": 2, "reme": 2, "flex": 2}
    for agent, detail in notes:
        served = {one["id"] for one in detail["served"]}
        assert served, agent
        assert served <= held[agent]
    assert len(score_run(folder)) == 8


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("rem", "Did you mean reme"),
        ("mem0", r"memory\.banks: there is no 'mem0'.* There are: reme, flex, react"),
        ("react", "react reads no bank"),
        ("flex", "no bank at"),
    ],
)
def test_a_bank_of_nobody_is_refused(agent: str, said: str, settings: RunSettings, tmp_path: Path) -> None:
    own = {"banks": {agent: str(tmp_path / "nowhere.sqlite")}}
    asked = settings.changed(split="test", limit=1, epochs=1, agents=("reme", "flex", "react"), memory=own)
    with pytest.raises(UserError, match=said):
        start(tmp_path / "run", asked)


def test_a_bank_by_agent_is_named_alike_everywhere(tmp_path: Path) -> None:
    """On the command line, in a file (where its path begins beside the file) and in Python."""
    file = tmp_path / "experiment.toml"
    file.write_text('[memory.banks]\nmem0-graph = "graph.sqlite"\n', encoding="utf-8")
    by_line = read_assignments([f"memory.banks.mem0-graph={tmp_path / 'graph.sqlite'}"])
    assert by_line == read_experiment(file) == {"memory": {"banks": {"mem0-graph": str(tmp_path / "graph.sqlite")}}}
    settings = RunSettings.read(by_line)
    assert settings.memory.banks == {"mem0-graph": str(tmp_path / "graph.sqlite")}
    assert RunSettings.read(settings.to_json()) == settings
    with pytest.raises(UserError, match=r"memory\.bank"):
        read_assignments(["memory.bans.mem0=x"])


@pytest.mark.parametrize("name", NAMES)
def test_a_memory_is_clean_and_built_once(
    name: str, banks: dict[str, Path], training: RunFolder, synthetic_benchmark_path: Path
) -> None:
    with Bank.open(banks[name]) as bank:
        revision = bank.revision
        assert all(one.kind == "note" and one.evidence for one in bank.experiences())
        again = build_peer(training, bank, name, ConstructionSettings())
        assert (again.cases, bank.revision) == (0, revision), "nothing is done twice"
        samples = Benchmark.open(synthetic_benchmark_path).all_samples
        assert contamination_check(bank, samples, source="mimiciv").clean


@pytest.mark.parametrize("name", NAMES)
def test_a_patients_own_text_is_never_served_to_it_and_is_to_others(
    name: str, banks: dict[str, Path], synthetic_benchmark_path: Path
) -> None:
    """Every note is asked for in its own words, for everybody who had a hand in it and for a stranger."""
    encoder = LexicalEncoder()
    people = {sample.person for sample in Benchmark.open(synthetic_benchmark_path).all_samples}
    served_to_strangers = set()
    with Bank.open(banks[name], writable=False) as bank:
        subjects = {bank.subject_hash(one): one for one in (Subject(source="mimiciv", subject_id=p) for p in people)}
        hands = {one.id: {hand.subject for hand in bank.hands(one.id)} for one in bank.experiences()}

        def remembered(asked: Experience, subject: Subject) -> set[str]:
            text = searched_text(asked)
            question = RecallQuestion(text=text, key=text_key(encoder, text))
            case = PeerCase(peer=name, bank=bank, subject=subject, question=question, settings=PeerSettings())
            return {one.note.id for one in PEERS.get(name).recall(case)}

        for note in bank.experiences():
            assert hands[note.id] <= subjects.keys()
            for hand in hands[note.id]:
                found = remembered(note, subjects[hand])
                assert not [one for one in found if hand in hands[one]]
            served_to_strangers |= {note.id} & remembered(note, Subject(source="mimiciv", subject_id=-1))
    assert served_to_strangers, "the question does find notes, where nothing forbids it"


def test_a_graph_of_cases_ends_with_reports_on_its_communities(banks: dict[str, Path]) -> None:
    """They are written when all cases are drawn from, and speak of cases that are in the bank."""
    with Bank.open(banks["graphrag"], writable=False) as bank:
        notes = bank.experiences()
    cases = {note.id for note in notes if note.facts["level"] == "case"}
    reports = [note for note in notes if note.facts["level"] == "report"]
    assert reports
    assert all(report.facts["cases"] and cases.issuperset(report.facts["cases"]) for report in reports)


def test_the_command_fills_and_says_what_it_did(
    training: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.sqlite"
    assert main(["memory", "build", str(path), str(training.path), "--peer", "naive-rag"]) == 0
    said = capsys.readouterr().out
    assert "8 samples, 16 attempts" in said
    assert "notes: 8 added" in said
    assert "contamination check: clean" in said


def test_one_bank_may_hold_several_memories_and_each_reads_its_own(
    training: RunFolder, settings: RunSettings, tmp_path: Path
) -> None:
    path = tmp_path / "shared.sqlite"
    with Bank.open(path) as bank:
        construct(training, bank, ConstructionSettings())
        for name in NAMES:
            build_peer(training, bank, name, ConstructionSettings())
    test = settings.changed(
        split="test", epochs=1, limit=1, tasks=("diagnoses",), agents=("gsem-walk", *NAMES), bank=str(path)
    )
    folder = start(tmp_path / "run", test)
    execute(folder)
    with LogReader(folder.logs) as reader, Bank.open(path, writable=False) as bank:
        stored = {one.id: one.tool for one in bank.experiences()}
        notes = [note.detail for one in reader.trajectories() for note in one.notes if note.kind == "experiences"]
    assert len(notes) == 1 + len(NAMES)
    for note in notes:
        assert {stored[one["id"]] for one in note["served"]} <= {note.get("peer", "")}
    assert all(note["served"] for note in notes if "peer" in note)


def test_what_a_training_run_made_of_lessons_is_kept_once(
    training: RunFolder, settings: RunSettings, tmp_path: Path
) -> None:
    path = tmp_path / "reme.sqlite"
    with Bank.open(path) as bank:
        build_peer(training, bank, "reme", ConstructionSettings())
    used = start(tmp_path / "used", settings.changed(agents=("reme",), epochs=1, bank=str(path)))
    execute(used)
    right = {one.sample: float(one.value >= get_task(one.task).answer.success) for one in score_run(used)}
    expected = Counter()
    with LogReader(used.logs) as reader:
        for played in reader.trajectories():
            ids = [one["id"] for note in played.notes if note.kind == "experiences" for one in note.detail["served"]]
            expected.update((name, right[EpisodeKey.parse(played.episode).sample]) for name in ids)
    assert {value for _, value in expected} == {0.0, 1.0}
    with Bank.open(path) as bank:
        for _ in range(2):
            build_peer(used, bank, "reme", ConstructionSettings())
        names = {name for name, _ in expected}
        kept = Counter((name, said.value) for name in names for said in bank.feedback(name) if said.kind == USED)
    assert kept == expected, "each use once, with what came of it"


def test_evolving_a_memory_of_notes_says_what_fills_it(
    settings: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ["--benchmark", str(settings.run.benchmark), "--store", str(settings.run.store), "--limit", "1"]
    bank = ["--bank", str(tmp_path / "bank.sqlite"), "--out", str(tmp_path / "run")]
    assert main(["memory", "evolve", *there, *bank, "--agent", "a-mem"]) == 2
    assert "a-mem reads another memory's notes" in capsys.readouterr().err
