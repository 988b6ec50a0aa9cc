"""The leak audit finds leaks where there are some, and the deleted copy holds nothing of the future."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import pytest

from records.mimic_tables import SPEC, write_folder
from records.sources.test_mimiciv_clocks import ADMIT, DISCHARGE, TABLES
from wardround.audits import LeakReport, audit_leaks, delete_future
from wardround.audits.deletion import RawSubjects, write_deleted
from wardround.cli import main
from wardround.core import UserError, parse_time
from wardround.records import Policy, Store, ingest, load_source_spec

OTHER = {"subject_id": 2, "hadm_id": 900, "admittime": ADMIT, "dischtime": DISCHARGE}
MID_STAY = parse_time("2150-03-12 00:00:00")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = dict(TABLES)
    tables["admissions"] = [*TABLES["admissions"], OTHER]
    tables["patients"] = [*TABLES["patients"], {"subject_id": 2, "gender": "M", "anchor_age": 30, "anchor_year": 2150}]
    return write_folder(tmp_path_factory.mktemp("raw"), tables)


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("store") / "store"
    ingest("mimiciv", folder, path)
    return Store.open(path)


def _read(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{SPEC.tables[table].path}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_deleted_copy_holds_nothing_of_the_future(store: Store, folder: Path, tmp_path: Path) -> None:
    delete_future(folder, tmp_path, store, 1, MID_STAY)
    text = "".join(file.read_text() for file in tmp_path.rglob("*.csv"))
    for future in ("SECRET", "DIED", "HOME", "ESCHERICHIA", "AMPICILLIN", "Gram Stain", "Discontinued", "Expired"):
        assert future not in text
    for later_day in range(15, 21):
        assert f"2150-03-{later_day}" not in text
    assert "Three days of fever" in text
    assert [row["subject_id"] for row in _read(tmp_path, "patients")] == ["1"]
    assert [row["hadm_id"] for row in _read(tmp_path, "admissions")] == ["100"]
    cultures = _read(tmp_path, "microbiologyevents")
    assert [row["test_name"] for row in cultures] == ["Blood Culture, Routine", "MRSA SCREEN", "ACID FAST CULTURE"]
    assert cultures[0]["storetime"] == cultures[0]["microevent_id"] == ""
    assert {row["note_id"] for row in _read(tmp_path, "radiology")} == {"1-RR-1"}
    assert _read(tmp_path, "drgcodes") == []


def test_a_copy_of_everything_is_everything_but_unused_numbers(store: Store, folder: Path, tmp_path: Path) -> None:
    delete_future(folder, tmp_path, store, 1, datetime(2200, 1, 1))
    for name in TABLES:
        whole = [row for row in _read(folder, name) if row["subject_id"] == "1"]
        left = _read(tmp_path, name)
        for row in (*whole, *left):
            row.pop("microevent_id", None)
            row.pop("labevent_id", None)
        if name in ("microbiologyevents", "pharmacy", "prescriptions"):
            assert len(left) == len(whole)
        else:
            assert left == whole, name


def test_both_audits_are_clean_and_say_so(store: Store, folder: Path) -> None:
    report = audit_leaks(store, [(1, MID_STAY), (2, MID_STAY), (1, parse_time(ADMIT))], raw_folder=folder)
    assert report.clean
    assert (report.samples, report.deletion_samples, report.rows, report.cells, report.differences) == (3, 3, 0, 0, 0)
    assert report.of("datetimeevents").planned == 2 - 1
    assert report.as_text().endswith("clean")
    assert "0 rows and 0 cells" in report.as_text()


def test_a_blanked_cell_is_one_that_held_something(store: Store, folder: Path, tmp_path: Path) -> None:
    """When everything is known, every row stays: what is emptied are running numbers, where there were any."""
    raw = RawSubjects.read(store, folder, {1})
    counts = write_deleted(raw, tmp_path, store, {1: datetime(2300, 1, 1)})
    whole = [row for name in TABLES for row in _read(folder, name) if row["subject_id"] == "1"]
    left = [row for name in TABLES for row in _read(tmp_path, name)]
    assert len(left) == len(whole)
    before, after = (sum(value != "" for row in rows for value in row.values()) for rows in (whole, left))
    assert counts.blanked_cells == before - after > 0


def test_without_raw_files_only_the_time_audit_runs(store: Store) -> None:
    report = audit_leaks(store, [(1, MID_STAY)])
    assert report.clean
    assert report.deletion_samples == 0
    assert "not run" in report.as_text()


def test_the_published_clock_leaks_and_both_audits_show_it(store: Store, folder: Path) -> None:
    report = audit_leaks(store, [(1, MID_STAY)], raw_folder=folder, policy="published")
    assert not report.clean
    assert report.of("drgcodes").rows == 1
    assert report.of("drgcodes").extra == 1
    assert report.of("patients").cells == 1
    assert report.of("microbiologyevents").cells > 0
    assert report.of("transfers").differing > 0
    assert report.as_text().endswith("LEAKS")
    assert "drgcodes:100-HCFA-291" in report.as_text()


@pytest.mark.parametrize("policy", ["known_at", "published"])
def test_when_all_has_come_nothing_is_of_the_future_by_either_clock(store: Store, folder: Path, policy: Policy) -> None:
    report = audit_leaks(store, [(2, datetime(2300, 1, 1))], raw_folder=folder, policy=policy)
    assert (report.deletion_samples, report.differences, report.clean) == (1, 0, True), report.as_text()


def _weakened(tmp_path: Path, old: str, new: str) -> Store:
    """Return a store of the same rows under a spec with one line changed."""
    specs = tmp_path / "spec"
    specs.mkdir()
    for name, text in SPEC.files.items():
        (specs / name).write_text(text.replace(old, new), encoding="utf-8")
    assert any(old in text for text in SPEC.files.values())
    ingest(load_source_spec(specs), write_folder(tmp_path / "raw", TABLES), tmp_path / "store")
    return Store.open(tmp_path / "store")


@pytest.mark.parametrize(
    ("old", "new", "table", "as_of"),
    [
        (
            '"dischtime, discharge_location" = "first(',
            'dischtime = "admittime"\n"discharge_location" = "first(',
            "admissions",
            ADMIT,
        ),
        ('outtime = "outtime"', 'outtime = "intime"', "transfers", ADMIT),
        ('available_at = "max(charttime, storetime)"', 'available_at = "charttime"', "emar", "2150-03-11 10:00:00"),
        ('dod = "dod"', 'dod = "always"', "patients", ADMIT),
    ],
)
def test_the_time_audit_finds_a_clock_that_is_too_early(
    tmp_path: Path, old: str, new: str, table: str, as_of: str
) -> None:
    report = audit_leaks(_weakened(tmp_path, old, new), [(1, parse_time(as_of))])
    assert report.of(table).cells > 0
    assert not report.clean


WORDS = """
[source]
name = "ward"
title = "A ward"
sensitivity = "synthetic"
[tables.words]
path = "words"
key = ["number"]
subject = "person"
event_time = "said"
available_at = "said"
columns = { number = "int", person = "int", said = "time", word = "text" }
"""


@pytest.mark.parametrize(
    ("word", "cells"),
    [
        ("2150-01-02 08:00:01", 1),
        ("2150-01-02T09:00:00", 1),
        (" 2150-01-03 ", 1),
        ("2150-01-02 08:00:00", 0),
        ("2150-01-02", 0),
        ("2150-01-01 23:00", 0),
        ("2150-13-40 10:00", 0),
        ("9999-99-9", 0),
        ("until 2150-05-01", 0),
    ],
)
def test_a_text_that_is_a_later_time_is_of_the_future(word: str, cells: int, tmp_path: Path) -> None:
    """As of 08:00 of the second of January; a day is later when it is another."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "words.csv").write_text(f"number,person,said,word\n1,7,2150-01-01 08:00,{word}\n")
    (tmp_path / "ward.toml").write_text(WORDS)
    ingest(load_source_spec(tmp_path / "ward.toml"), tmp_path / "raw", tmp_path / "store")
    report = audit_leaks(Store.open(tmp_path / "store"), [(7, parse_time("2150-01-02 08:00:00"))])
    assert (report.of("words").cells, report.of("words").rows, report.clean) == (cells, 0, not cells)


def test_the_deletion_audit_finds_a_clock_that_needs_the_future(tmp_path: Path) -> None:
    """A row's clock here reads a cell that is itself late: without that cell the row has another clock."""
    old = 'available_at = "first(ref(pharmacy_id, pharmacy, entertime), '
    store = _weakened(tmp_path, old, 'available_at = "min(starttime, ref(pharmacy_id, pharmacy, stoptime), ')
    report = audit_leaks(store, [(1, parse_time("2150-03-12 10:30:00"))], raw_folder=tmp_path / "raw")
    assert report.of("prescriptions").extra or report.of("prescriptions").differing


def test_raw_files_that_are_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        audit_leaks(store, [(1, MID_STAY)], raw_folder=tmp_path / "nowhere")


def test_an_empty_report_is_clean() -> None:
    assert LeakReport(policy="known_at").clean


def test_the_command_takes_stays_that_are_played_hour_by_hour(
    synthetic_store: Store, synthetic_stays_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They name no row that holds their answer: the command ended in a KeyError. It says that it looked for none."""
    words = ["--store", str(synthetic_store.path), "--benchmark", str(synthetic_stays_path), "--limit", "2"]
    assert main(["audit", "leaks", *words]) == 0
    said = capsys.readouterr().out
    assert "answers: 0 samples looked at, 0 leaks\nanswers: of 2 samples no row is named" in said
