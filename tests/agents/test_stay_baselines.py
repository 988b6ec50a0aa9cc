"""How the baselines of a stay remember, counted in words; and what TRACE does with what its roles reply."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from doubles import ListRecorder
from stay_doubles import DONE, LAB, OFFLINE, START, at, episode_of, event, play_stay, proposal, stay, write

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.plain import Context, NewestHistory, PlainPlayer, RunningSummary, SimilarSegments
from wardround.agents.stays.player import Parts, TracePlayer
from wardround.agents.stays.settings import TraceSettings
from wardround.clinical.bundles import bundle_text
from wardround.clinical.protocols import GlobalProtocol, RuleIndex
from wardround.models.protocol import Request
from wardround.models.replay import Line, ScriptedModel, say

BUNDLES = list(stay(*(event(hour, DONE, name) for hour, name in enumerate("ABCDEFGHIJ"))))
NO_RULES = RuleIndex(GlobalProtocol(name="none", rules=()))
NEED = 5
"""Words of one of these bundles (its day, its hour, "Procedures:", a letter) and one for the line's end."""


class Words:
    """A token is a word."""

    def count(self, text: str) -> int:
        return len(text.split())


class Letters:
    """A vector says how often each letter is the name of a procedure."""

    name = "letters"

    def encode(self, texts: Any) -> Any:
        return np.array([[float(text.count(f"Procedures: {letter}")) for letter in "ABCDEFGHIJ"] for text in texts])


def counting(model: Any = OFFLINE) -> Any:
    """An episode that counts words."""
    return SimpleNamespace(counter=Words(), model=model)


def shown(memory: Any, bundles: Any, episode: Any = None) -> Context:
    for bundle in bundles:
        memory.take_in(bundle)
    return cast(Context, asyncio.run(memory.context(episode or counting(), bundles[-1])))


def test_bundles_are_as_long_as_these_tests_say() -> None:
    assert {Words().count(bundle_text(one)) + 1 for one in BUNDLES} == {NEED}


def budgets(state: int, buffer: int) -> TraceSettings:
    return TraceSettings(prompt_tokens=10_000, state_tokens=state, rules_tokens=50, buffer_tokens=buffer)


@pytest.mark.parametrize(("room", "kept"), [(50, 20), (54, 20), (55, 21)])
def test_long_context_has_the_room_of_state_and_buffer(room: int, kept: int) -> None:
    many = list(stay(*(event(hour, DONE, "X") for hour in range(40))))
    found = shown(NewestHistory(settings=budgets(50, room)), many)
    assert found.bundles == tuple(many[-kept:])
    assert found.history == "\n".join(map(bundle_text, found.bundles))
    assert (found.summary, found.segments) == ("", "")


def test_at_least_the_newest_bundle_is_shown() -> None:
    big = list(stay(*(event(0, DONE, f"P{number}") for number in range(200))))
    found = shown(NewestHistory(settings=budgets(50, 50)), big)
    assert found.bundles == (big[0],)


def test_segments_of_four_are_found_by_likeness_in_their_order_and_shown_once() -> None:
    memory = SimilarSegments(settings=budgets(1000, 50), encoder=Letters())
    again = stay(*(event(100 + hour, DONE, "B") for hour in range(11)))
    found = shown(memory, [*BUNDLES, *list(again)])
    # 21 bundles: five segments (the newest hour is open); the last ten hours are shown as they are
    assert [len(one) for one in memory.segments] == [4] * 5
    assert len(found.bundles[-10:]) == 10
    assert [one.hour for one in found.bundles] == [*(at(hour) for hour in range(8)), *(at(101 + n) for n in range(10))]
    assert found.segments == "\n".join(map(bundle_text, BUNDLES[:8]))


def test_likeness_decides_where_room_is_short_and_five_are_looked_at() -> None:
    memory = SimilarSegments(settings=budgets(50, 50), encoder=Letters())
    hours = [*"AAAA", *"BBBB", *"CCCC", *"AABB", *"DDDD", *"EEEE", *"FFFFFFFFFF", "A"]
    stream = list(stay(*(event(hour, DONE, name) for hour, name in enumerate(hours))))
    found = shown(memory, stream)
    # AAAA and AABB are nearest; each needs 4 * 4 words and a line's end, 17 of 50, so that no third one fits
    assert found.segments == "\n".join(map(bundle_text, [*stream[:4], *stream[12:16]]))
    assert found.bundles[:8] == (*stream[:4], *stream[12:16])
    assert shown(SimilarSegments(settings=budgets(50, 50), encoder=Letters()), stream[:3]).segments == ""


def test_a_segment_that_just_fits_is_shown() -> None:
    stream = [*BUNDLES[:4], *list(stay(*(event(50 + hour, DONE, "A") for hour in range(11))))]
    for room, shows in ((17, True), (16, False)):
        settings = cast(Any, SimpleNamespace(state_tokens=room, buffer_tokens=50))
        found = shown(SimilarSegments(settings=settings, encoder=Letters()), stream)
        assert bool(found.segments) is shows, room


def summary(text: str) -> Any:
    return say(json.dumps({"summary": text}))


def test_a_running_summary_is_rewritten_from_what_is_new() -> None:
    model = ScriptedModel([summary("first"), say("no"), say("no"), say("no"), summary("third " * 5000)])
    episode = episode_of("single-summary", model)
    memory = RunningSummary(settings=TraceSettings())
    first = shown(memory, BUNDLES[:2], episode)
    assert (first.summary, first.bundles) == ("first", tuple(BUNDLES[:2]))
    said = [request.messages[-1].content or "" for request in model.requests]
    assert "nothing yet" in said[0]
    assert "600" in said[0], "half of the tokens of the state, in words"
    assert bundle_text(BUNDLES[1]) in said[0]
    second = shown(memory, BUNDLES[2:3], episode)
    assert (second.summary, second.bundles) == ("first", (BUNDLES[2],)), "what cannot be read changes nothing"
    third = shown(memory, BUNDLES[3:4], episode)
    assert third.summary.startswith("third third")
    assert episode.counter.count(third.summary) <= 1200
    assert "first" in (model.requests[-1].messages[1].content or "")
    assert {purpose for _, _, _, purpose in cast(ListRecorder, episode.recorder).turns} == {"summary"}


def test_the_offline_policy_has_no_summary() -> None:
    assert shown(RunningSummary(settings=TraceSettings()), BUNDLES[:1]).summary == ""


def test_the_floor_repeats_what_was_decided_last_newest_first_each_once() -> None:
    stream = stay(
        event(0, DONE, "EKG"), event(0, START, "Heparin"), event(1, LAB, "Lactate", 4.8), event(2.3, DONE, "EKG"),
        event(2.1, DONE, "Biopsy"), event(2.2, DONE, "CT"),
    )  # fmt: skip
    last = play_stay("long-context", stream, predictions=2).predictions[-1]
    assert [(one.kind, one.name) for one in last.actions] == [
        ("PROCEDURES", "EKG"),
        ("PROCEDURES", "CT"),
        ("LABS", "Lactate"),
        ("MEDICATIONS", "Heparin"),
    ]
    assert last.notes == {"read": [], "held": []}


RULE = """
schema = 1
name = "two rules"

[[rule]]
id = "R1"
category = "C"
trigger = "lactate > 4"
actions = ["start Heparin", "order Sodium"]
suspects = "sepsis"

[[rule]]
id = "R2"
category = "C"
trigger = "problem sepsis"
actions = ["perform EKG"]

[[rule]]
id = "M1"
category = "C"
trigger = "the patient looks unwell"
actions = ["perform CT"]

[[rule]]
id = "P1"
category = "PRIOR"
trigger = "hours since stay >= 0"
actions = ["order Glucose"]
"""
STREAM = stay(event(0, LAB, "Lactate", 4.8), event(1, DONE, "Biopsy"))


def test_a_baseline_with_the_protocol_says_what_is_due_before_what_it_repeats(tmp_path: Path) -> None:
    played = play_stay("long-context+protocol", STREAM, protocol=write(tmp_path, RULE))
    first, second = played.predictions
    assert (first.notes, second.notes) == ({"read": ["R1"], "held": ["R1"]},) * 2
    assert [(one.name, one.because) for one in first.actions] == [
        ("Heparin", ("R1",)),
        ("Sodium", ("R1",)),
        ("Lactate", ()),
    ]
    assert [one.name for one in second.actions] == ["Heparin", "Sodium", "Biopsy", "Lactate"]


def test_a_baseline_asks_a_model_with_its_rules_and_history(tmp_path: Path) -> None:
    model = ScriptedModel([proposal(("LABS", "Sodium"), ("LABS", "Glucose"))] * 2)
    played = play_stay("long-context+protocol", STREAM, model, protocol=write(tmp_path, RULE), predictions=1)
    assert [[one.name for one in step.actions] for step in played.predictions] == [["Sodium"], ["Sodium"]]
    said = [request.messages[-1].content or "" for request in model.requests]
    assert "[R1] IF lactate > 4 THEN start Heparin, order Sodium. Still to be done: all of it." in said[0]
    assert bundle_text(STREAM[0]) in said[0]
    assert bundle_text(STREAM[0]) in said[1]
    past = PlainPlayer(
        NewestHistory, RuleIndex(GlobalProtocol(name="n", rules=())), TraceSettings(), with_protocol=True
    )
    past.begin(list(STREAM))
    assert (len(cast(NewestHistory, past.history).past), len(past.steward.past)) == (2, 2)


def traced(model: ScriptedModel, folder: Path, **settings: Any) -> Any:
    return play_stay("trace", STREAM, model, protocol=write(folder, RULE), **settings)


def test_trace_in_code_reads_rules_suspects_and_fills(tmp_path: Path) -> None:
    played = play_stay("trace", STREAM, protocol=write(tmp_path, RULE))
    assert [step.notes["held"] for step in played.predictions] == [["R1"], ["R1", "R2"]], "suspected from then on"
    assert [step.notes["read"] for step in played.predictions] == [["R1"], ["R1", "R2"]]
    assert played.names == [{"Heparin", "Sodium"}, {"Heparin", "Sodium", "EKG"}]
    filled = play_stay("trace", STREAM, protocol=write(tmp_path, RULE), fill=True)
    assert filled.names[0] == {"Heparin", "Sodium", "Glucose"}
    bare = play_stay("trace-no-protocol", STREAM, protocol=write(tmp_path, RULE), fill=True)
    assert (bare.names, bare.predictions[0].notes["held"]) == ([set(), set()], [])


def test_a_router_by_model_sees_rules_that_no_code_can_judge_and_may_select_the_known(tmp_path: Path) -> None:
    chosen = say(json.dumps({"selected_protocol_ids": ["[M1]", "R9", "M1", "R2", "R1"]}))
    model = ScriptedModel([chosen, chosen])
    played = traced(model, tmp_path, router="model", reasoner="code", rules=2)
    assert [step.notes["read"] for step in played.predictions] == [["M1", "R2"], ["M1", "R2"]]
    assert played.names[0] == {"CT", "EKG"}
    said = model.requests[1].messages[-1].content or ""
    places = [said.index(f"[{name}]") for name in ("R1", "R2", "M1")]
    assert places == sorted(places), "those that hold come first"
    assert "[P1]" not in said


def test_a_reasoner_by_model_is_shown_rules_and_state_and_may_cite_both(tmp_path: Path) -> None:
    replies = [proposal(("LABS", "Sodium"), cited=["R1", "S-01", "S-77"])] * 2
    model = ScriptedModel(replies)
    played = traced(model, tmp_path)
    first, second = played.predictions
    assert first.notes["citations"] == ["R1", "S-01"]
    assert first.notes["wrong_citations"] == ["S-77"]
    assert first.notes["next_bundle_type"] == "LABS"
    assert first.actions == (PredictedAction(kind="LABS", name="Sodium", because=("R1", "S-01", "S-77")),)
    said = [request.messages[-1].content or "" for request in model.requests]
    assert "S-01 suspected problem: sepsis (by rule R1)" in said[0]
    assert "R1, S-01" in said[0], "examples of what may be cited"
    assert second.notes["read"] == ["R1", "R2"]


def test_a_keeper_by_model_writes_the_state_that_prompts_show(tmp_path: Path) -> None:
    kept = {"active_problems": ["p1"], "current_meds": ["m1"], "trajectory": ["t1"], "allergies": [], "procedures": []}

    def line(request: Request) -> Line:
        return say(json.dumps(kept)) if "active_problems" in str(request) else proposal(cited=["S-03", "S-04"])

    model = ScriptedModel(line)
    played = traced(model, tmp_path, keeper="model")
    said = [request.messages[-1].content or "" for request in model.requests]
    written = "S-01 problem: p1\nS-02 given now: m1\nS-03 trend: t1"
    assert [written in one for one in said] == [False, False, True, True], "from the next step on, to the keeper too"
    assert played.predictions[1].notes["citations"] == ["S-03"]
    assert [purpose for _, _, _, purpose in played.recorder.turns] == ["steward", "reasoner"] * 2


def test_what_was_before_the_stay_is_known_and_foretold_from(tmp_path: Path) -> None:
    player = TracePlayer(NO_RULES, TraceSettings(), Parts(auditor=False))
    player.begin([STREAM[0]])
    facts, actions = player.foretell(STREAM[1])
    assert (facts.done("Lactate"), facts.hours_since("stay"), actions) == (True, 1.0, ())
    facts, _ = player.foretell(stay(event(3, DONE, "CT"))[0])
    assert facts.hours_since("stay") == 3.0


def test_who_is_asked_is_said_by_the_settings() -> None:
    asked = {}
    for reasoner in ("auto", "code", "model"):
        player = TracePlayer(NO_RULES, TraceSettings(reasoner=cast(Any, reasoner)), Parts())
        asked[reasoner] = [player.reasons_by_model(counting(SimpleNamespace(name=name))) for name in ("offline", "m")]
    assert asked == {"auto": [False, True], "code": [False, False], "model": [True, True]}
