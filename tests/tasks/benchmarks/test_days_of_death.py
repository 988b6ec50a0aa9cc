"""Risks of a person of whose death only the day is known: unknown on the day itself, definite on every other."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.fhir_resources import ANN_NUMBER, category, code, encounter, made, patient, resource
from records.mimic_tables import write_folder
from wardround.records import Store, ingest
from wardround.tasks.benchmarks.clinseek.definitions import RULES, RiskRule
from wardround.tasks.benchmarks.clinseek.risk import RiskQuestions
from wardround.tasks.benchmarks.clinseek.timeline import Timeline


def answer(store: Store, subject: int, task: str) -> tuple[str, ...]:
    rule = RULES[f"clinseek.{task}"]
    assert isinstance(rule, RiskRule)
    (one,) = RiskQuestions(task=task, rule=rule, store=store, seed=1).questions(Timeline(store, subject, "known_at"))
    return one.target


@pytest.mark.parametrize(
    ("died", "expected"),
    [
        ("2150-01-05", ()),  # on the day on which the stay ended at two: before or after?
        ("2150-01-05T14:30:00", ("0",)),
        ("2150-01-05T13:30:00", ("1",)),
        ("2150-01-04", ("1",)),
        ("2150-01-06", ("0",)),
        (None, ("0",)),
    ],
)
def test_a_death_on_the_day_of_discharge_may_have_been_in_the_stay(
    tmp_path: Path, died: str | None, expected: tuple[str, ...]
) -> None:
    known = {} if died is None else {"deceasedDateTime": died}
    stay = encounter("e1", "2150-01-01T08:00:00", "2150-01-05T14:00:00")
    labs = [
        resource(
            "Observation",
            f"o{day}",
            category=category("laboratory"),
            code=code("1", "Sodium"),
            issued=f"2150-01-0{day}T07:00:00",
        )
        for day in (1, 2, 3)
    ]
    store, _ = made(tmp_path, [patient(**known), stay, *labs])
    assert answer(store, ANN_NUMBER, "LengthOfStay_3day") == ("1",)
    assert answer(store, ANN_NUMBER, "Inpatient_Mortality") == expected


@pytest.mark.parametrize(("hour", "expected"), [("", "0"), ("2150-01-05 13:59:00", "1")])
def test_a_stay_that_says_itself_how_it_ended_is_believed(tmp_path: Path, hour: str, expected: str) -> None:
    person = {"subject_id": 1, "gender": "F", "anchor_age": 60, "anchor_year": 2150, "dod": "2150-01-05"}
    stay = {"subject_id": 1, "hadm_id": 2, "admittime": "2150-01-01 08:00:00", "dischtime": "2150-01-05 14:00:00"}
    lab = {"subject_id": 1, "labevent_id": 3, "specimen_id": 3, "itemid": 50983, "charttime": "2150-01-01 09:00:00"}
    tables = {"patients": [person], "admissions": [stay | {"deathtime": hour}], "labevents": [lab]}
    ingest("mimiciv", write_folder(tmp_path / "raw", tables), tmp_path / "store")
    assert answer(Store.open(tmp_path / "store"), 1, "Inpatient_Mortality") == (expected,)
