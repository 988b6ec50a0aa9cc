"""Courses that a small hospital is without: there on demand, and a seed makes what it made without them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.synth.person import Dice
from wardround.synth.planning import draw_course, quick_return

DAY = timedelta(days=1)


def rows(folder: Path, table: str) -> Iterator[dict[str, str]]:
    with (folder / table).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rarer") / "hospital"
    words = ["synth", str(folder), "--patients", "80", "--seed", "3", "--no-notes", "--plain", "--rarer-courses"]
    assert main(words) == 0
    return folder


def test_some_stay_for_weeks_or_come_back_to_intensive_care(hospital: Path) -> None:
    by_stay: dict[str, list[tuple[datetime, datetime]]] = {}
    for row in rows(hospital, "icu/icustays.csv"):
        times = datetime.fromisoformat(row["intime"]), datetime.fromisoformat(row["outtime"])
        by_stay.setdefault(row["hadm_id"], []).append(times)
    assert any(end - start >= 14 * DAY for times in by_stay.values() for start, end in times)
    returned = [sorted(times) for times in by_stay.values() if len(times) > 1]
    assert returned
    assert all(first[1] < second[0] for first, second, *_ in returned)
    ends = {row["hadm_id"]: datetime.fromisoformat(row["dischtime"]) for row in rows(hospital, "hosp/admissions.csv")}
    assert all(end <= ends[name] + timedelta(minutes=2) for name, times in by_stay.items() for _, end in times)


def test_some_come_back_to_the_emergency_department_within_three_days(hospital: Path) -> None:
    visits: dict[str, list[tuple[datetime, datetime]]] = {}
    for row in rows(hospital, "ed/edstays.csv"):
        times = datetime.fromisoformat(row["intime"]), datetime.fromisoformat(row["outtime"])
        visits.setdefault(row["subject_id"], []).append(times)
    gaps = [
        later[0] - earlier[1]
        for times in visits.values()
        for earlier, later in zip(sorted(times), sorted(times)[1:], strict=False)
    ]
    assert all(gap > timedelta(0) for gap in gaps)
    assert any(gap < 3 * DAY for gap in gaps)


def test_the_courses_come_as_often_as_they_say() -> None:
    dice = Dice(5)
    drawn = [draw_course(dice) for _ in range(2000)]
    assert sum(one.more_hours >= 14 * 24 for one in drawn) / 2000 == pytest.approx(0.125, abs=0.03)
    assert sum(one.again_hours > 0 for one in drawn) / 2000 == pytest.approx(0.25, abs=0.04)
    assert all((one.again_hours > 0) == (one.ward_hours > 0) for one in drawn)
    assert sum(quick_return(dice) is not None for _ in range(2000)) / 2000 == pytest.approx(0.6, abs=0.05)
