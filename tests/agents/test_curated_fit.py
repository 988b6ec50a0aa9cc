"""What of an evidence package fits: the summary gives way first, then the oldest events, and what is cut is counted."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.agents.evidence import CuratedInput
from wardround.agents.methods.curated import _fitted, _window
from wardround.core import to_microseconds
from wardround.tasks.answers import CuratedWindow

START = datetime(2150, 1, 1)
ASKED = to_microseconds(START + timedelta(hours=12))


class Marks:
    """Counts the letters of the summary and the events, and nothing else."""

    def count(self, text: str) -> int:
        return text.count("§") + text.count("EVENT")


def package(events: int = 8, summary: int = 16) -> CuratedInput:
    return CuratedInput(
        person=("sex: F",),
        admission=("type: URGENT",),
        summary="§" * summary,
        summary_time="2149-01-01",
        events=tuple(f"EVENT-{number}" for number in range(events)),
        events_left_out=2,
        start=START,
        begins=tuple(to_microseconds(START + timedelta(hours=number)) for number in range(events)),
        first=to_microseconds(START - timedelta(hours=2)),
    )


@pytest.mark.parametrize(
    ("room", "events", "left_out", "cut", "tokens"),
    [
        (24, 8, 2, 0, 24),
        (23, 8, 2, 4, 20),  # three quarters of the summary, again and again
        (20, 8, 2, 4, 20),
        (19, 8, 2, 7, 17),
        (9, 8, 2, 15, 9),
        (8, 8, 2, 16, 8),
        (7, 5, 5, 14, 7),  # a quarter of the events and one more goes; then there is room for the summary's begin
        (5, 5, 5, 16, 5),
        (4, 3, 7, 15, 4),
        (2, 2, 8, 16, 2),
        (1, 1, 9, 16, 1),
        (0, 0, 10, 16, 0),
        (-1, 0, 10, 16, 0),
    ],
)
def test_the_summary_is_cut_first_then_the_oldest_events(
    room: int, events: int, left_out: int, cut: int, tokens: int
) -> None:
    text, facts = _fitted(package(), cast(Any, SimpleNamespace(counter=Marks())), room, ASKED)
    reach = (facts.pop("hours_shown"), facts.pop("hours"))
    assert reach == (0 if not events else 12 - (8 - events), 14), "the events begin an hour after each other"
    assert facts == {"events": events, "events_left_out": left_out, "summary_characters_cut": cut, "tokens": tokens}
    assert [f"EVENT-{number}" in text for number in range(8)] == [number >= 8 - events for number in range(8)]
    assert text.count("§") == 16 - cut
    assert ("sex: F" in text, "type: URGENT" in text) == (True, True)


def test_without_a_package_of_its_own_a_question_gets_a_hundred_events_of_a_day() -> None:
    chart = cast(Any, SimpleNamespace(as_of=datetime(2150, 1, 2)))
    usual = CuratedWindow(start=START, most_events=100)
    own = CuratedWindow(start=START, most_events=3)
    for question, window in (
        (None, usual),
        (SimpleNamespace(curated=None), usual),
        (SimpleNamespace(curated=own), own),
    ):
        assert _window(cast(Any, SimpleNamespace(question=question)), chart) == window
