"""The judge of plans: off by default, asked of drawn steps once a stay has ended, and never asked twice."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_server import Answer, FakeServer, error, text
from wardround.core import UserError
from wardround.log import LogReader
from wardround.records import Store
from wardround.reports import summarise_run
from wardround.runs import RunFolder, RunSettings, execute, open_benchmark, score_run, start
from wardround.runs.judging import JUDGEMENTS, Grades, open_grading
from wardround.runs.results import finished_keys
from wardround.runs.settings import EpisodeKey
from wardround.tasks.scoring import render_stays

PROTOCOL = """
schema = 1
name = "try"
[[rule]]
id = "LABS"
category = "ROUTINE"
trigger = "hours since Creatinine >= 4"
actions = ["order Creatinine", "order Potassium"]
"""


class Grader:
    """Grades 4 where the plan names potassium and 2 elsewhere; from some question on it fails, if told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails_after = 10**6
        self.grade: int | None = None

    def __call__(self, body: Any) -> Answer:
        if len(self.asked) >= self.fails_after:
            return error(400)
        said = body["messages"][1]["content"]
        self.asked.append(said)
        plan = said.partition("The plan to grade")[2].partition("Grades")[0]
        if self.grade is not None:
            return text(json.dumps({"why": "so", "grade": self.grade}))
        return text(json.dumps({"why": "so", "grade": 4 if "Potassium" in plan else 2}))


@pytest.fixture
def grader() -> Iterator[tuple[Grader, str]]:
    grader = Grader()
    with FakeServer(grader, models=("player", "judge")) as server:
        yield grader, server.url


def settings(place: Path, store: Path, stays: Path, url: str, **more: Any) -> RunSettings:
    (place / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    return RunSettings.of(
        store=str(store),
        benchmark=str(stays),
        agents=["trace"],
        protocol=str(place / "protocol.toml"),
        split="test",
        limit=2,
        models=["openai/player"],
        reasoner="code",
        judge="openai/judge",
        base_url=url,
        **more,
    )


def graded_calls(folder: RunFolder) -> int:
    with LogReader(folder.path / JUDGEMENTS, may_be_empty=True) as reader:
        return sum(len(one.turns) for one in reader.trajectories())


def test_drawn_steps_are_graded_once_and_a_failed_grading_goes_on(
    grader: tuple[Grader, str], synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path
) -> None:
    judge, url = grader
    asked = settings(tmp_path, synthetic_store_path, synthetic_stays_path, url, equivalence=3)
    folder = start(tmp_path / "run", asked)
    judge.fails_after = 2
    execute(folder)
    assert [len(score.steps.grades) for score in score_run(folder) if score.steps] == [0, 0]
    judge.fails_after = 10**6
    execute(folder)
    scores = score_run(folder)
    assert [len(score.steps.grades) for score in scores if score.steps] == [3, 3]
    assert len(judge.asked) == len(set(judge.asked)) == graded_calls(folder) == 6, "nothing is asked twice"
    wanted = sorted(4 if "Potassium" in re.split("The plan to grade|Grades", one)[1] else 2 for one in judge.asked)
    assert sorted(grade for score in scores if score.steps for grade in score.steps.grades) == wanted
    (row,) = summarise_run(scores, seed=0).adherence
    assert row.equivalence is not None
    assert row.equivalence.estimate == pytest.approx(sum(wanted) / 6)
    assert f"{sum(wanted) / 6:.2f}" in render_stays((), [row])
    execute(folder)
    assert len(judge.asked) == 6


def test_a_grade_is_in_the_file_as_soon_as_it_is_given(
    grader: tuple[Grader, str], synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path
) -> None:
    """Whoever is killed before the run's end has not asked in vain."""
    _, url = grader
    folder = start(tmp_path / "run", settings(tmp_path, synthetic_store_path, synthetic_stays_path, url, equivalence=1))
    execute(folder)
    shutil.rmtree(folder.path / JUDGEMENTS)
    benchmark = open_benchmark(folder)
    [key, *_] = finished_keys(folder)
    sample = next(one for one in benchmark.all_samples if one.id == EpisodeKey.parse(key).sample)

    async def grade() -> tuple[int, ...]:
        grading = open_grading(folder, Store.open(synthetic_store_path), benchmark, played=folder.logs)
        assert grading is not None
        await grading.settle(key, sample)
        given = Grades(folder).of(key)
        await grading.close()
        return given

    assert len(asyncio.run(grade())) == 1


def test_it_is_off_by_default_and_needs_a_model(
    grader: tuple[Grader, str], synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path
) -> None:
    judge, url = grader
    plain = settings(tmp_path, synthetic_store_path, synthetic_stays_path, url)
    folder = start(tmp_path / "run", plain)
    execute(folder)
    assert not judge.asked
    (row,) = summarise_run(score_run(folder), seed=0).adherence
    assert row.equivalence is None
    judge.grade = 6
    folder = start(tmp_path / "six", plain.changed(equivalence=1))
    execute(folder)
    assert judge.asked
    assert [score.steps.grades for score in score_run(folder) if score.steps] == [(), ()], "grades are 1 to 5"
    for name in (None, "words"):
        with pytest.raises(UserError, match="needs a model that grades"):
            start(tmp_path / f"run-{name}", plain.changed(equivalence=2, judge=name))
