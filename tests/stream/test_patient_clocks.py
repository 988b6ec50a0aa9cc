"""Every patient has a clock: no line of somebody else ends an hour, and none far ahead ends the patient's own."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from stream_lines import hours_of, lab, written, written_of

from wardround.core import UserError
from wardround.records import load_source_spec
from wardround.stream import FollowSettings, coded_responder, follow
from wardround.stream.follow import StreamReport
from wardround.stream.input import StreamClock

SPEC = load_source_spec("mimiciv")
AT_ONCE = FollowSettings(once=True, finish=True)
RULES = """
schema = 1
name = "ward"
[[rule]]
id = "LACTATE"
category = "SEPSIS"
trigger = "lactate > 4"
actions = ["order lactate", "start norepinephrine"]
"""
OWN = [lab(7, f"2150-01-01 {hour:02d}:10:00", 5.5 + hour / 10, f"own:{hour}") for hour in range(8, 20)]
"""A patient whose lactate is above 4 in each of twelve hours."""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "ward.toml").write_text(RULES, encoding="utf-8")
    return tmp_path / "ward.toml"


def alone(tmp_path: Path, rules: Path) -> list[bytes]:
    follow(SPEC, written(tmp_path / "own", OWN), tmp_path / "alone", settings=AT_ONCE, responder=coded_responder(rules))
    return written_of(tmp_path / "alone")[7]


@pytest.mark.parametrize("ahead", ["2999-01-01 00:00:00", "2150-01-02 10:00:00", "2150-01-01 18:30:00"])
def test_a_line_of_another_patient_far_ahead_changes_no_byte(ahead: str, rules: Path, tmp_path: Path) -> None:
    lines = [*OWN[:2], lab(9, ahead, 1.0, "other"), *OWN[2:]]
    for name, settings in (("whole", AT_ONCE), ("cut", FollowSettings(once=True, finish=True, lines_per_commit=1))):
        folder = tmp_path / name
        follow(SPEC, written(tmp_path / "in", lines), folder, settings=settings, responder=coded_responder(rules))
        assert written_of(folder)[7] == alone(tmp_path / name, rules)
    assert b"norepinephrine" in alone(tmp_path / "again", rules)[-1]


def test_the_clock_of_the_source_ends_the_hours_of_all_who_are_open(tmp_path: Path) -> None:
    lines = [lab(7, "2150-01-01 08:10:00", 1.0, "a"), lab(8, "2150-01-01 09:10:00", 1.0, "b")]
    folder = written(tmp_path / "in", [*lines, '{"clock": "2150-01-01 09:00:00"}'])
    report = follow(SPEC, folder, tmp_path / "out", settings=FollowSettings(once=True))
    assert report.bundles == 1
    late = lab(7, "2150-01-01 08:20:00", 1.0, "c")
    written(folder, [*lines, '{"clock": "2150-01-01 09:00:00"}', late, '{"clock": "2150-01-01 11:00:00"}'])
    report = follow(SPEC, folder, tmp_path / "out", settings=FollowSettings(once=True))
    assert (report.late, report.bundles) == (1, 3)
    assert hours_of(written_of(tmp_path / "out")[7]) == ["01-01 08:00", "01-01 09:00"]


def test_what_the_clock_ends_is_closed_as_time_goes_on_and_with_every_tenth_line(tmp_path: Path) -> None:
    lines = [lab(who, "2150-01-01 08:10:00", 1.0, f"a:{who}") for who in range(800)]
    folder, told = tmp_path / "in", []
    several = (
        ['{"clock": "2150-01-01 09:00:00"}'],
        ['{"clock": "2150-01-01 09:00:00.100"}'],
        [lab(900, "2150-01-01 10:30:00", 1.0, f"far:{place}") for place in range(4)],
        [lab(900, "2150-01-01 09:00:00.110", 1.0, "b")],
        [lab(900, "2150-01-01 09:00:01", 1.0, "c")],
        [lab(900, "2150-01-01 09:00:00", 1.0, f"d:{place}") for place in range(10)],
        [lab(900, "2150-01-01 09:00:00", 1.0, f"e:{place}") for place in range(100)],
    )
    for more in several:
        lines += more
        told.append(follow(SPEC, written(folder, lines), tmp_path / "out", settings=FollowSettings(once=True)).bundles)
    assert told == [256, 306, 306, 311, 319, 400, 800]
    follow(SPEC, folder, tmp_path / "whole", settings=FollowSettings(once=True))
    assert (tmp_path / "whole" / "bundles.jsonl").read_bytes() == (tmp_path / "out" / "bundles.jsonl").read_bytes()


def at_times(times: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the wall clock say one time after another, and then the last for ever."""
    moments = [datetime.fromisoformat(time) for time in times]

    def wall() -> datetime:
        return moments.pop(0) if len(moments) > 1 else moments[0]

    made = StreamClock.of
    monkeypatch.setattr(
        StreamClock,
        "of",
        lambda kind, skew, zone: StreamClock(kind=kind, skew=made(kind, skew, zone).skew, wall=wall),
    )


def live(folder: Path, out: Path, *, finish: bool = False, skew: timedelta | None = None) -> StreamReport:
    settings = FollowSettings(once=True, finish=finish, clock="arrival", skew=skew, lines_per_commit=1)
    return follow(SPEC, folder, out, settings=settings)


def test_the_wall_ends_hours_and_parks_what_lies_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        lab(7, "2150-01-01 08:01:00", 1.0, "a"),
        lab(7, "2150-01-01 08:16:00", 2.0, "soon"),
        lab(7, "2150-01-01 09:40:00", 3.0, "ahead"),
        lab(7, "2999-01-01 00:00:00", 4.0, "never"),
        lab(7, "2150-01-01 08:05:00", 5.0, "b"),
    ]
    folder = written(tmp_path / "in", lines)
    at_times(["2150-01-01 08:02:00"], monkeypatch)
    report = live(folder, tmp_path / "out")
    assert (report.bundles, report.parked, report.late) == (0, 2, 0)
    at_times(["2150-01-01 09:00:00"], monkeypatch)
    assert live(folder, tmp_path / "out").bundles == 1
    at_times(["2150-01-01 10:00:00", "2150-01-01 04:00:00"], monkeypatch)
    report = live(folder, tmp_path / "out")
    assert (report.bundles, report.parked) == (2, 1)
    written(folder, [*lines, lab(7, "2150-01-01 09:50:00", 6.0, "late")])
    assert live(folder, tmp_path / "out").late == 1
    report = live(folder, tmp_path / "out", finish=True)
    assert (report.bundles, report.parked) == (3, 1)
    assert hours_of(written_of(tmp_path / "out")[7]) == ["01-01 08:00", "01-01 09:00", "01-01 10:00"]


@pytest.mark.parametrize(
    ("minutes", "known", "parked"),
    [
        (15, "09:15:00", 0),
        (15, "09:15:00.000001", 1),
        (0, "09:00:00", 0),
        (0, "09:00:00.000001", 1),
        (None, "23:00:00", 0),
    ],
)
def test_a_line_may_be_as_far_ahead_of_the_clock_as_the_skew(
    minutes: int | None, known: str, parked: int, tmp_path: Path
) -> None:
    lines = ['{"clock": "2150-01-01 09:00:00"}', lab(7, f"2150-01-01 {known}", 1.0, "a")]
    skew = None if minutes is None else timedelta(minutes=minutes)
    settings = FollowSettings(once=True, skew=skew)
    assert follow(SPEC, written(tmp_path / "in", lines), tmp_path / "out", settings=settings).parked == parked
    with pytest.raises(UserError, match="skew: must be 0 minutes or more"):
        follow(SPEC, tmp_path / "in", tmp_path / "x", settings=FollowSettings(skew=timedelta(microseconds=-1)))


def test_a_start_finds_the_clocks_of_patients_again(tmp_path: Path) -> None:
    """Hours that lie ahead, reached hours and closed ones, one line to a run: as if there had been one run."""
    stop = {"row_id": "o:1", "subject_id": 7, "drug": "Heparin", "stoptime": "2150-01-01 12:30:00"}
    order = f'{{"table":"prescriptions","row":{str(stop).replace(chr(39), chr(34))},"known":"2150-01-01 09:00:00"}}'
    lines = [*OWN[:2], order, '{"clock": "2150-01-01 10:00:00"}', OWN[0].replace("own:8", "late"), *OWN[2:4]]
    lines += ['{"clock": "2150-01-01 12:00:00"}', *OWN[5:7]]
    follow(SPEC, written(tmp_path / "whole", lines), tmp_path / "out", settings=AT_ONCE)
    for count in range(1, len(lines) + 1):
        settings = FollowSettings(once=True, finish=count == len(lines), entries_in_memory=0)
        follow(SPEC, written(tmp_path / "grown", lines[:count]), tmp_path / "parts", settings=settings)
    assert (tmp_path / "parts" / "bundles.jsonl").read_bytes() == (tmp_path / "out" / "bundles.jsonl").read_bytes()
    found = written_of(tmp_path / "out")[7]
    assert hours_of(found) == [f"01-01 {hour:02d}:00" for hour in (8, 9, 10, 11, 13, 14)]
    # the order ends at 12:30, and is seen to have ended an hour later (prescriptions.late.stoptime)
    assert [b'"running":1' in line for line in found] == [False, True, True, True, False, False]
