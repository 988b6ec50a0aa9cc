"""A graph that learns from a stream: once per episode, in one order, of training samples only, pinned by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.learning import evolve_stream
from wardround.learning.evolving import stream_order
from wardround.log import LogReader
from wardround.memory import Bank, PinnedBank, contamination_check
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.runs.settings import EpisodeKey
from wardround.tasks.benchmarks import Benchmark


@pytest.fixture(scope="module")
def words(synthetic_benchmark_path: Path, synthetic_store_path: Path) -> list[str]:
    there = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    return [*there, "--agent", "gsem-walk", "--task", "diagnoses", "labevents", "--limit", "4", "--workers", "1"]


@pytest.fixture(scope="module")
def evolved(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run ``stream`` and the bank it filled from nothing."""
    place = tmp_path_factory.mktemp("evolved")
    asked = ["--bank", str(place / "bank.sqlite"), "--out", str(place / "stream"), "--epochs", "2"]
    assert main(["memory", "evolve", *words, *asked, "--set", "memory.evolution.snapshots=3,12"]) == 0
    return place


def test_a_stream_fills_a_bank_and_learns_once_of_each_episode(evolved: Path) -> None:
    folder = RunFolder.open(evolved / "stream")
    with Bank.open(evolved / "bank.sqlite") as bank:
        steps = bank.learning_steps(folder.provenance)
        assert len(steps) == len({step.episode for step in steps}) == 16
        names = [key.split("|") for key in (step.episode for step in steps)]
        assert [epoch for *_, epoch in names] == ["0"] * 8 + ["1"] * 8, "epoch by epoch"
        made = bank.experiences()
        assert made
        assert {one.kind for one in made} <= {"indication", "contraindication"}
        tried = [evidence for one in made for evidence in bank.graph().evidence(one.id).values()]
        assert sum(evidence.shown for evidence in tried) > 0
        assert sum(evidence.masked for evidence in tried) > 0
        assert list(bank.snapshots()) == ["stream-3", "stream-12"]
        assert bank.snapshots()["stream-3"] == steps[2].number
        revision = bank.revision
        again = evolve_stream(folder, bank)
        assert (again.updates, again.learnt, again.inserted, bank.revision) == (16, 0, 0, revision)
        samples = Benchmark.open(Path(folder.settings.run.benchmark)).all_samples
        assert contamination_check(bank, samples, source="mimiciv").clean


def test_what_the_log_notes_is_what_the_bank_counts(evolved: Path) -> None:
    folder = RunFolder.open(evolved / "stream")
    shown = masked = 0
    with LogReader(folder.logs) as reader, Bank.open(evolved / "bank.sqlite", writable=False) as bank:
        for trajectory in reader.trajectories():
            (noted,) = [note.detail for note in trajectory.notes if note.kind == "experiences"]
            pinned = "\n".join(message.content or "" for message in trajectory.turns[0].prompt)
            for one in noted["served"]:
                assert f": {_title(bank, one['id'])}" in pinned
            for name in noted["masked"]:
                assert f": {_title(bank, name)}\n" not in pinned or _title(bank, name) in {
                    _title(bank, one["id"]) for one in noted["served"]
                }
            shown, masked = shown + len(noted["served"]), masked + len(noted["masked"])
        met = [one for name in bank.names("") for outcome in bank.outcomes(name) for one in outcome.met]
    assert (sum(one.shown for one in met), sum(not one.shown for one in met)) == (shown, masked)
    assert shown
    assert masked


def _title(bank: Bank, name: str) -> str:
    return bank.history(name)[-1].title


def test_a_run_is_pinned_to_a_snapshot_by_its_name_and_never_writes(evolved: Path, tmp_path: Path) -> None:
    bank = evolved / "bank.sqlite"
    settings = RunFolder.open(evolved / "stream").settings.changed(
        split="test", strata=(), epochs=1, limit=1, bank=str(bank), bank_revision="stream-3"
    )
    with PinnedBank.open(bank) as held:
        last = held.revision
    folder = start(tmp_path / "run", settings)
    execute(folder)
    with PinnedBank.open(bank, revision="stream-3") as pinned:
        assert folder.manifest["bank"]["revision"] == pinned.revision < last
        assert folder.manifest["bank"]["experiences"] == len(pinned)
    with LogReader(folder.logs) as reader:
        notes = [note.detail for one in reader.trajectories() for note in one.notes if note.kind == "experiences"]
    assert {note["bank_revision"] for note in notes} == {folder.manifest["bank"]["revision"]}
    assert not any("masked" in note for note in notes), "a run tosses no coins"
    with PinnedBank.open(bank) as held:
        assert held.revision == last
    with pytest.raises(UserError, match="named are: stream-3, stream-12"):
        start(tmp_path / "other", settings.changed(bank_revision="stream-50"))


def test_a_stream_is_of_training_samples_by_one_agent(words: list[str], tmp_path: Path) -> None:
    settings = RunSettings.of(
        benchmark=words[1],
        store=words[3],
        tasks=("diagnoses",),
        limit=1,
        agents=("gsem-walk",),
        bank=str(tmp_path / "b"),
    )
    Bank.open(tmp_path / "b").close()
    folder = start(tmp_path / "two", settings.changed(split="train", agents=("gsem-walk", "gsem")))
    with Bank.open(tmp_path / "b") as bank, pytest.raises(UserError, match="one agent with one model"):
        evolve_stream(folder, bank)
    asked = ["--bank", str(tmp_path / "b"), "--out", str(tmp_path / "mixed")]
    assert main(["memory", "evolve", *words, *asked, "--set", "run.agents=gsem,retrosum"]) == 2


def test_the_order_is_the_seeds_and_an_epoch_comes_whole() -> None:
    keys = [
        EpisodeKey(agent="a", model="m", task=task, sample=f"s{number}", epoch=epoch)
        for task in ("x", "y")
        for number in range(20)
        for epoch in range(2)
    ]
    first, other = stream_order(keys, 1), stream_order(keys, 2)
    assert first == stream_order(keys[::-1], 1)
    assert first != other
    assert {key.epoch for key in first[:40]} == {0}
    assert [(key.task, key.sample) for key in first[:40]] == [(key.task, key.sample) for key in first[40:]]
    assert {key.task for key in first[:20]} == {"x", "y"}, "tasks are mixed"


def test_published_and_credited_never_both(
    evolved: Path, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = tmp_path / "bank.sqlite"
    bank.write_bytes((evolved / "bank.sqlite").read_bytes())
    asked = ["--bank", str(bank), "--out", str(tmp_path / "stream")]
    assert main(["memory", "evolve", *words, *asked, "--set", "memory.evolution.quality=eq10"]) == 2
    assert "written by 'credit'" in capsys.readouterr().err


def test_equation_10_masks_nothing(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--bank", str(tmp_path / "bank.sqlite"), "--out", str(tmp_path / "stream"), "--json"]
    assert main(["memory", "evolve", *words, *asked, "--set", "memory.evolution.quality=eq10"]) == 0
    found = json.loads(capsys.readouterr().out)["stream"]
    assert (found["updates"], found["masked"]) == (8, 0)
    assert found["shown"]
    with Bank.open(tmp_path / "bank.sqlite", writable=False) as bank:
        graph = bank.graph()
        assert graph.set_qualities()
        assert not any(graph.evidence(one.id) for one in bank.experiences())
