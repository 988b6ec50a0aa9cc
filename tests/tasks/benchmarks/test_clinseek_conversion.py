"""EHRXQA's and MedMod's own files as manifests: invented rows in their formats, over the synthetic hospital's films."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark, build_clinseek_mm, convert_ehrxqa, convert_medmod, leak_check
from wardround.tasks.benchmarks.clinseek_mm.examples import PHENOTYPES


def films(store: Store, subject: int) -> list[dict[str, Any]]:
    return sorted(store.rows(subject, "cxr_images").to_pylist(), key=lambda row: (row["acquired"], row["dicom_id"]))


@pytest.fixture(scope="module")
def filmed(film_store: Store) -> int:
    """A person with two studies."""
    return next(
        one for one in film_store.subjects.tolist() if len({row["study_id"] for row in films(film_store, one)}) > 1
    )


def question(text: str, answer: object, **value: object) -> dict[str, Any]:
    """A row as EHRXQA's builder writes it."""
    return {
        "db_id": "mimic_iv_cxr",
        "split": "test",
        "id": 0,
        "question": text,
        "template": text,
        "query": "select ...",
        "value": value,
        "q_tag": "given the study {study_id}, ...",
        "t_tag": ["", "", "", "", ""],
        "o_tag": {},
        "v_tag": {"object": [], "category": [], "attribute": []},
        "tag": "",
        "para_type": "machine",
        "is_impossible": False,
        "answer": answer,
    }


@pytest.fixture
def asked(film_store: Store, filmed: int, tmp_path: Path) -> Path:
    first, second = list(dict.fromkeys(row["study_id"] for row in films(film_store, filmed)))[:2]
    rows = [
        question("given the study, is there atelectasis?", [1], study_id=first),
        question("given the study, list all diseases.", ["pneumonia", "copd"], study_id=first),
        question("what is newly detected against the other?", ["edema"], study_id1=second, study_id2=first),
        question("what is newly detected against the one before?", [], study_id1=second),
        question("is edema still present?", [0], study_id1=second),
        question("what was there before the first?", ["edema"], study_id1=first),
        question("given the study, list all devices.", [], study_id=first),
        question("how many days since the last film of 2105?", [12], patient_id=filmed),
        question("given the study, is there edema?", [0], study_id=1),
    ]
    (tmp_path / "test.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path / "test.json"


def test_ehrxqa_s_questions_about_named_studies(asked: Path, film_store: Store, filmed: int) -> None:
    made = convert_ehrxqa([asked], film_store)
    assert dict(made.left_out) == {
        "no_study_before": 1,
        "nothing_to_name": 1,
        "no_study_named": 1,
        "study_not_in_the_store": 1,
    }
    by_text = {one.asked: one for one in made.examples}
    presence, names, new, newer, still = (by_text[row["question"]] for row in json.loads(asked.read_text())[:5])
    assert (presence.task, presence.answer, presence.vocabulary) == ("finding_presence", ("1",), ())
    assert (names.task, names.answer) == ("finding_enumeration", ("copd", "pneumonia"))
    assert names.vocabulary == ("copd", "pneumonia")
    assert (new.answer, newer.answer) == (("edema",), ("no new finding",))
    assert new.vocabulary == newer.vocabulary == ("edema", "no new finding")
    assert (still.task, still.answer) == ("finding_change_yes_no", ("0",))
    first, second = (one.acquired for one in _studies(film_store, filmed)[:2])
    assert [presence.cutoff, new.cutoff] == [str(first), str(second)]
    assert (
        new.images == newer.images == tuple(one for study in _studies(film_store, filmed)[:2] for one in study.images)
    )


class _Study:
    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self.images = [row["dicom_id"] for row in rows]
        self.acquired: datetime = max(row["acquired"] for row in rows)


def _studies(store: Store, subject: int) -> list[_Study]:
    rows = films(store, subject)
    return [
        _Study([row for row in rows if row["study_id"] == study])
        for study in dict.fromkeys(row["study_id"] for row in rows)
    ]


def test_the_manifest_is_built_and_nothing_of_an_answer_is_there(
    asked: Path, film_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, out = str(film_store.path), tmp_path / "examples.jsonl"
    assert main(["bench", "examples", "ehrxqa", str(asked), "--store", store, "--out", str(out)]) == 0
    written, tasks, left_out = capsys.readouterr().out.splitlines()
    assert written == f"5 examples: {out}"
    assert tasks == "  2 finding_change, 1 finding_change_yes_no, 1 finding_enumeration, 1 finding_presence"
    assert left_out.startswith("  left out: 1 no_study_before, 1 no_study_named, 1 nothing_to_name, ")
    built = build_clinseek_mm(film_store, tmp_path / "bench", examples=out)
    assert leak_check(built, film_store) == ()
    (listed,) = built.samples("clinseek-mm.finding_enumeration.open")
    assert "Answer with names out of: copd; pneumonia." in built.prompt(listed)
    assert "Enlarged Cardiomediastinum" not in built.prompt(listed), "the names of other labels would mislead"
    (yes_no,) = built.samples("clinseek-mm.finding_change_yes_no")
    assert yes_no.target == ("0",)
    hidden = build_clinseek_mm(film_store, tmp_path / "hidden", examples=out, vocabulary_shown=False)
    (silent,) = Benchmark.open(tmp_path / "hidden").samples("clinseek-mm.finding_enumeration.open")
    assert "copd; pneumonia" not in hidden.prompt(silent)


@pytest.mark.parametrize(("text", "said"), [("{", "cannot be read"), ('{"a": 1}', "not an EHRXQA file")])
def test_what_is_no_file_of_ehrxqa_is_said(text: str, said: str, film_store: Store, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        convert_ehrxqa([tmp_path / "x.json"], film_store)
    unfinished = question("is there?", [1], study_id=1)
    del unfinished["answer"]
    (tmp_path / "_test.json").write_text(json.dumps([unfinished]), encoding="utf-8")
    with pytest.raises(UserError, match="has no answers"):
        convert_ehrxqa([tmp_path / "_test.json"], film_store)


@pytest.fixture(scope="module")
def unit_stay(film_store: Store) -> dict[str, Any]:
    """A stay in intensive care of two days or more, with a frontal film by then, that the person outlived."""
    for subject in film_store.subjects.tolist():
        frontal = [row["acquired"] for row in films(film_store, subject) if row["view_position"] == "AP"]
        for stay in film_store.rows(subject, "icustays").to_pylist():
            until = stay["intime"] + timedelta(hours=48)
            dead = film_store.rows(subject, "admissions").column("deathtime").to_pylist()
            if stay["outtime"] > until and any(stay["intime"] <= one <= until for one in frontal) and not any(dead):
                return stay
    pytest.fail("the synthetic hospital has such a stay")


def listfile(path: Path, stay: dict[str, Any], answers: Sequence[tuple[float, dict[str, int]]]) -> Path:
    name = f"{stay['subject_id']}_episode1_timeseries.csv"
    with path.open("w", newline="") as file:
        rows = [
            {"stay": name, "period_length": f"{hours:.6f}", "stay_id": stay["stay_id"]} | one for hours, one in answers
        ]
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_medmod_s_listfiles(film_store: Store, unit_stay: dict[str, Any], tmp_path: Path) -> None:
    begun, subject = unit_stay["intime"], unit_stay["subject_id"]
    hourly = listfile(tmp_path / "decompensation.csv", unit_stay, [(47.0, {"y_true": 1}), (48.0, {"y_true": 0})])
    two_days = listfile(tmp_path / "mortality.csv", unit_stay, [(0, {"y_true": 0})])
    made = convert_medmod([hourly, two_days], film_store)
    assert not made.left_out
    near, next_hour, whole = made.examples
    assert [one.task for one in made.examples] == ["mortality_24h", "mortality_24h", "mortality_inpatient"]
    assert [one.cutoff for one in made.examples] == [str(begun + timedelta(hours=hours)) for hours in (47, 48, 48)]
    assert [one.answer for one in made.examples] == [("1",), ("0",), ("0",)], "the data set's own answers"
    frontal = [
        row["dicom_id"]
        for row in films(film_store, subject)
        if row["view_position"] == "AP" and begun <= row["acquired"] <= begun + timedelta(hours=48)
    ]
    assert whole.images == next_hour.images == (frontal[-1],)
    assert near.subject_id == subject


def test_medmod_s_phenotypes_and_what_is_left_out(film_store: Store, unit_stay: dict[str, Any], tmp_path: Path) -> None:
    hours = (unit_stay["outtime"] - unit_stay["intime"]) / timedelta(hours=1)
    conditions = dict.fromkeys(PHENOTYPES, 0) | {"Shock": 1, "Essential hypertension": 1}
    coded = listfile(tmp_path / "phenotyping.csv", unit_stay, [(hours, conditions)])
    made = convert_medmod([coded], film_store)
    discharged = max(film_store.rows(unit_stay["subject_id"], "admissions").column("dischtime").to_pylist())
    if unit_stay["outtime"] < discharged:
        (one,) = made.examples
        assert (one.task, one.answer) == ("phenotypes", ("Essential hypertension", "Shock"))
        assert one.cutoff == str(unit_stay["outtime"])
        assert one.row_ids
    early = listfile(tmp_path / "early.csv", unit_stay, [(0.5, {"y_true": 0})])
    stranger = listfile(tmp_path / "stranger.csv", unit_stay | {"subject_id": 1}, [(5, {"y_true": 0})])
    other = listfile(tmp_path / "other.csv", unit_stay | {"stay_id": 1}, [(5, {"y_true": 0})])
    left_out = convert_medmod([early, stranger, other], film_store).left_out
    assert left_out["subject_not_in_the_store"] == left_out["stay_not_in_the_store"] == 1
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("stay,period_length,stay_id,answer\na,1,2,3\n")
    with pytest.raises(UserError, match="expected the column `y_true` or the 25 phenotypes"):
        convert_medmod([wrong], film_store)
