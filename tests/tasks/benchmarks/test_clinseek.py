"""ClinSeek-Bench on the synthetic hospital: the tasks of the paper, asked when it says, nothing of an answer told."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pytest

from wardround.agents.evidence import curated_input
from wardround.cli import main
from wardround.clinical.codes import LabelSet
from wardround.core import UserError, from_microseconds, load_prompt, parse_time
from wardround.records import Chart, Store
from wardround.runs.worker import open_environment
from wardround.tasks.benchmarks import CLINSEEK_TASKS, Benchmark, build_clinseek, get_task, leak_check, question_of
from wardround.tasks.benchmarks.clinseek.build import listed_names, task_name
from wardround.tasks.benchmarks.clinseek.definitions import RULES, RiskRule
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.scoring.episodes import score_answer
from wardround.tasks.scoring.trivial import trivial_answers
from wardround.tools import EnvironmentOptions
from wardround.tools.candidates import CandidateSpace

DECISIONS = [
    "admissions",
    "omr",
    "emar",
    "procedures_icd",
    "procedures_ccs",
    "diagnoses_icd",
    "diagnoses_ccs",
    "labevents",
    "microbiologyevents",
    "services",
    "transfers",
    "poe",
    "radiology",
    "prescriptions",
    "prescriptions_atc",
    "pyxis",
    "medrecon",
    "medrecon_atc",
    "diagnosis",
    "diagnosis_ccs",
    "chartevents",
    "ingredientevents",
    "datetimeevents",
    "procedureevents",
    "inputevents",
    "outputevents",
    "next_event",
]
RISKS = [
    "ED_Hospitalization",
    "ED_Inpatient_Mortality",
    "ED_ICU_Tranfer_12hour",
    "ED_Reattendance_3day",
    "ED_Critical_Outcomes",
    "LengthOfStay_3day",
    "LengthOfStay_7day",
    "Inpatient_Mortality",
    "ICU_Mortality_1day",
    "ICU_Mortality_2day",
    "ICU_Mortality_3day",
    "ICU_Mortality_7day",
    "ICU_Mortality_14day",
    "ICU_Stay_7day",
    "ICU_Stay_14day",
    "ICU_Readmission",
    "Readmission_30day",
    "Readmission_60day",
]
WITHOUT_ATC = {"clinseek.prescriptions_atc", "clinseek.medrecon_atc"}


@pytest.fixture(scope="module")
def bench(clinseek_path: Path) -> Benchmark:
    return Benchmark.open(clinseek_path)


def test_it_has_the_tasks_of_the_paper_by_their_names() -> None:
    assert len(DECISIONS) == 27
    assert len(RISKS) == 18
    assert set(CLINSEEK_TASKS) == {f"clinseek.{name}" for name in (*DECISIONS, *RISKS)}
    groups = {name.removeprefix("clinseek."): task.about for name, task in CLINSEEK_TASKS.items()}
    assert [name for name, group in groups.items() if group == "decision"] == DECISIONS
    assert [name for name, group in groups.items() if group == "risk"] == RISKS


def test_a_name_of_the_paper_means_the_task_and_another_is_refused() -> None:
    assert task_name("labevents") == "clinseek.labevents" == task_name("clinseek.labevents")
    with pytest.raises(UserError, match="unknown ClinSeek-Bench task 'guo_los'"):
        task_name("guo_los")


def test_the_synthetic_hospital_has_every_task_but_those_that_need_an_atc_map(bench: Benchmark) -> None:
    said = bench.manifest["tasks"]
    assert {name for name in said if "unavailable" in said[name]} == WITHOUT_ATC
    assert {task.name for task in bench.tasks} == set(CLINSEEK_TASKS) - WITHOUT_ATC
    assert all("codes add drug-atc" in said[name]["unavailable"] for name in WITHOUT_ATC)


def test_no_chart_shows_anything_of_an_answer(bench: Benchmark, synthetic_store: Store) -> None:
    assert leak_check(bench, synthetic_store) == ()
    decisions = [one for one in bench.all_samples if get_task(one.task).about == "decision"]
    assert decisions
    assert all(one.facts["row_ids"] for one in decisions)


def test_the_answer_comes_soon_after_the_question_and_before_the_stay_ends(bench: Benchmark) -> None:
    """Within 24 hours, but for what has only a day of its own and for outpatient measurements (30 days)."""
    for one in bench.samples("clinseek.labevents") + bench.samples("clinseek.emar") + bench.samples("clinseek.pyxis"):
        wait = parse_time(one.facts["event_time"]) - one.prediction_time
        assert timedelta(0) < wait <= timedelta(hours=24), one.id
    for one in bench.samples("clinseek.procedures_ccs"):
        assert parse_time(one.facts["event_time"]).date() > one.prediction_time.date()


def test_what_has_happened_is_not_asked_for_because_it_is_written_down_later(
    bench: Benchmark, synthetic_store: Store
) -> None:
    """The name of an examination stands in a field of the report, hours after the images."""
    asked = bench.samples("clinseek.radiology")
    assert asked
    for one in asked:
        reports = {
            row["note_id"]: row["charttime"] for row in synthetic_store.rows(one.subject_id, "radiology").to_pylist()
        }
        fields = synthetic_store.rows(one.subject_id, "radiology_detail").to_pylist()
        named = [reports[row["note_id"]] for row in fields if row["row_id"] in one.facts["row_ids"]]
        assert named
        assert min(named) == parse_time(one.facts["event_time"]) > one.prediction_time


def test_the_curated_input_is_what_the_chart_shows_by_then(bench: Benchmark, synthetic_store: Store) -> None:
    """At most 100 events (rows of one table that follow each other are one), each on the chart.

    And something became known then, but at an hour of a stay.
    """
    for one in bench.samples(split="test"):
        chart = synthetic_store.chart(one.subject_id, one.prediction_time)
        window = question_of(get_task(one.task), one).curated
        assert window is not None
        assert window.most_events == 100
        package = curated_input(chart, window)
        columns = chart.event_columns()
        apart = {columns.table_names.index("admissions"), columns.table_names.index("discharge")}
        own_row = ~columns.is_static & ~columns.notes.shown_elsewhere
        rows = [
            table
            for table, time, own in zip(columns.table.tolist(), columns.time.tolist(), own_row.tolist(), strict=True)
            if own and from_microseconds(time) >= window.start
        ]
        since = [table for table, _ in groupby(rows) if table not in apart]
        assert len(package.events) == min(100, len(since))
        assert package.events_left_out == max(0, len(since) - 100)
        rule = RULES[one.task]
        if isinstance(rule, RiskRule) and rule.moment != "emergency_end":
            continue
        before = synthetic_store.chart(one.subject_id, one.prediction_time - timedelta(seconds=1))
        assert _shown(chart) != _shown(before), f"nothing became known at {one.id}"


def test_a_question_that_no_candidate_table_answers_lists_none(bench: Benchmark, synthetic_store: Store) -> None:
    asked = {one.task: one for one in bench.samples(split="test")}
    listed = {
        name: tuple(open_environment(synthetic_store, bench, one, EnvironmentOptions(max_result_tokens=500)).candidates)
        for name, one in asked.items()
    }
    for name, found in listed.items():
        space = bench.space(get_task(name))
        assert found == (() if space is None else (space.name,)), name
    assert {len(found) for found in listed.values()} == {0, 1}


@pytest.mark.parametrize("name", ["procedures", "procedures_names", "procedures_stay", "procedures_stay_names"])
def test_procedures_say_what_is_coded_and_by_which_day(name: str) -> None:
    text = load_prompt("wardround.tasks.benchmarks", name).render(subject_id=1, current_time="now")
    assert "are not coded" in text
    assert ("the day it was started" in text) == ("stay" not in name)


def _listed(bench: Benchmark, one: Sample) -> list[str]:
    names = bench.prompt(one).partition("Names to answer with")[2].partition("How answers are counted")[0]
    return [line.removeprefix("- ") for line in names.splitlines() if line.startswith("- ")]


def test_a_question_lists_its_target_among_names_drawn_by_use(bench: Benchmark) -> None:
    decisions = [one for one in bench.all_samples if "listed" in one.facts]
    assert len({one.task for one in decisions}) > 15
    for one in decisions:
        listed = _listed(bench, one)
        assert set(one.target) <= set(listed) == set(one.facts["listed"])
        assert listed == sorted(listed), "the order says nothing"
        assert not one.unwinnable
    said = bench.manifest["tasks"]["clinseek.labevents"]["listed"]
    assert said == {"names": "target", "target_share": 1.0}


def _space(one: Sample) -> str:
    return f"{one.task.partition('.')[2]}_candidates"


def test_a_listed_name_that_no_training_subject_has_is_taken(bench: Benchmark, synthetic_store: Store) -> None:
    found = (
        (one, name)
        for one in bench.all_samples
        for name in one.target
        if "listed" in one.facts and bench.spaces[_space(one)].labels.resolve(name) is None
    )
    one, name = next(found)
    environment = open_environment(synthetic_store, bench, one, EnvironmentOptions(max_result_tokens=500))
    assert environment.call("finish", {"response": ["no such name"]}).is_error
    environment = open_environment(synthetic_store, bench, one, EnvironmentOptions(max_result_tokens=500))
    assert environment.call("finish", {"response": [name]}).answer == (name,)
    assert score_answer((name,), one, bench.labels(get_task(one.task))) > 0


def test_that_a_name_is_listed_says_no_more_of_it_than_its_use() -> None:
    names = [f"name {number}" for number in range(400)]
    uses = {name: 1 + 400 // (1 + number) for number, name in enumerate(names)}
    space = CandidateSpace(name="t", labels=LabelSet(name="t", labels=tuple(names)), uses=uses)
    draws = [listed_names(space, (names[0],), 100, seed) for seed in range(400)]
    assert {len(one) for one in draws} == {100}
    assert all(names[0] in one for one in draws)
    counts = Counter(name for one in draws for name in one)
    used_once = [counts[name] for name in names if uses[name] == 2]
    used_more = [counts[name] for name in names if uses[name] >= 20]
    assert fmean(used_more) > 2 * fmean(used_once) > 0
    assert "a name of nobody" in listed_names(space, ("a name of nobody",), 100, 0)
    assert len(listed_names(space, tuple(names[:90]), 100, 0)) == 140, "half of a hundred are others at least"


def test_common_names_are_listed_where_asked_for_and_the_ceiling_is_said(
    synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--store", str(synthetic_store_path), "--out", str(tmp_path / "bench"), "--per-task", "4"]
    asked = [
        "bench",
        "build",
        "clinseek",
        *where,
        "--task",
        "clinseek.diagnosis",
        "clinseek.labevents",
        "clinseek.ED_Hospitalization",
        "--common-candidates",
    ]
    assert main(asked) == 0
    assert "listed" in capsys.readouterr().out
    bench = Benchmark.open(tmp_path / "bench")
    by_group: dict[int | None, list[str]] = {}
    for one in bench.samples("clinseek.labevents"):
        listed = _listed(bench, one)
        assert by_group.setdefault(bench.group_of(one.person), listed) == listed
        assert one.facts["listed_share"] == sum(name in listed for name in one.target) / len(one.target)
    assert None in by_group
    assert len(by_group) > 1
    yes_or_no = bench.samples("clinseek.ED_Hospitalization")
    assert yes_or_no
    assert [(one.unwinnable, one.facts.get("listed_share")) for one in yes_or_no] == [((), None)] * len(yes_or_no)
    shares = [one.facts["listed_share"] for one in bench.samples("clinseek.labevents")]
    assert main(["bench", "show", str(tmp_path / "bench")]) == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("clinseek.labevents "))
    assert "baseline card: scores of trivial baselines" in shown
    reached = fmean(1 - len(one.unwinnable) / len(one.target) for one in bench.samples("clinseek.labevents"))
    assert row.split()[-2:] == [f"{fmean(shares):.1%}", f"{reached:.1%}"]
    said = bench.manifest["tasks"]["clinseek.labevents"]["listed"]
    assert said == {"names": "common", "target_share": pytest.approx(fmean(shares), abs=1e-4)}


def test_the_prior_of_a_question_counts_only_what_it_lists(bench: Benchmark) -> None:
    task = get_task("clinseek.diagnoses_icd")
    samples = bench.samples(task.name, "test")
    prior = trivial_answers(bench, task, samples)["prior"]
    assert not isinstance(prior, str)
    for one in samples:
        assert set(prior[one.id] or ()) <= set(one.facts["listed"])


def test_half_of_the_answers_to_a_risk_are_yes_where_there_are_enough(bench: Benchmark) -> None:
    said = bench.manifest["tasks"]["clinseek.LengthOfStay_3day"]["balance"]
    assert said["samples_by_class"]["train"] == {"0": 1, "1": 1} == said["samples_by_class"]["test"]
    assert (
        sum(said["questions_by_class"].values()) == bench.manifest["tasks"]["clinseek.LengthOfStay_3day"]["questions"]
    )


def test_a_source_without_a_module_says_which_role_or_table_is_missing(
    mimiciii_store_path: Path, tmp_path: Path
) -> None:
    store = Store.open(mimiciii_store_path)
    asked = ["pyxis", "ED_Hospitalization", "labevents"]
    built = build_clinseek(store, tmp_path / "bench", seed=1, per_task=2, tasks=asked)
    said = built.manifest["tasks"]
    assert said["clinseek.pyxis"]["unavailable"] == "the store has no table 'pyxis'"
    assert "role `emergency`" in said["clinseek.ED_Hospitalization"]["unavailable"]
    assert built.samples("clinseek.labevents")


def test_a_discharge_is_a_next_move_though_its_row_is_written_after_the_discharge(
    synthetic_store: Store, tmp_path: Path
) -> None:
    built = build_clinseek(synthetic_store, tmp_path / "bench", seed=1, per_task=0, tasks=["transfers"])
    leaving = [one for one in built.all_samples if one.target == ("discharge",)]
    assert len(leaving) > 10
    for one in leaving:
        (row_id,) = one.facts["row_ids"]
        moves = {row["row_id"]: row for row in synthetic_store.rows(one.subject_id, "transfers").to_pylist()}
        stays = synthetic_store.rows(one.subject_id, "admissions").to_pylist()
        (left,) = (stay["dischtime"] for stay in stays if stay["hadm_id"] == moves[row_id]["hadm_id"])
        assert one.moment < left <= parse_time(one.facts["event_time"])
    assert leak_check(built, synthetic_store) == ()


def test_an_offered_answer_that_never_occurs_stops_a_build_unless_it_may(
    synthetic_store: Store, tmp_path: Path
) -> None:
    """In this hospital nobody stays in intensive care for two weeks."""
    ask = {"seed": 1, "per_task": 2, "tasks": ["ICU_Stay_14day", "LengthOfStay_3day"]}
    with pytest.raises(UserError, match=r"offered answers that no question has \(clinseek.ICU_Stay_14day: 1\)"):
        build_clinseek(synthetic_store, tmp_path / "bench", **ask)  # type: ignore[arg-type]
    assert not (tmp_path / "bench").exists()
    built = build_clinseek(synthetic_store, tmp_path / "bench", **ask, allow_missing=True)  # type: ignore[arg-type]
    said = built.manifest["tasks"]
    assert said["clinseek.ICU_Stay_14day"]["never_the_answer"] == ["1"]
    assert "never_the_answer" not in said["clinseek.LengthOfStay_3day"]


def _shown(chart: Chart) -> list[pa.RecordBatch]:
    return [chart.table(name).batch for name in chart.table_names]
