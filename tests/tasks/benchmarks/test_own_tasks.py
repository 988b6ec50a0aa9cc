"""Tasks of a user's own: asked by what the chart shows, drawn before they are labelled, labelled two ways alike."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from forking import run_command
from wardround.cli import main
from wardround.core import UserError
from wardround.records import Store, ingest, load_source_spec
from wardround.tasks.benchmarks import Benchmark, ask, leak_check
from wardround.tasks.benchmarks.meds_labels import write_meds_labels
from wardround.tasks.benchmarks.own import build_own, read_label_table, read_task_file
from wardround.tasks.benchmarks.own.labelling import AfterRows, OwnTask, Where, no_row_matches
from wardround.tasks.benchmarks.pipeline import BuildSettings

FILE = """
name = "{name}"
title = "Creatinine above 1.2 within two days"

[question]
description = "Will a creatinine result above 1.2 mg/dL follow within 48 hours?"

[answer]
kind = "one-class"
classes = [["0", "no"], ["1", "yes"]]

[asked]
role = "admission"
after = "24h"
empty = "dischtime"

[label{label}
"""
RULE = """.rule]
role = "lab"
where = { label = "Creatinine" }
column = "valuenum"
above = 1.2
within = "48h"
"""
SQL = """]
sql = '''
WITH later AS (
  SELECT l.row_id, l.charttime FROM labevents AS l JOIN question AS q
  WHERE l.label = 'Creatinine' AND l.valuenum > 1.2
    AND l.charttime > q.prediction_time AND l.charttime <= datetime(q.prediction_time, '+48 hours')
)
SELECT COUNT(*) > 0, MIN(row_id) AS row_id, MIN(charttime) AS event_time FROM later
'''
"""
FEW = BuildSettings(seed=3, per_task=12)


def write_task(folder: Path, name: str, label: str, **changed: str) -> Path:
    text = FILE.replace("{name}", name).replace("{label}", label)
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, synthetic_store: Store) -> Benchmark:
    """The same question twice: labelled by a rule and by SQL."""
    folder = tmp_path_factory.mktemp("own")
    files = [write_task(folder, "by_rule", RULE), write_task(folder, "by_sql", SQL)]
    tasks = [read_task_file(path, synthetic_store.spec) for path in files]
    return build_own(tasks, synthetic_store, folder / "bench", BuildSettings(seed=3, per_task=0))


def test_a_rule_and_a_statement_label_every_question_alike(both: Benchmark) -> None:
    by_rule, by_sql = (
        {(one.subject_id, one.prediction_time): (one.target, one.facts["event_time"]) for one in both.samples(name)}
        for name in ("by_rule", "by_sql")
    )
    assert by_rule == by_sql
    assert Counter(target for target, _ in by_rule.values()).keys() == {("0",), ("1",)}


def test_labels_are_what_the_rows_after_the_question_say(both: Benchmark, synthetic_store: Store) -> None:
    for sample in both.samples("by_rule")[::7]:
        rows = synthetic_store.rows(sample.subject_id, "labevents")
        columns = (rows.column(name).to_pylist() for name in ("charttime", "label", "valuenum"))
        times = [
            time
            for time, label, value in zip(*columns, strict=True)
            if label == "Creatinine" and value is not None and value > 1.2
            if time is not None and timedelta(0) < time - sample.prediction_time <= timedelta(hours=48)
        ]
        assert sample.target == (("1",) if times else ("0",))


def test_the_last_answer_is_that_of_the_latest_question_whose_rows_are_known_by_now(
    both: Benchmark, synthetic_store: Store
) -> None:
    """Worked out again from the samples, of which there is one for every question."""
    samples = both.samples("by_rule")
    expected = {}
    for sample in samples:
        chart = synthetic_store.chart(sample.subject_id, sample.prediction_time)
        shown = set(chart.table("labevents").batch.column("row_id").to_pylist())
        earlier = [
            one
            for one in samples
            if one.subject_id == sample.subject_id
            and one.prediction_time < sample.prediction_time
            and one.facts["row_ids"]
            and set(one.facts["row_ids"]) <= shown
        ]
        if earlier:
            expected[sample.id] = max(earlier, key=lambda one: one.prediction_time).target
    assert both.last["by_rule"] == expected
    assert len(expected) > 3
    assert {name.replace("by_rule", "by_sql"): target for name, target in expected.items()} == both.last["by_sql"]


def test_a_question_is_there_by_what_the_chart_shows_then(both: Benchmark, synthetic_store: Store) -> None:
    for sample in both.samples("by_rule")[::7]:
        stays = synthetic_store.chart(sample.subject_id, sample.prediction_time).table("admissions").batch
        begun = sample.prediction_time - timedelta(hours=24)
        shown = dict(zip(stays.column("admittime").to_pylist(), stays.column("dischtime").to_pylist(), strict=True))
        assert shown[begun] is None
    assert both.manifest["drops"]["by_rule"]["not_on_the_chart_then"] > 0
    assert leak_check(both, synthetic_store) == ()


def test_no_outcome_has_a_part_in_which_questions_are_drawn(synthetic_store: Store, tmp_path: Path) -> None:
    built = []
    for number, above in enumerate(("1.2", "999.0")):
        file = write_task(tmp_path, "same_draw", RULE, **{"above = 1.2": f"above = {above}"})
        task = read_task_file(file, synthetic_store.spec)
        built.append(build_own([task], synthetic_store, tmp_path / str(number), FEW))
    first, second = built
    assert [(one.id, ask(first, one, rules=True)) for one in first.all_samples] == [
        (one.id, ask(second, one, rules=True)) for one in second.all_samples
    ]
    assert {one.target for one in second.all_samples} == {("0",)} != {one.target for one in first.all_samples}


def test_the_audit_finds_a_label_that_the_chart_shows_already(
    synthetic_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "SELECT 1, a.row_id FROM admissions AS a JOIN question AS q WHERE a.admittime < q.prediction_time LIMIT 1"
    known = f']\nsql = "{sql}"\n'
    task = read_task_file(write_task(tmp_path, "known_before", known), synthetic_store.spec)
    built = build_own([task], synthetic_store, tmp_path / "bench", FEW)
    found = leak_check(built, synthetic_store)
    assert len(found) == len(built.all_samples)
    assert all("of its label is on the chart" in leak.what for leak in found)
    words = ["audit", "leaks", "--store", str(synthetic_store.path), "--benchmark", str(built.folder), "--limit", "3"]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "answers: 3 samples looked at, 3 leaks" in said
    assert "of its label is on the chart" in said


def test_a_benchmark_tells_its_own_tasks_to_a_process_that_has_not_seen_their_files(both: Benchmark) -> None:
    shown = run_command("bench", "show", both.folder).stdout
    assert "by_sql" in shown
    assert "yes" in shown


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({'role = "admission"': 'role = "visit"'}, "there is no role 'visit'"),
        ({'role = "admission"': 'table = "stays"\ntime = "start"'}, "no table 'stays'"),
        ({'empty = "dischtime"': 'empty = "dischargetime"'}, "no column 'dischargetime'"),
        ({'after = "24h"': 'after = "1 day"'}, "a time such as 30m, 48h or 7d"),
        ({'empty = "dischtime"': 'emty = "dischtime"'}, "Did you mean 'empty'"),
        ({'kind = "one-class"': 'kind = "one-clas"'}, "Did you mean one-class"),
        ({'column = "valuenum"': 'column = "flag"'}, "holds string, not numbers"),
        ({'[["0", "no"], ["1", "yes"]]': '[["0", "no"], ["2", "yes"]]'}, "is none of its classes 0, 2"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(
    changed: dict[str, str], message: str, synthetic_store: Store, tmp_path: Path
) -> None:
    path = write_task(tmp_path, "wrong", RULE, **changed)

    def build() -> Benchmark:
        task = read_task_file(path, synthetic_store.spec)
        return build_own([task], synthetic_store, tmp_path / "bench", FEW)

    with pytest.raises(UserError, match=message) as told:
        build()
    assert "wrong.toml: " in str(told.value), "of several files the one to mend"


@pytest.mark.parametrize("sql", ["DELETE FROM labevents", "SELECT load_extension('x')", "SELECT * FROM nowhere"])
def test_a_statement_of_a_file_is_behind_the_same_gate_as_a_models(
    sql: str, synthetic_store: Store, tmp_path: Path
) -> None:
    task = read_task_file(write_task(tmp_path, "walled", f']\nsql = "{sql}"\n'), synthetic_store.spec)
    with pytest.raises(UserError, match=r"^walled\.toml: task 'walled': label: the SQL statement fails"):
        build_own([task], synthetic_store, tmp_path / "bench", FEW)


@pytest.mark.parametrize("kind", ["boolean_value", "integer_value", "float_value", "categorical_value"])
def test_a_table_of_labels_as_meds_has_it(kind: str, both: Benchmark, synthetic_store: Store, tmp_path: Path) -> None:
    asked = both.samples("by_rule")[:20]
    said = [one.target == ("1",) for one in asked]
    values = {
        "boolean_value": said,
        "integer_value": [int(one) for one in said],
        "float_value": [7.0 if one else 6.9 for one in said],
        "categorical_value": ["yes" if one else "no" for one in said],
    }
    table = {"subject_id": [one.subject_id for one in asked], "prediction_time": [one.prediction_time for one in asked]}
    path = tmp_path / f"of_{kind}.parquet"
    pyarrow.parquet.write_table(pa.table(table | {kind: values[kind]}), path)
    classes = [("0", "no"), ("1", "yes")] if kind in ("integer_value", "categorical_value") else []
    task = read_label_table(path, classes=classes, cuts=[7.0] if kind == "float_value" else [])
    built = build_own([task], synthetic_store, tmp_path / "bench", BuildSettings(per_task=0))
    assert [one.target for one in built.all_samples] == [one.target for one in asked]
    assert "event_time" in built.all_samples[0].facts
    assert leak_check(built, synthetic_store) == ()


def test_labels_that_were_written_are_read_back_alike(both: Benchmark, synthetic_store: Store, tmp_path: Path) -> None:
    write_meds_labels(both, tmp_path / "labels")
    task = read_label_table(tmp_path / "labels" / "by_rule" / "held_out.parquet", name="read_back")
    built = build_own([task], synthetic_store, tmp_path / "bench", BuildSettings(seed=3, per_task=0))
    wanted = [(one.subject_id, one.prediction_time, one.target) for one in both.samples("by_rule", "test")]
    assert [(one.subject_id, one.prediction_time, one.target) for one in built.samples(split="test")] == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("subject_id,boolean_value\n1,true\n", "missing the column prediction_time"),
        ("subject_id,prediction_time,label\n1,2150-01-01 00:00:00,1\n", "exactly one of boolean_value"),
        ("subject_id,prediction_time,integer_value\n1,2150-01-01 00:00:00,3\n", r"the 1 values \(3\): --class"),
        ("subject_id,prediction_time,float_value\n1,2150-01-01 00:00:00,3.5\n", "need --cut"),
        ("subject_id,prediction_time,boolean_value\n1,soon,true\n", "must hold times"),
        ("subject_id,prediction_time,boolean_value\n1,2150-01-01 08:00:00Z,true\n", "has an offset from UTC"),
        ("subject_id,prediction_time,boolean_value\n1,2150-01-01T08:00:00+0500,true\n", "has an offset from UTC"),
        (
            "subject_id,prediction_time,boolean_value\n1,2150-01-01 00:00:00,true\n1,2150-01-01 00:00:00,false\n",
            "row 3: subject 1 has another label",
        ),
    ],
)
def test_a_table_that_is_none_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as refused:
        read_label_table(path)
    assert "\n" not in str(refused.value)


def test_who_is_not_in_the_store_and_who_has_no_label_is_counted(synthetic_store: Store, tmp_path: Path) -> None:
    subject = int(synthetic_store.subjects[0])
    rows = [f"{subject},2150-01-01 00:00:00,true", f"{subject},2150-01-02 00:00:00,", "5,2150-01-01 00:00:00,false"]
    path = tmp_path / "counted.csv"
    path.write_text("subject_id,prediction_time,boolean_value\n" + "\n".join(rows) + "\n", encoding="utf-8")
    task: OwnTask = read_label_table(path)
    built = build_own([task], synthetic_store, tmp_path / "bench", FEW)
    assert len(built.all_samples) == 1
    assert built.manifest["drops"]["counted"] == {
        "not_drawn": 0,
        "row_without_value": 1,
        "subject_not_in_the_store": 1,
    }


def test_a_question_that_is_left_out_for_want_of_a_label_is_declared_as_hindsight(
    synthetic_store: Store, tmp_path: Path
) -> None:
    names = """.rule]
role = "culture"
names = "test_name"
within = "24h"
"""
    answer = {
        'kind = "one-class"': 'kind = "candidates"',
        'classes = [["0", "no"], ["1", "yes"]]': 'tables = ["microbiologyevents_candidates"]',
    }
    task = read_task_file(write_task(tmp_path, "next_cultures", names, **answer), synthetic_store.spec)
    built = build_own([task], synthetic_store, tmp_path / "bench", BuildSettings(seed=3, per_task=0))
    said = built.manifest["tasks"]["next_cultures"]
    assert built.manifest["drops"]["next_cultures"]["no_label"] > 0
    assert "what comes later decides" in said["hindsight"]
    labels = built.labels(task.task)
    assert labels is not None
    for sample in built.all_samples:
        assert [name for name in sample.target if labels.resolve(name) is None] in ([], list(sample.unwinnable))


@pytest.mark.parametrize(
    ("answer", "classes"),
    [
        ("1.0 * (COUNT(*) > 0)", {"0": "0", "1": "1"}),  # a whole number is the class of that number
        ("CASE WHEN COUNT(*) > 0 THEN 'more' ELSE 'no' END", {"0": "no", "1": "more"}),
        ("0.5 + (COUNT(*) > 0)", {"0": "0.5", "1": "1.5"}),
    ],
)
def test_an_answer_of_sql_is_a_class_by_its_text(
    both: Benchmark, synthetic_store: Store, tmp_path: Path, answer: str, classes: dict[str, str]
) -> None:
    declared = {'[["0", "no"], ["1", "yes"]]': f'[["{classes["0"]}", "no"], ["{classes["1"]}", "yes"]]'}
    asked = write_task(
        tmp_path, f"as_{classes['1'].replace('.', '_')}", SQL.replace("COUNT(*) > 0", answer, 1), **declared
    )
    task = read_task_file(asked, synthetic_store.spec)
    built = build_own([task], synthetic_store, tmp_path / "bench", BuildSettings(seed=3, per_task=0))
    expected = {(one.subject_id, one.moment): classes[one.target[0]] for one in both.samples("by_sql")}
    assert {(one.subject_id, one.moment): one.target[0] for one in built.all_samples} == expected
    assert set(expected.values()) == set(classes.values())


def test_names_that_no_candidate_table_has_cannot_be_answered(synthetic_store: Store, tmp_path: Path) -> None:
    """Specimens are asked for where the candidates are tests."""
    rule = '.rule]\nrole = "culture"\nnames = "{}"\nwithin = "24h"\n'
    answer = {
        'kind = "one-class"': 'kind = "candidates"',
        'classes = [["0", "no"], ["1", "yes"]]': 'tables = ["none_of_this_name", "microbiologyevents_candidates"]',
    }
    columns = {"tests": "test_name", "specimens": "spec_type_desc"}
    files = [write_task(tmp_path, name, rule.format(column), **answer) for name, column in columns.items()]
    tasks = [read_task_file(file, synthetic_store.spec) for file in files]
    built = build_own(tasks, synthetic_store, tmp_path / "bench", BuildSettings(seed=3, per_task=0))
    tests, specimens = (built.samples(name) for name in columns)
    assert len(tests) == len(specimens) > 0
    shared = {"MRSA SCREEN"}  # the name of a specimen and of its test
    assert [set(one.unwinnable) for one in specimens] == [set(one.target) - shared for one in specimens]
    assert any(one.unwinnable for one in specimens)
    assert [one.unwinnable for one in tests] == [()] * len(tests)


def test_a_rule_that_no_row_matches_says_so_with_the_nearest_values(
    synthetic_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_task(tmp_path, "typo", RULE, **{'label = "Creatinine"': 'label = "Creatinin, Serum"'})
    words = ["--store", str(synthetic_store.path), "--out", str(tmp_path / "bench"), "--per-task", "12"]
    assert main(["bench", "build", "tasks", "--task-file", str(path), *words]) == 0
    said = Benchmark.open(tmp_path / "bench").manifest["tasks"]["typo"]
    (line,) = said["matches_no_row"]
    assert line.startswith("label: no row of labevents has label 'Creatinin, Serum'; the nearest: ")
    assert "'Creatinine'" in line
    assert said["never_the_answer"] == ["1"]
    shown = capsys.readouterr().out
    assert f"! typo: {line}" in shown
    assert "offered and never the answer: typo 1" in shown


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        ({"label": ("Creatinine",)}, []),
        ({"label": ("creat*",)}, []),
        ({"label": ("Platelet",)}, ["no row of labevents has label 'Platelet'; the nearest: 'Platelet Count'"]),
        ({"flag": ("nothing like it",)}, ["no row of labevents has flag 'nothing like it'; it has 'abnormal'"]),
        (
            {"label": ("Creatinine",), "valueuom": ("K/uL",)},
            ["no row of labevents meets all of label, valueuom, though each is met by some"],
        ),
    ],
)
def test_what_no_row_matches_is_named_column_by_column(
    synthetic_store: Store, patterns: dict[str, tuple[str, ...]], said: list[str]
) -> None:
    assert no_row_matches(synthetic_store, "labevents", Where(patterns=patterns)) == said


def test_tasks_of_ones_own_have_the_declared_context(both: Benchmark) -> None:
    assert both.context_tokens == 64_000


VISITS = """
[source]
name = "ward"
title = "A ward"
sensitivity = "synthetic"
[tables.visits]
path = "visits"
key = ["number"]
subject = "person"
event_time = "began"
available_at = "told"
columns = { number = "int", person = "int", began = "time", told = "time" }
"""


def test_every_row_asks_at_its_own_moment_if_the_chart_shows_that_row_then(tmp_path: Path) -> None:
    """The second row of person 7 was told hours after its time; that the first is on the chart by then is no reason."""
    rows = ["1,7,2150-01-01 08:00,2150-01-01 08:00", "2,7,2150-01-01 10:00,2150-01-01 23:00"]
    rows += ["3,7,2150-01-02 10:00,2150-01-02 09:00", "4,7,2150-01-02 10:00,2150-01-02 10:00"]
    rows += ["5,8,2150-01-01 08:00,2150-01-01 08:00"]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "visits.csv").write_text("\n".join(["number,person,began,told", *rows]) + "\n")
    (tmp_path / "ward.toml").write_text(VISITS)
    ingest(load_source_spec(tmp_path / "ward.toml"), tmp_path / "raw", tmp_path / "store")
    dropped: Counter[str] = Counter()
    asked = AfterRows(table="visits", where=Where()).moments(Store.open(tmp_path / "store"), "known_at", dropped)
    assert [(one.subject_id, f"{one.prediction_time:%d %H}") for one in asked] == [
        (7, "01 08"),
        (7, "02 10"),
        (8, "01 08"),
    ]
    assert +dropped == {"not_on_the_chart_then": 1}
