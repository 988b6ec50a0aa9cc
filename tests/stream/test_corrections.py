"""What was corrected or withdrawn: from then on all is said as if it had never been wrong, whatever lies in memory."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_lines import written, written_of

from effort import often
from wardround.clinical.bundles import BundleEvent, EventKind, PatientState
from wardround.clinical.bundles.state import event_of
from wardround.records import load_source_spec
from wardround.stream import FollowSettings, coded_responder, follow
from wardround.stream.closing import HourEvents, as_read_now
from wardround.stream.follow import states_of

SPEC = load_source_spec("mimiciv")
RULES = """
schema = 1
name = "ward"
[[rule]]
id = "LACTATE"
category = "SEPSIS"
trigger = "lactate > 4 mmol/L"
actions = ["order lactate", "start norepinephrine"]
suspects = "shock"
[[rule]]
id = "SHOCK"
category = "SEPSIS"
trigger = "problem shock AND hours since stay > 3"
actions = ["order potassium", "start vancomycin"]
[[rule]]
id = "ANY"
category = "SEPSIS"
trigger = "any lactate > 4 mmol/L in last 12 h"
actions = ["order sodium"]
[[rule]]
id = "OFTEN"
category = "LABS"
trigger = "count of lactate in last 9 h >= 2"
actions = ["order creatinine"]
[[rule]]
id = "RISES"
category = "RENAL"
trigger = "creatinine rises by >= 0.3 mg/dL within 48 h OR creatinine is high"
actions = ["start furosemide"]
suspects = "kidney injury"
[[rule]]
id = "ODD"
category = "LABS"
trigger = "oddity is high"
actions = ["order oddity"]
"""
BEGIN = datetime(2150, 1, 1, 8)
CONCEPTS = ("Lactate", "Creatinine", "Oddity")
UNITS = {"Lactate": "mmol/L", "Creatinine": "mg/dL", "Oddity": "u", "Heart Rate": "bpm"}


@dataclass(frozen=True)
class Result:
    """A result, known at a minute, or a later version of it; ``value`` None: there was none."""

    row: str
    concept: str
    minute: int
    value: float | None
    taken: int
    revision: int = 0

    def line(self) -> str:
        known, time = (f"{BEGIN + timedelta(minutes=each):%Y-%m-%d %H:%M:%S}" for each in (self.minute, self.taken))
        cells = {"row_id": self.row, "subject_id": 7, "label": self.concept, "valueuom": UNITS[self.concept]}
        line = {"table": "labevents", "row": {**cells, "valuenum": self.value or 0.0}, "known": known}
        return json.dumps({**line, "time": time, "revision": self.revision, "withdrawn": self.value is None})


@st.composite
def results(draw: st.DrawFn) -> tuple[list[Result], list[Result]]:
    """Results of one patient, and their later versions, in order; more bundles than lie in memory or a snapshot."""
    values = st.sampled_from([0.5, 1.0, 1.4, 3.0, 4.5, 9.0])
    first: list[Result] = []
    minute = 0
    for place in range(draw(st.integers(2, 70))):
        minute += draw(st.sampled_from([5, 20, 60, 70, 190, 800]))
        first.append(
            Result(
                f"l:{place}", draw(st.sampled_from(CONCEPTS)), minute, draw(values), minute - draw(st.integers(0, 90))
            )
        )
    later: list[Result] = []
    for revision in range(1, draw(st.integers(1, 6)) + 1):
        wrong = draw(st.sampled_from(first))
        when = wrong.minute + draw(st.sampled_from([1, 30, 60, 300, 1_500, 4_000]))
        later.append(replace(wrong, minute=when, value=draw(st.none() | values), revision=revision))
    return first, sorted(later, key=lambda one: (one.minute, one.revision))


def lines_of(several: list[Result]) -> list[str]:
    return [one.line() for one in sorted(several, key=lambda one: (one.minute, one.revision))]


def followed(lines: list[str], folder: Path, **how: int) -> tuple[list[bytes], PatientState]:
    """Follow lines; return what is told and the state."""
    rules = folder / "ward.toml"
    rules.write_text(RULES, encoding="utf-8")
    with tempfile.TemporaryDirectory(dir=folder) as name:
        settings = FollowSettings(once=True, finish=True, **how)
        source, out = written(Path(name) / "in", lines), Path(name) / "out"
        report = follow(SPEC, source, out, settings=settings, responder=coded_responder(rules))
        assert report.refused == 0
        return written_of(out)[7], states_of(SPEC, out, responder=coded_responder(rules))[7]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corrections")


@settings(max_examples=often(12, 300), deadline=None)
@given(drawn=results())
def test_what_is_corrected_is_told_on_as_if_it_had_never_been_wrong(
    drawn: tuple[list[Result], list[Result]], folder: Path
) -> None:
    """Byte for byte, after the hour of the last correction; a pulse is there in every hour, so that each is told."""
    first, later = drawn
    last = max(one.minute for one in later)
    pulses = [
        Result(f"p:{hour}", "Heart Rate", hour * 60 + 59, 80.0, hour * 60 + 59) for hour in range(last // 60 + 30)
    ]
    newest = {one.row: one for one in later}
    right = [replace(one, value=newest[one.row].value) if one.row in newest else one for one in first]
    wrong_told, wrong_state = followed(lines_of([*first, *later, *pulses]), folder)
    right_told, right_state = followed(lines_of([*(one for one in right if one.value is not None), *pulses]), folder)
    assert len(wrong_told) == len(right_told)
    behind = last // 60 + 1
    since = f"{BEGIN + timedelta(hours=behind):%Y-%m-%d %H:00}"
    told = [[each for each in several if json.loads(each)["hour"] >= since] for several in (wrong_told, right_told)]
    assert len(told[0]) >= 20
    assert told[0] == told[1]
    assert wrong_state == right_state


@settings(max_examples=often(12, 300), deadline=None)
@given(drawn=results())
def test_neither_memory_nor_commits_change_what_is_told_of_corrections(
    drawn: tuple[list[Result], list[Result]], folder: Path
) -> None:
    """Bundles of which a withdrawal leaves nothing are looked at all the same, now and when they are read back."""
    first, later = drawn
    lines = lines_of([*first, *later])
    expected = followed(lines, folder)
    for how in ({"entries_in_memory": 0, "lines_per_commit": 3}, {"entries_in_memory": 120, "lines_per_commit": 1}):
        assert followed(lines, folder, **how) == expected


def test_a_corrected_row_reads_as_if_it_had_been_right_from_its_hour_on() -> None:
    """Beside it a row that was withdrawn, and one that nobody touched."""

    def result(row: str, hours: float, value: float, revision: int = 0, kind: EventKind = EventKind.LAB) -> BundleEvent:
        moment = datetime(1970, 1, 1) + timedelta(hours=hours)
        return event_of(kind, row, moment, value=value, row_id=row, revision=revision)

    wrong, gone, other = result("a", 1.5, 9.0), result("b", 1.5, 4.0), result("c", 3.5, 2.0)
    right, withdrawn = result("a", 3.5, 1.0, 1), result("b", 4.5, 4.0, 1, EventKind.RETRACTION)
    hours = [
        HourEvents(hour, [(event, True) for event in events])
        for hour, events in ((1, (wrong, gone)), (3, (right, other)), (4, (withdrawn,)))
    ]
    read = {each.hour: [event for event, _ in each.events] for each in as_read_now(hours, lambda row: False)}
    assert [(event.row_id, event.value, event.known.hour, event.revision) for event in read[1]] == [("a", 1.0, 1, 0)]
    assert (read[3], read[4]) == ([other], [])
