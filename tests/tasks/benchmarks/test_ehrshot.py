"""EHRSHOT's tasks built from an invented hospital in three forms, and played on a synthetic one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.benchmarks.ehrshot_hospital import LABELS, LABS, mimic_tables, write_meds, write_mimic
from wardround.cli import main
from wardround.core import UserError, content_hash, format_time
from wardround.records import Store, ingest
from wardround.runs import RunSettings, execute, read_results, score_run, start
from wardround.tasks.benchmarks import (
    EHRSHOT_TASKS,
    Benchmark,
    Sample,
    build_ehrshot,
    get_task,
    leak_check,
    question_of,
    split_of,
)
from wardround.tasks.benchmarks.ehrshot import known_sources, load_places
from wardround.tasks.benchmarks.ehrshot.labelling import Labeller
from wardround.tasks.benchmarks.ehrshot.record import FirstEvents, SubjectRecord
from wardround.tasks.benchmarks.ehrshot.samples import draw
from wardround.tasks.scoring import class_score, score_answer

EVERYTHING: dict[str, Any] = {"per_task": 0, "fractions": (0.0, 0.0, 1.0)}


def stored(source: str, folder: Path) -> Store:
    ingest(source, folder, folder.with_name(f"{folder.name}-store"))
    return Store.open(folder.with_name(f"{folder.name}-store"))


@pytest.fixture(scope="module")
def mimic_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return stored("mimiciv", write_mimic(tmp_path_factory.mktemp("ehrshot") / "mimic"))


@pytest.fixture(scope="module")
def bench(mimic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return build_ehrshot(mimic_store, tmp_path_factory.mktemp("ehrshot") / "bench", **EVERYTHING)


def labels(benchmark: Benchmark, task: str) -> Counter[tuple[int, str, str]]:
    return Counter((one.subject_id, format_time(one.prediction_time), one.target[0]) for one in benchmark.samples(task))


@pytest.mark.parametrize("task", sorted(LABELS))
def test_labels_are_those_worked_out_by_hand(bench: Benchmark, task: str) -> None:
    assert labels(bench, task) == Counter(LABELS[task])


@pytest.mark.parametrize(
    "write",
    [
        write_meds,
        lambda folder: write_meds(folder, results="LAB//"),  # before version 0.2 of the ETL
        lambda folder: write_meds(folder, ehrshot=True),
    ],
    ids=["mimic-iv-meds", "mimic-iv-meds before 0.2", "ehrshot's own"],
)
def test_the_same_record_as_meds_has_the_same_labels(write: Callable[[Path], Path], tmp_path: Path) -> None:
    store = stored("meds", write(tmp_path / "meds"))
    built = build_ehrshot(store, tmp_path / "bench", per_task=0, allow_missing=True)
    assert {task: labels(built, task) for task in LABELS} == {task: Counter(rows) for task, rows in LABELS.items()}
    assert leak_check(built, store) == ()
    assert {one.subject_id: one.split for one in built.all_samples} == {1: "train", 2: "dev", 3: "test"}
    assert built.manifest["splits"] == "the data set's own"
    missing = {name for name, said in built.manifest["tasks"].items() if "unavailable" in said}
    assert missing == {"new_celiac", "new_lupus", "new_pancan", "chexpert"}


def test_a_concept_without_a_code_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    store = stored("meds", write_meds(tmp_path / "meds"))
    with pytest.raises(
        UserError, match=r"'celiac disease' in source 'meds' \(events.code\); looked for icd9 5790; icd10"
    ):
        build_ehrshot(store, tmp_path / "bench")
    assert not (tmp_path / "bench").exists()


def test_a_code_in_the_dictionary_counts_as_known_though_nobody_has_it(bench: Benchmark) -> None:
    said = bench.manifest["tasks"]["new_celiac"]
    assert said["code_rows"] == {}
    assert said["codes_without_rows"] == ["K900"]
    assert said["by_class"] == {"0": 4, "1": 0}


def test_without_intensive_care_in_any_row_nobody_is_said_not_to_need_it(tmp_path: Path) -> None:
    store = stored("mimiciv", write_mimic(tmp_path / "mimic", mimic_tables() | {"icustays": []}))
    with pytest.raises(UserError, match="guo_icu: no row of source 'mimiciv' is a stay in intensive care"):
        build_ehrshot(store, tmp_path / "bench", tasks=["guo_icu", "guo_los"])


def test_the_manifest_counts_what_was_left_out_and_why(bench: Benchmark) -> None:
    drops = bench.manifest["drops"]
    assert drops["guo_los"] == {"ends_on_the_day_of_admission": 1, "not_drawn": 0}
    assert drops["guo_icu"] == {"ends_on_the_day_of_admission": 1, "icu_on_admission_day": 1, "not_drawn": 0}
    assert drops["guo_readmission"] == {"dead_by_then": 1, "not_drawn": 0}
    assert drops["lab_anemia"] == {
        "at_the_first_event": 1,
        "result_without_number": 1,
        "unknown_unit": 2,
        "not_drawn": 0,
    }
    units = bench.manifest["tasks"]["lab_anemia"]["units"]
    assert units == {
        "(none)": {"rows": 1, "factor": None},
        "g/L": {"rows": 1, "factor": 1.0},
        "g/dL": {"rows": 4, "factor": 10.0},
        "mmol/L": {"rows": 1, "factor": None},
    }
    assert bench.manifest["tasks"]["lab_anemia"]["code_rows"] == {"51222": 7}
    assert bench.manifest["tasks"]["guo_readmission"]["no_with_short_follow_up"] == 2
    assert "--chexpert-labels" in bench.manifest["tasks"]["chexpert"]["unavailable"]


def test_under_the_published_clocks_the_dead_are_asked_about_as_in_ehrshot(mimic_store: Store, tmp_path: Path) -> None:
    built = build_ehrshot(mimic_store, tmp_path / "b", tasks=["guo_readmission"], policy="published", **EVERYTHING)
    assert labels(built, "guo_readmission") == Counter(LABELS["guo_readmission"] | {(2, "2151-03-05 23:59:59", "0")})
    assert leak_check(built, mimic_store) == ()


def test_no_answer_is_on_the_chart_and_the_check_can_tell(bench: Benchmark, mimic_store: Store) -> None:
    assert leak_check(bench, mimic_store) == ()
    late = [_later(one, days=400) for one in bench.samples("guo_los") + bench.samples("lab_anemia")]
    found = leak_check(Benchmark(manifest=bench.manifest, all_samples=tuple(late)), mimic_store)
    assert {leak.sample for leak in found} == {one.id for one in late}
    assert any("dischtime" in leak.what for leak in found)
    assert any("row labevents" in leak.what for leak in found)


def test_a_sample_says_which_rows_and_cells_tell_its_answer(bench: Benchmark) -> None:
    facts = {task: bench.samples(task)[0].facts for task in ("guo_los", "guo_icu", "guo_readmission", "lab_anemia")}
    stay = "admissions:11"
    assert facts["guo_los"] == {
        "event_time": "2150-01-08 10:00:00",
        "row_ids": [],
        "late_cells": {stay: ["dischtime", "deathtime"]},
        "stay": stay,
    }
    assert facts["guo_icu"] == {"event_time": "2150-01-03 01:00:00", "row_ids": ["icustays:111"], "stay": stay}
    assert facts["guo_readmission"]["row_ids"] == ["admissions:12"]
    assert [name.partition(":")[0] for name in facts["lab_anemia"]["row_ids"]] == ["labevents"]
    no = next(one for one in bench.samples("guo_icu") if one.target == ("0",))
    assert (no.facts["event_time"], no.facts["row_ids"]) == (None, [])


def _later(sample: Sample, days: int) -> Sample:
    body = sample.to_json()
    body["prediction_time"] = str(sample.prediction_time.replace(year=sample.prediction_time.year + days // 365))
    return Sample.from_json(body)


def test_benchmark_survives_the_disk_and_is_the_same_twice(
    bench: Benchmark, mimic_store: Store, tmp_path: Path
) -> None:
    assert bench.folder is not None
    assert Benchmark.open(bench.folder).all_samples == bench.all_samples
    again = build_ehrshot(mimic_store, tmp_path / "again", **EVERYTHING)
    assert (again.folder / "samples.jsonl").read_bytes() == (bench.folder / "samples.jsonl").read_bytes()  # type: ignore[operator]
    assert again.manifest["tasks"] == bench.manifest["tasks"]


def test_every_sample_has_its_own_name_though_two_results_share_a_minute(bench: Benchmark) -> None:
    names = [one.id for one in bench.all_samples]
    assert len(set(names)) == len(names)
    pair = [one for one in bench.all_samples if one.id.startswith("lab_anemia-1-21500101T105900")]
    assert len(pair) == 2
    for one in pair:  # named by its own result: what else is of the minute, known later, has no part in it
        assert one.id == f"lab_anemia-1-21500101T105900-{content_hash(one.facts['row_ids'][0])[:8]}"


later_rows = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3]),
        st.sampled_from([51222, 51265, 50971]),
        st.sampled_from(["2150-01-01 11:00:00", "2150-01-02 09:00:00", "2151-03-04 10:00:00", "2152-06-01 10:00:00"]),
        st.sampled_from(["3.0", "9.5", "13"]),
        st.sampled_from(["g/dL", "K/uL", "mEq/L"]),
    ),
    max_size=4,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(later_rows)
def test_what_comes_later_changes_no_prompt_and_what_came_before_no_label(
    bench: Benchmark, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, str, str, str]]
) -> None:
    """Rows are added; a question asked in both records has the same prompt, and those not about results its label."""
    folder = tmp_path_factory.mktemp("changed")
    changed = stored("mimiciv", write_mimic(folder / "mimic", mimic_tables([*LABS, *rows])))
    built = build_ehrshot(changed, folder / "bench", **EVERYTHING)
    before, after = ({one.id: one for one in each.all_samples} for each in (bench, built))
    for name in before.keys() & after.keys():
        assert built.prompt(after[name]) == bench.prompt(before[name])
        if not name.startswith("lab_"):
            assert after[name].target == before[name].target
    assert {name for name in before if not name.startswith("lab_")} == {n for n in after if not n.startswith("lab_")}


def test_splits_are_disjoint_by_patient_and_a_smaller_draw_is_part_of_a_larger_one(
    synthetic_store: Store, tmp_path: Path
) -> None:
    tasks = ["guo_los", "lab_anemia"]
    large = build_ehrshot(synthetic_store, tmp_path / "large", tasks=tasks, per_task=200, seed=5)
    small = build_ehrshot(synthetic_store, tmp_path / "small", tasks=tasks, per_task=20, seed=5)
    one_each = build_ehrshot(synthetic_store, tmp_path / "one", tasks=tasks, per_task=0, per_subject=1, seed=5)
    assert {one.id for one in small.all_samples} < {one.id for one in large.all_samples}
    for task in tasks:
        assert len(small.samples(task, "train")) == 20
        assert max(Counter(one.subject_id for one in one_each.samples(task)).values()) == 1
    fractions = (0.7, 0.1, 0.2)
    assert all(one.split == split_of(one.subject_id, 5, fractions) for one in large.all_samples)
    other = build_ehrshot(synthetic_store, tmp_path / "other", tasks=tasks, per_task=20, seed=6)
    assert {one.id for one in other.all_samples} != {one.id for one in small.all_samples}


def test_a_draw_keeps_how_common_the_classes_are(synthetic_store: Store, tmp_path: Path) -> None:
    whole = build_ehrshot(synthetic_store, tmp_path / "whole", tasks=["lab_anemia"], per_task=0)
    part = build_ehrshot(synthetic_store, tmp_path / "part", tasks=["lab_anemia"], per_task=300)
    share = [sum(one.target == ("0",) for one in bench.all_samples) / len(bench.all_samples) for bench in (whole, part)]
    assert share[1] == pytest.approx(share[0], abs=0.08)
    assert whole.manifest["tasks"]["lab_anemia"]["by_class"]["0"] == sum(
        one.target == ("0",) for one in whole.all_samples
    )


def test_a_class_that_no_drawn_question_has_is_noted_and_printed(
    mimic_store: Store, bench: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two counts of platelets, of two classes, of which one is drawn."""
    words = ["--store", str(mimic_store.path), "--task", "lab_thrombocytopenia", "--fractions", "0", "0", "1"]
    assert main(["bench", "build", "ehrshot", *words, "--per-task", "1", "--out", str(tmp_path / "bench")]) == 0
    built = Benchmark.open(tmp_path / "bench")
    ((drawn,),) = (one.target for one in built.all_samples)
    said = built.manifest["tasks"]["lab_thrombocytopenia"]
    other = {"0": "3", "3": "0"}[drawn]
    assert (said["never_drawn"], said["never_the_answer"]) == ([other], ["1", "2"])
    assert f"in no drawn question (--per-task): lab_thrombocytopenia {other}\n" in capsys.readouterr().out
    assert not any("never_drawn" in one for one in bench.manifest["tasks"].values())


def test_prompts_and_questions_say_nothing_of_the_answer(bench: Benchmark) -> None:
    for sample in bench.all_samples:
        task = get_task(sample.task)
        other = Sample.from_json(sample.to_json() | {"target": ["other"], "facts": {"row_ids": ["x:1"]}})
        assert bench.prompt(sample) == bench.prompt(other)
        assert question_of(task, sample) == question_of(task, other)
        assert format_time(sample.prediction_time) in bench.prompt(sample)
    assert bench.spaces == {}
    assert [prompt.name for prompt in bench.prompts] == ["tasks.benchmarks/classification", "tasks.answers/classes"]


def test_every_task_has_a_question_with_queries_and_labels() -> None:
    sample = Sample.from_json(
        {"id": "x", "task": "guo_los", "subject_id": 1, "prediction_time": "2150-01-01 10:00:00", "target": ["1"]}
        | {"split": "test", "stratum": "any"}
    )
    asked = [question_of(task, sample) for task in EHRSHOT_TASKS.values()]
    kinds = Counter((one.answer.name, len(one.label_values)) for one in asked)
    assert kinds == {("one-class", 2): 9, ("one-class", 4): 5, ("several-classes", 15): 1}
    assert question_of(get_task("lab_anemia"), sample).label_names == ("normal", "mild", "moderate", "severe")
    assert len({one.factual_query for one in asked} | {one.counterfactual_query for one in asked}) == 30
    assert question_of(get_task("diagnoses"), sample).label_values == ()
    assert question_of(get_task("transfers"), sample).factual_query


def test_one_class_is_right_or_wrong(bench: Benchmark) -> None:
    labels = bench.labels(get_task("lab_anemia"))
    assert labels is not None
    given = {
        ("1",): 1.0,
        ("mild",): 1.0,
        (" MILD ",): 1.0,
        ("0",): 0.0,
        ("0", "1"): 0.0,
        (): 0.0,
        ("severe anemia",): 0.0,
    }
    for answer, score in given.items():
        assert class_score(answer, "1", labels).f1 == score
    assert class_score(("severe anemia",), "1", labels).outside == ("severe anemia",)
    sample = next(one for one in bench.samples("lab_anemia") if one.target == ("3",))
    assert score_answer(["severe"], sample, None) == 1
    assert score_answer(None, sample, None) == 0


def test_tasks_of_another_family_and_unknown_sources_are_refused(mimic_store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown EHRSHOT task 'diagnoses'"):
        build_ehrshot(mimic_store, tmp_path / "b", tasks=["diagnoses"])
    with pytest.raises(UserError, match="no source 'elsewhere' comes with wardround"):
        load_places("elsewhere")
    assert {"mimiciii", "mimiciv", "meds", "omop", "fhir"} <= set(known_sources())


def test_mimiciii_is_asked_too(mimiciii_store_path: Path, tmp_path: Path) -> None:
    store = Store.open(mimiciii_store_path)
    tasks = ["guo_los", "guo_icu", "guo_readmission", "lab_anemia", "new_hypertension"]
    built = build_ehrshot(store, tmp_path / "bench", tasks=tasks)
    assert {task.name for task in built.tasks} == set(tasks)
    assert leak_check(Benchmark(manifest=built.manifest, all_samples=built.all_samples[::20]), store) == ()


def chexpert_file(path: Path, rows: list[str]) -> Path:
    header = "note_id,No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Lesion,Lung Opacity,Edema,Consolidation,"
    header += "Pneumonia,Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support Devices"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def radiology_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    reports = [
        {"note_id": name, "subject_id": 1, "note_type": "RR", "charttime": time, "storetime": time, "text": "CHEST"}
        for name, time in (
            ("early", "2149-12-24 20:00:00"),
            ("one", "2150-01-02 10:00:00"),
            ("two", "2150-01-03 10:00:00"),
            ("unread", "2150-01-04 10:00:00"),
        )
    ]
    folder = tmp_path_factory.mktemp("ehrshot") / "radiology"
    return stored("mimiciv", write_mimic(folder, mimic_tables() | {"radiology": reports}))


def test_chest_radiographs_take_their_labels_from_a_file(radiology_store: Store, tmp_path: Path) -> None:
    rows = ["early,1,,,,,,,,,,,,,", "one,,0.0,1.0,,,1,,-1.0,,,,,,1", "two,0,,,,,,,,,,,,,", "gone,1,,,,,,,,,,,,,"]
    file = chexpert_file(tmp_path / "labels.csv", rows)
    built = build_ehrshot(radiology_store, tmp_path / "b", tasks=["chexpert"], chexpert_labels=file, **EVERYTHING)
    found = {format_time(one.prediction_time): one.target for one in built.all_samples}
    assert found == {"2150-01-01 10:00:00": ("14", "3", "6"), "2150-01-02 10:00:00": ("0",)}
    assert built.manifest["drops"]["chexpert"] == {
        "labels_without_report": 1,
        "not_drawn": 0,
        "record_begins_later": 1,
        "report_without_labels": 1,
        "uncertain_cells_taken_as_no": 1,
    }
    assert leak_check(built, radiology_store) == ()
    sample = built.samples("chexpert")[0]
    assert question_of(get_task("chexpert"), sample).several
    assert len(sample.target) == 3
    assert score_answer(["3", "Edema"], sample, None) == pytest.approx(0.8)  # both right, two of three


@pytest.mark.parametrize(
    ("text", "message"),
    [("note_id,Edema\nx,1\n", "missing column No Finding"), ("a,b\n1,2\n", "missing column one of report_id")],
)
def test_another_file_is_no_file_of_chexpert_labels(
    radiology_store: Store, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        build_ehrshot(radiology_store, tmp_path / "b", tasks=["chexpert"], chexpert_labels=tmp_path / "labels.csv")
    file = chexpert_file(tmp_path / "labels.csv", ["one,7,,,,,,,,,,,,,"])
    with pytest.raises(UserError, match="line 2: a CheXpert label is 1, 0, -1 or empty, not '7'"):
        build_ehrshot(radiology_store, tmp_path / "b", tasks=["chexpert"], chexpert_labels=file)


def test_a_run_on_tasks_with_classes_is_played_scored_and_reported(
    synthetic_store: Store, synthetic_store_path: Path, tmp_path: Path
) -> None:
    build_ehrshot(synthetic_store, tmp_path / "bench", tasks=["guo_los", "lab_anemia"], per_task=3)
    run = RunSettings.of(benchmark=str(tmp_path / "bench"), store=str(synthetic_store_path), limit=2)
    folder = start(tmp_path / "run", run)
    counts = execute(folder, concurrency=2)
    assert counts.done == counts.total == 4
    scores = score_run(folder)
    assert {score.task for score in scores} == {"guo_los", "lab_anemia"}
    assert all(score.score.f1 in (0.0, 1.0) for score in scores)
    assert not any("no_candidate_tool" in score.errors for score in scores)
    assert read_results(folder) == scores
    assert "tasks.benchmarks/classification" in json.loads((folder.path / "manifest.json").read_text())["prompts"]


def test_drawing_from_nothing_gives_nothing(bench: Benchmark, mimic_store: Store) -> None:
    places, record = load_places("mimiciv"), SubjectRecord()
    begins = FirstEvents(store=mimic_store, places=places, record=record, policy="known_at")
    labeller = Labeller(places=places, record=record, begins=begins, policy="known_at")
    nothing = labeller.questions("guo_los")
    assert len(nothing) == 0
    assert draw(nothing, {}, task="guo_los", seed=0, per_task=5, per_subject=1).tolist() == []
