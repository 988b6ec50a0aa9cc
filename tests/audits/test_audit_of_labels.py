"""Labels by two paths: every label of both families again from the raw files, and faults on either side are found."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from gzip import decompress
from pathlib import Path

import pytest

from wardround.audits import check_labels
from wardround.audits.labels.check import CODES, NAME_TASKS
from wardround.audits.labels.clinseek import DECISION_TASKS as EVENTS
from wardround.audits.labels.clinseek import RISK_TASKS as RISKS
from wardround.cli.main import main
from wardround.clinical.codes.user_codes import add_user_codes
from wardround.core import UserError
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark, Sample, build_clinseek, build_ehrshot

WITHOUT_ATC = {"clinseek.prescriptions_atc", "clinseek.medrecon_atc"}
SOME = ("guo_los", "guo_icu", "guo_readmission", "lab_anemia", "new_hypertension")


@pytest.fixture(scope="module")
def names(synthetic_benchmark_path: Path) -> Benchmark:
    return Benchmark.open(synthetic_benchmark_path)


@pytest.fixture(scope="module")
def classes(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """A kind of task each; test_ehrshot_demo has all of them."""
    return build_ehrshot(synthetic_store, tmp_path_factory.mktemp("classes") / "bench", tasks=SOME, per_task=200)


def test_no_label_of_either_family_differs(names: Benchmark, classes: Benchmark, synthetic_hospital: Path) -> None:
    found = check_labels((*names.all_samples, *classes.all_samples), synthetic_hospital)
    assert found.clean, found.as_text()
    assert {task.task for task in found.tasks} == {*NAME_TASKS, *SOME}
    assert all(task.samples > 5 for task in found.tasks)
    assert "0 differences" in found.as_text()


def test_no_label_of_clinseek_bench_differs_and_another_one_is_found(
    clinseek_path: Path, synthetic_hospital: Path
) -> None:
    seeking = Benchmark.open(clinseek_path)
    asked = {one.task for one in seeking.all_samples}
    assert asked == {*EVENTS, *RISKS} - WITHOUT_ATC
    found = check_labels(seeking.all_samples, synthetic_hospital)
    assert found.clean, found.as_text()
    other = {"0": ("1",), "1": ("0",)}
    wrong = [replace(one, target=other.get(one.target[0], ("something else",))) for one in seeking.all_samples]
    assert all(len(task.differing or ()) == task.samples for task in check_labels(wrong, synthetic_hospital).tasks)
    risky = [one for one in seeking.all_samples if one.task in RISKS]
    elsewhere = [replace(one, prediction_time=datetime(1900, 1, 1)) for one in risky]
    risks = check_labels(elsewhere, synthetic_hospital).tasks
    assert len(risks) == len({one.task for one in risky}) > 3
    assert all("asks nothing here" in line for task in risks for line in task.differing or ("nothing found",))


def test_drugs_by_atc_are_named_by_the_users_own_tables(
    synthetic_store: Store, synthetic_hospital: Path, tmp_path: Path
) -> None:
    rows = [
        row
        for one in synthetic_store.subjects.tolist()
        for row in synthetic_store.rows(one, "prescriptions").to_pylist()
    ]
    drugs = sorted({row["drug"] for row in rows if '"' not in row["drug"]})
    table = "".join(f'"{drug}",A{number % 7:02}AA01\n' for number, drug in enumerate(drugs))
    codes = tmp_path / "codes"
    (tmp_path / "drugs.csv").write_text("drug,atc_code\n" + table, encoding="utf-8")
    add_user_codes("drug-atc", tmp_path / "drugs.csv", codes)
    tasks = ("prescriptions_atc", "medrecon_atc")
    built = build_clinseek(synthetic_store, tmp_path / "bench", tasks=tasks, per_task=0, user_codes=codes)
    assert check_labels(built.all_samples, synthetic_hospital, user_codes=codes).clean
    assert not check_labels(built.all_samples, synthetic_hospital).clean


def test_a_label_that_is_another_is_found_whatever_the_task(
    names: Benchmark, classes: Benchmark, synthetic_hospital: Path
) -> None:
    whole = (*names.all_samples, *classes.all_samples)
    firsts = {task: next(one for one in whole if one.task == task) for task in (*NAME_TASKS, *SOME)}
    wrong = [replace(one, target=("something else",)) for one in firsts.values()]
    found = check_labels(wrong, synthetic_hospital)
    assert [len(task.differing or ()) for task in found.tasks] == [1] * len(firsts)
    assert not found.clean


def test_a_row_that_the_store_never_saw_is_found(names: Benchmark, synthetic_hospital: Path, tmp_path: Path) -> None:
    shutil.copytree(synthetic_hospital, tmp_path / "raw")
    sample = names.samples("transfers")[0]
    (file,) = (tmp_path / "raw" / "hosp").glob("transfers.csv*")
    rows = [line.split(",") for line in _text(file).splitlines()]
    unit, subject = rows[0].index("careunit"), str(sample.subject_id)
    changed = [[*row[:unit], "Elsewhere", *row[unit + 1 :]] if row[0] == subject else row for row in rows]
    file.unlink()
    with (file.parent / "transfers.csv").open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(changed)
    found = check_labels([sample], tmp_path / "raw")
    assert "elsewhere" in found.as_text()


def _text(file: Path) -> str:
    return (decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()).decode()


def test_a_task_without_a_second_path_is_said_and_nothing_compared_is_not_clean(
    names: Benchmark, synthetic_hospital: Path
) -> None:
    found = check_labels([replace(names.all_samples[0], task="own")], synthetic_hospital)
    assert not found.clean
    assert "own: 1 samples, no second path" in found.as_text()


def test_the_command(synthetic_benchmark_path: Path, synthetic_hospital: Path, tmp_path: Path) -> None:
    words = ["audit", "labels", "--benchmark", str(synthetic_benchmark_path), "--raw"]
    assert main([*words, str(synthetic_hospital)]) == 0
    with pytest.raises(UserError, match="no hosp/admissions"):
        check_labels([], tmp_path)


@pytest.mark.parametrize(
    ("task", "version", "held", "others"),
    [
        ("new_hypertension", "9", ("4011", "4019"), ("402", "I10")),
        ("new_hypertension", "10", ("I10",), ("I110", "401")),
        ("new_hyperlipidemia", "9", ("2720", "2724"), ("2725", "E785")),
        ("new_hyperlipidemia", "10", ("E780", "E785"), ("E786", "E79", "2720")),
        ("new_acutemi", "9", ("41001", "41091"), ("412", "I21")),
        ("new_acutemi", "10", ("I214", "I220"), ("I252", "I23", "410")),
        ("new_pancan", "9", ("1570", "1579"), ("156", "C25")),
        ("new_pancan", "10", ("C250", "C259"), ("C24", "157")),
        ("new_celiac", "9", ("5790",), ("5791", "K900")),
        ("new_celiac", "10", ("K900",), ("K901", "5790")),
        ("new_lupus", "9", ("7100",), ("7101", "M32")),
        ("new_lupus", "10", ("M3210", "M329"), ("M33", "7100")),
    ],
)
def test_the_second_paths_codes_by_hand(
    task: str, version: str, held: tuple[str, ...], others: tuple[str, ...]
) -> None:
    assert all(CODES[task](code, version) for code in held)
    assert not any(CODES[task](code, version) for code in others)


@pytest.mark.parametrize("answer", ["discharge", "1"])
def test_an_answer_that_no_sample_has_is_missed(
    synthetic_store: Store, synthetic_hospital: Path, tmp_path: Path, answer: str
) -> None:
    """A rule that drops every question with one answer leaves the labels of the others right."""
    tasks = ["transfers", "ED_Hospitalization"]
    built = build_clinseek(synthetic_store, tmp_path / "bench", tasks=tasks, per_task=0, balanced=False)
    whole = check_labels(built.all_samples, synthetic_hospital)
    assert whole.clean, whole.as_text()
    assert {one.target[0] for one in built.samples("clinseek.transfers")} == {"admit", "transfer", "discharge"}
    found = check_labels([one for one in built.all_samples if answer not in one.target], synthetic_hospital)
    assert not any(task.differing for task in found.tasks)
    assert not found.clean
    assert f"{answer!r} is the answer to none of" in found.as_text()


def test_a_question_asked_elsewhere_than_the_task_says_is_found(synthetic_hospital: Path, clinseek_path: Path) -> None:
    """Asked a day before: other hours of the stay, or none at all."""
    seeking = [one for one in Benchmark.open(clinseek_path).all_samples if one.task != "clinseek.omr"]
    moved = [replace(one, prediction_time=one.moment - timedelta(days=400)) for one in seeking]
    for task in check_labels(moved, synthetic_hospital).tasks:
        assert len(task.differing or ()) == task.samples, task.as_text()


def by_hand(folder: Path, **tables: list[str]) -> Path:
    """Raw files of a few lines each, the first of them the header."""
    for name, lines in tables.items():
        path = folder / f"{name.replace('__', '/')}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return folder


def asked(task: str, subject: int, moment: str, answer: str) -> Sample:
    time = datetime.fromisoformat(moment)
    name = f"clinseek.{task}"
    return Sample(
        id=f"{task}-{subject}", task=name, subject_id=subject, prediction_time=time, target=(answer,), split="test",
        stratum="any",
    )  # fmt: skip


def test_a_visit_that_names_no_stay_leads_to_one_that_begins_in_it(tmp_path: Path) -> None:
    """The stay begins in the visit, at its last second, a second later; the fourth visit names a later stay."""
    begins = ("2150-01-01 12:00:00", "2150-01-01 13:00:00", "2150-01-01 13:00:01", "2150-01-03 00:00:00")
    left = "2150-01-05 00:00:00"
    raw = by_hand(
        tmp_path,
        hosp__patients=["subject_id,dod", *(f"{n}," for n in range(1, 5))],
        hosp__admissions=[
            "subject_id,hadm_id,admittime,dischtime,deathtime",
            *(f"{n},{n}0,{time},{left},{left}" for n, time in enumerate(begins, 1)),
        ],
        ed__edstays=[
            "subject_id,hadm_id,intime,outtime",
            *(f"{n},{'40' if n == 4 else ''},2150-01-01 08:00:00,2150-01-01 13:00:00" for n in range(1, 5)),
        ],
    )
    answers = ("1", "1", "0", "1")
    samples = [asked("ED_Hospitalization", n, "2150-01-01 10:00:00", one) for n, one in enumerate(answers, 1)]
    samples += [asked("ED_Inpatient_Mortality", n, "2150-01-01 12:59:59", one) for n, one in enumerate(answers, 1)]
    found = check_labels(samples, raw)
    assert not any(task.differing for task in found.tasks), found.as_text()
    turned = [replace(one, target=("0" if one.target == ("1",) else "1",)) for one in samples]
    assert [len(task.differing or ()) for task in check_labels(turned, raw).tasks] == [4, 4]


def test_who_is_not_admitted_dies_in_the_visit_or_not_at_all(tmp_path: Path) -> None:
    """A date of death is the end of its day: in the visit, which ends at two in the night, or after it."""
    raw = by_hand(
        tmp_path,
        hosp__patients=["subject_id,dod", "1,2150-01-01", "2,2150-01-02", "3,"],
        hosp__admissions=["subject_id,hadm_id,admittime,dischtime,deathtime"],
        ed__edstays=[
            "subject_id,hadm_id,intime,outtime",
            *(f"{n},,2150-01-01 20:00:00,2150-01-02 02:00:00" for n in (1, 2, 3)),
        ],
    )
    samples = [
        asked(task, n, "2150-01-02 01:59:59", answer)
        for task in ("ED_Inpatient_Mortality", "ED_Critical_Outcomes")
        for n, answer in ((1, "1"), (2, "0"), (3, "0"))
    ]
    found = check_labels(samples, raw)
    assert not any(task.differing for task in found.tasks), found.as_text()


def test_a_culture_without_a_time_is_one_of_when_it_was_stored_or_of_the_end_of_its_day(tmp_path: Path) -> None:
    cultures = "subject_id,hadm_id,chartdate,charttime,storedate,storetime,test_name"
    raw = by_hand(
        tmp_path,
        hosp__patients=["subject_id,dod", "1,", "2,"],
        hosp__admissions=[
            "subject_id,hadm_id,admittime,dischtime,deathtime,admission_type",
            *(f"{n},{n}0,2150-01-01 00:00:00,2150-01-09 00:00:00,,URGENT" for n in (1, 2)),
        ],
        hosp__microbiologyevents=[
            cultures,
            "1,10,2150-01-02,,,2150-01-02 08:00:00,URINE CULTURE",
            "2,20,2150-01-02,,,,URINE CULTURE",
        ],
        hosp__services=[
            "subject_id,hadm_id,transfertime,curr_service",
            *(f"{n},{n}0,2150-01-02 12:00:00,MED" for n in (1, 2)),
        ],
        hosp__pharmacy=["subject_id,pharmacy_id,entertime"],
        hosp__prescriptions=["subject_id,hadm_id,pharmacy_id,starttime,drug"],
    )
    samples = [
        asked("next_event", 1, "2150-01-02 07:00:00", "microbiologyevents"),
        asked("next_event", 2, "2150-01-02 07:00:00", "services"),
    ]
    found = check_labels(samples, raw)
    assert not any(task.differing for task in found.tasks), found.as_text()
