"""Births and deaths of an export, by hand."""

from __future__ import annotations

from datetime import date, datetime, timedelta

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


def test_a_birth_so_long_before_the_own_first_event_hides_an_age_and_is_left_out() -> None:
    """People get 125 years old, of 365 days. Of the fifth nothing happened; the fourth has no birthday."""
    counts = EventCounts()
    oldest = timedelta(days=125 * 365)
    first = {1: datetime(2150, 1, 1), 2: datetime(2160, 6, 1), 3: datetime(2050, 1, 1), 4: datetime(2150, 1, 1)}
    seen = events([3, 2, 1, 4, 2], [first[3], first[2], first[1], first[4], first[2] + timedelta(days=9)])
    born: list[date | None] = [date(1850, 1, 1), (first[2] - oldest).date(), (first[3] - oldest).date(), None]
    born[2] = born[2] and born[2] - timedelta(days=1)
    made = births_of(
        np.array([1, 2, 3, 4, 5]), [*born, date(1850, 1, 1)], pa.array(list("abcde")), [seen], CodeBook(), counts
    )
    assert made.subject.tolist() == [2, 5]
    assert made.row_id.to_pylist() == ["b", "e"]
    assert made.time.tolist() == [to_microseconds(first[2] - oldest), to_microseconds(datetime(1850, 1, 1))]
    assert (counts.births, counts.masked_births) == (2, 2)


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
