"""FHIR resources and pipes as input: a resource that comes again is a version of its rows; a pipe is spooled first."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import ANN_NUMBER, Resource, category, code, made, resource
from wardround.clinical.bundles import PatientState, batch_states, store_bundles
from wardround.core import UserError
from wardround.records import load_source_spec
from wardround.stream import FollowSettings, Spool, follow
from wardround.stream.follow import states_of

SPEC = load_source_spec("fhir")
AT_ONCE = FollowSettings(once=True, finish=True, time_zone="UTC")
DAY = "2150-01-02T"


def lactate(key: str, value: float, at: str, updated: str, status: str = "final", **more: Any) -> Resource:
    return resource(
        "Observation",
        key,
        status=status,
        category=category("laboratory"),
        code=code("2524-7", "Lactate"),
        effectiveDateTime=f"{DAY}{at}:00Z",
        issued=f"{DAY}{at}:00Z",
        valueQuantity={"value": value, "unit": "mmol/L"},
        meta={"lastUpdated": f"{DAY}{updated}:00Z"},
        **more,
    )


def order(key: str, updated: str) -> Resource:
    moments = {"authoredOn": f"{DAY}10:00:00Z", "meta": {"lastUpdated": f"{DAY}{updated}:00Z"}}
    return resource(
        "MedicationRequest",
        key,
        status="active",
        intent="order",
        medicationReference={"reference": "Medication/m1"},
        **moments,
    )


CASCADE = [
    lactate("a", 9.5, "08:10", "08:10"),
    lactate("never", 3.0, "08:20", "08:40", "entered-in-error"),
    lactate("b", 2.5, "09:10", "09:10"),
    lactate("a", 9.5, "08:10", "09:30"),
    resource("Medication", "m1", code={"text": "Vancomycin"}),
    order("r1", "10:00"),
    lactate("a", 1.5, "08:10", "11:00", "corrected"),
    lactate("b", 2.5, "09:10", "13:00", "entered-in-error"),
    order("r1", "13:30"),
]
"""A result corrected, one withdrawn, one that nobody was told of, and some that come again and say nothing new."""


def written(folder: Path, resources: list[Resource]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in resources), encoding="utf-8")
    return folder


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "bundles.jsonl").read_text(encoding="utf-8").splitlines()]


def readings(state: PatientState) -> list[tuple[Any, ...]]:
    trend = state.trend("Lactate")
    return [] if trend is None else [(each.time, each.value, each.level) for each in trend.readings]


def test_a_resource_that_comes_again_is_a_version_of_its_rows(tmp_path: Path) -> None:
    report = follow(SPEC, written(tmp_path / "in", CASCADE), tmp_path / "out", settings=AT_ONCE)
    assert (report.lines, report.refused, report.late) == (6, 0, 0)
    found = told(tmp_path / "out")
    assert [each["hour"][-5:] for each in found] == ["08:00", "09:00", "10:00", "11:00", "13:00"]
    assert [each["amended"] for each in found] == [True, False, False, True, True]
    assert found[2]["changes"] == ["medications: started Vancomycin [medication_requests:r1]"]


def test_the_state_is_that_of_a_store_of_the_same_resources(tmp_path: Path) -> None:
    for count in range(1, len(CASCADE) + 1):
        store, _ = made(tmp_path / f"store-{count}", CASCADE[:count])
        streams = list(store_bundles(store))
        folder = tmp_path / f"out-{count}"
        follow(SPEC, written(tmp_path / "in", CASCADE[:count]), folder, settings=AT_ONCE)
        batch = batch_states(streams[0]).of(ANN_NUMBER)
        assert readings(states_of(SPEC, folder, AT_ONCE)[ANN_NUMBER]) == readings(batch), count


def test_versions_and_names_are_known_again_after_every_start(tmp_path: Path) -> None:
    follow(SPEC, written(tmp_path / "in", CASCADE), tmp_path / "whole", settings=AT_ONCE)
    for count in range(1, len(CASCADE) + 1):
        once = replace(AT_ONCE, finish=count == len(CASCADE), entries_in_memory=0)
        follow(SPEC, written(tmp_path / "grown", CASCADE[:count]), tmp_path / "parts", settings=once)
    assert told(tmp_path / "parts") == told(tmp_path / "whole")


def test_what_is_no_resource_of_anybody_is_set_aside_and_others_are_left_to_other_partitions(tmp_path: Path) -> None:
    broken = [{"resourceType": "Observation", "id": "x"}, {"resourceType": "Bundle", "entry": "no list"}]
    folder = written(tmp_path / "in", [*broken, *CASCADE])
    reports = [
        follow(SPEC, folder, tmp_path / str(part), settings=replace(AT_ONCE, partition=part, partitions=2))
        for part in range(2)
    ]
    assert sorted(report.lines for report in reports) == [0, 6]
    assert all(report.refused == len(broken) for report in reports)


def test_a_time_zone_is_part_of_what_a_stream_is(tmp_path: Path) -> None:
    berlin = replace(AT_ONCE, time_zone="Europe/Berlin", finish=False)
    follow(SPEC, written(tmp_path / "in", CASCADE), tmp_path / "out", settings=berlin)
    with pytest.raises(UserError, match="time zone Europe/Berlin, not UTC"):
        follow(SPEC, tmp_path / "in", tmp_path / "out", settings=AT_ONCE)
    follow(SPEC, tmp_path / "in", tmp_path / "out", settings=replace(berlin, finish=True))
    assert told(tmp_path / "out")[0]["hour"] == "2150-01-02 09:00"


def test_a_pipe_is_written_down_before_it_is_read(tmp_path: Path) -> None:
    """The pipe breaks in the middle of the lines and another one brings the rest: all is told once."""
    text = written(tmp_path / "in", CASCADE).joinpath("a.jsonl").read_bytes()
    follow(SPEC, tmp_path / "in", tmp_path / "whole", settings=AT_ONCE)
    cut = text.index(b"\n", len(text) // 2) + 1
    for part, is_last in ((text[:cut], False), (text[cut:-1], True)):
        source, target = os.pipe()
        os.write(target, part)
        os.close(target)
        spool = Spool(source, tmp_path / "out" / "spool")
        spool.start()
        settings = FollowSettings(finish=is_last, time_zone="UTC")
        follow(SPEC, spool.folder, tmp_path / "out", settings=settings, ended=spool.ended)
        os.close(source)
    assert told(tmp_path / "out") == told(tmp_path / "whole")
    assert b"".join(file.read_bytes() for file in sorted(spool.folder.iterdir())) == text


def test_a_resource_with_an_offset_waits_for_somebody_to_say_the_zone(tmp_path: Path) -> None:
    settings = replace(AT_ONCE, time_zone=None)
    report = follow(SPEC, written(tmp_path / "in", CASCADE), tmp_path / "out", settings=settings)
    assert (report.bundles, report.refused) == (0, len(CASCADE) - 1)  # the name of the drug has no time
    assert "--time-zone was not given" in (tmp_path / "out" / "quarantine.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
def test_cells_of_rows_are_read_in_the_zone_too(tmp_path: Path, zone: str | None) -> None:
    """A result written in UTC stands in the hour that the ward's clock showed; nobody knows it without a zone."""
    row = {"subject_id": 7, "labevent_id": 1, "itemid": 50813, "charttime": "2150-06-01T06:30:00Z", "valuenum": 4.5}
    lines = [{"table": "labevents", "row": {**row, "storetime": "2150-06-01T06:40:00+00:00", "label": "Lactate"}}]
    folder = written(tmp_path / "in", lines)
    report = follow(load_source_spec("mimiciv"), folder, tmp_path / "out", settings=replace(AT_ONCE, time_zone=zone))
    assert report.refused == (zone is None)
    assert [each["hour"] for each in told(tmp_path / "out")] == (["2150-06-01 08:00"] if zone else [])
