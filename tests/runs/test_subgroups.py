"""Subgroups: read from charts as they were, and results split by them, by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from records.small_source import FILES, moment, small_store
from tasks.scoring.test_tables import scored
from wardround.records import Chart, PersonRole, Roles, RowRole, Store
from wardround.reports import GROUPINGS, by_subgroup
from wardround.tasks.benchmarks import Sample
from wardround.tasks.scoring import EpisodeScore

LEFT_TO = RowRole(table="admissions", label=("discharge_location",))
"""In the small source where somebody went is known when the stay ends: as good as a unit for a test of time."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return small_store(tmp_path_factory.mktemp("subgroups"))


def with_units(chart: Chart) -> Chart:
    return replace(chart, spec=replace(chart.spec, roles=Roles(transfer=(LEFT_TO,))))


def sample(subject: int, when: datetime) -> Sample:
    return Sample(
        task="labevents",
        subject_id=subject,
        prediction_time=when,
        target=("x",),
        split="test",
        stratum="common",
        id=f"labevents-{subject}",
    )


def test_groups_are_what_the_chart_says(store: Store) -> None:
    """The first patient is a woman of 60 in 2150, the second a man of 91; the small source has no other column."""
    told = [{name: group(store.chart(who, moment("02 12:00"))) for name, group in GROUPINGS.items()} for who in (1, 2)]
    nothing_else = {"ethnicity": "unknown", "insurance": "unknown", "unit": "unknown"}
    assert told == [
        {"sex": "female", "age": "45-64"} | nothing_else,
        {"sex": "male", "age": "80 and over"} | nothing_else,
    ]


def test_a_source_says_which_columns_tell_who_somebody_is(store: Store) -> None:
    """Of the role's tables the first that says anything; a source with the role is not looked through by name."""
    chart = store.chart(1, moment("02 12:00"))

    def told(*people: PersonRole) -> list[str]:
        asked = replace(chart, spec=replace(chart.spec, roles=Roles(person=people)))
        return [GROUPINGS[name](asked) for name in ("sex", "ethnicity", "insurance")]

    nothing = PersonRole(table="admissions", sex="discharge_location", insurance="discharge_location")
    admitted = PersonRole(table="admissions", ethnicity="admission_type")
    assert told(nothing, PersonRole(table="patients", sex="gender"), admitted)[0] == "female"
    assert told(admitted)[0] == "unknown"
    assert told(PersonRole(table="elsewhere", sex="gender")) == ["unknown"] * 3


@pytest.mark.parametrize(
    ("when", "unit"),
    [
        ("2150-01-05 11:59:59", "unknown"),
        ("2150-01-06 00:00:00", "HOME"),
        ("2150-02-20 00:00:00", "HOME"),
        ("2150-03-02 00:00:00", "DIED"),
    ],
)
def test_a_group_is_the_latest_that_was_known(store: Store, when: str, unit: str) -> None:
    assert GROUPINGS["unit"](with_units(store.chart(1, moment(when)))) == unit


def test_another_future_makes_no_other_group(tmp_path: Path, store: Store) -> None:
    """The second stay ends otherwise: before its end the group is the same."""
    changed = FILES["hosp/admissions.csv"].replace("DIED", "HOSPICE")
    other = small_store(tmp_path, {"hosp/admissions.csv": changed})
    at, later = moment("2150-02-20 00:00:00"), moment("2150-03-02 00:00:00")
    assert [GROUPINGS["unit"](with_units(one.chart(1, at))) for one in (store, other)] == ["HOME", "HOME"]
    assert [GROUPINGS["unit"](with_units(one.chart(1, later))) for one in (store, other)] == ["DIED", "HOSPICE"]


def test_a_cell_that_says_nothing_is_unknown(tmp_path: Path) -> None:
    people = FILES["hosp/patients.csv"].replace("1,F,", "1,Unknown,").replace("2,M,", "2,,")
    other = small_store(tmp_path, {"hosp/patients.csv": people})
    assert [GROUPINGS["sex"](other.chart(who, moment("02 12:00"))) for who in (1, 2)] == ["unknown", "unknown"]


def test_results_are_split_by_hand(store: Store) -> None:
    """The woman's two epochs score 0.2 and 0.6, the man's one 1.0; one patient has no interval."""
    scores: list[EpisodeScore] = [scored(1, 0.2), scored(1, 0.6, epoch=1), scored(2, 1.0)]
    samples = [sample(who, moment("02 12:00")) for who in (1, 2)]
    rows = by_subgroup(scores, samples, store, "sex", seed=1)
    assert [(row.stratum, row.n, row.subjects, row.f1.estimate) for row in rows] == [
        ("female", 1, 1, pytest.approx(0.4)),
        ("male", 1, 1, 1.0),
        ("all", 2, 2, pytest.approx(0.7)),
    ]
    assert [row.f1.as_text() for row in rows] == [
        "one patient: no interval",
        "one patient: no interval",
        "few patients",
    ]
