"""Parquet of charts and stores: nothing later in a chart's, every row with its clocks in a store's."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.exports.parquet import write_chart_tables, write_store_tables
from wardround.records import Chart, Store


@pytest.fixture(scope="module")
def chart(synthetic_store: Store) -> Chart:
    """The chart of a subject in the midst of its laboratory results."""
    subject, rows = next((one, rows) for one, rows in synthetic_store.scan("labevents") if rows.num_rows > 20)
    times = sorted(time for time in rows.column("_available").to_pylist() if time.year < 9999)
    return synthetic_store.chart(subject, times[len(times) // 2])


def test_a_charts_files_are_its_tables(chart: Chart, tmp_path: Path) -> None:
    counts = write_chart_tables(chart, tmp_path / "chart")
    shown = {name: chart.table(name).num_rows for name in chart.table_names if chart.table(name).num_rows}
    assert counts == shown
    for name in counts:
        found = pq.read_table(tmp_path / "chart" / f"{name}.parquet")
        assert found.drop_columns(["event_time"]).to_pylist() == chart.table(name).batch.to_pylist()
        assert not found.column_names.count("known_at")
        assert all(time is None or time <= chart.as_of for time in found.column("event_time").to_pylist())


def test_a_stores_files_hold_every_row_and_when_it_was_known(synthetic_store: Store, tmp_path: Path) -> None:
    counts = write_store_tables(synthetic_store, tmp_path / "all", ["labevents", "admissions"])
    found = pq.read_table(tmp_path / "all" / "labevents.parquet")
    assert {file.name for file in (tmp_path / "all").iterdir()} == {"labevents.parquet", "admissions.parquet"}
    rows = sum(batch.num_rows for _, batch in synthetic_store.scan("labevents"))
    assert counts["labevents"] == found.num_rows == rows
    subject, own = next(iter(synthetic_store.scan("labevents")))
    known = dict(zip(own.column("row_id").to_pylist(), own.column("_available").to_pylist(), strict=True))
    told = {row["row_id"]: row["known_at"] for row in found.to_pylist() if row["subject_id"] == subject}
    assert told == known
    late = pq.read_schema(tmp_path / "all" / "admissions.parquet").names
    assert [name for name in late if name.startswith("known_at:") and "dischtime" in name], (
        "cells with clocks of their own"
    )


def test_rows_known_by_a_moment_are_the_charts(chart: Chart, synthetic_store: Store, tmp_path: Path) -> None:
    """Who filters a store's file by its clocks gets what the chart shows."""
    write_store_tables(synthetic_store, tmp_path / "all", ["labevents"])
    rows = pq.read_table(tmp_path / "all" / "labevents.parquet").to_pylist()
    mine = [row for row in rows if row["subject_id"] == chart.subject_id]
    shown = {row["row_id"] for row in mine if max(row["known_at"], row["event_time"]) <= chart.as_of}
    assert shown == set(chart.table("labevents").batch.column("row_id").to_pylist())
    assert 0 < len(shown) < len(mine)


def test_what_cannot_be_written_is_said(chart: Chart, synthetic_store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'labevents'"):
        write_chart_tables(chart, tmp_path / "none", ["labevent"])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UserError, match="the folder is not empty"):
        write_store_tables(synthetic_store, tmp_path / "full")
    with pytest.raises(UserError, match="the folder is not empty"):
        write_chart_tables(chart, tmp_path / "full")
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["file"]


def test_the_command_asks_for_a_moment(
    synthetic_store_path: Path, chart: Chart, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["export", "tables", "--store", str(synthetic_store_path), "--out", str(tmp_path / "chart")]
    assert main([*asked, "--subject", str(chart.subject_id)]) == 2
    assert "--subject needs --as-of" in capsys.readouterr().err
    moment = chart.as_of.isoformat(sep=" ")
    assert main([*asked, "--subject", str(chart.subject_id), "--as-of", moment, "--table", "labevents"]) == 0
    assert pq.read_metadata(tmp_path / "chart" / "labevents.parquet").num_rows == chart.table("labevents").num_rows


def test_a_data_frame_is_the_chart_too(chart: Chart) -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    labs = chart.table("labevents").to_pandas()
    assert list(labs["row_id"]) == chart.table("labevents").batch.column("row_id").to_pylist()
    assert str(labs["event_time"].dtype).startswith("datetime64")
    events = chart.to_pandas()
    told = list(chart.events())
    assert list(events["row_id"]) == [event.row_id for event in told]
    assert events["numeric_value"].dropna().tolist() == [e.numeric_value for e in told if e.numeric_value is not None]
    assert chart.to_pandas("labevents").equals(labs)


def test_a_chart_with_nothing_yet_is_an_empty_frame(synthetic_store: Store) -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    chart = synthetic_store.chart(int(synthetic_store.subjects[0]), datetime(1900, 1, 1))
    assert set(chart.to_pandas()["time"].isna()) <= {True}
