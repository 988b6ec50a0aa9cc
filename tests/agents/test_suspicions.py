"""What a rule made suspect stands on rows: it goes when they are withdrawn or corrected, as if they had never been."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from stay_doubles import LAB, OFFLINE, at, episode_of, event, stay, write

from wardround.agents.stays.player import TracePlayer
from wardround.agents.stays.router import RuleMemory, Suspicion
from wardround.clinical.bundles import BundleEvent, BundleStream, EventKind
from wardround.clinical.bundles.fold import as_they_read
from wardround.records import load_source_spec
from wardround.stream import FollowSettings, coded_responder, follow
from wardround.stream.input import ENCODER

RULES = """
schema = 1
name = "suspicions"
[[rule]]
id = "SHOCK"
category = "SEPSIS"
trigger = "lactate > 4 OR (heart rate > 130 AND NOT potassium > 5)"
actions = ["order lactate"]
suspects = "sepsis"
[[rule]]
id = "NEXT"
category = "SEPSIS"
trigger = "problem sepsis AND creatinine > 2"
actions = ["perform blood culture"]
suspects = "kidney injury"
[[rule]]
id = "ACTS"
category = "RENAL"
trigger = "problem kidney injury"
actions = ["start heparin"]
"""
PULSE = EventKind.VITAL
MIMICIV = load_source_spec("mimiciv")


def lactate(hours: float, value: float, *, revision: int = 0) -> BundleEvent:
    return event(hours, LAB, "Lactate", value, time=at(0), row_id="l:1", revision=revision)


def withdrawn(hours: float) -> BundleEvent:
    return event(hours, EventKind.RETRACTION, "Lactate", row_id="l:1", revision=1)


SUSPECTED = (lactate(0, 5.0), event(1, LAB, "Creatinine", 3.0, row_id="c:1"), event(2, PULSE, "Heart Rate", 80.0))
SECOND = event(2.5, LAB, "Lactate", 6.0, row_id="l:2")


def memories(stream: BundleStream, path: str, *, past: int = 0, agent: str = "trace") -> list[RuleMemory]:
    """What a player remembers after each bundle of a stay."""
    episode = episode_of(agent, OFFLINE, protocol=path)
    player: TracePlayer = episode.agent.player()  # type: ignore[attr-defined]
    bundles, found = list(stream), []
    player.begin(bundles[:past])
    for bundle in bundles[past:]:
        asyncio.run(player.predict(episode, bundle))
        memory = player.router.memory
        found.append(RuleMemory(held_since=memory.held_since, suspected=dict(memory.suspected), began=memory.began))
    return found


def test_a_suspicion_names_the_rows_it_stands_on(tmp_path: Path) -> None:
    path = write(tmp_path, RULES)
    assert memories(stay(*SUSPECTED), path)[-1].suspected == {
        "sepsis": Suspicion(rule="SHOCK", row_ids=("l:1",)),
        "kidney injury": Suspicion(rule="NEXT", row_ids=("l:1", "c:1")),
    }
    fast = (event(0, LAB, "Potassium", 4.0, row_id="k:1"), event(1, PULSE, "Heart Rate", 140.0, row_id="h:1"))
    found = memories(stay(*fast), path)[-1].suspected
    assert found == {"sepsis": Suspicion(rule="SHOCK", row_ids=("h:1", "k:1"))}


@pytest.mark.parametrize("agent", ["trace", "trace-no-state"])
@pytest.mark.parametrize(
    ("later", "left"),
    [
        ((withdrawn(3),), set()),
        ((lactate(3, 1.0, revision=1),), set()),
        ((lactate(3, 4.5, revision=1),), {"sepsis", "kidney injury"}),
        ((SECOND, withdrawn(3)), {"sepsis", "kidney injury"}),
        ((lactate(3, 1.0, revision=1), lactate(4, 5.0, revision=2)), {"sepsis", "kidney injury"}),
        ((lactate(3, 1.0, revision=1), withdrawn(4)), set()),
    ],
)
def test_what_is_remembered_after_an_amendment_is_what_the_visible_chart_says(
    later: tuple[BundleEvent, ...], left: set[str], agent: str, tmp_path: Path
) -> None:
    path = write(tmp_path, RULES)
    quiet = (event(hour + 0.75, PULSE, "Heart Rate", 90.0) for hour in (3, 4, 5))
    stream = stay(*SUSPECTED, *later, *quiet)
    found = memories(stream, path, agent=agent)
    assert found[2].suspected.keys() == {"sepsis", "kidney injury"}
    visible = as_they_read([*stream])
    fresh = memories(visible, path, agent=agent)[-1]
    assert found[-1].suspected == fresh.suspected
    assert found[-1].suspected.keys() == left
    assert found[-1].held_since == fresh.held_since


def test_a_correction_makes_suspect_what_was_not(tmp_path: Path) -> None:
    """The corrected value is long out of the window: it is suspected as it would have been then."""
    stream = stay(lactate(0, 1.0), event(9, PULSE, "Heart Rate", 80.0), lactate(10, 5.0, revision=1))
    assert [set(one.suspected) for one in memories(stream, write(tmp_path, RULES))] == [set(), set(), {"sepsis"}]


def test_what_was_before_the_stay_makes_nothing_suspect(tmp_path: Path) -> None:
    stream = stay(lactate(0, 5.0), event(9, PULSE, "Heart Rate", 80.0), lactate(10, 6.0, revision=1))
    assert [one.suspected for one in memories(stream, write(tmp_path, RULES), past=1)] == [{}, {}]


def line(row_id: str, label: str, value: float, hour: int, **more: object) -> bytes:
    moment = f"2150-01-01 {hour:02d}:10:00"
    row = {"row_id": row_id, "subject_id": 7, "charttime": moment, "label": label, "valuenum": value}
    return bytes(ENCODER.encode({"table": "labevents", "row": row, "known": moment, **more})) + b"\n"


@pytest.mark.parametrize("in_memory", [10**9, 0])
def test_a_live_stream_takes_a_suspicion_back(in_memory: int, tmp_path: Path) -> None:
    """Told of the hours after a withdrawal: what a stream tells to which the result never came."""
    lines, path = tmp_path / "lines", Path(write(tmp_path, RULES))
    told = {}
    gone = {"withdrawn": True, "revision": 1}
    first, last = line("l:1", "Lactate", 5.0, 8), line("l:1", "Lactate", 5.0, 11, **gone)
    others = [line("c:1", "Creatinine", 3.0, 9), line("k:1", "Potassium", 4.0, 10)]
    after = [line("k:2", "Potassium", 4.0, 12), line("k:3", "Potassium", 4.0, 13)]
    for name, some in (("amended", [first, *others, last, *after]), ("never", [*others, *after])):
        (lines / name).mkdir(parents=True)
        (lines / name / "a.jsonl").write_bytes(b"".join(some))
        settings = FollowSettings(once=True, finish=True, lines_per_commit=1, entries_in_memory=in_memory)
        follow(MIMICIV, lines / name, tmp_path / name, settings=settings, responder=coded_responder(path))
        told[name] = (tmp_path / name / "bundles.jsonl").read_text(encoding="utf-8").splitlines()
    assert '"ACTS"' in told["amended"][2]
    assert all('"ACTS"' not in each for each in told["amended"][3:])
    assert told["amended"][-1] == told["never"][-1]
