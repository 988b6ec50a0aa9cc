"""Kleene's tables, and courses over readings by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from wardround.clinical.vocabulary import (
    Truth,
    Window,
    all_of,
    any_of,
    baseline,
    change,
    count,
    falls_by,
    held_for,
    highest,
    latest,
    lowest,
    negate,
    rises_by,
)

NOON = datetime(2150, 3, 1, 12)


def at(*readings: tuple[float, float]) -> list[tuple[datetime, float]]:
    """Readings by hours after noon."""
    return [(NOON + timedelta(hours=hours), value) for hours, value in readings]


def test_what_is_unknown_stays_unknown_unless_the_rest_decides() -> None:
    assert [all_of(x) for x in ((), (True, None), (None, False), (True, True))] == [True, None, False, True]
    assert [any_of(x) for x in ((), (False, None), (None, True), (False,))] == [False, None, True, False]
    assert [negate(x) for x in (True, False, None)] == [False, True, None]


def test_windows_end_now_and_begin_with_the_encounter() -> None:
    series = at((-30, 1.0), (-2, 3.0), (-1, 2.0))
    day = Window(now=NOON, hours=24)
    assert (latest(series, day), lowest(series, day), highest(series, day), count(series, day)) == (2.0, 2.0, 3.0, 2)
    assert lowest(series) == 1.0
    assert count(series, Window(now=NOON, encounter=NOON - timedelta(hours=1))) == 1
    assert latest((), day) is None
    assert baseline(series, Window(now=NOON)) == 1.0
    assert baseline(series[:1], Window(now=NOON)) is None
    assert change(series, 4) == -1.0
    assert change(series, 0.5) is None


@pytest.mark.parametrize(
    ("series", "d", "within", "truth"),
    [
        (at((0, 1.0), (20, 1.3)), 0.3, 48, True),
        (at((0, 1.0), (20, 1.2)), 0.3, 48, False),
        (at((0, 1.0), (50, 1.4)), 0.3, 48, None),  # the earlier one is out of the window: one reading says nothing
        (at((0, 1.0)), 0.3, 48, None),
        ((), 0.3, 48, None),
        (at((0, 1.0), (5, 0.6), (9, 1.0)), 0.3, 48, True),  # from the lowest
        (at((0, 1.0), (5, 2.0), (9, 1.1)), 0.3, 48, False),  # it rose and came back
    ],
)
def test_a_rise_is_the_newest_over_the_lowest_before(
    series: list[tuple[datetime, float]], d: float, within: float, truth: Truth
) -> None:
    assert rises_by(series, d, within) is truth
    assert falls_by([(time, -value) for time, value in series], d, within) is truth


@pytest.mark.parametrize(
    ("series", "truth"),
    [
        (at((0, 60), (0.5, 62)), True),
        (at((0, 60), (1, 62)), True),
        (at((0, 60), (0.25, 62)), None),  # nobody charted what was before
        (at((-0.1, 70), (0, 60), (0.25, 62)), False),
        (at((-2, 70), (0, 60), (0.25, 62)), None),  # it fell below somewhere in between
        (at((0, 60), (0.5, 70)), False),
        (at((0, 60), (8, 60)), None),  # eight hours without a reading
        (at((0, 60)), None),
        ((), None),
    ],
)
def test_held_for_half_an_hour(series: list[tuple[datetime, float]], truth: Truth) -> None:
    assert held_for(series, lambda value: value < 65, 30) is truth
