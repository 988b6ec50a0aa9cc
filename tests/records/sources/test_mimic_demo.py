"""The real MIMIC-IV demo: it comes in whole, and charts in the middle of stays leak nothing."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from effort import often
from wardround.audits import audit_leaks
from wardround.records import IngestReport, Store, ingest

SUBJECTS = often(4, 10)


@pytest.fixture(scope="module")
def folders(mimic_demo: Path, shared_data: Path) -> tuple[Path, ...]:
    others = (shared_data / "mimic-iv-demo-2.2-derived", shared_data / "mimic-iv-ed-demo-2.2-rebuilt")
    return (mimic_demo, *(folder for folder in others if folder.is_dir()))


@pytest.fixture(scope="module")
def demo(folders: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, IngestReport]:
    path = tmp_path_factory.mktemp("demo") / "store"
    report = ingest("mimiciv", folders, path)
    return Store.open(path), report


def _mid_stay(store: Store) -> list[tuple[int, datetime]]:
    """Return moments in stays of some subjects: a tenth, a half and the last minute but one."""
    samples = []
    for subject, rows in list(store.scan("admissions"))[:: 100 // SUBJECTS]:
        stay = max(rows.to_pylist(), key=lambda row: row["dischtime"] - row["admittime"])
        length = stay["dischtime"] - stay["admittime"]
        samples += [(subject, stay["admittime"] + length * part) for part in (0.1, 0.5)]
        samples.append((subject, stay["dischtime"] - timedelta(minutes=2)))
    return samples


def test_everything_comes_in(demo: tuple[Store, IngestReport]) -> None:
    store, report = demo
    expected = {"patients": 100, "admissions": 275, "labevents": 107727, "prescriptions": 18087, "poe": 45154}
    expected |= {"diagnoses_icd": 4506, "microbiologyevents": 2899, "emar": 35835, "emar_detail": 72018, "omr": 2964}
    assert {name: report.rows[name] for name in expected} == expected
    assert report.quarantined == {}
    assert len(store.subjects) == 100
    assert set(report.never_visible) == {"microbiologyevents"}


def test_no_leak_mid_stay(demo: tuple[Store, IngestReport], folders: tuple[Path, ...]) -> None:
    store, _ = demo
    samples = _mid_stay(store)
    report = audit_leaks(store, samples, raw_folder=folders)
    assert (report.rows, report.cells, report.differences) == (0, 0, 0), report.as_text()
    assert report.samples == report.deletion_samples == 3 * SUBJECTS
    assert report.unmatched_rows == 0


def test_the_published_clock_leaks_here(demo: tuple[Store, IngestReport]) -> None:
    store, _ = demo
    report = audit_leaks(store, _mid_stay(store), policy="published")
    assert report.rows / report.samples > 10
    assert report.cells / report.samples > 10


def test_row_ids_are_unique_and_no_culture_counts_its_results(demo: tuple[Store, IngestReport]) -> None:
    store, _ = demo
    for subject, moment in _mid_stay(store):
        chart = store.chart(subject, moment)
        for name in chart.table_names:
            ids = chart.table(name).batch.column("row_id").to_pylist()
            assert len(set(ids)) == len(ids), name
        cultures = chart.table("microbiologyevents").batch.to_pylist()
        running = Counter(
            (row["micro_specimen_id"], row["test_itemid"]) for row in cultures if row["storetime"] is None
        )
        tests = Counter((row["micro_specimen_id"], row["test_itemid"]) for row in store_tests(store, subject))
        assert all(count <= tests[key] for key, count in running.items())
        assert not any(
            "Bottle" in row["test_name"] for row in cultures if row["storetime"] is None and "Gram" in row["test_name"]
        )


def store_tests(store: Store, subject: int) -> list[dict[str, int]]:
    """Return one entry per test of a specimen."""
    rows = (
        store.rows(subject, "microbiologyevents").select(["micro_specimen_id", "test_seq", "test_itemid"]).to_pylist()
    )
    return list({(row["micro_specimen_id"], row["test_seq"]): row for row in rows}.values())


def test_nothing_of_a_stay_that_ends_in_death_is_coded_before_it(
    demo: tuple[Store, IngestReport],
) -> None:
    store, early = demo[0], 0
    for subject in map(int, store.subjects):
        for stay in store.chart(subject, datetime(9000, 1, 1)).table("admissions").batch.to_pylist():
            if stay["deathtime"] is None or stay["deathtime"] <= stay["dischtime"]:
                continue
            early += 1
            chart = store.chart(subject, stay["deathtime"] - timedelta(seconds=1))
            for table in ("diagnoses_icd", "drgcodes", "procedures_icd", "hcpcsevents"):
                assert stay["hadm_id"] not in chart.table(table).batch.column("hadm_id").to_pylist()
            (seen,) = (row for row in chart.table("admissions").batch.to_pylist() if row["hadm_id"] == stay["hadm_id"])
            assert seen["dischtime"] is seen["hospital_expire_flag"] is seen["discharge_location"] is None
    assert early == 4
