"""The words of a swap table about time, one by one, and times as texts."""

from __future__ import annotations

from datetime import datetime

import pytest

from wardround.audits.swap.knowledge import (
    Clockwork,
    keys_of,
    last_second,
    later,
    latest,
    read_clock,
    read_moment,
    spell,
)
from wardround.audits.swap.raw_records import Resource, TableRow
from wardround.core import RecordError

ROW = TableRow(
    {
        "time": "2150-01-02 03:00:00",
        "midnight": "2150-01-01 00:00:00",
        "date": "2150-01-03",
        "none": "",
        "key": "a",
        "n": "7",
    }
)


def at(day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2150, 1, day, hour, minute, second)


WORK = Clockwork(
    anchors={
        "ends": {"a": [at(4), at(2, 3), at(1)], "a+7": [at(9)]},
        "admission": {"a": [at(3)]},
        "beginnings": {"a": [at(2, 3), at(4)]},
    }
)


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("time", at(2, 3)),
        ("none", None),
        ("day time", at(2, 23, 59, 59)),
        ("dated time", at(2, 3)),
        ("dated midnight", at(1, 23, 59, 59)),  # midnight stands for its day
        ("day none", None),
        ("time + 5min", at(2, 3, 5)),
        ("time + 2h", at(2, 5)),
        ("time+3d", at(5, 3)),
        ("none + 2h", None),
        ("none | time", at(2, 3)),
        ("midnight | time", at(1)),
        ("none | none", None),
        ("earlier(time, midnight)", at(1)),
        ("earlier(none, time)", at(2, 3)),
        ("earlier(none, none)", None),
        ("earlier(time, date) | midnight", at(2, 3)),
        ("earlier(none | time, date)", at(2, 3)),
        ("earlier(time, date) + 1h", at(2, 4)),
        ("always", datetime.min),
        ("never", datetime.max),
        ("ends by key", at(4)),
        ("ends by none", None),
        ("ends by key+n", at(9)),
        ("ends by key+none", None),
        ("ends after time by key", at(2, 3)),  # at the moment itself is not before it
        ("ends after time + 1min by key", at(4)),
        ("ends after none by key", None),
        ("ends after date by none", None),
        ("ends after date + 2d by key", None),
        ("ends after date by key unless admission", at(4)),
        ("ends after time by key unless admission", at(2, 3)),
        ("ends after time + 1min by key unless admission", None),
        ("ends after time + 1min by key unless beginnings", at(4)),  # neither at its start nor at its end
    ],
)
def test_a_clock_says_when(words: str, known: datetime | None) -> None:
    assert read_clock(words)(ROW, WORK) == known


def test_zero_is_where_minutes_count_from() -> None:
    work = Clockwork(minutes_of="key", zeros={"a": at(1, 8)})
    assert read_clock("zero")(ROW, work) == at(1, 8)
    assert read_clock("zero")(TableRow({"key": "b"}), work) is None
    assert read_clock("zero")(TableRow({}), work) is None
    assert read_clock("zero")(ROW, WORK) is None
    assert work.read(TableRow({"key": "b"}), "offset", "5") is None
    assert work.read(ROW, "offset", "much") is None
    assert work.read(ROW, "offset", "1e300") is None
    assert work.read(ROW, "offset", "-90") == at(1, 6, 30)
    assert WORK.read(ROW, "offset", "90") is None


@pytest.mark.parametrize("words", ["no such thing", "", "time plus 2h"])
def test_what_is_no_clock_is_refused(words: str) -> None:
    with pytest.raises(RecordError, match="is no clock"):
        read_clock(words)


def test_an_anchor_must_be_one() -> None:
    with pytest.raises(RecordError, match="no anchor 'starts'"):
        read_clock("starts by key")(ROW, WORK)


def test_the_latest_of_several_times_and_clocks_counts() -> None:
    seen = Resource({"seen": [{"at": "2150-01-05"}, {"at": "2150-01-02"}]})
    assert read_clock("seen")(seen, WORK) == at(5, 23, 59, 59)
    clocks = [read_clock(words) for words in ("midnight", "time", "none")]
    assert latest(clocks, ROW, WORK) == at(2, 3)
    assert latest(clocks[2:], ROW, WORK) is None
    assert latest([], ROW, WORK) is None


def test_keys_are_the_ends_of_references_and_codes() -> None:
    row = TableRow({"ref": " Patient/12 ", "urn": "urn:uuid:12", "code": "A//B//12", "plain": "12"})
    assert keys_of(row, "ref") == keys_of(row, "urn") == keys_of(row, "plain") == keys_of(row, "code:tail") == ["12"]
    assert keys_of(row, "code") == ["12"]
    assert keys_of(row, "plain+code:tail") == ["12+12"]
    assert keys_of(row, "plain+nothing") == []


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2150-01", at(31, 23, 59, 59)),
        ("2148-02", datetime(2148, 2, 29, 23, 59, 59)),
        ("2150-01-02", at(2, 23, 59, 59)),
        (" 2150-01-02 03:04 ", at(2, 3, 4)),
        ("2150-01-02T03:04:05", at(2, 3, 4, 5)),
        ("2150-01-02T03:04:05.678Z", at(2, 3, 4, 5)),
        ("2150-01-02T03:04:05-05:00", at(2, 3, 4, 5)),
        ("2150-13-02", None),
        ("2150-02-30 01:00", None),
        ("2150", None),
        ("x2150-01-02", None),
        ("", None),
    ],
)
def test_a_text_is_a_time_as_it_is_written(text: str, moment: datetime | None) -> None:
    assert read_moment(text) == moment


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("2000-01-01", "2150-01-02"),
        ("2000-01", "2150-01-02"),
        ("no time", "2150-01-02"),
        ("2000-01-01 00:00", "2150-01-02 03:05"),  # 03:04 may be the moment that it lies behind
        ("2000-01-01 00:00:00", "2150-01-02 03:04:05"),
        (" 2000-01-01T00:00:00Z", "2150-01-02T03:04:05Z"),
        ("2000-01-01T00:00:00.5+01:00", "2150-01-02T03:04:05+01:00"),
    ],
)
def test_a_time_is_written_in_the_form_of_another(form: str, text: str) -> None:
    assert spell(at(2, 3, 4, 5), form) == text


def test_a_whole_minute_is_written_as_it_is() -> None:
    assert spell(at(2, 3, 4), "2000-01-01 00:00") == "2150-01-02 03:04"
    assert spell(at(2, 23, 59, 1), "2000-01-01T00:00Z") == "2150-01-03T00:00Z"


def test_what_lay_later_still_does_and_in_the_same_order() -> None:
    now = at(2)
    assert later(at(2, 10), now, 0.5) == at(2, 5)
    assert later(at(2, 10), now, 2.0) == at(2, 20)
    assert later(at(2, 0, 0, 1), now, 0.1) == at(2, 0, 0, 1)  # never at the moment itself
    assert later(at(2, 0, 0, 30), now, 0.05) == at(2, 0, 0, 2)
    assert later(now, now, 2.0) == later(at(1), now, 2.0) == at(4, 4)  # 52 hours: it waited for another row
    assert last_second(at(2, 3)) == at(2, 23, 59, 59)
