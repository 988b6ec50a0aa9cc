"""Times with offsets, on the wall clock of a place that is named at ingest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.fhir_resources import ANN_NUMBER, Resource, category, code, ndjson, patient, resource, rows, seen
from wardround.audits import audit_leaks, audit_swap
from wardround.core import UserError
from wardround.records import IngestReport, IngestSettings, Store, ingest
from wardround.records.specs.wall_clock import WallClock

LAB = {"category": category("laboratory"), "code": code("1", "Sodium")}
NEW_YORK = "America/New_York"


def lab(key: str, at: str, **elements: str) -> Resource:
    return resource("Observation", key, **LAB, effectiveDateTime=at, issued=at, **elements)


def ingested(folder: Path, resources: list[Resource], zone: str | None) -> tuple[Store, IngestReport]:
    ndjson(folder / "raw" / "a.ndjson", [patient(), *resources])
    report = ingest("fhir", folder / "raw", folder / "store", settings=IngestSettings(time_zone=zone))
    return Store.open(folder / "store"), report


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2150-06-01T18:00:00Z", "2150-06-01T14:00:00"),
        ("2150-01-01T18:00:00Z", "2150-01-01T13:00:00"),
        ("2150-06-01T18:00:00.250+02:00", "2150-06-01T12:00:00.250"),
        ("2150-06-01T18:00-04:00", "2150-06-01T18:00:00"),
        ("2150-03-08T06:59:59Z", "2150-03-08T01:59:59"),
        ("2150-03-08T07:00:00Z", "2150-03-08T03:00:00"),
        ("2150-11-01T05:59:59Z", "2150-11-01T01:59:59"),
        ("2150-11-01T06:00:00Z", "2150-11-01T02:00:00"),
        ("2150-11-01T06:59:59.5Z", "2150-11-01T02:00:00"),
        ("2150-11-01T01:30:00-05:00", "2150-11-01T02:00:00"),
        ("2150-11-01T07:00:01Z", "2150-11-01T02:00:01"),
        ("2150-06-01T18:00:00", "2150-06-01T18:00:00"),
        ("2150-06-01", "2150-06-01"),
        ("2150-13-01T18:00:00Z", "2150-13-01T18:00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00"),
        ("seen 2150-06-01T18:00:00Z", "seen 2150-06-01T18:00:00Z"),
    ],
)
def test_a_time_with_an_offset_is_what_the_clock_of_the_place_showed(written: str, shown: str) -> None:
    assert WallClock.named(NEW_YORK).text(written) == shown


@given(
    st.sampled_from([NEW_YORK, "Europe/London", "Australia/Lord_Howe", "Asia/Kolkata"]),
    st.datetimes(datetime(2020, 1, 1), datetime(2180, 1, 1)),
    st.integers(0, 5400),
    st.sampled_from(["+00:00", "-05:00", "+10:30"]),
)
def test_what_came_later_never_reads_as_earlier_where_clocks_go_back(
    zone: str, start: datetime, seconds: int, offset: str
) -> None:
    """Nor before what the clock showed: of the second pass of an hour that is repeated, its end."""
    clock = WallClock.named(zone)
    instants = [start.replace(tzinfo=UTC), start.replace(tzinfo=UTC) + timedelta(seconds=seconds)]
    texts = [clock.text(instants[0].isoformat()), clock.text(_written(instants[1], offset))]
    first, second = map(datetime.fromisoformat, texts)
    assert first <= second
    for instant, found in zip(instants, (first, second), strict=True):
        assert found >= instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def _written(instant: datetime, offset: str) -> str:
    return instant.astimezone(datetime.fromisoformat(f"2000-01-01T00:00:00{offset}").tzinfo).isoformat()


def test_one_record_of_several_offsets_has_one_order(tmp_path: Path) -> None:
    """The first was resulted at 14:00 in New York and is written in UTC, the second half an hour later."""
    store, report = ingested(
        tmp_path, [lab("o1", "2150-06-01T18:00:00Z"), lab("o2", "2150-06-01T14:30:00-04:00")], NEW_YORK
    )
    for at, there in (("14:00:00", ["o1"]), ("14:30:00", ["o1", "o2"])):
        assert [row["observation_id"] for row in seen(store, "labs", f"2150-06-01T{at}")] == there
    assert [what for what in report.assumptions if NEW_YORK in what]
    assert store.manifest["settings"]["time_zone"] == NEW_YORK


@pytest.mark.parametrize(
    ("times", "named", "fixed"),
    [
        (["2150-06-01T18:00:00-05:00"], "-05:00", "-05:00"),
        (["2150-06-01T18:00:00Z"], "Z", r"\+00:00"),
        (["2150-06-01T18:00:00", "2150-06-01T18:00:00-04:00", "2150-12-01T18:00:00-05:00"], "-04:00, -05:00", "-04:00"),
    ],
)
def test_offsets_without_a_declared_zone_are_refused_in_one_line(
    tmp_path: Path, times: list[str], named: str, fixed: str
) -> None:
    resources = [lab(f"o{place}", at) for place, at in enumerate(times)]
    said = rf"a.ndjson: its times have a UTC offset \({named}\); say .* --time-zone America/New_York, .*={fixed} "
    with pytest.raises(UserError, match=said) as refused:
        ingested(tmp_path, resources, None)
    assert "\n" not in str(refused.value)


def test_times_without_offsets_and_what_becomes_no_row_need_no_zone(tmp_path: Path) -> None:
    device = {"resourceType": "Device", "id": "d", "manufactureDate": "2150-06-01T18:00:00Z"}
    store, _ = ingested(tmp_path, [lab("o1", "2150-06-01T18:00:00"), device], None)
    assert len(seen(store, "labs", "2150-06-01T18:00:00")) == 1


def test_an_offset_is_the_zone_of_a_clock_that_is_never_changed(tmp_path: Path) -> None:
    """Five hours behind UTC in June as in December, whatever the offset that a time is written with."""
    written = [lab("o1", "2150-06-01T18:00:00Z"), lab("o2", "2150-12-01T13:30:00-05:00")]
    store, report = ingested(tmp_path, written, "-05:00")
    assert [row["_event"].isoformat() for row in rows(store, "labs")] == ["2150-06-01T13:00:00", "2150-12-01T13:30:00"]
    assert [what for what in report.assumptions if "-05:00" in what]


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+09:00", "2150-13-01T18:00:00Z"])
def test_times_at_the_edge_of_the_calendar_are_audited_as_they_are_ingested(tmp_path: Path, at: str) -> None:
    """What an audit copies has no offset left that its ingest would refuse."""
    store, _ = ingested(tmp_path, [lab("o1", "2150-06-01T18:00:00Z"), lab("o2", at)], NEW_YORK)
    moments = [(ANN_NUMBER, datetime(2150, 6, 1, 14, 30))]
    assert audit_leaks(store, moments, raw_folder=tmp_path / "raw").clean
    assert audit_swap(store, moments, tmp_path / "raw").clean


def test_an_instant_in_utc_is_not_moved_twice(tmp_path: Path) -> None:
    """London in winter is on UTC: beside a summer's time the instant keeps its own hour."""
    body = resource(
        "Observation", "o1", **LAB, effectiveDateTime="2150-07-01T10:00:00+01:00", issued="2150-12-01T10:00:00Z"
    )
    store, _ = ingested(tmp_path, [body], "Europe/London")
    assert seen(store, "labs", "2150-12-01T09:59:59") == []
    assert len(seen(store, "labs", "2150-12-01T10:00:00")) == 1


def test_the_audit_of_a_store_in_a_zone_reads_the_files_on_its_clock(tmp_path: Path) -> None:
    store, _ = ingested(tmp_path, [lab("o1", "2150-06-01T18:00:00Z"), lab("o2", "2150-06-01T19:00:00Z")], NEW_YORK)
    moments = [(ANN_NUMBER, datetime(2150, 6, 1, 14, 30))]
    report = audit_leaks(store, moments, raw_folder=tmp_path / "raw")
    assert report.clean
    assert report.deletion_samples == 1
    swapped = audit_swap(store, moments, tmp_path / "raw")
    assert swapped.clean
    assert swapped.changed_rows


def test_zones_that_are_none_and_sources_without_offsets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no time zone 'Boston'"):
        ingested(tmp_path, [lab("o1", "2150-06-01T18:00:00Z")], "Boston")
    with pytest.raises(UserError, match="its times have no UTC offsets"):
        ingest("eicu", tmp_path, tmp_path / "other", settings=IngestSettings(time_zone=NEW_YORK))
