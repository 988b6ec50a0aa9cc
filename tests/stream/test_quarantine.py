"""No line stops the follower: what cannot be read is set aside with its place and reason, and nobody else changes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_lines import hours_of, lab, written, written_of

from effort import often
from wardround.cli import main as wardround
from wardround.core import UserError
from wardround.records import load_source_spec
from wardround.records.specs.file_format import FileFormat
from wardround.stream import FollowSettings, coded_responder, follow
from wardround.stream.follow import only_follower, states_of
from wardround.stream.input import LineFolder
from wardround.stream.reading import one_cell

SPEC, FHIR = load_source_spec("mimiciv"), load_source_spec("fhir")
AT_ONCE = FollowSettings(once=True, finish=True)
GOOD = [lab(7, f"2150-01-01 {hour:02d}:10:00", float(hour), f"own:{hour}") for hour in range(8, 20)]
HUGE = 1 << 63
DEEP = "[" * 100_000
CELLS = [
    None, True, HUGE, -HUGE - 1, 10**400, 1e308, -0.0, "", " ", "x" * 70_000, "\u0000", "\U0001f4a9", "nan", "Infinity",
    "1e5", "1,5", "9" * 400, "9999-12-31", "9999-12-31 23:59:59", "0001-01-01 00:00:00", "2150-02-30", "soon", [], {},
    [1], {"a": {"b": None}}, "2150-01-01 09:00:00+01:00", 3.7, -1, 0,
]  # fmt: skip


def spoilt(line: dict[str, Any], dice: random.Random) -> bytes:
    """A line with something of it replaced, left out, or cut."""
    places: list[tuple[Any, Any]] = [(line, key) for key in line]
    for place in places:
        part = place[0][place[1]]
        if isinstance(part, dict):
            places += [(part, key) for key in part]
        elif isinstance(part, list):
            places += [(part, each) for each in range(len(part))]
    for part, key in dice.sample(places, k=min(len(places), dice.choice((1, 1, 1, 2, 5)))):
        part[key] = dice.choice(CELLS)
    if dice.random() < 0.1:
        line[dice.choice(("known", "time", "revision", "withdrawn", "pending", "clock", "table"))] = dice.choice(CELLS)
    text = json.dumps(line).replace("\n", " ").encode()
    match dice.randrange(40):
        case 0:
            return text[: dice.randrange(len(text))]
        case 1:
            return bytes(dice.randrange(256) for _ in range(dice.randrange(300))).replace(b"\n", b"")
        case 2:
            place = dice.randrange(len(text))
            return text[:place] + bytes([dice.choice((0, 0x80, 0xFF, 0xED))]) + text[place + 1 :]
        case 3:
            return (DEEP if dice.random() < 0.5 else '{"row":' * 50_000).encode()
    return text


def rows(dice: random.Random) -> dict[str, Any]:
    """A row of any of several tables, of a patient other than 7."""
    times = {name: f"2150-01-01 {dice.randrange(24):02d}:{dice.randrange(60):02d}:00" for name in ("known", "time")}
    table, more = dice.choice(
        (
            ("labevents", {"label": "Lactate", "valuenum": 5.0, "valueuom": "mmol/L", "ref_range_upper": 2.0}),
            ("prescriptions", {"drug": "Heparin", "stoptime": "2150-01-01 13:00:00", "dose_val_rx": "5"}),
            ("admissions", {"hadm_id": dice.randrange(5), "dischtime": "2150-01-02 13:00:00"}),
            ("diagnoses_icd", {"hadm_id": 1, "seq_num": 2, "long_title": "Sepsis"}),
            ("chartevents", {"label": "Heart Rate", "category": "Routine Vital Signs", "valuenum": 90.0}),
        )
    )
    row = {"row_id": f"r:{dice.randrange(40)}", "subject_id": 100 + dice.randrange(3), **more}
    return {"table": table, "row": row, "revision": dice.choice((0, 0, 1)), **times}


def with_junk(path: Path, good: list[str], junk: list[bytes]) -> Path:
    """Write good lines with junk between them."""
    path.mkdir()
    dice, lines = random.Random(3), [line.encode() for line in good]
    places = sorted(dice.randrange(len(lines) + 1) for _ in junk)
    for place, text in sorted(zip(places, junk, strict=True), key=lambda pair: -pair[0]):
        lines.insert(place, text)
    (path / "a.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return path


RULES = """
schema = 1
name = "ward"
[[rule]]
id = "LACTATE"
category = "SEPSIS"
trigger = "lactate > 4 OR heart rate > 80"
actions = ["order lactate", "start norepinephrine"]
"""


def test_twenty_thousand_kinds_of_junk_change_nobody_elses_predictions(tmp_path: Path) -> None:
    (tmp_path / "ward.toml").write_text(RULES, encoding="utf-8")
    respond, dice = coded_responder(tmp_path / "ward.toml"), random.Random(20)
    follow(SPEC, written(tmp_path / "good", GOOD), tmp_path / "alone", settings=AT_ONCE, responder=respond)
    junk = [spoilt(rows(dice), dice) for _ in range(often(700, 20_000))]
    # a line that comes to be of 7, or the source's own clock, would change what is told of 7, and rightly so
    junk = [text for text in junk if b'": 7,' not in text and b'": 7}' not in text and b'"clock": "2' not in text]
    folder = with_junk(tmp_path / "in", GOOD, junk)
    report = follow(SPEC, folder, tmp_path / "out", settings=AT_ONCE, responder=respond)
    assert written_of(tmp_path / "out")[7] == written_of(tmp_path / "alone")[7]
    aside = [json.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_bytes().splitlines()]
    assert len(aside) == report.refused > len(junk) // 10
    whole = (folder / "a.jsonl").read_bytes()
    for each in aside:
        at = whole[each["byte"] : whole.index(b"\n", each["byte"])]
        assert at[:4_000].decode("utf-8", "backslashreplace") == each["line"]
        assert each["reason"]


def observation(dice: random.Random) -> dict[str, Any]:
    """A laboratory result, or an order, of somebody else."""
    when = f"2150-01-01T{dice.randrange(24):02d}:00:00Z"
    shared = {"id": f"x{dice.randrange(30)}", "subject": {"reference": f"Patient/p{dice.randrange(3)}"}}
    shared |= {"meta": {"lastUpdated": when, "versionId": "1"}}
    if dice.random() < 0.3:
        return {
            "resourceType": "MedicationRequest",
            "status": "active",
            "intent": "order",
            "medicationCodeableConcept": {"text": "Heparin"},
            "authoredOn": when,
            "dispenseRequest": {"validityPeriod": {"end": when}},
            **shared,
        }
    return {
        "resourceType": "Observation",
        "status": "final",
        "category": [{"coding": [{"code": "laboratory"}]}],
        "code": {"coding": [{"system": "http://loinc.org", "code": "2524-7", "display": "Lactate"}]},
        "effectiveDateTime": when,
        "issued": when,
        "valueQuantity": {"value": 5.0, "unit": "mmol/L"},
        **shared,
    }


def test_no_resource_stops_the_follower(tmp_path: Path) -> None:
    dice = random.Random(21)
    good = [
        json.dumps(
            {
                "resourceType": "Observation",
                "id": f"own{hour}",
                "status": "final",
                "subject": {"reference": "Patient/good"},
                "category": [{"coding": [{"code": "laboratory"}]}],
                "code": {"coding": [{"system": "http://loinc.org", "code": "2524-7", "display": "Lactate"}]},
                "effectiveDateTime": f"2150-01-01T{hour:02d}:00:00Z",
                "issued": f"2150-01-01T{hour:02d}:05:00Z",
                "valueQuantity": {"value": hour, "unit": "mmol/L"},
            }
        )
        for hour in range(8, 14)
    ]
    there = replace(AT_ONCE, time_zone="UTC")
    follow(FHIR, written(tmp_path / "good", good), tmp_path / "alone", settings=there)
    junk = [spoilt(observation(dice), dice) for _ in range(often(500, 20_000))]
    junk = [text for text in junk if b'"clock": "2' not in text]
    report = follow(FHIR, with_junk(tmp_path / "in", good, junk), tmp_path / "out", settings=there)
    assert report.refused > 10
    ((subject, alone),) = written_of(tmp_path / "alone").items()
    assert written_of(tmp_path / "out")[subject] == alone


@pytest.mark.parametrize("again", [GOOD[0], lab(7, "2150-01-01 08:40:00", 8.0, "own:8")])
def test_a_row_that_comes_again_without_a_revision_is_one_reading(again: str, tmp_path: Path) -> None:
    report = follow(SPEC, written(tmp_path / "in", [GOOD[0], again, *GOOD[1:]]), tmp_path / "out", settings=AT_ONCE)
    assert report.silent == {"repeated": 1}
    follow(SPEC, written(tmp_path / "good", GOOD), tmp_path / "alone", settings=AT_ONCE)
    assert written_of(tmp_path / "out") == written_of(tmp_path / "alone")


@pytest.mark.parametrize(
    ("source", "table", "first", "second", "is_again"),
    [
        ("mimiciii", "admissions", {"row_id": 1}, {"row_id": 2}, True),  # numbers of a file name nobody
        ("mimiciii", "admissions", {"row_id": 1, "hadm_id": 1}, {"row_id": 1, "hadm_id": 2}, False),
        ("mimiciii", "labevents", {"row_id": 1}, {"row_id": 2}, False),
        ("mimiciii", "labevents", {"row_id": 1}, {"row_id": 1}, True),
        ("mimiciv", "admissions", {"row_id": "1"}, {"row_id": "admissions:1"}, True),
        ("mimiciv", "admissions", {"row_id": "1"}, {"row_id": "2"}, False),
    ],
)
def test_which_rows_of_files_are_one_row(
    source: str, table: str, first: dict[str, object], second: dict[str, object], is_again: bool, tmp_path: Path
) -> None:
    """A row's own id where the line gives one, else its key, else the number that the file gives it."""
    shared = {"subject_id": 7, "hadm_id": 1, "admittime": "2150-01-01 08:00:00", "charttime": "2150-01-01 08:00:00"}
    shared |= {"itemid": 50813, "label": "Lactate", "valuenum": 4.5, "dischtime": "2150-01-02 08:00:00"}
    lines = [json.dumps({"table": table, "row": shared | own}) for own in (first, second)]
    spec = load_source_spec(source)
    report = follow(spec, written(tmp_path / "in", lines), tmp_path / "out", settings=AT_ONCE)
    told = json.loads(written_of(tmp_path / "out")[7][0])
    assert (report.silent, told["events"]) == (({"repeated": 1}, 1) if is_again else ({}, 2))


def test_a_row_that_comes_again_and_reads_differently_is_a_correction(tmp_path: Path) -> None:
    lines = [GOOD[0], lab(7, "2150-01-01 09:40:00", 2.5, "own:8")]
    follow(SPEC, written(tmp_path / "in", lines), tmp_path / "out", settings=AT_ONCE)
    last = json.loads(written_of(tmp_path / "out")[7][-1])
    assert (last["amended"], last["events"]) == (True, 1)


def test_what_is_left_out_of_a_commit_takes_nothing_with_it_that_comes_after(tmp_path: Path) -> None:
    nameless = json.dumps({"table": "labevents", "row": {"subject_id": 7}, "known": "2150-01-01 08:20:00"})
    lines = [GOOD[0], nameless, GOOD[0], *GOOD[1:3]]
    report = follow(SPEC, written(tmp_path / "in", lines), tmp_path / "out", settings=AT_ONCE)
    assert (report.refused, report.lines) == (1, 3)
    assert hours_of(written_of(tmp_path / "out")[7]) == ["01-01 08:00", "01-01 09:00", "01-01 10:00"]


@pytest.mark.parametrize("times", [(), ("%d.%m.%Y %H:%M", "%Y-%m-%d")])
@pytest.mark.parametrize(
    ("meaning", "text", "read"),
    [
        ("end_of_day", "2150-01-02", datetime(2150, 1, 2, 23, 59, 59)),
        ("refuse", "2150-01-02", None),
        ("refuse", "2150-01-02 ", None),
        ("refuse", "2150-01-02 03:04", datetime(2150, 1, 2, 3, 4)),
        ("refuse", "2150-01-02 00:00:00", datetime(2150, 1, 2)),
    ],
)
def test_a_date_alone_is_a_time_where_the_source_says_which(
    meaning: Literal["end_of_day", "refuse"], text: str, read: datetime | None, times: tuple[str, ...]
) -> None:
    """A time as records write it is read beside times as the source's files write them."""
    files = FileFormat(bare_dates=meaning, times=times)
    if read is None:
        with pytest.raises(ValueError, match=f"{text!r} is no time"):
            one_cell("time", text, files)
    else:
        assert one_cell("time", text, files) == read
    assert one_cell("date", text, files) == date(2150, 1, 2)


def test_lines_that_say_nothing_are_counted(tmp_path: Path) -> None:
    silent = '{"table":"drgcodes","row":{"subject_id":7,"row_id":"d:1"},"known":"2150-01-01 08:00:00"}'
    report = follow(SPEC, written(tmp_path / "in", [silent, *GOOD]), tmp_path / "out", settings=AT_ONCE)
    assert report.silent == {"without a role": 1}


@pytest.mark.parametrize("subject", ["7", 7.0, " 7 "])
def test_a_number_given_as_text_keeps_its_value(subject: object, tmp_path: Path) -> None:
    line = json.loads(GOOD[0])
    line["row"] |= {"subject_id": subject, "valuenum": "1e1"}
    follow(SPEC, written(tmp_path / "in", [json.dumps(line)]), tmp_path / "out", settings=AT_ONCE)
    trend = states_of(SPEC, tmp_path / "out")[7].trend("Lactate")
    assert trend is not None
    assert trend.last.value == 10.0


@pytest.mark.parametrize(
    ("known", "is_read"),
    [
        ("1699-12-31 23:59:59", False),
        ("1700-01-01 00:00:00", True),
        ("9000-01-01 00:00:00", True),
        ("9000-12-31 23:59:59", True),
        ("9001-01-01 00:00:00", False),
    ],
)
def test_a_line_of_the_first_and_of_the_last_year_is_told(known: str, is_read: bool, tmp_path: Path) -> None:
    """What is in neither is set aside, so that no line is taken and forgotten; of a row of a file it means never."""
    report = follow(SPEC, written(tmp_path / "in", [lab(7, known, 4.5, "a")]), tmp_path / "out", settings=AT_ONCE)
    assert (report.bundles, report.refused) == ((1, 0) if is_read else (0, 1))
    row = {"subject_id": 7, "labevent_id": 1, "itemid": 50813, "label": "Lactate", "valuenum": 4.5}
    line = json.dumps({"table": "labevents", "row": {**row, "charttime": known, "storetime": known}})
    report = follow(SPEC, written(tmp_path / "file", [line]), tmp_path / "again", settings=AT_ONCE)
    assert (report.bundles, report.refused) == (int(is_read), 0)


@pytest.mark.parametrize("value", ["4,5", "4.5.1", "high", [4.5], True])
def test_what_is_no_number_is_set_aside(value: object, tmp_path: Path) -> None:
    line = json.loads(GOOD[0])
    line["row"]["valuenum"] = value
    assert follow(SPEC, written(tmp_path / "in", [json.dumps(line)]), tmp_path / "out", settings=AT_ONCE).refused == 1


def test_a_second_follower_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "in", GOOD)
    words = ["stream", "follow", "--source", "mimiciv", "--lines", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    (tmp_path / "out").mkdir()
    with only_follower(tmp_path / "out"):
        assert wardround([*words, "--once"]) != 0
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("another process follows this stream; stop it, or choose another --out")
    )
    assert wardround([*words, "--once"]) == 0
    with pytest.raises(UserError, match="clock"):
        follow(SPEC, tmp_path / "in", tmp_path / "x", settings=FollowSettings(clock="sun"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "is_read"),
    [
        ({"revision": -1}, False),
        ({"revision": 0}, True),
        ({"revision": (1 << 31) - 1}, True),
        ({"revision": 1 << 31}, False),
        ({"known": None, "time": None}, True),
        ({"known": None, "time": None, "revision": 1}, False),
        ({"known": None, "time": None, "withdrawn": True}, False),
        ({"known": None, "time": None, "pending": True}, False),
        ({"known": None}, False),
        ({"another": 1}, False),
    ],
)
def test_what_a_line_may_say_beside_its_row(more: dict[str, Any], is_read: bool, tmp_path: Path) -> None:
    """What needs to be known at a time says when it was; a revision is a count."""
    line = json.loads(GOOD[0])
    line["row"] |= {"labevent_id": 1, "itemid": 50813, "charttime": line["time"], "storetime": line["time"]}
    given = {name: value for name, value in {**line, **more}.items() if value is not None}
    report = follow(SPEC, written(tmp_path / "in", [json.dumps(given)]), tmp_path / "out", settings=AT_ONCE)
    assert (report.lines, report.refused) == ((1, 0) if is_read else (0, 1))


@given(
    lines=st.lists(st.binary(max_size=9).map(lambda text: text.replace(b"\n", b"")), max_size=12),
    rest=st.sampled_from([b"", b"open"]),
    block=st.integers(1, 12),
    limits=st.lists(st.integers(1, 5), min_size=1),
    second=st.integers(0, 12),
)
def test_whole_lines_are_read_once_in_order_however_they_are_cut(
    lines: list[bytes], rest: bytes, block: int, limits: list[int], second: int, tmp_path_factory: Any
) -> None:
    """Of two files, so many lines at once, in blocks of so many bytes; a line without an end waits."""
    folder = tmp_path_factory.mktemp("lines")
    for name, part in (("b", lines[second:]), ("a", lines[:second])):
        (folder / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in part) + rest)
    (folder / "notes.txt").write_bytes(b"none of ours\n")
    found: list[bytes] = []
    offsets: dict[str, int] = {}
    for limit in (limit for _ in range(len(lines) + 1) for limit in limits):
        several = list(LineFolder(folder, block_bytes=block).read(offsets, limit))
        assert sum(len(one.texts) for one in several) == min(limit, len(lines) - len(found))
        for one in several:
            assert one.start == offsets.get(one.file, 0)
            found += one.texts
            offsets[one.file] = one.end()
    assert found == lines


def test_a_reason_is_told_up_to_its_length_and_a_line_too(tmp_path: Path) -> None:
    line = json.dumps({"table": "labevents", "row": {"subject_id": "x" * 9_000}, "known": "2150-01-01 08:00:00"})
    long = '{"table": "' + "x" * 9_000 + '"}'
    follow(SPEC, written(tmp_path / "in", [line, long]), tmp_path / "out", settings=AT_ONCE)
    one, other = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text(encoding="utf-8").splitlines())
    assert [len(each["line"]) for each in (one, other)] == [4_000, 4_000]
    assert [len(each["reason"]) <= 500 for each in (one, other)] == [True, True]
    assert (one["byte"], other["byte"]) == (0, len(line) + 1)


@pytest.mark.parametrize(
    ("partition", "partitions", "is_one"), [(0, 1, True), (1, 1, False), (1, 2, True), (-1, 2, False)]
)
def test_a_partition_is_one_of_its_number(partition: int, partitions: int, is_one: bool, tmp_path: Path) -> None:
    settings = replace(AT_ONCE, partition=partition, partitions=partitions)
    folder = written(tmp_path / "in", GOOD)
    if is_one:
        follow(SPEC, folder, tmp_path / "out", settings=settings)
        return
    with pytest.raises(UserError, match="--partition must be below --partitions"):
        follow(SPEC, folder, tmp_path / "out", settings=settings)
