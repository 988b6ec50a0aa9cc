"""Reliability of new experiences: paired rollouts on training cases of other patients, once, with printed budgets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, tools
from wardround.cli import main
from wardround.core import UserError
from wardround.learning.validation import validate
from wardround.log import LogReader
from wardround.memory import Bank, Experience, Provenance, Subject
from wardround.memory.credit import first_quality
from wardround.runs import RunFolder, RunSettings, episode_keys, open_benchmark, start
from wardround.tasks.benchmarks import Benchmark

ROLLOUTS = 3
TITLES = ("helps", "harms", "holds for nobody")


class Judged:
    """Right where ``helps`` is shown, wrong where ``harms`` is, else right on every second case."""

    def __init__(self, folder: RunFolder) -> None:
        benchmark = open_benchmark(folder)
        samples = {sample.id: sample for sample in benchmark.all_samples}
        keys = sorted(set(episode_keys(folder.settings, benchmark)))
        self.samples = {key.seed(folder.settings.run.seed) % 2**31: samples[key.sample] for key in keys}
        self.asked: Counter[str] = Counter()

    def __call__(self, body: Any) -> Answer:
        said = json.dumps(body["messages"])
        shown = next((title for title in TITLES if f"INDICATION: {title}" in said), "none")
        self.asked[shown] += 1
        right = shown == "helps"
        answer = list(self.samples[body["seed"]].target or ()) if right else []
        return tools(("finish", json.dumps({"response": answer or ["no such thing"]})))


def experiences(bank: Bank, own: int) -> list[Experience]:
    origin = Provenance(
        sample="own", subject=bank.subject_hash(Subject(source="mimiciv", subject_id=own)), split="train"
    )
    conditions = dict.fromkeys(TITLES, "a patient in admission") | {"holds for nobody": "age > 200"}
    return [
        Experience(
            id=title.replace(" ", "-"),
            kind="indication",
            title=title,
            description="",
            content="Look at all.",
            condition=condition,
            task="diagnoses",
            task_type="diagnosis",
            provenance=origin,
        )
        for title, condition in conditions.items()
    ]


def begun(synthetic: tuple[Path, Path], place: Path, url: str, **more: Any) -> RunFolder:
    settings = RunSettings.of(
        benchmark=str(synthetic[0]),
        store=str(synthetic[1]),
        tasks=("diagnoses",),
        split="train",
        agents=("react",),
        models=("openai/test-model",),
        base_url=url,
        **more,
    )
    return start(place, settings)


@pytest.fixture(scope="module")
def synthetic(synthetic_benchmark_path: Path, synthetic_store_path: Path) -> tuple[Path, Path]:
    return synthetic_benchmark_path, synthetic_store_path


@pytest.mark.parametrize("quality", ["credit", "eq10"])
def test_pairs_on_other_patients_set_the_first_quality(
    quality: str, synthetic: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = {sample.id: sample for sample in Benchmark.open(synthetic[0]).all_samples}
    with FakeServer([]) as waiting:
        judged: Judged | None = None
        waiting._script = lambda body: judged(body)  # type: ignore[misc]
        folder = begun(synthetic, tmp_path / "run", waiting.url, quality=quality)
        judged = Judged(folder)
        own = next(iter(judged.samples.values())).person
        with Bank.open(tmp_path / "bank.sqlite") as bank:
            bank.add(experiences(bank, own))
        words = ["memory", "validate", str(tmp_path / "bank.sqlite"), str(folder.path), "--rollouts", str(ROLLOUTS)]
        assert main(words) == 0
        first = Counter(judged.asked)
        said = capsys.readouterr().out
        assert main(words) == 0
        assert judged.asked == first, "nothing is played twice"
    assert f"2 experiences tried in {2 * ROLLOUTS} pairs" in said
    assert "1 apply to no other patient" in said
    assert "rollouts, act:" in said
    with LogReader(folder.path / "reliability") as reader:
        names = [entry.key.split("|") for entry in reader.episodes()]
        assert sum(name[0] == "with" for name in names) == 2 * ROLLOUTS
        assert all(samples[entry.facts["sample"]].person != own for entry in reader.episodes())
        assert all(samples[entry.facts["sample"]].split == "train" for entry in reader.episodes())
        without = [name for name in names if name[0] == "without"]
        assert len(without) == len({tuple(name) for name in without}) <= 2 * ROLLOUTS
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        graph = bank.graph()
        if quality == "eq10":
            assert graph.quality("helps") == pytest.approx(first_quality(ROLLOUTS, ROLLOUTS))
            assert graph.quality("harms") == pytest.approx(first_quality(0, ROLLOUTS))
            return
        evidence = graph.evidence("helps")["diagnoses"]
        assert (evidence.shown, evidence.masked) == (ROLLOUTS, ROLLOUTS)
        assert evidence.lasting.difference > 0.9, "always right with it, never without"
        assert graph.evidence("harms")["diagnoses"].lasting.difference <= 0.1
        assert graph.quality("holds-for-nobody") is None


def test_only_a_training_run_of_one_agent_is_tried_on(synthetic: tuple[Path, Path], tmp_path: Path) -> None:
    settings = RunSettings.of(
        benchmark=str(synthetic[0]), store=str(synthetic[1]), tasks=("diagnoses",), limit=1, agents=("react", "resum")
    )
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        with pytest.raises(UserError, match="this run is on 'test'"):
            validate(start(tmp_path / "test", settings), bank)
        with pytest.raises(UserError, match="one agent with one model"):
            validate(start(tmp_path / "two", settings.changed(split="train")), bank)
