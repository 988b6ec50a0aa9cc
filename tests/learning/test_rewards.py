"""What an episode earns by the gain: policies that read nothing earn 0 at most, one that reads and cites earns more."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest

from wardround.cli import main
from wardround.learning.world import REPEAT_CHARGE, World, WorldEpisode, WorldSettings
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring.episodes import score_answer

CALLS = 6
Policy = Callable[[World, WorldEpisode], None]


def _answers_with_evidence(episode: WorldEpisode, answer: tuple[str, ...], rows: list[str]) -> None:
    cited = [{"answer": name, "row_ids": rows} for name in answer]
    episode.call("finish", {"response": list(answer), "evidence": cited})


def _training_targets(world: World, episode: WorldEpisode) -> list[tuple[str, ...]]:
    return [one.target for one in world.benchmark.samples(episode.sample.task, "train")]


def constant(world: World, episode: WorldEpisode) -> None:
    """The commonest name, for which it cites nothing."""
    answer = get_task(episode.sample.task).answer.constant(_training_targets(world, episode))
    episode.call("finish", {"response": list(answer)})


def prior(world: World, episode: WorldEpisode) -> None:
    """The commonest names, with rows that it never read."""
    answer = get_task(episode.sample.task).answer.prior(_training_targets(world, episode))
    _answers_with_evidence(episode, answer, ["labevents:1", "emar:1-1", "poe:1-1"])


def repeats_one_call(world: World, episode: WorldEpisode) -> None:
    """Looks at the same thing until its calls are used up."""
    while not episode.done:
        episode.call("get_table_names", {})


def finishes_at_once(world: World, episode: WorldEpisode) -> None:
    """Says nothing."""
    episode.call("finish", {"response": []})


def repeats_and_guesses(world: World, episode: WorldEpisode) -> None:
    """Looks at the same thing and then answers as everybody is answered."""
    for _ in range(CALLS - 1):
        episode.call("get_table_names", {})
    constant(world, episode)


DEGENERATE: tuple[Policy, ...] = (constant, prior, repeats_one_call, finishes_at_once, repeats_and_guesses)


@pytest.fixture(scope="module", params=["agentehr", "clinseek"])
def world(request: pytest.FixtureRequest, synthetic_store_path: Path) -> World:
    path = request.getfixturevalue({"agentehr": "synthetic_benchmark_path", "clinseek": "clinseek_path"}[request.param])
    return World.open(synthetic_store_path, path, WorldSettings(calls=CALLS, reward="gain"))


def _earned(world: World, policy: Policy) -> list[float]:
    earned = []
    for sample in world.ids:
        episode = world.begin(sample)
        policy(world, episode)
        assert episode.done
        earned.append(episode.reward)
        episode.close()
    return earned


@pytest.mark.parametrize("policy", DEGENERATE, ids=lambda one: one.__name__)
def test_who_reads_nothing_earns_nothing(world: World, policy: Policy) -> None:
    earned = _earned(world, policy)
    assert len(earned) > 20
    assert max(earned) <= 0
    if policy in (repeats_one_call, repeats_and_guesses):
        assert max(earned) <= -REPEAT_CHARGE * (CALLS - 2)


def test_the_score_pays_for_not_reading(world: World) -> None:
    """What the gain is for: the same policy earns by the plain score."""
    paid = World(world.store, world.benchmark, WorldSettings(calls=CALLS))
    assert fmean(_earned(paid, prior)) > 0.1


def test_no_constant_with_evidence_of_its_own_earns_in_the_mean(world: World) -> None:
    """A row is read and cited; the answer is the same for everybody: the best constant is what is taken off."""
    for task in {one.task for one in world.samples.values()}:
        labels = world.benchmark.labels(get_task(task))
        samples = world.benchmark.samples(task, "train")
        gains = [
            [score_answer(answer, one, labels) - world.constants.score(one) for one in samples]
            for answer in {name for one in samples for name in [one.target[:1]]}
        ]
        assert max(map(fmean, gains)) <= 1e-9 or len(samples) < 5, task


def test_who_reads_and_cites_what_speaks_for_the_answer_earns(
    synthetic_store_path: Path, synthetic_benchmark_path: Path
) -> None:
    world = World.open(
        synthetic_store_path, synthetic_benchmark_path, WorldSettings(calls=40, reward="gain", tasks=("labevents",))
    )
    pairs = []
    for sample in world.ids[:12]:
        target = world.samples[sample].target
        uncited, cited = world.begin(sample), world.begin(sample)
        uncited.call("finish", {"response": list(target)})
        rows = {}
        for name in target[:30]:
            text = cited.call("get_records_by_keyword", {"table_name": "labevents", "keyword": name})
            rows[name] = re.findall(r"labevents:\d+", text)[:1]
        evidence = [{"answer": name, "row_ids": found} for name, found in rows.items() if found]
        cited.call("finish", {"response": list(target), "evidence": evidence})
        pairs.append((uncited.reward, cited.reward))
        uncited.close()
        cited.close()
    assert max(one for one, _ in pairs) <= 0, "right, but nothing shows that it was read"
    assert fmean(other for _, other in pairs) > 0
    assert max(other for _, other in pairs) <= 1


def test_a_row_that_was_not_read_or_does_not_speak_for_the_answer_counts_for_nothing(
    synthetic_store_path: Path, synthetic_benchmark_path: Path
) -> None:
    world = World.open(
        synthetic_store_path, synthetic_benchmark_path, WorldSettings(calls=5, reward="gain", tasks=("labevents",))
    )
    sample = next(one for one in world.ids if world.constants.score(world.samples[one]) < 1)
    target = world.samples[sample].target
    episode = world.begin(sample)
    text = episode.call("get_latest_records", {"table_name": "patients"})
    read = re.findall(r"patients:\d+", text)
    _answers_with_evidence(episode, target, read)
    assert episode.reward == -world.constants.score(world.samples[sample])
    episode.close()


def test_a_door_that_cannot_show_what_was_read_refuses_the_gain(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--store", str(synthetic_store_path), "--benchmark", str(synthetic_benchmark_path)]
    asked = ["train", "env", *where, "--reward", "gain", "--out", str(tmp_path / "out"), "--kind"]
    assert main([*asked, "harbor"]) == 2
    assert "does not show what was read" in capsys.readouterr().err
    assert main([*asked, "trl"]) == 0
    assert "reward='gain'" in (tmp_path / "out").read_text(encoding="utf-8")
