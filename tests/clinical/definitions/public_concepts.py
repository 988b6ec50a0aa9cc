"""The public concepts of MIMIC-IV (SQL, never shipped) on charts cut at moments: an outside oracle for the definitions.

Every cut becomes a subject of its own, so that one run of the SQL answers for all cuts. What the SQL cannot read is put
right on the way in: what still runs ends a minute after the cut, a rate not yet worked out is the rate that was set, a
laboratory result of the day before an admission has that admission's number, a drug without a route went into a vein, a
device is charted with a flow of oxygen (for the SQL drops those without).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wardround.records import Chart

QUERIES = Path(__file__).with_suffix(".sql")
_HOSPITAL = {
    "labevents": "subject_id hadm_id specimen_id itemid charttime storetime value valuenum",
    "prescriptions": "subject_id hadm_id starttime stoptime drug_type drug route",
    "microbiologyevents": "subject_id hadm_id micro_specimen_id chartdate charttime spec_type_desc org_itemid org_name",
}
_INTENSIVE = {
    "icustays": "subject_id hadm_id stay_id intime outtime",
    "chartevents": "subject_id hadm_id stay_id charttime storetime itemid value valuenum valueuom",
    "inputevents": "subject_id hadm_id stay_id starttime endtime itemid amount rate rateuom linkorderid patientweight "
    "originalrate",
    "outputevents": "subject_id hadm_id stay_id charttime itemid value",
    "procedureevents": "subject_id hadm_id stay_id starttime endtime itemid value",
}
_TABLES = _HOSPITAL | _INTENSIVE
_NUMBERS = ("hadm_id", "stay_id", "specimen_id", "micro_specimen_id", "linkorderid")
_APART = 100_000_000
"""Between the numbers of two cuts: more than any of MIMIC's."""
_KEPT = timedelta(days=40)
"""Of laboratory results and charting: more than any window."""
_DEVICE, _FLOW = 226732, 223834
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A chart and the number it has as a subject of the SQL. ``stay``: its newest stay, as the SQL numbers it."""

    number: int
    chart: Chart
    stay: int


def four_hourly(stays: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, datetime]]:
    """Yield every fourth full hour of every stay: the SQL's hours are those of the clock."""
    for stay in stays:
        moment = stay["intime"].replace(minute=0, second=0) + 4 * _HOUR
        while moment <= stay["outtime"]:
            yield stay["subject_id"], moment
            moment += 4 * _HOUR


def answers(folder: Path, charts: Sequence[Chart]) -> Iterator[tuple[Cut, Mapping[str, tuple[Any, ...]]]]:
    """Yield each chart with what the SQL says of it, by query; what it says nothing of is left out."""
    import duckdb  # type: ignore[import-not-found]  # of whoever runs this: no package of ours

    cuts = [Cut(number=n, chart=chart, stay=_newest_stay(chart, n)) for n, chart in enumerate(charts, start=1)]
    asked = pa.table(
        {
            "n": [cut.number for cut in cuts],
            "now": pa.array([cut.chart.as_of for cut in cuts], pa.timestamp("us")),
            "stay": [cut.stay for cut in cuts],
        }
    )
    database = duckdb.connect()
    database.execute(
        "SET threads = 2; CREATE SCHEMA mimiciv_hosp; CREATE SCHEMA mimiciv_icu; CREATE SCHEMA mimiciv_derived"
    )
    used = _items(folder)
    for name, columns in _TABLES.items():
        database.register("raw", pa.concat_tables([_cut_out(cut, name, columns, used) for cut in cuts]))
        schema = "mimiciv_hosp" if name in _HOSPITAL else "mimiciv_icu"
        database.execute(f"CREATE TABLE {schema}.{name} AS SELECT * FROM raw")
    database.register("cuts", asked)
    found: dict[str, dict[int, tuple[Any, ...]]] = {}
    for concept, query in _steps():
        if concept.startswith("run "):
            database.execute((folder / f"{concept.removeprefix('run ')}.sql").read_text(encoding="utf-8"))
        elif concept == "do":
            database.execute(query)
        else:
            found[concept] = {number: tuple(rest) for number, *rest in database.execute(query).fetchall()}
    for cut in cuts:
        yield cut, {name: of[cut.number] for name, of in found.items() if cut.number in of}


def _steps() -> Iterator[tuple[str, str]]:
    """Yield the steps of the file of queries: ``-- run CONCEPT``, ``-- do`` and ``-- NAME``, each before its SQL."""
    for step in re.split(r"^-- ", QUERIES.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, query = step.partition("\n")
        if head.startswith("run "):
            yield from ((f"run {concept}", "") for concept in head.removeprefix("run ").split())
        else:
            yield head.split(":")[0].strip(), query


def _newest_stay(chart: Chart, number: int) -> int:
    rows = chart.table("icustays").batch.select(["stay_id", "intime"]).to_pylist()
    return number * _APART + max(rows, key=lambda row: row["intime"])["stay_id"] if rows else -1


def _items(folder: Path) -> pa.Array:
    """The item numbers that the SQL names anywhere."""
    concepts = [concept.removeprefix("run ") for concept, _ in _steps() if concept.startswith("run ")]
    texts = ((folder / f"{concept}.sql").read_text(encoding="utf-8") for concept in concepts)
    return pa.array(sorted({int(item) for text in texts for item in re.findall(r"\b[25]\d{4,5}\b", text)}), pa.int64())


def _cut_out(cut: Cut, name: str, columns: str, used: pa.Array) -> pa.Table:
    table = pa.table(cut.chart.table(name).batch.select(columns.split()))
    if "itemid" in table.column_names:
        table = table.filter(pc.is_in(table["itemid"].cast(pa.int64()), value_set=used))
    if name in ("labevents", "chartevents"):
        table = table.filter(pc.greater(table["charttime"], _moment(cut.chart.as_of - _KEPT)))
    for column in table.column_names:
        if pa.types.is_dictionary(table[column].type):
            table = _set(table, column, table[column].cast(pa.string()))
        if column in ("outtime", "endtime"):
            table = _set(table, column, pc.fill_null(table[column], _moment(cut.chart.as_of + timedelta(minutes=1))))
    if name == "inputevents":
        table = _set(table, "rate", pc.coalesce(table["rate"], table["originalrate"]))
        table = _set(table, "amount", pc.fill_null(table["amount"], 1.0))
    if name == "chartevents":
        flows = table.filter(pc.equal(table["itemid"], _DEVICE))
        flows = _set(flows, "itemid", pa.array([_FLOW] * len(flows), flows["itemid"].type))
        flows = _set(flows, "value", pa.array(["0"] * len(flows), flows["value"].type))
        table = pa.concat_tables([table, _set(flows, "valuenum", pa.array([0.0] * len(flows), pa.float64()))])
    if name == "prescriptions":
        table = _set(table, "route", pc.fill_null(table["route"], "IV"))
    if name == "labevents":
        admissions = cut.chart.table("admissions").batch.select(["hadm_id", "admittime"]).to_pylist()
        newest = max(admissions, key=lambda row: row["admittime"], default=None)
        if newest is not None:
            recent = pc.greater(table["charttime"], _moment(newest["admittime"] - 24 * _HOUR))
            without = pc.and_(recent, pc.is_null(table["hadm_id"]))
            table = _set(table, "hadm_id", pc.if_else(without, newest["hadm_id"], table["hadm_id"]))
    for column in _NUMBERS:
        if column in table.column_names:
            table = _set(table, column, pc.add(table[column].cast(pa.int64()), cut.number * _APART))
    return _set(table, "subject_id", pa.array([cut.number] * len(table), pa.int64()))


def _moment(moment: datetime) -> pa.Scalar:
    return pa.scalar(moment, pa.timestamp("us"))


def _set(table: pa.Table, column: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)
