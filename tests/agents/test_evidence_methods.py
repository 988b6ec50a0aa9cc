"""The methods of the EHR-RAG paper, turn by turn: what was retrieved, who was shown what, and what failures do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence_doubles import ASKED, Played, Script, WordEncoder, events, findings, job, last, shown
from questions import ANEMIA, OPEN

from tools.retrieval.histories import Row, day
from wardround.agents import EstimatedTokens, Limits, check_question, get_agent, list_agents
from wardround.agents.evidence import Evidence
from wardround.agents.iterative_retrieval import read_query, read_step
from wardround.agents.loop.context import count_message, count_schemas
from wardround.agents.methods.ehr_rag import decision_text, sides
from wardround.core import Message, PromptFile, ProviderError, UserError
from wardround.models import call, say

METHODS = [method.name for method in list_agents("ehr-rag")]


def test_direct_shows_the_latest_events_in_one_call_without_tools() -> None:
    played = Played("direct", findings(), recent_events=3)
    assert played.purposes == ["act"]
    [request] = played.requests
    assert events(request) == ["stroke 0", "gout 0", "burn 0"]
    assert request.tools == ()
    assert "one label of 0, 1" in (request.messages[0].content or "")
    assert "Searched for" not in shown(request)
    assert (played.outcome.answer, played.outcome.finish, played.outcome.turns) == (("1",), "text", 1)


def test_rag_shows_the_chunks_nearest_to_the_factual_query() -> None:
    played = Played("rag", findings(repeated=3), top_passages=3)
    [request] = played.requests
    assert events(request) == ["fever 0", "fever 1", "fever 2"]
    assert "Searched for: fever." in shown(request)
    assert played.notes("retrieval", "way", "query", "events") == [("nearest", "fever", 3)]


def test_rule_rag_shows_the_events_of_the_commonest_codes_in_time_order() -> None:
    rows = [Row(name=f"{word} 0", time=day(n), kind="diagnosis") for n, word in enumerate(["gout", "rash", "gout"])]
    [request] = Played("rule-rag", rows, recent_events=2).requests
    assert events(request) == ["gout 0", "gout 0"]


def test_rule_rag_keeps_the_commonest_codes_where_room_is_short_not_the_latest_events() -> None:
    early = [Row(name="gout 1", time=day(n), kind="diagnosis") for n in range(200)]
    late = [Row(name=f"rash {n}", time=day(200 + n), kind="diagnosis") for n in range(150)]
    limits = Limits(context_tokens=2_000, reply_tokens=300)
    played = Played("rule-rag", early + late, limits=limits)
    shown_events = events(played.requests[0])
    assert set(shown_events) == {"gout 1"}
    assert 3 <= len(shown_events) < 200
    assert set(events(Played("direct", early + late, limits=limits).requests[0])) != {"gout 1"}
    assert len(events(Played("rule-rag", early + late).requests[0])) == 350


def test_uniform_rag_draws_by_the_episode_s_seed() -> None:
    drawn = [tuple(events(Played("uniform-rag", findings(repeated=5), seed=seed).requests[0])) for seed in (1, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1
    assert all(len(one) == 2 for one in drawn)


def test_uniform_rag_keeps_random_chunks_where_room_is_short_not_the_earliest() -> None:
    rows = [Row(name=f"gout {n}", time=day(n), kind="diagnosis") for n in range(300)]
    kept: list[int] = []
    for seed in range(8):
        played = Played(
            "uniform-rag",
            rows,
            seed=seed,
            limits=Limits(context_tokens=2_000, reply_tokens=300),
            chunk_rows=10,
            top_passages=10,
        )
        [drawn] = [note["passages"] for note in played.recorder.of("retrieval")]
        starts = sorted(int(passage.split(":")[1].split("-")[0]) for passage in drawn)
        places = [int(name.split()[1]) // 10 * 10 for name in events(played.requests[0])]
        assert 0 < len(set(places)) < len(starts)
        kept += [starts.index(place) for place in set(places)]
    assert max(kept) > 5


@pytest.mark.parametrize("useless", [say("I shall argue now."), call("get_rows", table_name="x"), say("")])
def test_what_is_no_case_is_asked_for_again_once_and_not_used(useless: Any) -> None:
    weak = say("The case for 0 is weak.")
    played = Played("ehr-rag-no-air", findings(), Script(argue=[useless, say(f"They were ill. {CASE}"), weak]))
    assert played.purposes == ["argue_for", "argue_for", "argue_against", "act"]
    decision = last(played.requests[-1])
    assert "They were ill." in decision
    assert "The case for 0 is weak." in decision, "that a case is weak takes few words"
    assert "I shall argue now." not in decision
    again = Played("ehr-rag-no-air", findings(), Script(argue=[useless, useless, weak]))
    assert "(none was written)" in last(again.requests[-1])


def test_what_is_no_search_is_asked_for_again_once_and_not_searched_for() -> None:
    tool = call("get_rows", table_name="x")
    steps = [tool, say("Query: rash"), say("Let me think about it."), say("Query: gout"), say("Query: ENOUGH")]
    played = Played("react-rag", findings(), Script(search=steps))
    assert played.notes("query", "query", "stop") == [("rash", None), ("gout", None), ("", "enough")]
    assert played.notes("asked_again", "role") == [("search",), ("search",)]
    refined = Played("ehr-rag-no-der", findings(), Script(refine=[tool, say("rash"), say("ENOUGH")]))
    assert refined.notes("query", "query") == [("rash",), (None,)]


CASE = "The strongest finding of all is the fever of the first day."


def test_ehr_rag_retrieves_for_both_sides_argues_both_and_decides_on_both() -> None:
    script = Script(
        rerank=say('["indicator 3", "indicator 11"]'),
        refine=[say("rash"), say("ENOUGH"), say("Refined query: stroke"), say("gout")],
        argue=[say(f"They were ill. {CASE}"), say(f"They got better. {CASE}")],
    )
    played = Played("ehr-rag", findings(indicators=12), script)
    expected = ["rerank", "refine", "refine", "argue_for", "refine", "refine", "argue_against", "act"]
    assert played.purposes == expected
    found = [events(request) for request in played.requests]
    factual, other = ["fever 0", "rash 0"], ["cough 0", "stroke 0", "gout 0"]
    assert found[1:4] == [["fever 0"], factual, factual]
    assert found[4:7] == [["cough 0"], other[:2], other]
    assert found[7] == ["fever 0", "cough 0", "rash 0", "stroke 0", "gout 0"], "eq. 7: the union, in time order"
    for request in played.requests[1:]:
        assert "indicator 3 (u): 5 at" in shown(request), "the numbers are shared (eq. 6)"
        assert "indicator 4 (u)" not in shown(request)
    assert "label is 1 (readmission)" in last(played.requests[3])
    assert "label is 0 (no readmission)" in last(played.requests[6])
    decision = last(played.requests[7])
    assert "They were ill." in decision
    assert "They got better." in decision
    assert "both are weak, choose 0" in decision
    assert all(request.tools == () for request in played.requests)
    assert played.outcome.answer == ("1",)


def test_refining_is_told_what_was_searched_and_stops_at_the_last_round() -> None:
    script = Script(refine=[say("rash"), say("fall"), say("never asked")])
    played = Played("ehr-rag-no-der", findings(), script)
    assert played.purposes == ["refine", "refine", "act"]
    assert "- fever\n" in last(played.requests[0])
    assert "- fever\n- rash\n" in last(played.requests[1])
    assert "At most 15 words" in last(played.requests[0])
    assert events(played.requests[2]) == ["fever 0", "rash 0", "fall 0"]
    asked = [("fever", 1), ("rash", 2), ("fall", 3)]
    assert played.notes("retrieval", "query", "round") == asked
    assert Played("ehr-rag-no-der", findings(), rounds=1).purposes == ["act"]


LONG = "burn " + " ".join(f"word{n}" for n in range(20))


@pytest.mark.parametrize(
    ("reply", "found", "note"),
    [
        (say("ENOUGH"), ["fever 0"], {"stop": "enough"}),
        (say("**ENOUGH**"), ["fever 0"], {"stop": "enough"}),
        (say("<think>hm</think>ENOUGH."), ["fever 0"], {"stop": "enough"}),
        (say('"Fever."'), ["fever 0"], {"stop": "repeated", "query": "Fever"}),
        (say(LONG), ["fever 0", "burn 0"], {"cut_from_words": 21, "query": " ".join(LONG.split()[:15])}),
        (say("- Query: burn\nbecause it matters"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("**Refined query**: burn"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("The evidence is ENOUGH."), ["fever 0"], {"stop": "failed: it held no query"}),
        (say("Everything is covered now.\n\nENOUGH"), ["fever 0"], {"stop": "enough"}),
        (say("Not yet ENOUGH.\nburn"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("The excerpts are NOT ENOUGH: wounds are missing.\n- burn"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("I have looked at the skin findings\n\nburn"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("burn\nThis would show an injury."), ["fever 0", "burn 0"], {"query": "burn"}),
        (say('I would search for "burn" next.'), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("Sure, the next search: burn"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("Wounds were not covered.\nThere may be a burn of the hand"), ["fever 0", "burn 0"], {}),
        (say("Here is the next search:\nburn"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("Burns are missing.\nRefined query: burn"), ["fever 0", "burn 0"], {"query": "burn"}),
        (say("   "), ["fever 0"], {"stop": "failed: it was empty"}),
        (say("***"), ["fever 0"], {"stop": "failed: it held no query"}),
        (ProviderError("down", status=503), ["fever 0"], {"stop": "failed: down"}),
        (call("get_rows", table_name="x"), ["fever 0"], {"stop": "failed: it called a tool instead"}),
    ],
    ids=[
        "enough",
        "bold",
        "thought",
        "repeated",
        "too long",
        "labelled",
        "bold label",
        "enough in a sentence",
        "enough on a line of its own",
        "enough denied",
        "not enough",
        "preamble",
        "reason behind",
        "quoted",
        "announced in a line",
        "sentences",
        "announced",
        "reasoned",
        "empty",
        "marks",
        "provider",
        "call",
    ],
)
def test_what_a_refinement_may_say(reply: Any, found: list[str], note: dict[str, Any]) -> None:
    played = Played("ehr-rag-no-der", findings(), Script(refine=reply), rounds=2)
    assert events(played.requests[-1]) == found
    [noted] = played.recorder.of("query")
    assert {name: noted[name] for name in note} == note
    assert played.outcome.answer == ("1",)


def test_a_search_that_adds_nothing_ends_the_rounds() -> None:
    script = Script(refine=[say("a fever in other words"), say("never asked")])
    played = Played("ehr-rag-no-der", findings(), script, rounds=3)
    assert played.purposes == ["refine", "act"]
    stops = [note.get("stop") for note in played.recorder.of("query")]
    assert stops == [None, "nothing new"]
    assert events(played.requests[-1]) == ["fever 0"]


def test_a_chosen_indicator_is_not_lost_to_one_that_differs_in_case() -> None:
    rows = [Row(name=name, time=day(300), value=value) for name, value in (("hemoglobin", 5.0), ("Hemoglobin", 12.0))]
    rows += findings(indicators=4)
    for chosen, other in (("Hemoglobin", "hemoglobin"), ("hemoglobin", "Hemoglobin")):
        played = Played("ehr-rag-no-der", rows, Script(rerank=say(f'["{chosen}", "indicator 1"]')), fine=2)
        assert played.notes("indicators", "chosen", "invented") == [([chosen, "indicator 1"], 0)]
        assert f"- {chosen}: " in shown(played.requests[-1])
        assert f"- {other}: " not in shown(played.requests[-1])


@pytest.mark.parametrize(
    ("reply", "chosen", "note"),
    [
        (say('["indicator 9", "indicator 2"]'), ["indicator 9", "indicator 2"], {"by": "the model", "invented": 0}),
        (say('```json\n["Indicator 9", "age"]\n```'), ["indicator 9"], {"by": "the model", "invented": 1}),
        (say('["age", "mood"]'), None, {"by": "likeness", "failed": "no name of the list was given"}),
        (say("I would take the ninth. And others."), None, {"by": "likeness"}),
        (ProviderError("down"), None, {"by": "likeness", "failed": "down"}),
    ],
    ids=["exact", "invented", "all invented", "prose", "provider"],
)
def test_the_choice_of_indicators(reply: Any, chosen: list[str] | None, note: dict[str, Any]) -> None:
    played = Played("ehr-rag-no-der", findings(indicators=12), Script(rerank=reply), fine=3)
    [noted] = played.recorder.of("indicators")
    nearest = [f"indicator {n}" for n in ("0", "1", "10")]  # all alike, so by name
    assert noted["chosen"] == (chosen or nearest)
    assert {name: noted[name] for name in note} == note
    assert noted["coarse"] == 12
    text = shown(played.requests[-1])
    assert all(f"- {name} (u): " in text for name in noted["chosen"])
    values = [f"{int(noted['chosen'][0].split()[1]) + step} at" for step in range(2, 7)]
    line = next(line for line in text.splitlines() if line.startswith(f"- {noted['chosen'][0]} (u)"))
    assert [part for part in values if f" {part}" in line] == values, "the last five"
    assert "(2 older not shown)" in line


def test_too_many_names_are_cut_and_few_indicators_need_no_choice() -> None:
    names = ", ".join(f'"indicator {n}"' for n in range(12))
    played = Played("ehr-rag-no-air", findings(indicators=12), Script(rerank=say(f"[{names}]")), fine=4)
    [noted] = played.recorder.of("indicators")
    assert (len(noted["chosen"]), noted["too_many"]) == (4, 8)
    assert "rerank" not in Played("ehr-rag-no-air", findings(indicators=4), fine=4).purposes


def test_the_ablations_leave_out_their_part() -> None:
    rows, more = findings(indicators=12), [say("rash"), say("fall"), say("stroke"), say("gout")]
    without_ether = Played("ehr-rag-no-ether", rows, Script(refine=list(more)))
    assert without_ether.purposes == ["refine", "refine", "argue_for", "refine", "refine", "argue_against", "act"]
    assert set(without_ether.notes("retrieval", "way")) == {("nearest few",)}
    assert "Measurements" not in shown(without_ether.requests[-1])
    without_air = Played("ehr-rag-no-air", rows)
    assert without_air.purposes == ["rerank", "argue_for", "argue_against", "act"]
    assert events(without_air.requests[-1]) == ["fever 0", "cough 0"]
    without_der = Played("ehr-rag-no-der", rows, Script(refine=list(more)))
    assert without_der.purposes == ["rerank", "refine", "refine", "act"]
    assert "case for" not in shown(without_der.requests[-1])
    whole = Played("ehr-rag", rows, Script(refine=list(more)))
    assert set(whole.notes("retrieval", "way")) == {("ether",)}


def test_react_rag_reasons_writes_its_queries_and_keeps_its_thoughts() -> None:
    steps = [
        say("Thought: what were the skin findings?\nQuery: rash"),
        say("**Thought:** and the joints?\n**Query:** gout"),
        say("Thought: that will do.\nQuery: ENOUGH"),
    ]
    played = Played("react-rag", findings(), Script(search=steps))
    assert played.purposes == ["search", "search", "search", "act"]
    assert [events(request) for request in played.requests] == [
        [],
        ["rash 0"],
        ["rash 0", "gout 0"],
        ["rash 0", "gout 0"],
    ]
    assert "This is step 3 of at most 3" in last(played.requests[2])
    assert "- rash\n- gout\n" in last(played.requests[2])
    final = last(played.requests[3])
    assert "1. what were the skin findings?\n2. and the joints?\n3. that will do." in final
    assert played.notes("query", "query", "stop") == [("rash", None), ("gout", None), ("", "enough")]


@pytest.mark.parametrize(
    ("text", "query", "thought"),
    [
        ("Thought: why\nQuery: burn", "burn", "why"),
        ("**Thought**: why\n**Query**: burn", "burn", "why"),
        ("1. Thought: why\n2. Query: burn", "burn", "why"),
        ("Thought: why\n\n  and how\nQuery: burn", "burn", "why and how"),
        ("Query: burn\nThought: why", "burn", "why"),
        ("Thought: why\n**Query**: ENOUGH", "", "why"),
        ("Thought: why\nQuery: burn\nObservation: it is 1\nThought: so\nQuery: fall", "burn", "why"),
        ("Query: burn\nObservation: it is 1", "burn", ""),
    ],
)
def test_a_step_is_read_up_to_its_query_and_what_was_made_up_behind_it_is_not(
    text: str, query: str, thought: str
) -> None:
    refined, said = read_step(text, Evidence())
    assert (refined.query, said) == (query, thought)
    assert (refined.stop == "enough") == (query == "")


def test_react_rag_falls_back_to_the_task_s_query_where_it_wrote_none() -> None:
    played = Played(
        "react-rag", findings(), Script(search=[*[say("Let me think about it.")] * 2, ProviderError("down")])
    )
    assert played.purposes == ["search", "search", "act"], "a call that failed has no reply to record"
    assert events(played.requests[-1]) == ["fever 0"]
    stops = [note.get("fallback") or note.get("stop") for note in played.recorder.of("query")]
    assert stops == ["failed: it held no query", None, "failed: down"]


def test_a_case_that_cannot_be_had_is_noted_and_the_decision_is_made_without_it() -> None:
    played = Played("ehr-rag", findings(), Script(argue=[ProviderError("down"), say(f"They got better. {CASE}")]))
    decision = last(played.requests[-1])
    assert "The case for 1 (readmission):\n(none was written)" in decision
    assert "They got better." in decision
    assert played.notes("argument", "side", "failed") == [("argue_for", "down"), ("argue_against", None)]
    assert played.outcome.answer == ("1",)


def test_when_the_last_call_fails_the_episode_says_so() -> None:
    played = Played("rag", findings(), Script(act=ProviderError("down", status=503)))
    assert (played.outcome.finish, played.outcome.answer) == ("error", None)
    unread = Played("rag", findings(), Script(act=say("It is hard to say.")))
    assert (unread.outcome.finish, unread.outcome.answer) == ("text", None)
    first, bound = unread.notes("answer", "unreadable", "labels", "not_bound")
    assert first == ("It is hard to say.", ("0", "1"), None)
    assert "no usable value" in bound[2]


def test_an_answer_that_was_cut_off_in_mid_thought_is_none() -> None:
    cut = replace(say("Reasoning: on the face of it the answer is 1"), finish_reason="length")
    assert Played("rag", findings(), Script(act=cut)).outcome.answer is None
    assert Played("rag", findings(), Script(act=replace(cut, finish_reason="stop"))).outcome.answer == ("1",)


def test_when_the_encoder_s_endpoint_fails_the_episode_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(self: object, texts: object) -> None:
        raise ProviderError("embeddings are down", status=502)

    monkeypatch.setattr(WordEncoder, "encode", down)
    for name in ("rag", "react+ether"):
        outcome = Played(name, findings()).outcome
        assert (outcome.finish, outcome.answer) == ("error", None)
        assert "embeddings are down" in (outcome.error or "")


def test_a_call_of_a_tool_is_refused_where_none_is_offered() -> None:
    played = Played("rag", findings(), Script(act=[call("get_rows", table_name="x"), say("Answer: 0")]))
    assert played.outcome.answer == ("0",)
    assert any("no tool can be called now" in (message.content or "") for message in played.requests[-1].messages)


SMALL = Limits(context_tokens=8_000, reply_tokens=1_024)


@pytest.mark.parametrize("name", [*METHODS, "react+rag", "retrosum+ether"])
@pytest.mark.parametrize("limits", [SMALL, Limits(), Limits(context_tokens=2_000, reply_tokens=700)], ids=str)
def test_evidence_fits_every_budget_and_what_was_left_out_is_counted(name: str, limits: Limits) -> None:
    rows = findings(indicators=40, repeated=300, text="an unremarkable course " * 4)
    script = Script(
        rerank=say("[" + ", ".join(f'"indicator {n}"' for n in range(10)) + "]"),
        refine=[say(word) for word in ("rash", "fall", "stroke", "gout")],
        search=[say(f"Thought: {'so ' * 200}\nQuery: {word}") for word in ("rash", "fall", "stroke")],
        argue=say("A long case. " * 2_000),
        act=say("Answer: 1") if "+" not in name else call("finish", response=["1"]),
    )
    paper = {"chunk_rows": 100, "overlap": 5, "final": 5, "top_passages": 10, "alpha": 0.75}
    played = Played(name, rows, script, limits=limits, **paper)
    room = limits.context_tokens - limits.reply_tokens
    counter = EstimatedTokens()
    for request in played.requests:
        tokens = sum(count_message(counter, message) for message in request.messages)
        assert tokens + count_schemas(counter, request.tools) <= room
    assert played.outcome.answer == ("1",)
    assert not [note for _, note in played.recorder.notes if "failed" in note or "failed" in str(note.get("stop"))]
    [pinned] = [note for note in played.recorder.of("evidence") if note["role"] == "actor"]
    assert pinned["tokens"] <= pinned["limit"]
    found = pinned["events"] + pinned["events_left_out"]
    assert found >= 100
    if limits.context_tokens < 10_000:
        assert pinned["events_left_out"] > 0
    if pinned["events"] and pinned["events_left_out"]:
        final = next(request for request in played.requests[::-1] if job(request) == "act")
        assert f"{pinned['events_left_out']:,} of {found:,} events" in shown(final)


@pytest.mark.parametrize("name", ["react-rag", "ehr-rag-no-air"])
def test_a_long_argument_is_cut_with_a_line_that_says_so_and_asks_for_no_call(name: str) -> None:
    script = Script(search=[say(f"Thought: {'so ' * 3000}\nQuery: rash")] * 3, argue=say("A long case. " * 2_000))
    played = Played(name, findings(), script, limits=SMALL)
    final = next(request for request in played.requests[::-1] if job(request) == "act")
    assert "[cut for room: 1 of " in shown(final)
    assert "repeat the call" not in shown(final)


def test_direct_keeps_the_latest_events_where_room_is_short() -> None:
    rows = findings(repeated=300, text="an unremarkable course " * 4)
    seen = events(Played("direct", rows, limits=SMALL, panels=False).requests[0])
    latest = sorted((row for row in rows if row.time is not None), key=lambda row: row.time or day(0))
    assert seen == [row.name for row in latest[-len(seen) :]]
    assert 75 < len(seen) < 1000, "as many as any other method may show: two arguments would still fit beside them"


@pytest.mark.parametrize(
    ("limits", "beside"),
    [
        (Limits(context_tokens=4_000, reply_tokens=1_000), (0.12 + 0.12 + 0.05) * 3_000),
        (SMALL, (0.12 + 0.12) * (8_000 - 1_024) + 300),
        (Limits(), 4_096 + 4_096 + 300),
    ],
    ids=["least", "small", "usual"],
)
def test_every_method_of_a_table_reads_its_evidence_in_one_budget(limits: Limits, beside: float) -> None:
    """``beside``: two arguments of 12 % of the room or a whole reply, and what frames a search, 5 % or 300 tokens."""
    rows = findings(indicators=12, repeated=300, text="an unremarkable course " * 4)
    given = {}
    for name in METHODS:
        script = Script(
            rerank=say('["indicator 3"]'),
            refine=[say(word) for word in ("rash", "fall", "stroke", "gout")],
            search=[say(f"Thought: {'so ' * 2000}\nQuery: {word}") for word in ("rash", "fall", "stroke")],
            argue=say("A long case. " * 2_000),
        )
        played = Played(name, rows, script, limits=limits, chunk_rows=100, overlap=5, final=5, top_passages=10)
        [pinned] = [note for note in played.recorder.of("evidence") if note["role"] == "actor"]
        given[name] = pinned["limit"]
    assert len(set(given.values())) == 1, given
    prompt = limits.context_tokens - limits.reply_tokens - beside - given["ehr-rag"]
    assert 0 < prompt < 250, "all the rest is evidence"


def test_evidence_stands_before_the_first_turn_of_any_agent() -> None:
    script = Script(act=[call("get_rows", table_name="t1"), call("finish", response=["no readmission"])])
    played = Played("react+ether", findings(indicators=2), script)
    assert played.purposes == ["act", "act"]
    for request in played.requests:
        assert "fever 0" in (request.messages[2].content or "")
        assert "the tools read everything else" in (request.messages[2].content or "")
        assert [tool.name for tool in request.tools] == ["get_rows", "think", "write", "finish"]
    assert played.outcome.answer == ("0",), "a label by its name is read as its value"


def test_names_say_what_an_agent_is_given() -> None:
    agent = get_agent("retrosum+ether+tool")
    assert agent.more_tools == ("retrieve_evidence",)
    assert agent.searches
    assert agent.title.endswith("with evidence of ETHER in front, with retrieve_evidence as a tool")
    assert {"agents/ehr_rag", "agents/retrosum"} <= set(agent.manifest()["prompts"])
    assert not get_agent("retrosum").searches
    with pytest.raises(
        UserError, match=r"no addition to an agent 'ethr'\. Did you mean ether\? There are: rag, ether, tool"
    ):
        get_agent("react+ethr")
    with pytest.raises(UserError, match="retrieves its own evidence"):
        get_agent("ehr-rag+ether")
    with pytest.raises(UserError, match="twice"):
        get_agent("react+rag+rag")
    with pytest.raises(UserError, match="Did you mean react"):
        get_agent("reac+rag")


def test_every_prompt_a_method_used_is_in_its_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()
    render = PromptFile.render

    def noted(file: PromptFile, **values: object) -> str:
        used.add(file.name)
        return render(file, **values)

    monkeypatch.setattr(PromptFile, "render", noted)
    for name in METHODS:
        used.clear()
        script = Script(refine=[say(w) for w in ("rash", "fall", "stroke", "gout")], search=say("Query: rash"))
        assert Played(name, findings(indicators=12), script).requests
        ours = {file for file in used if file.startswith("agents/")}
        assert "agents/ehr_rag" in ours
        assert ours <= set(get_agent(name).manifest()["prompts"]), name


def test_questions_that_a_method_cannot_answer_are_refused() -> None:
    with pytest.raises(UserError, match="'diagnoses' has none"):
        check_question(get_agent("rag"), "diagnoses", None)
    with pytest.raises(UserError, match="argues for and against a label"):
        check_question(get_agent("ehr-rag"), "diagnoses", OPEN)
    check_question(get_agent("rag"), "diagnoses", OPEN)
    check_question(get_agent("react"), "diagnoses", None)
    check_question(get_agent("ehr-rag"), "guo_readmission", ASKED)
    with pytest.raises(UserError, match="searches with the task's queries"):
        Played("rag", findings(), question=None)


def test_the_sides_of_a_question_with_more_than_two_labels() -> None:
    case_for, case_against = sides(ANEMIA)
    assert case_for.label == "one of 1 (mild), 2 (moderate), 3 (severe)"
    assert case_against.label == "0 (normal)"
    played = Played("ehr-rag", findings(), Script(act=say("Answer: 2")), question=ANEMIA)
    assert played.outcome.answer == ("2",)
    assert "choose 0" in last(played.requests[-1])
    arguing = [last(request) for request in played.requests if job(request) == "argue"]
    assert ["for which of these labels" in text for text in arguing] == [True, False]


def test_a_chart_without_events_is_answered_too() -> None:
    for name in METHODS:
        played = Played(name, [])
        assert played.outcome.answer == ("1",), name
        assert not events(played.requests[-1])


def test_thinking_is_no_evidence_for_the_decision() -> None:
    reply = Message(role="assistant", content=f"<think>secret plan</think>{CASE}")
    played = Played("ehr-rag", findings(), Script(argue=[reply, reply]))
    assert "secret plan" not in shown(played.requests[-1])


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        (LONG, LONG),  # asked in full once, in full again
        (" ".join(LONG.split()[:15]), LONG),  # asked as it was cut, asked in full again
        ("Burn, word0!", "burn word0"),
    ],
)
def test_a_query_that_was_asked_before_ends_the_rounds_however_long_it_is(asked: str, reply: str) -> None:
    assert read_query(reply, [asked]).stop == "repeated"
    assert read_query(f"{reply} more", ["fever"]).stop is None


def test_what_decides_doubtful_cases_is_said_once() -> None:
    """A task with an instruction for doubt is not told to choose the first label too."""
    rule = "When in doubt, prefer mild (1)."
    own = decision_text(replace(ANEMIA, instructions=rule), "for", "against")
    assert "the question's own instruction decides" in own
    assert "without strong evidence to the contrary" not in own
    assert "without strong evidence to the contrary" in decision_text(ANEMIA, "for", "against")
