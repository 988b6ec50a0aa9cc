"""Dates as publishers write them are read as the last day that they can mean."""

from __future__ import annotations

import pytest

from wardround.tools.knowledge.corpus import last_day


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2011", "2011-12-31"),
        ("2011 Feb", "2011-02-28"),
        ("2012 February", "2012-02-29"),
        ("2011 Mar-Apr", "2011-04-30"),
        ("1998 Dec-1999 Jan", "1999-01-31"),
        ("2000-2001", "2001-12-31"),
        ("2011 Mar 5-Apr 2", "2011-04-02"),
        ("2011 Spring", "2011-06-30"),
        ("2011-03-05T10:00:00Z", "2011-03-05"),
        ("2011/3/5", "2011-03-05"),
        ("2011-02-30", None),
        ("2011-13", None),
        ("May 2011", None),
        ("", None),
    ],
)
def test_the_last_day_it_can_mean(written: str, day: str | None) -> None:
    found = last_day(written)
    assert (None if found is None else found.isoformat()) == day
