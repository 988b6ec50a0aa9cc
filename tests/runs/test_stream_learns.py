"""A stream over real HTTP with a model that is right by the experiences it was shown: the good rises, the harmful falls
and is served no more, the inert stays, accuracy rises, the report shows it; a kill at any moment changes nothing."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from fake_server import Answer, FakeServer, tools
from forking import commands, is_running, kill, wait_for
from wardround.cli import main
from wardround.log import LogReader
from wardround.memory import Bank, Experience, Provenance, Subject, text_key
from wardround.runs import RunFolder, RunSettings, episode_keys, open_benchmark, start
from wardround.runs.evolution_record import read_record
from wardround.tasks.benchmarks import Sample
from wardround.tools.retrieval import LexicalEncoder

EFFECTS = {"good": 0.4, "harmful": -0.4, "inert": 0.0}
EPOCHS = 12
KILLS = 4
NEVER = 1e6


def planted(path: Path) -> None:
    """A bank of three experiences that every question of these tasks finds."""
    encoder = LexicalEncoder()
    with Bank.open(path) as bank:
        for number, title in enumerate(EFFECTS):
            origin = Provenance(
                sample=f"planted-{title}",
                subject=bank.subject_hash(Subject(source="elsewhere", subject_id=number)),
                split="train",
            )
            one = Experience(
                id=f"planted-{title}",
                kind="indication",
                title=f"planted {title}",
                description="",
                content=f"Of the patient's admission, {title} advice.",
                condition="a patient in admission",
                task="diagnoses",
                task_type="diagnosis",
                provenance=origin,
            )
            bank.add([one], key=text_key(encoder, one.content))


class Judged:
    """Answers every episode in one turn: right with a chance that the planted experiences in its prompt decide. Which
    episode it is, the seed of the request tells."""

    def __init__(self) -> None:
        self.samples: dict[int, Sample] = {}
        self.asked: Counter[int] = Counter()
        self.last = sys.maxsize

    def __call__(self, body: Any) -> Answer:
        said, seed = json.dumps(body["messages"]), body["seed"]
        chance = 0.5 + sum(effect for title, effect in EFFECTS.items() if f"planted {title}" in said)
        self.asked[seed] += 1
        right = random.Random(seed).random() < chance
        answer = list(self.samples[seed].target or ()) if right else ["no such thing"]
        seconds = 0.0 if len(self.asked) <= self.last else NEVER
        return replace(tools(("finish", json.dumps({"response": answer}))), seconds=seconds)


@pytest.fixture(scope="module")
def settings(synthetic_benchmark_path: Path, synthetic_store_path: Path) -> RunSettings:
    return RunSettings.of(
        benchmark=str(synthetic_benchmark_path),
        store=str(synthetic_store_path),
        tasks=("diagnoses",),
        split="train",
        epochs=EPOCHS,
        agents=("gsem-walk",),
        models=("openai/test-model",),
        snapshots=(50, 100),
        insert=False,
        serve_unchecked=True,
    )


def begun(settings: RunSettings, place: Path, server: FakeServer, judged: Judged) -> RunFolder:
    """A run that was begun with a planted bank; the model is told what is right."""
    bank = place / "bank.sqlite"
    if not bank.exists():
        planted(bank)
    folder = start(place / "stream", settings.changed(base_url=server.url, bank=str(bank)))
    benchmark = open_benchmark(folder)
    samples = {sample.id: sample for sample in benchmark.all_samples}
    run_seed = folder.settings.run.seed
    judged.samples |= {
        key.seed(run_seed) % 2**31: samples[key.sample] for key in episode_keys(folder.settings, benchmark)
    }
    return folder


def evolving(place: Path) -> list[str]:
    return [
        "memory",
        "evolve",
        "--resume",
        str(place / "stream"),
        "--bank",
        str(place / "bank.sqlite"),
        "--workers",
        "1",
    ]


@pytest.fixture(scope="module")
def learnt(settings: RunSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bank and the stream it learnt from."""
    place, judged = tmp_path_factory.mktemp("learnt"), Judged()
    with FakeServer(judged) as server:
        begun(settings, place, server, judged)
        assert main(evolving(place)) == 0
    return place


def test_the_good_rises_the_harmful_falls_the_inert_stays(learnt: Path) -> None:
    with Bank.open(learnt / "bank.sqlite", writable=False) as bank:
        graph = bank.graph(task="diagnoses")
        effects = {title: effect for title in EFFECTS if (effect := graph.effect(f"planted-{title}"))}
        qualities = {title: graph.quality(f"planted-{title}") or 0.0 for title in EFFECTS}
    assert qualities["good"] > 0.55
    assert qualities["harmful"] < 0.5
    assert effects["harmful"].harm > 0.95, "and is served no more"
    assert qualities["inert"] == pytest.approx(0.5, abs=0.05)
    assert (
        effects["good"].mean - 2 * effects["good"].sd < EFFECTS["good"] < effects["good"].mean + 2 * effects["good"].sd
    )
    assert effects["harmful"].shown < effects["good"].shown / 2, "but for a few times to try it again"


def test_accuracy_rises_over_the_stream_and_the_report_draws_it(learnt: Path) -> None:
    folder = RunFolder.open(learnt / "stream")
    record = read_record(folder)
    assert record is not None
    scores = [step["score"] for step in record["updates"]]
    assert len(scores) == 12 * EPOCHS
    assert mean(scores[-72:]) > mean(scores[:36]) + 0.2
    assert record["snapshots"] == {"stream-50": 50, "stream-100": 100}
    assert (record["after"][0], record["after"][-1]) == (0, 144)
    ends = sorted(values[-1] for values in record["quality"]["lines"].values())
    assert len(ends) == 2, "the inert one did not move"
    assert ends[0] < 0.5 < 0.55 < ends[1], "what is barred is hardly tried any more"
    assert all(values[0] == 0.5 for values in record["quality"]["lines"].values())

    assert main(["report", str(folder.path)]) == 0
    page = (folder.path / "report" / "index.html").read_text()
    met = sum(step["shown"] for step in record["updates"]), sum(step["masked"] for step in record["updates"])
    assert f"{met[0]} experiences shown and {met[1]} masked" in page
    for heading in ("Score over the stream", "Quality of experiences over the stream"):
        assert f"<h2>{heading}</h2>" in page
        assert f"<title>{heading}</title>" in page
    assert "Weights of edges" not in page, "there are none"
    assert re.search(r"planted good</td><td>diagnoses</td><td class=\"number\">\+0\.\d+", page)


def test_a_kill_at_any_moment_changes_nothing(settings: RunSettings, tmp_path: Path) -> None:
    place, judged, moments = tmp_path / "place", Judged(), random.Random(5)
    forks = commands()
    with FakeServer(judged) as server:
        twice = settings.changed(epochs=2, insert=True, snapshots=(5, 20))
        place.mkdir()
        planted(place / "bank.sqlite")
        shutil.copy(place / "bank.sqlite", tmp_path / "planted.sqlite")
        begun(twice, place, server, judged)
        assert main([*evolving(place), "--rules"]) == 0
        whole = state_of(place)
        shutil.rmtree(place)
        place.mkdir()
        shutil.copy(tmp_path / "planted.sqlite", place / "bank.sqlite")
        judged.asked.clear()
        folder = begun(twice, place, server, judged)
        for _ in range(KILLS):
            aim = len(judged.asked) + moments.randint(2, 5)
            judged.last = aim
            group = forks.start([*evolving(place), "--rules"])
            wait_for(lambda aim=aim: len(judged.asked) >= aim, group)  # type: ignore[misc]
            time.sleep(moments.uniform(0.0, 0.05))
            assert is_running(group), "a kill must hit a stream at work"
            kill(group)
        judged.last = sys.maxsize
        assert main([*evolving(place), "--rules"]) == 0
    assert state_of(place) == whole
    with LogReader(folder.logs) as reader:
        assert {entry.state for entry in reader.episodes()} == {"finished"}


def state_of(place: Path) -> dict[str, Any]:
    """Everything a bank holds but its moments and the key of its subjects."""
    with Bank.open(place / "bank.sqlite") as bank:
        return {
            "facts": bank.graph().facts(),
            "live": sorted((one.id, one.title) for one in bank.experiences() if "planted" in one.title),
            "drawn": sorted((one.kind, one.content, one.provenance.sample) for one in bank.experiences()),
            "steps": [step.episode for step in bank.learning_steps("")],
            "snapshots": bank.snapshots(),
            "revision": bank.revision,
        }
