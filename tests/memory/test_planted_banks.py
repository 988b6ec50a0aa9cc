"""Banks planted with what helps, harms, does nothing, and turns: what their credit serves, over 100 seeds.

A world hands every episode a task, a difficulty and what is eligible, tosses the coins a stream would toss, and decides
right or wrong by what was shown. Credit sees scores alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from statistics import mean

import pytest

from effort import often
from wardround.memory.credit import effect_in
from wardround.memory.graph_recall import GraphRecallSettings
from wardround.memory.learning import EvolutionSettings
from wardround.memory.outcomes import ExperienceTrial, LearnedState, LearntEpisode

SEEDS = 100
EFFECT = 0.2
TURN = 150
EPISODES = 400
SAID = EvolutionSettings()
BAR = GraphRecallSettings().bar_above


@dataclass
class Course:
    """Of each eligible episode of one item in task ``a``: whether it was barred before it, and whether it was shown."""

    barred: list[bool] = field(default_factory=list)
    shown: list[bool] = field(default_factory=list)


def effects(task: str, episode: int) -> dict[str, float]:
    by_task = EFFECT if task == "a" else -EFFECT
    return {
        "helpful": EFFECT,
        "harmful": -EFFECT,
        "inert": 0.0,
        "turning": EFFECT if episode < TURN else -EFFECT,
        "by task": -by_task,
        "of easy cases": 0.0,
        "beside what harms": 0.0,
    }


def eligible(source: Random, is_easy: bool) -> list[str]:
    """What recall finds: one item comes with easy cases alone, one only together with what harms."""
    with_harmful = ["harmful", "beside what harms"] if source.random() < 0.8 else []
    return ["helpful", "inert", "turning", "by task", *(["of easy cases"] if is_easy else []), *with_harmful]


def episodes(seed: int, learned: LearnedState, courses: Mapping[str, Course]) -> Iterator[None]:
    source = Random(f"planted {seed}")
    for number in range(2 * EPISODES):
        task, is_easy = "ab"[number % 2], source.random() < 0.5
        met, chance = [], 0.6 if is_easy else 0.4
        for item in eligible(source, is_easy):
            held = learned.evidence.get(item, {})
            barred = task in held and effect_in(held, task).harm > BAR
            share = SAID.masked_chance(barred=barred)
            shown = source.random() >= share
            met.append(ExperienceTrial(experience=item, shown=shown, masked_share=share))
            chance += effects(task, number // 2)[item] * shown
            if task == "a":
                courses[item].barred.append(barred)
                courses[item].shown.append(shown)
        score = float(source.random() < chance)
        learned.learn(
            LearntEpisode(number=number, run="r", task=task, score=score, rule=SAID.rule, sample="s", met=tuple(met))
        )
        yield


@pytest.fixture(scope="module")
def worlds() -> dict[str, list[Course]]:
    """The courses of every item over all seeds."""
    found: dict[str, list[Course]] = {item: [] for item in effects("a", 0)}
    for seed in range(often(SEEDS, 400)):
        courses = {item: Course() for item in found}
        for _ in episodes(seed, LearnedState(edges=lambda name, upto: {}), courses):
            pass
        for item, course in courses.items():
            found[item].append(course)
    return found


def served(courses: list[Course], after: int = 0) -> float:
    """The share of eligible episodes in which a run that reads the bank would serve it."""
    return 1.0 - mean(mean(one.barred[after:]) for one in courses)


@pytest.mark.parametrize("item", ["harmful", "by task"])
def test_what_harms_is_served_in_at_most_a_tenth_of_episodes_after_200_eligible_ones(
    worlds: dict[str, list[Course]], item: str
) -> None:
    assert served(worlds[item], after=200) <= 0.10, "by a run that reads the bank"
    assert mean(mean(one.shown[200:]) for one in worlds[item]) <= 0.10, "by the stream, which tries it again"


def test_what_turns_harmful_is_barred_within_200_more(worlds: dict[str, list[Course]]) -> None:
    before = mean(mean(one.barred[:TURN]) for one in worlds["turning"])
    within = mean(any(one.barred[TURN : TURN + 200]) for one in worlds["turning"])
    assert before <= 0.05
    assert within >= often(0.91, 0.95), "half-lives of 160 and 40 episodes: 0.94 of 400 seeds"
    served_meanwhile = 1 - mean(mean(one.barred[TURN : TURN + 200]) for one in worlds["turning"])
    assert served_meanwhile <= 0.58, "half-lives of 160 and 40 episodes: 0.59"


@pytest.mark.parametrize("item", ["inert", "of easy cases", "beside what harms", "helpful"])
def test_what_does_nothing_stays_in_whatever_it_comes_along_with(worlds: dict[str, list[Course]], item: str) -> None:
    assert served(worlds[item]) >= (0.99 if item == "helpful" else 0.85)


def test_what_helps_in_another_task_is_served_there(worlds: dict[str, list[Course]]) -> None:
    assert effects("b", 0)["by task"] == EFFECT
    assert mean(one.barred[-1] for one in worlds["by task"]) >= 0.9
