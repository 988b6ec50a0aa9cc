"""Births and deaths of an export, by hand."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pyarrow as pa

from wardround.core import to_microseconds
from wardround.exports.meds.events import CodeBook, EventCounts, EventRows, births_of, first_deaths, plain_events


def events(subjects: list[int], known: list[datetime], event: list[datetime] | None = None) -> EventRows:
    times = np.array([to_microseconds(moment) for moment in known])
    happened = times if event is None else np.array([to_microseconds(moment) for moment in event])
    return plain_events(
        subject=np.array(subjects),
        event=happened,
        known=times,
        time=times,
        concept=np.zeros(len(subjects), np.int64),
        codes=("X",),
        row_id=pa.array([f"r{subject}" for subject in subjects]),
    )


def test_a_birth_300_years_before_the_first_event_hides_an_age_and_is_left_out() -> None:
    counts = EventCounts()
    first = datetime(2150, 1, 1)
    born = [date(1850, 1, 1), date(2051, 6, 1), None, date(2149, 1, 1)]
    made = births_of(
        np.array([1, 2, 3, 4]), born, pa.array(list("abcd")), [events([1, 2], [first, first])], CodeBook(), counts
    )
    assert made.subject.tolist() == [2, 4]
    assert made.time.tolist() == [to_microseconds(datetime(2051, 6, 1)), to_microseconds(datetime(2149, 1, 1))]
    assert (counts.births, counts.masked_births) == (2, 1)


def test_the_death_that_is_known_first_is_the_one_told() -> None:
    """The ward's time of death comes before the register's day, which ends later."""
    counts = EventCounts()
    day_end, at_night = datetime(2150, 1, 2, 23, 59, 59), datetime(2150, 1, 2, 3, 10)
    (made,) = first_deaths([events([1, 2], [day_end, day_end]), events([1], [at_night])], CodeBook(), counts)
    assert dict(zip(made.subject.tolist(), made.known.tolist(), strict=True)) == {
        1: to_microseconds(at_night),
        2: to_microseconds(day_end),
    }
    assert made.codes == ("MEDS_DEATH",)
    assert counts.deaths == 2
