"""Reflection turn by turn: what the model was asked, what came of it, what was recorded, what it may not know."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from memory_doubles import episode, lesson, origin, turns

from wardround.core import ProviderError, UserError, load_prompt
from wardround.log import EpisodeLog, LogReader, Trajectory
from wardround.memory import (
    Bank,
    ModelAsker,
    Provenance,
    extract_experiences,
    extract_reasoning,
    extract_tool_advice,
    judge_success,
)
from wardround.memory.extract import Room
from wardround.models import Request, ScriptedModel

ITEMS = """### Item 1
Title: Read notes
Description: Early
Content: They name problems.

### Item 2
Title: Stop
Content: In time."""
T = TypeVar("T")


class Session:
    """A scripted model, its asker, and the log they write."""

    def __init__(self, folder: Path, script: Sequence[str | Exception]) -> None:
        self.model = ScriptedModel(list(script))
        self._folder = folder
        self._log = EpisodeLog(folder / "w.episodes.sqlite")
        self._recorder = self._log.begin("reflect/1", {})
        self.asker = ModelAsker(model=self.model, recorder=self._recorder, episode="reflect/1")

    @property
    def asked(self) -> list[str]:
        return [_last(request) for request in self.model.requests]

    def recorded(self) -> Trajectory:
        self._recorder.finish({})
        self._log.close()
        with LogReader(self._folder) as reader:
            return reader.trajectory("reflect/1")


def _last(request: Request) -> str:
    return request.messages[-1].content or ""


def play(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def provenance(tmp_path: Path) -> Iterator[Provenance]:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        yield origin(bank, 1, run="r1", episode="e1")


def test_actor_experiences_compare_the_episode_with_the_right_answer(tmp_path: Path, provenance: Provenance) -> None:
    session = Session(tmp_path, [ITEMS])
    found = play(extract_experiences(session.asker, episode(), kind="actor", provenance=provenance))
    (asked,) = session.asked
    for part in ("Which diagnoses?", "get_latest_records", "- Asthma", "- Gout", "at most 10 items"):
        assert part in asked
    assert "The chest film shows pneumonia." not in asked
    first, second = found.experiences
    assert (first.kind, first.title, first.description, first.content) == (
        "actor",
        "Read notes",
        "Early",
        "They name problems.",
    )
    assert (first.task, first.score, first.provenance.sample) == ("diagnoses", 0.4, "sample-1")
    assert first.provenance.model == "scripted"
    assert first.provenance.prompts["memory/actor"] == load_prompt("wardround.memory", "actor").sha256
    assert second.description == ""
    (turn,) = session.recorded().turns
    assert (turn.purpose, turn.tools, turn.reply.content) == ("reflect_actor", (), ITEMS)


def test_summariser_experiences_see_the_summary_too(tmp_path: Path, provenance: Provenance) -> None:
    session = Session(tmp_path, [ITEMS, "NONE"])
    found = play(extract_experiences(session.asker, episode(), kind="summariser", provenance=provenance))
    assert "## Last summary\nThe chest film shows pneumonia." in session.asked[0]
    assert {one.kind for one in found.experiences} == {"summariser"}
    none = play(extract_experiences(session.asker, episode(summary=""), kind="summariser", provenance=provenance))
    assert "(none was written)" in session.asked[1]
    assert (none.experiences, none.problem) == ((), None)


def test_what_cannot_be_read_is_asked_for_once_more(tmp_path: Path, provenance: Provenance) -> None:
    session = Session(tmp_path, ["I learnt a lot.", ITEMS])
    found = play(extract_experiences(session.asker, episode(), kind="actor", provenance=provenance))
    assert len(found.experiences) == 2
    assert session.asked[1].startswith("Your reply could not be used")
    assert [message.role for message in session.model.requests[1].messages] == ["user", "assistant", "user"]
    assert [turn.ordinal for turn in session.recorded().turns] == [0, 1]


def test_nothing_usable_is_a_named_problem_and_a_note_never_an_error(tmp_path: Path, provenance: Provenance) -> None:
    session = Session(tmp_path, ["I learnt a lot.", "Really."])
    found = play(extract_experiences(session.asker, episode(), kind="actor", provenance=provenance))
    assert found.experiences == ()
    assert found.problem is not None
    assert "no experience could be read" in found.problem
    (note,) = session.recorded().notes
    assert (note.kind, note.detail["kind"]) == ("reflection_failed", "actor")


def test_dropped_items_and_a_reduced_trajectory_are_noted(tmp_path: Path, provenance: Provenance) -> None:
    long = turns(*[("get_rows", "{}", "row of the table\n" * 2000) for _ in range(20)])
    session = Session(tmp_path, [ITEMS + "\n### Item 3\nTitle: Empty"])
    room = Room(context_tokens=6000, reply_tokens=1000)
    play(extract_experiences(session.asker, episode(messages=long), kind="actor", provenance=provenance, room=room))
    assert room.count(session.asked[0]) <= 5000
    reduced, dropped = session.recorded().notes
    assert reduced.kind == "reflection_context"
    assert reduced.detail["prompt"] == "memory/actor"
    assert reduced.detail["results_shortened"] + reduced.detail["turns_left_out"] >= 19
    assert dropped.detail["problems"] == ["item 3 has no content"]
    small = Room(context_tokens=1500, reply_tokens=1000)
    with pytest.raises(UserError, match="no room"):
        play(extract_experiences(session.asker, episode(), kind="actor", provenance=provenance, room=small))


def test_the_comparison_needs_a_target(tmp_path: Path, provenance: Provenance) -> None:
    session = Session(tmp_path, [])
    with pytest.raises(UserError, match="right answer"):
        play(extract_experiences(session.asker, episode(target=None), kind="actor", provenance=provenance))
    with pytest.raises(UserError, match="right answer"):
        play(extract_tool_advice(session.asker, episode(target=None), tool="think", provenance=provenance))
    assert session.asked == []


@pytest.mark.parametrize(("verdict", "judged"), [("success", "success"), ("failure", "failure"), (None, "unreadable")])
def test_reasoning_items_are_judged_without_the_right_answer(
    tmp_path: Path, provenance: Provenance, verdict: str | None, judged: str
) -> None:
    said = "Looks fine." if verdict is None else f"It said verdict: success once.\n**Verdict**: {verdict.title()}"
    session = Session(tmp_path, [said, ITEMS])
    found = play(extract_reasoning(session.asker, episode(), provenance=provenance))
    judging, reflecting = session.asked
    for asked in (judging, reflecting):
        assert "Gout" not in asked
        assert "0.4" not in asked
        assert "- Asthma" in asked
    assert ("looks like a success" if judged == "success" else "looks like a failure") in reflecting
    assert "at most 3 items" in reflecting
    assert {one.kind for one in found.experiences} == {"reasoning"}
    assert all(one.facts == {"judged": judged} and one.score is None for one in found.experiences)
    assert [turn.purpose for turn in session.recorded().turns] == ["judge", "reflect_reasoning"]


def test_tool_advice_is_drawn_from_the_calls_of_that_tool_alone(tmp_path: Path, provenance: Provenance) -> None:
    session = Session(tmp_path, [ITEMS])
    with Bank.open(tmp_path / "other.sqlite") as bank:
        known = [lesson(bank, "Page on", 2, kind="tool", tool="get_latest_records")]
    found = play(
        extract_tool_advice(session.asker, episode(), tool="get_latest_records", provenance=provenance, known=known)
    )
    (asked,) = session.asked
    assert "call get_latest_records" in asked
    assert "get_records_by_keyword" not in asked
    assert "Page on" in asked
    assert {(one.kind, one.tool) for one in found.experiences} == {("tool", "get_latest_records")}
    assert {one.provenance.sample for one in found.experiences} == {"sample-1"}
    unused = play(extract_tool_advice(session.asker, episode(), tool="run_sql_query", provenance=provenance))
    assert unused.problem == "run_sql_query was not called"


def test_a_failing_endpoint_is_the_callers_to_deal_with(tmp_path: Path) -> None:
    session = Session(tmp_path, [ProviderError("down", status=503)])
    with pytest.raises(ProviderError, match="down"):
        play(judge_success(session.asker, episode()))
