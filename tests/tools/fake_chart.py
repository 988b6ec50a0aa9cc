"""A chart made of literal rows, with the surface of ``records.Chart`` and nothing behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.records import EventColumns
from wardround.records.chart.events import event_columns
from wardround.records.rules.language import ALWAYS
from wardround.records.specs.spec import TableSpec

TYPES = {
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "time": pa.timestamp("us"),
    "date": pa.date32(),
}


class FakeTable:
    """One table: ``columns`` maps name to (type, values); ``time`` names the event-time column."""

    def __init__(
        self,
        name: str,
        columns: Mapping[str, tuple[str, Sequence[Any]]],
        *,
        time: str | None = None,
        keys: Sequence[object] | None = None,
        **spec: Any,
    ) -> None:
        self.name = name
        size = len(next(iter(columns.values()))[1])
        row_ids = [f"{name}:{key}" for key in (keys if keys is not None else range(1, size + 1))]
        arrays = [pa.array(row_ids, pa.string())]
        arrays += [pa.array(list(values), TYPES[kind]) for kind, values in columns.values()]
        self.batch = pa.record_batch(arrays, names=["row_id", *columns])
        times = columns[time][1] if time else [None] * size
        self.event_time = np.array(
            [np.datetime64("NaT") if moment is None else moment for moment in times], "datetime64[us]"
        )
        self.spec = TableSpec(
            name=name,
            module="fake",
            path=name,
            columns={column: kind for column, (kind, _) in columns.items()},  # type: ignore[misc]
            event_time=ALWAYS,
            available_at=ALWAYS,
            **spec,
        )

    @property
    def num_rows(self) -> int:
        return int(self.batch.num_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.batch.schema.names)


class FakeChart:
    """The tables of one subject, already censored."""

    policy = "known_at"
    age = 60

    def __init__(self, tables: Sequence[FakeTable], *, subject_id: int = 7, as_of: datetime | None = None) -> None:
        self.subject_id = self.person = subject_id
        self.as_of = as_of or datetime(2150, 6, 1, 12)
        self._tables = {table.name: table for table in tables}

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def table(self, name: str) -> FakeTable:
        return self._tables[name]

    def event_columns(self) -> EventColumns:
        return event_columns(list(self._tables.values()))  # type: ignore[arg-type]


def small_chart(labs: int = 10) -> FakeChart:
    """Labs, diagnoses, notes and a static table of one subject."""
    hours = [datetime(2150, 5, 30, 8 + index % 12, index % 60) for index in range(labs)]
    hours.sort()
    analytes = ["Creatinine", "Potassium", "Glucose"]
    labevents = FakeTable(
        "labevents",
        {
            "subject_id": ("int", [7] * labs),
            "itemid": ("int", [50912 + index % 3 for index in range(labs)]),
            "charttime": ("time", hours),
            "value": ("text", [str(index % 5) + ".0" for index in range(labs)]),
            "valuenum": ("float", [float(index % 5) for index in range(labs)]),
            "flag": ("text", [None if index % 4 else "abnormal" for index in range(labs)]),
            "label": ("text", [analytes[index % 3] for index in range(labs)]),
        },
        time="charttime",
        keys=range(1000, 1000 + labs),
        key=("labevent_id",),
        description="Laboratory results.",
        default_columns=("charttime", "label", "value"),
        label="label",
    )
    diagnoses = FakeTable(
        "diagnoses_icd",
        {
            "subject_id": ("int", [7, 7]),
            "hadm_id": ("int", [21, 21]),
            "icd_code": ("text", ["4019", "0389"]),
            "icd_version": ("int", [9, 9]),
            "long_title": ("text", ["Unspecified essential hypertension", "Unspecified septicemia"]),
        },
        keys=["21-1", "21-2"],
        description="Coded diagnoses.",
    )
    note = "CHIEF COMPLAINT: cough\n" + "The lungs are clear. " * 900 + "Known COPD (severe). " + "No effusion. " * 300
    radiology = FakeTable(
        "radiology",
        {
            "note_id": ("text", ["R-1", "R-2"]),
            "charttime": ("time", [datetime(2150, 5, 29, 9), datetime(2150, 5, 30, 9, 30)]),
            "text": ("text", [note, "portable (AP) chest: normal | no change"]),
        },
        time="charttime",
        keys=["R-1", "R-2"],
    )
    empty = FakeTable("poe", {"ordertime": ("time", []), "order_type": ("text", [])}, time="ordertime")
    return FakeChart([labevents, diagnoses, radiology, empty])
