"""Properties of charts over generated MIMIC-shaped folders: nothing is taken back, and no future is needed."""

from __future__ import annotations

import random
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from effort import often
from records.mimic_tables import SPEC, write_folder
from wardround.audits import audit_leaks
from wardround.records import Chart, Store, TableSpec, ingest

Row = dict[str, Any]
MODEST = settings(
    max_examples=often(4, 100),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
"""Every example is an ingest, and a seed does not shrink."""
START = datetime(2150, 3, 10)
MOMENTS = [START + timedelta(hours=6 * step, seconds=extra) for step in range(20) for extra in (0, 1)]
POOLS: dict[str, list[object]] = {
    "subject_id": [1],
    "hadm_id": [100, 200, ""],
    "stay_id": [1000, 1001, 3000],
    "transfer_id": [1, 2, 3, 4],
    "poe_id": ["1-1", "1-2", "1-3", "1-4"],
    "discontinue_of_poe_id": ["", "1-1", "1-2"],
    "discontinued_by_poe_id": ["", "1-2", "1-3", "1-4"],
    "pharmacy_id": [50, 51, 52, 53],
    "emar_id": ["1-1", "1-2", "1-3"],
    "note_id": ["1-RR-1", "1-RR-2", "1-DS-1", "1-AR-3"],
    "field_name": ["Consult Status", "Code status", "addendum_note_id"],
    "field_value": ["Accepted", "1-RR-2", "1-AR-3", "2150-03-12 00:00:00"],
    "admission_type": ["EW EMER.", "OBSERVATION ADMIT", "EU OBSERVATION"],
    "text": ["Chief Complaint:\nfever\nBrief Hospital Course:\nsecret", "History of Present Illness: cough", "none"],
    "icd_code": ["4280", "3961"],
    "icd_version": [9, 10],
    "micro_specimen_id": [70, 71],
    "test_seq": [1, 2],
    "anchor_year": [2150],
}
TESTS = {(70, 1): "URINE CULTURE", (70, 2): "GRAM STAIN", (71, 1): "Blood Culture, Routine"}
TESTS |= {(71, 2): "Aerobic Bottle Gram Stain"}


def _cell(kind: str, draw: random.Random) -> object:
    if draw.random() < 0.15:
        return ""
    if kind in ("time", "date"):
        moment = draw.choice(MOMENTS)
        return moment.date() if kind == "date" else moment
    if kind == "text":
        return draw.choice(["a", "b", "c"])
    return draw.randint(1, 4)


def _row(table: TableSpec, draw: random.Random) -> Row:
    row = {
        name: draw.choice(POOLS[name]) if name in POOLS else _cell(kind, draw) for name, kind in table.columns.items()
    }
    if table.name == "microbiologyevents":
        specimen, test = row["micro_specimen_id"], row["test_seq"]
        same = random.Random(f"{specimen}-{test}")
        order: Row = {name: _cell(table.columns[name], same) for name in ("charttime", "chartdate", "spec_type_desc")}
        if order["charttime"] != "":
            order["chartdate"] = order["charttime"].date()
        row |= order | {"hadm_id": 100, "test_name": TESTS[specimen, test], "test_itemid": test}
        row |= {"order_provider_id": "P", "spec_itemid": specimen}
    return row


def _tables(seed: int, most: int) -> dict[str, list[Row]]:
    draw = random.Random(seed)
    tables: dict[str, list[Row]] = {}
    for name, table in SPEC.tables.items():
        rows = [_row(table, draw) for _ in range(draw.randint(0, most))]
        key = table.unique or table.key
        rows = [row for row in rows if all(row[column] != "" for column in key)]
        if key:
            rows = list({tuple(row[column] for column in key): row for row in rows}.values())
        if name == "admission_note":
            continue
        tables[name] = rows + [row | {"subject_id": 2} for row in rows if not key and draw.random() < 0.5]
    tables["patients"] = [_row(SPEC.tables["patients"], draw)]
    return tables


def _all_rows(chart: Chart) -> dict[str, Row]:
    return {row["row_id"]: row for name in chart.table_names for row in chart.table(name).batch.to_pylist()}


def _store(folder: Path, seed: int, most: int) -> Store:
    write_folder(folder / "raw", _tables(seed, most), every=True)
    ingest("mimiciv", folder / "raw", folder / "store")
    return Store.open(folder / "store")


@MODEST
@given(st.integers(0, 2**32), st.integers(1, 6), st.sets(st.sampled_from(MOMENTS), min_size=1, max_size=4))
def test_a_chart_equals_that_of_a_store_without_the_future(seed: int, most: int, moments: set[datetime]) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = _store(Path(name), seed, most)
        report = audit_leaks(store, [(1, moment) for moment in moments], raw_folder=Path(name) / "raw")
    text_times = (
        report.of("poe_detail").cells + report.of("discharge_detail").cells + report.of("radiology_detail").cells
    )
    assert report.rows == 0, report.as_text()
    assert report.cells == text_times, report.as_text()
    assert report.differences == 0, report.as_text()
    assert report.unmatched_rows == 0


@MODEST
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_nothing_once_shown_is_taken_back_or_changed(seed: int, most: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = _store(Path(name), seed, most)
        shown: dict[str, Row] = {}
        for moment in MOMENTS:
            now = _all_rows(store.chart(1, moment))
            for row_id, row in shown.items():
                if row_id not in now:
                    assert row_id.startswith("microbiologyevents:")
                    assert row["storetime"] is None
                    continue
                for column, cell in row.items():
                    assert cell is None or column == "age" or now[row_id][column] == cell, (row_id, column, moment)
            shown = now


@MODEST
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_a_row_is_there_exactly_from_its_available_time_on(seed: int, most: int) -> None:
    second = timedelta(seconds=1)
    with tempfile.TemporaryDirectory() as name:
        store = _store(Path(name), seed, most)
        for table in store.table_names:
            for row in store.rows(1, table).to_pylist():
                first = max(row["_available"], row["_event"])
                if not datetime(2000, 1, 1) < first < datetime(2200, 1, 1):
                    continue
                at = store.chart(1, first).table(table).batch.column("row_id").to_pylist()
                before = store.chart(1, first - second).table(table).batch.column("row_id").to_pylist()
                assert row["row_id"] in at
                assert row["row_id"] not in before
                assert len(set(at)) == len(at)
