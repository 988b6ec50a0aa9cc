"""ClinSeek-Bench on records made by hand: who is asked, when, and what follows, on both sides of every limit."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from records.mimic_tables import write_folder
from wardround.audits import check_labels
from wardround.core import from_microseconds
from wardround.records import Store, ingest
from wardround.tasks.benchmarks import build_clinseek
from wardround.tasks.benchmarks.clinseek.decision import DecisionQuestions
from wardround.tasks.benchmarks.clinseek.definitions import RULES, DecisionRule, RiskRule
from wardround.tasks.benchmarks.clinseek.risk import RiskQuestions
from wardround.tasks.benchmarks.clinseek.timeline import Timeline
from wardround.tasks.benchmarks.pipeline import BuildSettings


def at(day: float, hour: int = 0, minute: int = 0) -> str:
    """A time of the record, by the day of the month (32 is the first of February)."""
    return f"{datetime(2150, 1, 1) + timedelta(days=day - 1, hours=hour, minutes=minute):%Y-%m-%d %H:%M:%S}"


class Hospital:
    """The rows of some people."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("patients", "admissions", "icustays", "edstays", "labevents", "transfers")
        }
        self.tables["d_labitems"] = [{"itemid": 1, "label": "Lactate"}, {"itemid": 2, "label": "Sodium"}]

    def person(self, subject: int, *, dod: str = "") -> None:
        row = {"subject_id": subject, "gender": "F", "anchor_age": 60, "anchor_year": 2150}
        self.tables["patients"].append({**row, "anchor_year_group": "2011 - 2013", "dod": dod})

    def stay(self, subject: int, number: int, start: str, end: str, *, died: str = "") -> None:
        row = {"subject_id": subject, "hadm_id": number, "admittime": start, "dischtime": end, "deathtime": died}
        self.tables["admissions"].append({**row, "admission_type": "URGENT", "hospital_expire_flag": int(bool(died))})

    def unit(self, subject: int, number: int, stay: int, start: str, end: str) -> None:
        row = {"subject_id": subject, "hadm_id": number, "stay_id": stay, "intime": start, "outtime": end}
        self.tables["icustays"].append({**row, "first_careunit": "MICU", "last_careunit": "MICU"})

    def visit(self, subject: int, number: int | str, stay: int, start: str, end: str) -> None:
        row = {"subject_id": subject, "hadm_id": number, "stay_id": stay, "intime": start, "outtime": end}
        self.tables["edstays"].append({**row, "gender": "F"})

    def lab(self, subject: int, number: int | str, key: int, when: str, item: int = 1) -> None:
        row = {"labevent_id": key, "subject_id": subject, "hadm_id": number, "itemid": item, "charttime": when}
        self.tables["labevents"].append({**row, "storetime": when, "value": "1", "valuenum": 1, "specimen_id": key})


IN_UNIT = {
    "11 dies a minute before the day is over": at(3, 9, 59),
    "12 dies as the day is over": at(3, 10),
    "13 dies a minute before two days are over": at(4, 9, 59),
    "14 dies in the second week": at(11, 10),
    "15 dies in the fourth week": at(25, 10),
    "16 lives": "",
}
"""All came to intensive care on 1 January at 10:00 and are asked about on the 2nd at 10:00."""


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Hospital()
    for name, died in IN_UNIT.items():
        subject = int(name[:2])
        end = died or at(30, 8)
        made.person(subject, dod=died[:10])
        made.stay(subject, subject, at(1, 8), end, died=died)
        made.unit(subject, subject, subject, at(1, 10), min(end, at(29, 8)))
    ends = {21: at(4, 8), 22: at(4, 8, 1), 23: at(8, 8), 24: at(8, 8, 1)}
    for subject, end in ends.items():  # in hospital for three days, a minute more, seven days, a minute more
        made.person(subject)
        made.stay(subject, subject, at(1, 8), end)
    for subject, hours in {31: 7 * 24, 32: 7 * 24 - 1}.items():
        made.person(subject)
        made.stay(subject, subject, at(1, 8), at(20, 8))
        made.unit(subject, subject, subject, at(1, 10), at(1, 10 + hours))
    again = {41: at(40, 7, 59), 42: at(40, 8), 43: at(70, 7, 59), 44: ""}
    for subject, start in again.items():  # discharged on the 10th at 8:00
        made.person(subject)
        made.stay(subject, subject * 10, at(1, 8), at(10, 8))
        if start:
            made.stay(subject, subject * 10 + 1, start, at(75, 8))
    made.person(45, dod=at(10)[:10])
    made.stay(45, 45, at(1, 8), at(10, 8), died=at(10, 8))
    made.person(46, dod=at(12)[:10])  # dies at home: was discharged, and is not readmitted
    made.stay(46, 46, at(1, 8), at(10, 8))
    for subject in (*again, 45, 46):  # something is known of the last day
        made.lab(subject, subject if subject > 44 else subject * 10, subject, at(9, 20))
    made.person(51)
    made.stay(51, 51, at(1, 8), at(9, 8))
    made.unit(51, 51, 511, at(1, 10), at(3, 10))
    made.unit(51, 51, 512, at(5, 10), at(6, 10))
    made.person(52)  # comes back to intensive care in another stay
    made.stay(52, 521, at(1, 8), at(4, 8))
    made.unit(52, 521, 521, at(1, 10), at(3, 10))
    made.stay(52, 522, at(6, 8), at(12, 8))
    made.unit(52, 522, 522, at(6, 10), at(8, 10))
    visits = {61: (61, at(1, 20)), 62: (62, at(1, 20, 1)), 63: (63, at(1, 7))}
    for subject, (number, unit) in visits.items():  # left the department at 8:00: 12 hours are over at 20:00
        made.person(subject)
        made.visit(subject, number, subject, at(1, 4), at(1, 8))
        made.stay(subject, number, at(1, 6), at(9, 8))
        made.unit(subject, number, subject, unit, at(4, 8))
    back = {64: at(4, 7, 59), 65: at(4, 8), 66: ""}
    for subject, start in back.items():  # went home on the 1st at 8:00
        made.person(subject)
        made.visit(subject, "", subject * 10, at(1, 4), at(1, 8))
        if start:
            made.visit(subject, "", subject * 10 + 1, start, at(5, 8))
    made.person(67, dod=at(6)[:10])
    made.visit(67, 67, 67, at(1, 4), at(1, 8))
    made.stay(67, 67, at(1, 7), at(6, 8), died=at(6, 8))
    made.person(71)
    made.stay(71, 71, at(1, 8), at(3, 8))
    made.lab(71, 71, 711, at(2, 8))
    made.lab(71, 71, 712, at(3, 7, 59), item=2)
    made.lab(71, "", 713, at(3, 9))  # drawn an hour after the discharge
    made.person(72)
    made.stay(72, 72, at(1, 8), at(3, 8))
    made.lab(72, "", 721, at(3, 9))
    return write_folder(tmp_path_factory.mktemp("hand") / "raw", made.tables, every=True)


@pytest.fixture(scope="module")
def store(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("store") / "store"
    ingest("mimiciv", raw, folder)
    return Store.open(folder)


def asked(store: Store, task: str, subject: int) -> list[tuple[str, str]]:
    """When a subject is asked about, and the answer."""
    rule = RULES[f"clinseek.{task}"]
    assert isinstance(rule, RiskRule)
    asking = RiskQuestions(task=f"clinseek.{task}", rule=rule, store=store, seed=0)
    found = asking.questions(Timeline(store, subject, "known_at"))
    return [(f"{from_microseconds(one.prediction_us):%Y-%m-%d %H:%M:%S}", "".join(one.target)) for one in found]


MORTALITY = {
    "11": (1, 1, 1, 1, 1),
    "12": (0, 1, 1, 1, 1),
    "13": (0, 1, 1, 1, 1),
    "14": (0, 0, 0, 0, 1),
    "15": (0, 0, 0, 0, 0),
    "16": (0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("subject", MORTALITY)
def test_death_is_counted_from_the_question_on(store: Store, subject: str) -> None:
    """Not from when the stay in intensive care began, a day before."""
    found = [asked(store, f"ICU_Mortality_{days}day", int(subject)) for days in (1, 2, 3, 7, 14)]
    assert found == [[(at(2, 10), str(yes))] for yes in MORTALITY[subject]]


@pytest.mark.parametrize(
    ("task", "subject", "answer"),
    [
        ("LengthOfStay_3day", 21, "0"),
        ("LengthOfStay_3day", 22, "1"),
        ("LengthOfStay_7day", 23, "0"),
        ("LengthOfStay_7day", 24, "1"),
        ("ICU_Stay_7day", 31, "1"),
        ("ICU_Stay_7day", 32, "0"),
        ("Readmission_30day", 41, "1"),
        ("Readmission_30day", 42, "0"),
        ("Readmission_60day", 42, "1"),
        ("Readmission_60day", 43, "1"),
        ("Readmission_30day", 44, "0"),
        ("Readmission_30day", 46, "0"),
        ("Inpatient_Mortality", 45, "1"),
        ("Inpatient_Mortality", 46, "0"),
        ("ICU_Readmission", 51, "1"),
        ("ICU_Readmission", 52, "0"),
        ("ED_ICU_Tranfer_12hour", 61, "1"),
        ("ED_ICU_Tranfer_12hour", 62, "0"),
        ("ED_Critical_Outcomes", 61, "1"),
        ("ED_Critical_Outcomes", 62, "0"),
        ("ED_Critical_Outcomes", 67, "1"),
        ("ED_Inpatient_Mortality", 67, "1"),
        ("ED_Inpatient_Mortality", 61, "0"),
        ("ED_Reattendance_3day", 64, "1"),
        ("ED_Reattendance_3day", 65, "0"),
        ("ED_Reattendance_3day", 66, "0"),
        ("ED_Hospitalization", 66, "0"),
        ("ED_Hospitalization", 67, "1"),
    ],
)
def test_an_answer_on_either_side_of_its_limit(store: Store, task: str, subject: int, answer: str) -> None:
    assert [said for _, said in asked(store, task, subject)][:1] == [answer]


def test_who_died_in_the_stay_is_not_asked_whether_they_come_back(store: Store) -> None:
    assert [asked(store, f"Readmission_{days}day", 45) for days in (30, 60)] == [[], []]


def test_no_question_of_a_stay_is_answered_after_its_end(store: Store) -> None:
    """An hour after the discharge blood is drawn once more: nobody asks for that, nor where nothing else came."""
    rule = RULES["clinseek.labevents"]
    assert isinstance(rule, DecisionRule)
    asking = DecisionQuestions.of("clinseek.labevents", rule, store, BuildSettings(), None)
    found = {
        subject: {
            (from_microseconds(one.event), one.target) for one in asking.questions(Timeline(store, subject, "known_at"))
        }
        for subject in (71, 72)
    }
    assert {(f"{time:%d %H:%M}", names) for time, names in found[71]} == {
        ("02 08:00", ("Lactate",)),
        ("03 07:59", ("Sodium",)),
    }
    assert found[72] == set()


def test_the_second_path_answers_alike(store: Store, raw: Path, tmp_path: Path) -> None:
    names = [name.removeprefix("clinseek.") for name, rule in RULES.items() if isinstance(rule, RiskRule)]
    built = build_clinseek(
        store, tmp_path / "bench", per_task=0, tasks=[*names, "labevents"], balanced=False, allow_missing=True
    )
    found = check_labels(built.all_samples, raw)
    assert found.clean, found.as_text()
    assert len(built.all_samples) > 60


def test_a_release_without_times_of_death_has_the_days_alone(tmp_path: Path) -> None:
    made = Hospital()
    made.person(11, dod=at(3)[:10])
    made.stay(11, 11, at(1, 8), at(3, 9), died=at(3, 9))
    for row in made.tables["admissions"]:
        del row["deathtime"]
    write_folder(tmp_path / "raw", made.tables)
    ingest("mimiciv", tmp_path / "raw", tmp_path / "store")
    timeline = Timeline(Store.open(tmp_path / "store"), 11, "known_at")
    assert [from_microseconds(day) for day in timeline.days_of_death.tolist()] == [datetime(2150, 1, 3, 23, 59, 59)]
