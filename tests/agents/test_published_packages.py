"""Evidence packages against the published builder's (EHR-R1), whose rule is stated here again, in our own words.

All rows of a person are put in order of time; rows that follow each other and are of one table are one event; the
latest of a window are shown, but admissions and discharge summaries, which are parts of their own. Of each row certain
columns are written down. Where the package here is another on purpose, it stands in DIFFERENCES.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import pytest

from wardround.agents.evidence import curated_input
from wardround.core import parse_time
from wardround.records import Chart, Store, ingest
from wardround.synth import synthesize
from wardround.tasks.answers import CuratedWindow

STAYS = 50
MOST = 100
DAY = timedelta(hours=24)
SHOWN = {
    "omr": ("chartdate", ("result_name", "result_value")),
    "pharmacy": ("entertime", ("medication",)),
    "poe": ("ordertime", ("order_type", "order_subtype")),
    "services": ("transfertime", ("curr_service",)),
    "labevents": (
        "charttime",
        ("label", "valuenum", "valueuom", "ref_range_lower", "ref_range_upper", "flag", "comments"),
    ),
    "microbiologyevents": ("charttime", ("test_name", "ab_name", "dilution_text", "interpretation", "comments")),
    "admissions": ("admittime", ()),
    "transfers": ("intime", ("careunit", "eventtype")),
    "emar": ("charttime", ("medication", "event_txt")),
    "procedures_icd": ("chartdate", ("long_title",)),
    "hcpcsevents": ("chartdate", ()),
    "discharge": ("charttime", ()),
    "radiology": ("charttime", ("note_type", "text")),
    "edstays": ("intime", ()),
    "triage": (
        None,
        ("temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp", "pain", "acuity", "chiefcomplaint"),
    ),
    "medrecon": ("charttime", ("name",)),
    "pyxis": ("charttime", ("name",)),
    "vitalsign": ("charttime", ("temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp", "pain", "rhythm")),
    "diagnosis": (None, ("icd_title",)),
    "icustays": ("intime", ()),
    "chartevents": ("charttime", ("label", "valuenum", "valueuom")),
    "datetimeevents": ("charttime", ("label",)),
    "procedureevents": ("starttime", ("label", "value", "valueuom", "location", "locationcategory")),
    "inputevents": ("starttime", ("label", "amount", "amountuom", "rate", "rateuom")),
    "outputevents": ("charttime", ("label", "value", "valueuom")),
    "diagnoses_icd": (None, ("long_title",)),
    "drgcodes": (None, ()),
    "admission_note": (None, ("text",)),
}
"""By table, in whose order those of one moment stand: the column that rows are sorted by (None: the stay's), and those
that the published package writes. Of radiology it also writes the name of the examination."""
DIFFERENCES = {
    "prescriptions, ingredientevents": "in the line of their pharmacy order and infusion; there: events of their own",
    "admission_note": "what was known at admission; there: not made",
    "omr, procedures_icd, hcpcsevents": "a day without a time is its end, when it is known; there: its beginning",
    "diagnoses_icd, drgcodes": "lie at discharge and are known after the coding lag; there: at the end of their stay",
    "triage": "lies at arrival; there: a second later",
    "pharmacy.proc_type, status; chartevents.warning; prescriptions.prod_strength": "not shown",
    "edstays.gender, race": "stand with the person",
    "a run that begins before the window": "its rows of the window are an event; there: it is left out",
    "rows not known yet": "not shown; there: shown, as time is compared with when a thing happened",
    "equal rows of one moment": "written once",
    "a unit without a number": "not written",
    "ties between tables": "in the order of the source's tables; there: as a folder happens to be listed",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("packages")
    synthesize(folder / "raw", patients=60, seed=11, compress=False, decoys=False)
    ingest("mimiciv", folder / "raw", folder / "store")
    return Store.open(folder / "store")


def _stays(store: Store) -> list[tuple[int, datetime, datetime]]:
    """Stays of people in their order: whose, when it begins, and a moment of it. Every third ends in its first day."""
    found = []
    for subject in store.subjects:
        table = store.chart(subject, datetime(2300, 1, 1)).table("admissions").batch.to_pydict()
        for begun, over in zip(table["admittime"], table["dischtime"], strict=True):
            start, end = (parse_time(str(one)) for one in (begun, over))
            share = (0.3, 0.6, 0.95)[len(found) % 3]
            found.append((subject, start, start + (end - start) * share))
    return found[:STAYS]


def _sorted_rows(chart: Chart) -> list[tuple[Any, str, dict[str, Any]]]:
    """Every row that the builder sorts, with its time, of what the chart shows."""
    rows = []
    for order, name in enumerate(one for one in chart.table_names if one in SHOWN):
        table = chart.table(name)
        column = SHOWN[name][0]
        for place, row in enumerate(table.batch.to_pylist()):
            written = parse_time(str(row[column])) if column and row[column] else table.event_time[place].item()
            rows.append(((written, order), name, row))
    return sorted(rows, key=lambda one: one[0])


def _published(chart: Chart, start: datetime) -> list[tuple[str, list[dict[str, Any]]]]:
    """The events of the window by the published rule, as table and rows."""
    inside = [one for one in _sorted_rows(chart) if one[0][0] >= start]
    runs = [(name, [row for _, _, row in run]) for name, run in groupby(inside, key=lambda one: one[1])]
    return [run for run in runs if run[0] not in ("admissions", "discharge")]


def _words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())


def _is_said(value: Any, text: str) -> bool:
    """As words of their own; a number may stand in the precision it was charted in."""
    spellings = {_words(value)} | ({str(value)} if isinstance(value, float) else set())
    return any(re.search(rf"(?<![\w.]){re.escape(one)}(?![\w.]*\w)", text) for one in spellings)


def _is_bare_unit(row: dict[str, Any], column: str) -> bool:
    return column.endswith("uom") and row[column.removesuffix("uom")] is None


@pytest.mark.parametrize(("most", "cut"), [(MOST, False), (12, True)])
def test_packages_hold_the_published_builders_events(store: Store, most: int, cut: bool) -> None:
    counts, missing, cells, cuts = [], Counter[str](), 0, 0
    for subject, begun, asked in _stays(store):
        chart = store.chart(subject, asked)
        window = CuratedWindow(start=max(begun - timedelta(hours=6), asked - DAY), most_events=most)
        expected = _published(chart, window.start)
        package = curated_input(chart, window)
        counts.append((len(package.events) + package.events_left_out, len(expected)))
        assert len(package.events) == min(len(expected), most)
        cuts += package.events_left_out > 0
        for text, (name, rows) in zip(package.events, expected[-most:], strict=True):
            for row in rows:
                for column in SHOWN[name][1]:
                    value = row.get(column)
                    if value is None or not _words(value).strip("_ ") or value == "None" or _is_bare_unit(row, column):
                        continue
                    cells += 1
                    if not _is_said(value, " ".join(text.split())):
                        missing[f"{name}.{column}"] += 1
    assert [one for one, _ in counts] == [other for _, other in counts]
    assert len(counts) == STAYS
    assert not missing, missing
    assert (sum(one for one, _ in counts) > 800, cells > (3000 if cut else 10000), cuts > 10) == (True, True, cut)


def test_no_line_is_without_a_name(store: Store) -> None:
    for subject, begun, asked in _stays(store)[:10]:
        chart = store.chart(subject, asked)
        package = curated_input(chart, CuratedWindow(start=begun, most_events=MOST))
        tables = set(chart.table_names)
        for line in (line for event in package.events for line in event.splitlines()):
            said = line.partition("] ")[2]
            _, _, name = said.partition(" - ")
            assert name or said.endswith("without a name)"), line
            assert name not in tables, line
