"""Plausibility: contradictions within a store, and between stores of the same people."""

from __future__ import annotations

from pathlib import Path

import pytest
from invented import PATIENTS, Invented

from wardround.audits import audit_plausibility
from wardround.cli import main
from wardround.synth import DIALECTS

LISTED = {
    "mimiciii": {"lab known earlier": 4},
    "omop": {"lab known earlier": 4},
    "fhir": {"drug stop known earlier": 26},
    "meds": {"lab known earlier": 4, "drug stop known earlier": 17, "infusion known earlier": 6},
}
"""How often a source shows what before CSV does. Each has its reason on docs/audits.md."""


@pytest.mark.parametrize("source", DIALECTS)
def test_the_invented_hospital_contradicts_nothing(invented: Invented, source: str) -> None:
    report = audit_plausibility(invented.store(source))
    assert report.clean, report.as_text()
    assert report.subjects >= PATIENTS
    assert sum(report.looked.values()) > 1_000


@pytest.mark.parametrize("source", LISTED)
def test_nothing_is_known_earlier_than_in_csv_but_what_is_listed(invented: Invented, source: str) -> None:
    report = audit_plausibility(invented.store(source), invented.store("mimiciv"))
    assert {what: count for what, count in report.found.items() if count} == LISTED[source], report.as_text()
    for kind in ("death", "discharge", "admission", "lab"):
        assert report.looked[f"{kind} known earlier"] > 3, report.as_text()
    assert not report.skipped


def test_eicu_tells_an_end_no_earlier_than_csv_seen_from_the_admission(invented: Invented) -> None:
    """Its days are invented: what can be compared is how long after the admission an end is shown."""
    eicu, csv = invented.store("eicu"), invented.store("mimiciv")
    ends = {}
    for subject in csv.subjects.tolist():
        for row in csv.rows(subject, "admissions").to_pylist():
            ends[row["hadm_id"] % 150_000_000] = (
                max(row["dischtime"], row["deathtime"] or row["dischtime"]) - row["admittime"]
            )
    compared = 0
    for subject in eicu.subjects.tolist():
        for row in eicu.rows(subject, "hospital_stay").to_pylist():
            shown = row["stayovertime"] - row["hospitaladmittime"]
            least = ends[row["patienthealthsystemstayid"] % 150_000_000]
            assert (least - shown).total_seconds() <= 60, row
            compared += 1
    assert compared > 30


def test_the_command_says_what_it_found(invented: Invented, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "plausibility", "--store", str(invented.folder / "mimiciv-store")]) == 0
    assert capsys.readouterr().out.rstrip().endswith("clean")


def test_a_swap_needs_the_raw_files(invented: Invented, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(invented.folder / "omop-store")
    assert main(["audit", "leaks", "--store", store, "--sample", "1,2150-01-01", "--swap"]) != 0
    assert "--raw" in capsys.readouterr().err


def test_the_swap_from_the_command_line(invented: Invented, capsys: pytest.CaptureFixture[str]) -> None:
    subject, as_of = invented.samples("omop")[0]
    raw, store = str(invented.raw("omop")), str(invented.folder / "omop-store")
    words = ["audit", "leaks", "--store", store, "--raw", raw, "--swap", "--alone"]
    assert main([*words, "--sample", f"{subject},{as_of.isoformat()}"]) == 0
    said = capsys.readouterr().out
    assert "outcome swap" in said
    assert "not compared: candidates: candidates come from all subjects" in said


def test_a_source_without_roles_says_what_cannot_be_looked_at(tmp_path: Path) -> None:
    from records.small_source import small_store

    report = audit_plausibility(small_store(tmp_path))
    assert report.skipped["deaths of the record"] == "no table plays the role `death`"
    assert report.skipped["care of the record"].startswith("no table plays `lab`")


def test_only_the_named_people_are_looked_at(invented: Invented) -> None:
    store = invented.store("mimiciv")
    chosen = store.subjects.tolist()[1:4]
    report = audit_plausibility(store, subjects=chosen)
    assert report.subjects == 3
    alone = [audit_plausibility(store, subjects=[subject]) for subject in chosen]
    assert report.looked == {what: sum(one.looked.get(what, 0) for one in alone) for what in report.looked}
