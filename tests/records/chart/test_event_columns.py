"""Events as columns: against the tables' rows read one by one, on the small source and the synthetic hospital."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from effort import drawn
from records.small_source import moment, small_store
from wardround.core import Sealed, to_microseconds
from wardround.records import Chart, Store
from wardround.records.chart.chart import StoredRecord

LATE = datetime(2250, 1, 1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return small_store(tmp_path_factory.mktemp("events"))


def busiest(store: Store) -> Chart:
    return max(
        (store.chart(int(subject), LATE) for subject in store.subjects), key=lambda one: len(one.event_columns())
    )


def test_every_visible_row_is_one_event_and_no_other(synthetic_store: Store) -> None:
    for subject in synthetic_store.subjects[:10].tolist():
        chart = synthetic_store.chart(subject, LATE)
        expected = [row for name in chart.table_names for row in chart.table(name).batch.column(0).to_pylist()]
        assert sorted(chart.event_columns().row_ids) == sorted(expected)


def test_columns_say_what_the_rows_say(synthetic_store: Store) -> None:
    chart = busiest(synthetic_store)
    columns = chart.event_columns()
    rows = {name: chart.table(name).batch.to_pylist() for name in chart.table_names}
    kinds = set()
    for place in range(len(columns)):
        name = columns.table_names[columns.table[place]]
        row, spec = rows[name][columns.row[place]], chart.table(name).spec
        concept = int(columns.concept[place])
        assert columns.row_ids[place] == row["row_id"]
        if spec.code is not None and row[spec.code] is not None:
            assert columns.codes[concept] == f"{spec.code_system}//{row[spec.code]}"
        if spec.label is not None and row[spec.label]:
            assert columns.descriptions[concept] == str(row[spec.label])
        if spec.value is not None:
            value = columns.numeric_value[place]
            assert np.isnan(value) if row[spec.value] is None else value == row[spec.value]
        if spec.unit is not None:
            assert columns.units[place] == row[spec.unit]
        kinds.add(columns.kinds[concept])
    assert {"lab", "diagnosis", "prescription", "person"} <= kinds


def test_static_rows_come_first_then_time_order(store: Store) -> None:
    columns = store.chart(1, moment("31 00:00")).event_columns()
    assert columns.is_static.tolist() == sorted(columns.is_static.tolist(), reverse=True)
    assert (np.diff(columns.time) >= 0).all()
    assert columns.is_static[0]
    assert not columns.is_static[-1]


def test_a_late_code_is_not_in_the_events_before_its_time(synthetic_store: Store) -> None:
    """An observation stay that becomes an admission says so in its type, days later."""
    for subject in drawn(synthetic_store.subjects.tolist(), 40):
        for row in synthetic_store.rows(subject, "admissions").to_pylist():
            chart = synthetic_store.chart(row["subject_id"], row["admittime"])
            [cell] = [r for r in chart.table("admissions").batch.to_pylist() if r["hadm_id"] == row["hadm_id"]]
            events = {event.row_id: event.code for event in chart.events()}
            shown = cell["admission_type"]
            expected = "admissions" if shown is None else f"mimic-admission-type//{shown}"
            assert events[cell["row_id"]] == expected


def test_a_row_of_many_measurements_says_its_cells(store: Store) -> None:
    columns = store.chart(1, moment("31 00:00")).event_columns()
    [person] = np.flatnonzero(columns.is_static)
    text = columns.texts[int(person)]
    assert text is not None
    assert "gender" in text
    assert "subject_id" not in text


def test_no_rows_make_no_events(store: Store) -> None:
    chart = store.chart(1, moment("31 00:00"))
    empty = Chart(
        subject_id=1,
        person=1,
        as_of=chart.as_of,
        policy="known_at",
        spec=chart.spec,
        layouts=chart.layouts,
        inside=Sealed(
            StoredRecord(as_of=chart.as_of, policy="known_at", layouts=chart.layouts, rows=lambda name: None)
        ),
    )
    assert len(empty.event_columns()) == 0
    assert list(empty.events()) == []


def test_events_are_their_columns_one_by_one(store: Store, tmp_path: Path) -> None:
    chart = store.chart(1, moment("31 00:00"))
    columns = chart.event_columns()
    for place, event in enumerate(chart.events()):
        assert event.row_id == columns.row_ids[place]
        assert event.time is None if columns.is_static[place] else to_microseconds(event.time) == columns.time[place]  # type: ignore[arg-type]
