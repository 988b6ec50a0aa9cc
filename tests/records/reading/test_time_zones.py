"""Zoned times in files and databases, on the clock of the hospital's place: nothing is shown before its time there."""

from __future__ import annotations

import csv
import gzip
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import drawn
from wardround.audits import audit_leaks, audit_swap
from wardround.core import UserError, from_microseconds, to_microseconds
from wardround.records import IngestReport, IngestSettings, Store, ingest, load_source_spec
from wardround.records.drafts.draft import draft_spec
from wardround.records.specs.wall_clock import WallClock
from wardround.synth import synthesize, write_dialect

BERLIN = "Europe/Berlin"
SPEC = """
[source]
name = "haus"
{source}
[tables.stays]
path = "stays"
key = ["stay"]
subject = "person"
event_time = "came"
available_at = "came"
[tables.stays.columns]
person = "int"
stay = "int"
came = "time"
born = "date"
[tables.results]
path = "results"
key = ["result"]
subject = "person"
event_time = "drawn"
available_at = "known"
[tables.results.columns]
person = "int"
result = "int"
drawn = "time"
known = "time"
remark = "text"
[tables.results.late]
"""
STAYS = "person,stay,came,born\n1,1,2150-06-01 06:00:00,2090-01-31\n"


def instants(*texts: str, unit: str = "us", zone: str = BERLIN) -> Any:
    return pa.array([datetime.fromisoformat(text) for text in texts], pa.timestamp(unit, zone))


def made(
    folder: Path, results: Mapping[str, Any] | str, *, stays: str = STAYS, zone: str | None = None, source: str = ""
) -> tuple[Store, IngestReport]:
    """A store of CSV stays and of results in Parquet, or as the text of a CSV file."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (raw / "stays.csv").write_text(stays, encoding="utf-8")
    if isinstance(results, str):
        (raw / "results.csv").write_text(results, encoding="utf-8")
    else:
        count = len(next(iter(results.values())))
        pq.write_table(
            pa.table({"person": [1] * count, "result": list(range(count)), **results}), raw / "results.parquet"
        )
    (folder / "haus.toml").write_text(SPEC.format(source=source), encoding="utf-8")
    spec = load_source_spec(folder / "haus.toml")
    report = ingest(spec, raw, folder / "store", settings=IngestSettings(time_zone=zone))
    return Store.open(folder / "store"), report


def cells(store: Store, table: str, column: str) -> list[Any]:
    return [row[column] for row in store.rows(1, table).to_pylist()]


def shown(store: Store, at: str) -> int:
    return int(store.chart(1, datetime.fromisoformat(at)).table("results").batch.num_rows)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize(
    ("zone", "source"), [(BERLIN, ""), (None, f'[source.files]\ntime_zone = "{BERLIN}"\nempty = ["-"]')]
)
def test_a_result_in_zoned_parquet_is_not_shown_before_its_release(
    tmp_path: Path, unit: str, zone: str | None, source: str
) -> None:
    """Two zones in one folder: drawn is written in Berlin's, known in UTC, the stays on the wall's clock."""
    results = {
        "drawn": instants("2150-06-01T08:00:00+02:00", "2150-12-01T08:00:00+01:00", unit=unit),
        "known": instants("2150-06-01T07:40:00+00:00", "2150-12-01T08:40:00+00:00", unit=unit, zone="UTC"),
        "remark": instants("2150-06-01T07:40:00+00:00", "2150-12-01T08:40:00+00:00", unit=unit),
    }
    store, report = made(tmp_path, results, zone=zone, source=source)
    assert [shown(store, f"2150-06-01T{at}") for at in ("08:40:00", "09:39:59", "09:40:00")] == [0, 0, 1]
    assert [shown(store, f"2150-12-01T{at}") for at in ("09:39:59", "09:40:00")] == [1, 2]
    assert cells(store, "results", "drawn") == [datetime(2150, 6, 1, 8), datetime(2150, 12, 1, 8)]
    assert [text[:19] for text in cells(store, "results", "remark")] == ["2150-06-01 09:40:00", "2150-12-01 09:40:00"]
    assert cells(store, "stays", "came") == [datetime(2150, 6, 1, 6)]
    assert report.casts["results"][f"drawn: timestamp[{unit}, tz={BERLIN}] as time"] == 2
    assert store.manifest["settings"]["time_zone"] == BERLIN
    report = audit_leaks(store, [(1, datetime(2150, 6, 1, 9, 39, 59))], raw_folder=tmp_path / "raw")
    assert (report.clean, report.deletion_samples) == (True, 1)


RESULTS = "person,result,drawn,known,remark\n"
ONE_COLUMN = f"{RESULTS}1,0,2150-06-01 08:00:00,2150-06-01T07:40:00+00:00,2150-06-01T07:40:00Z\n"


@pytest.mark.parametrize(
    ("results", "place"),
    [
        (
            {"drawn": instants("2150-06-01T08:00:00+02:00"), "known": pa.array([datetime(2150, 6, 1, 9)])},
            "drawn: times",
        ),
        (ONE_COLUMN, "known: '2150-06-01T07:40:00\\+00:00' has an offset"),
        (ONE_COLUMN.replace("+00:00", "Z"), "known: '2150-06-01T07:40:00Z' has an offset"),
        (ONE_COLUMN.replace("+00:00", "+0000"), "known: '2150-06-01T07:40:00\\+0000' has an offset"),
        (ONE_COLUMN + "1,1,never,x,\n", "known: '2150-06-01T07:40:00\\+00:00' has an offset"),
    ],
)
def test_zoned_times_of_a_hospital_without_a_zone_are_refused_in_one_line(
    tmp_path: Path, results: Any, place: str
) -> None:
    with pytest.raises(UserError, match=f"results.(csv|parquet): {place}.*; say the hospital's zone: --time-zone") as e:
        made(tmp_path, results)
    assert "\n" not in str(e.value)


def test_a_zoned_day_is_the_day_at_the_hospital_and_needs_its_zone(tmp_path: Path) -> None:
    stays = STAYS.replace("2090-01-31", "2090-01-30T23:30:00Z")
    with pytest.raises(UserError, match=r"stays.csv: born: '2090-01-30T23:30:00Z' has an offset"):
        made(tmp_path / "unsaid", ONE_COLUMN, stays=stays)
    store, _ = made(tmp_path, ONE_COLUMN, stays=stays, zone=BERLIN)
    assert cells(store, "stays", "born") == [datetime(2090, 1, 31).date()]


@pytest.mark.parametrize("bad", ["", "1,1,2150-06-01 08:00:00,2150-06-31T07:40:00Z,\n"])
@pytest.mark.parametrize("format_", ["", '[source.files]\ntimes = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"]\n'])
def test_offsets_in_one_column_of_a_csv_file_are_read_and_the_others_left(
    tmp_path: Path, format_: str, bad: str
) -> None:
    """Whole blocks and, with one broken row, row by row; the text that looks like a time stays a text."""
    stays = STAYS.replace("2090-01-31", "2090-01-31 00:00:00") if format_ else STAYS
    store, report = made(tmp_path, ONE_COLUMN + bad, stays=stays, zone=BERLIN, source=format_)
    assert cells(store, "results", "known") == [datetime(2150, 6, 1, 9, 40)]
    assert cells(store, "results", "drawn") == [datetime(2150, 6, 1, 8)]
    assert cells(store, "results", "remark") == ["2150-06-01T07:40:00Z"]
    assert report.quarantined == ({"results": 1} if bad else {})


NASTY = [
    # the instant, the place, what its clock showed (the second pass of an hour at the hour's end)
    ("2150-10-25T00:59:59+00:00", BERLIN, "2150-10-25 02:59:59"),
    ("2150-10-25T01:00:00+00:00", BERLIN, "2150-10-25 03:00:00"),
    ("2150-10-25T01:59:59+00:00", BERLIN, "2150-10-25 03:00:00"),
    ("2150-10-25T02:00:01+00:00", BERLIN, "2150-10-25 03:00:01"),
    ("2150-03-29T00:59:59+00:00", BERLIN, "2150-03-29 01:59:59"),
    ("2150-03-29T01:00:00+00:00", BERLIN, "2150-03-29 03:00:00"),
    ("2152-02-29T23:30:00+00:00", BERLIN, "2152-03-01 00:30:00"),
    ("1969-12-31T23:30:00+00:00", BERLIN, "1970-01-01 00:30:00"),
    ("1901-07-01T12:00:00+00:00", BERLIN, "1901-07-01 13:00:00"),
    ("1880-07-01T12:00:00+00:00", BERLIN, "1880-07-01 12:53:28"),  # before there were zones: the town's own noon
    ("2023-10-28T19:30:00+00:00", "Asia/Beirut", "2023-10-28 22:30:00"),  # put back at midnight: the day is longer
    ("2023-10-28T20:59:59+00:00", "Asia/Beirut", "2023-10-28 23:59:59"),
    ("2023-10-28T21:30:00+00:00", "Asia/Beirut", "2023-10-29 00:00:00"),
    ("2023-10-28T22:00:01+00:00", "Asia/Beirut", "2023-10-29 00:00:01"),
    ("2022-09-11T04:00:00+00:00", "America/Santiago", "2022-09-11 01:00:00"),  # put forward at midnight
    ("2011-12-30T09:59:59+00:00", "Pacific/Apia", "2011-12-29 23:59:59"),  # a day left out
    ("2011-12-30T10:00:00+00:00", "Pacific/Apia", "2011-12-31 00:00:00"),
    ("2150-04-04T15:15:00+00:00", "Australia/Lord_Howe", "2150-04-05 02:00:00"),  # half an hour
]


@pytest.mark.parametrize(("instant", "place", "read"), NASTY)
def test_what_the_clock_showed(instant: str, place: str, read: str) -> None:
    moment = datetime.fromisoformat(instant)
    clock = WallClock.named(place)
    assert str(clock.moment(moment)) == read
    assert clock.text(instant) == read.replace(" ", "T")
    assert clock.text(instant.replace("T", " ").replace("+00:00", ".25Z")).startswith(read)


@pytest.mark.parametrize(
    ("local", "place", "latest"),
    [
        ("2150-10-25 01:59:59", BERLIN, "2150-10-25 01:59:59"),
        ("2150-10-25 02:00:00", BERLIN, "2150-10-25 03:00:00"),
        ("2150-10-25 02:59:59", BERLIN, "2150-10-25 03:00:00"),
        ("2150-10-25 03:00:00", BERLIN, "2150-10-25 03:00:00"),
        ("2150-03-29 02:30:00", BERLIN, "2150-03-29 03:30:00"),
        ("2023-10-28 23:10:00", "Asia/Beirut", "2023-10-29 00:00:00"),
        ("2022-09-11 00:00:00", "America/Santiago", "2022-09-11 01:00:00"),
    ],
)
def test_a_time_without_an_offset_is_the_later_that_it_may_mean(local: str, place: str, latest: str) -> None:
    assert str(WallClock.named(place).moment(datetime.fromisoformat(local))) == latest


PLACES = st.sampled_from([BERLIN, "America/New_York", "Asia/Beirut", "America/Havana", "Africa/Casablanca"])


@given(PLACES, st.lists(st.datetimes(datetime(1850, 1, 1), datetime(2210, 1, 1)), max_size=20), st.data())
def test_columns_and_single_times_agree_with_the_list_of_zones(
    place: str, times: list[datetime], data: st.DataObject
) -> None:
    """Against Python's own reading of the list; among the times the hours around changes of the clock."""
    zone, clock = ZoneInfo(place), WallClock.named(place)
    for year in data.draw(st.lists(st.integers(1920, 2200), max_size=3)):
        times += [at + timedelta(minutes=away) for at in _changes(zone, year) for away in (-61, -1, 0, 30, 59, 60, 61)]
    whole = np.array([to_microseconds(time) for time in times], np.int64)
    for time, seen, latest in zip(times, clock.shown(whole), clock.latest(whole), strict=True):
        local = time.replace(tzinfo=UTC).astimezone(zone)
        assert from_microseconds(int(seen)) == clock.moment(time.replace(tzinfo=UTC))
        assert from_microseconds(int(seen)) == local.replace(tzinfo=None) or local.fold == 1
        assert from_microseconds(int(seen)) >= local.replace(tzinfo=None)
        first, second = time.replace(tzinfo=zone).utcoffset(), time.replace(tzinfo=zone, fold=1).utcoffset()
        assert from_microseconds(int(latest)) == clock.moment(time)
        assert (int(latest) > to_microseconds(time)) == (first != second)
    order = np.argsort(whole)
    assert (np.diff(clock.shown(whole)[order]) >= 0).all()


def _changes(zone: ZoneInfo, year: int) -> Iterator[datetime]:
    hours = [datetime(year, 1, 1) + timedelta(hours=hour) for hour in range(24 * 366)]
    offsets = [hour.replace(tzinfo=UTC).astimezone(zone).utcoffset() for hour in hours[::24]]
    for day, (before, after) in enumerate(pairwise(offsets)):
        if before != after:
            within = hours[day * 24 : day * 24 + 25]
            yield next(hour for hour in within if hour.replace(tzinfo=UTC).astimezone(zone).utcoffset() == after)


def test_times_in_the_hour_that_happens_twice_are_counted(tmp_path: Path) -> None:
    results = {
        "drawn": pa.array([datetime(2150, 10, 25, 2, 30), datetime(2150, 10, 25, 4)], pa.timestamp("us")),
        "known": instants("2150-10-25T01:30:00+00:00", "2150-10-25T04:00:00+00:00"),
    }
    store, report = made(tmp_path, results, zone=BERLIN)
    twice = f"in an hour that the clock of {BERLIN} shows twice"
    assert report.casts["results"][f"drawn: {twice}"] == report.casts["results"][f"known: {twice}"] == 1
    assert cells(store, "results", "drawn")[0] == cells(store, "results", "known")[0] == datetime(2150, 10, 25, 3)
    assert [shown(store, f"2150-10-25T{at}") for at in ("02:59:59", "03:00:00")] == [0, 1]


@pytest.mark.parametrize(
    ("place", "midnight", "end"),
    [(BERLIN, "2150-10-24T22:00:00+00:00", 3), ("America/New_York", "2150-11-01T04:00:00+00:00", 2)],
)
@pytest.mark.parametrize("naive", [False, True])
def test_a_table_whose_key_holds_the_time_loses_no_reading_of_the_night(
    tmp_path: Path, place: str, midnight: str, end: int, naive: bool
) -> None:
    """A pulse every quarter of an hour, all given twice: each is there once, and audits see nothing."""
    raw = tmp_path / "raw"
    raw.mkdir()
    start = datetime.fromisoformat(midnight)
    times = [(start + timedelta(minutes=15 * step)).astimezone(ZoneInfo(place)) for step in range(24)]
    written = [(each.replace(tzinfo=None, fold=0) if naive else each).isoformat() for each in times]
    rows = [f"1,{at},{60 + step}" for step, at in enumerate(written)]
    (raw / "pulses.csv").write_text("\n".join(["person,seen,pulse", *rows, *rows, ""]), encoding="utf-8")
    (tmp_path / "haus.toml").write_text(NIGHT.replace("PLACE", place), encoding="utf-8")
    report = ingest(load_source_spec(tmp_path / "haus.toml"), raw, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    found = store.rows(1, "pulses").to_pylist()
    assert sorted(row["pulse"] for row in found) == list(range(60, 84))
    assert len({row["row_id"] for row in found}) == 24
    assert (report.quarantined, report.repeated_rows) == ({}, {"pulses": 24})
    day = found[0]["seen"].date()
    last = datetime(day.year, day.month, day.day, end)
    assert [sum(row["seen"] == at for row in found) for at in (last, last + timedelta(minutes=15))] == [
        9 if naive else 5,
        1,
    ]
    moments = [last + timedelta(minutes=minutes) for minutes in (-61, -30, -1, 0, 20)]
    for moment in moments:
        audit = audit_leaks(store, [(1, moment)], raw_folder=raw)
        assert audit.clean, audit.as_text()


NIGHT = """
[source]
name = "haus"
files = { time_zone = "PLACE" }
[tables.pulses]
path = "pulses"
key = ["person", "seen"]
subject = "person"
event_time = "seen"
available_at = "seen"
columns = { person = "int", seen = "time", pulse = "int" }
"""


def test_one_hospital_has_one_zone(tmp_path: Path) -> None:
    berlin = f'[source.files]\ntime_zone = "{BERLIN}"\n'
    with pytest.raises(UserError, match="time_zone is Europe/Berlin in the spec and Europe/Paris is asked for"):
        made(tmp_path / "two", ONE_COLUMN, zone="Europe/Paris", source=berlin)
    with pytest.raises(UserError, match=r"tables.results.files: a hospital has one clock: say time_zone once"):
        made(tmp_path / "table", ONE_COLUMN, source=f'[tables.results.files]\ntime_zone = "{BERLIN}"\n')
    for name in ("a", "b"):
        text = SPEC.format(source=berlin.replace("Berlin", "Rome" if name == "a" else "Berlin"))
        (tmp_path / "modules").mkdir(exist_ok=True)
        (tmp_path / "modules" / f"{name}.toml").write_text(
            text.replace("tables.stays", f"tables.stays_{name}").replace("tables.results", f"tables.results_{name}")
        )
    with pytest.raises(UserError, match=r"must agree on source.files.time_zone, found Europe/Berlin, Europe/Rome"):
        load_source_spec(tmp_path / "modules")


@pytest.mark.parametrize(("offset", "asked"), [("", False), ("Z", True), ("+02:00", True)])
def test_a_draft_asks_where_the_hospital_is_if_a_time_says_its_offset(tmp_path: Path, offset: str, asked: bool) -> None:
    rows = f"person,seen\n1,2150-06-21T08:00:00{offset}\n2,2150-06-22T09:30:00{offset}\n"
    (tmp_path / "visits.csv").write_text(rows, encoding="utf-8")
    text = draft_spec(tmp_path)
    assert ('time_zone = "TODO' in text) == asked
    assert 'seen = "time"' in text
    assert "times =" not in text  # as ISO 8601 has them


# ------------------------------------------------------------------------------------------------ the sources


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    synthesize(folder, patients=8, seed=12, decoys=False)
    return folder


@pytest.mark.parametrize("source", drawn(["mimiciv", "mimiciii", "omop", "meds"], 2))
def test_the_same_hospital_in_zoned_files_is_the_same_store(hospital: Path, tmp_path: Path, source: str) -> None:
    """Each time column as instants of UTC, in Parquet or as a text with an offset, in turn."""
    local, zoned = hospital if source == "mimiciv" else tmp_path / "local", tmp_path / "zoned"
    if source != "mimiciv":
        write_dialect(source, hospital, local)
    _in_zones(source, local, zoned)
    settings = IngestSettings(time_zone=BERLIN)
    ingest(source, local, tmp_path / "a", settings=settings)
    ingest(source, zoned, tmp_path / "b", settings=settings)
    ours, theirs = Store.open(tmp_path / "a"), Store.open(tmp_path / "b")
    subjects = ours.subjects.tolist()
    assert subjects == theirs.subjects.tolist()
    compared = 0
    for subject in subjects:
        for table in ours.table_names:
            mine, other = (store.rows(subject, table).to_pylist() for store in (ours, theirs))
            assert mine == other, table
            compared += len(mine)
    assert compared > 500
    with pytest.raises(UserError, match="say the hospital's zone"):
        ingest(source, zoned, tmp_path / "unsaid")
    if source == "mimiciv":
        stays = {subject: ours.rows(subject, "icustays").column("intime").to_pylist() for subject in subjects}
        samples = [(subject, times[0] + timedelta(hours=9)) for subject, times in stays.items() if times][:2]
        assert audit_leaks(theirs, samples, raw_folder=zoned).clean
        assert audit_swap(theirs, samples, zoned).clean


def test_the_swap_reads_a_naive_time_in_a_repeated_hour_as_ingest_does(hospital: Path, tmp_path: Path) -> None:
    """Of 02:15 nobody knows the pass: it stands at the end of the hour, in the other future too."""
    raw = shutil.copytree(hospital, tmp_path / "raw")
    path = raw / "hosp" / "labevents.csv.gz"
    with gzip.open(path, "rt", newline="") as lines:
        header, *rows = csv.reader(lines)
    row = dict(zip(header, rows[0], strict=True)) | {"labevent_id": "999999999", "specimen_id": "999999999"}
    row |= {"hadm_id": "", "charttime": "2150-10-25 02:15:00", "storetime": "2150-10-25 02:20:00"}
    with gzip.open(path, "wt", newline="") as lines:
        csv.writer(lines).writerows([header, *rows, [row[name] for name in header]])
    ingest("mimiciv", raw, tmp_path / "store", settings=IngestSettings(time_zone=BERLIN))
    store = Store.open(tmp_path / "store")
    subject = int(row["subject_id"])
    found = [each for each in store.rows(subject, "labevents").to_pylist() if each["labevent_id"] == 999999999]
    assert [each["charttime"] for each in found] == [datetime(2150, 10, 25, 3)]
    for minute in (30, 59):
        assert audit_swap(store, [(subject, datetime(2150, 10, 25, 2, minute))], raw).clean


def _in_zones(source: str, folder: Path, target: Path) -> None:
    """Write every table's times as instants; those that the clock showed twice are of the second pass."""
    times = {
        table.path.rpartition("/")[2]: {name for name, kind in table.columns.items() if kind == "time"}
        for table in load_source_spec(source).tables.values()
    }
    for place, path in enumerate(sorted(folder.rglob("*"))):
        if path.is_dir():
            continue
        into = target / path.relative_to(folder)
        into.parent.mkdir(parents=True, exist_ok=True)
        name = path.name.partition(".")[0]
        if path.name.endswith((".csv", ".csv.gz")):
            table = _texts(path)
            zoned = times.get(name, set())
            for column in (each for each in table.column_names if each.lower() in zoned):
                moments = [_instant(text) for text in table.column(column).to_pylist()]
                array = (
                    pa.array(moments, pa.timestamp("us", "UTC"))
                    if place % 2
                    else pa.array([None if each is None else each.isoformat(" ") for each in moments], pa.string())
                )
                table = table.set_column(table.column_names.index(column), column, array)
            if place % 2:
                pq.write_table(table, into.with_name(f"{name}.parquet"))
            else:
                pa_csv.write_csv(table, into.with_name(f"{name}.csv"))
        elif path.name.endswith(".parquet"):
            table = pq.read_table(path)
            if "time" in table.column_names and pa.types.is_timestamp(table.schema.field("time").type):
                moments = [_instant(None if at is None else str(at)) for at in table.column("time").to_pylist()]
                place = table.column_names.index("time")
                table = table.set_column(place, "time", pa.array(moments, pa.timestamp("us", "America/New_York")))
            pq.write_table(table, into)
        else:
            into.write_bytes(path.read_bytes())


def _texts(path: Path) -> Any:
    with gzip.open(path, "rt", newline="") if path.name.endswith(".gz") else path.open(newline="") as lines:
        header, *rows = csv.reader(lines)
    columns = zip(*rows, strict=True) if rows else [[] for _ in header]
    return pa.table([pa.array([cell or None for cell in cells], pa.string()) for cells in columns], names=header)


def _instant(text: str | None) -> datetime | None:
    if not text:
        return None
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN), fold=1).astimezone(UTC)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2021-03-14 02:30", "2021-03-14 03:30:00"),
        ("2021-03-14 02:30:00", "2021-03-14 03:30:00"),
        ("2021-03-14T01:30", "2021-03-14T01:30"),
        ("2021-03-14", "2021-03-14"),
    ],
)
def test_a_time_that_a_clock_skips_is_read_as_the_latest_it_can_mean(written: str, shown: str) -> None:
    assert WallClock.named("America/New_York").cell(written) == shown
