"""The six classes of appendix E on hand-made trajectories, each just inside and just outside its rule."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trajectories import call, new_trial, trajectory

from wardround.core import ToolCall
from wardround.log import Trajectory
from wardround.tasks.scoring import ErrorClass, NoPrediction, classify_errors, errors, no_prediction_mode
from wardround.tasks.scoring.errors import Call, _may_repeat, _repetition, is_above, ratcliff_obershelp, tool_calls

CANDIDATE_TOOLS = ("get_candidates_by_keyword",)
LOOK = [call("get_candidates_by_keyword", table_name="diagnoses_ccs_candidates", keyword="sepsis")]
END = [call("finish", response=["Septicemia"])]


def classes(made: Trajectory) -> set[ErrorClass]:
    return set(classify_errors(made, CANDIDATE_TOOLS))


def value(number: int) -> tuple[str, str]:
    """Case 3 of the paper: one more item id of the same column."""
    return call("get_records_by_value", table_name="labevents", column_name="itemid", value=str(50_800 + number))


def test_a_clean_episode_has_no_error() -> None:
    assert classes(trajectory([LOOK, [value(1)], END], answer=["Septicemia"])) == set()


@pytest.mark.parametrize(
    ("turns", "mode"),
    [
        ([LOOK, [call("finish", '{"response": ["Sep')]], NoPrediction.TOOL_PARSING),
        ([LOOK, [call("finish", response='<tool_call>\n{"name": "get_candidates')]], NoPrediction.TOOL_PARSING),
        ([LOOK, '<tool_call>{"name": "finish", "arguments": {"response": ["Sepsis"]}}'], NoPrediction.TOOL_PARSING),
        ([LOOK, 'finish(response=["Sepsis"])'], NoPrediction.TOOL_PARSING),
        (
            [LOOK, [call("finish", response="It may well be an infection of some kind.")]],
            NoPrediction.FORMAT_SUBMERSION,
        ),
        ([LOOK, [call("finish", response={"label": "Sepsis"})]], NoPrediction.FORMAT_SUBMERSION),
        ([LOOK, [call("finish", response=[])]], NoPrediction.EMPTY_ANSWER),
        ([LOOK, [call("finish", response=["", " "])]], NoPrediction.EMPTY_ANSWER),
        ([LOOK, [call("finish")]], NoPrediction.EMPTY_ANSWER),
        ([LOOK, [call("finish", response=None)]], NoPrediction.EMPTY_ANSWER),
        ([LOOK, LOOK], NoPrediction.INCOMPLETE),
        ([LOOK, "I am done."], NoPrediction.INCOMPLETE),
        ([], NoPrediction.INCOMPLETE),
    ],
)
def test_the_ways_to_end_without_an_answer(turns: list[list[tuple[str, str]] | str], mode: NoPrediction) -> None:
    made = trajectory(turns, answer=None)
    assert no_prediction_mode(made) == mode
    assert ErrorClass.NO_PREDICTION in classes(made)


def test_an_answer_taken_from_text_is_a_prediction() -> None:
    assert no_prediction_mode(trajectory([LOOK, '["Sepsis"]'], answer=["Sepsis"], finish="text")) is None
    assert no_prediction_mode(trajectory([LOOK, END], answer=[""])) is not None


@pytest.mark.parametrize(("times", "found"), [(4, False), (5, True)])
def test_tool_repeat_is_five_identical_turns_in_a_row(times: int, found: bool) -> None:
    made = trajectory([LOOK, *[[value(7)]] * times, END], answer=["x"])
    assert (ErrorClass.TOOL_REPEAT in classes(made)) is found
    assert ErrorClass.SINGLE_TOOL_LOOP not in classes(made)


def test_repeats_count_by_parameters_not_by_spelling_and_not_across_a_break() -> None:
    spelled = [[call("think", '{"response":"a", "x":1}')], [call("think", '{ "x": 1, "response": "a" }')]]
    assert ErrorClass.TOOL_REPEAT in classes(trajectory([*spelled, *spelled, spelled[0], END], answer=["x"]))
    broken = [[value(7)]] * 4 + [LOOK] + [[value(7)]] * 4
    assert ErrorClass.TOOL_REPEAT not in classes(trajectory([*broken, END], answer=["x"]))


def test_five_identical_calls_in_one_turn_are_one_turn() -> None:
    assert ErrorClass.TOOL_REPEAT not in classes(trajectory([LOOK, [value(7)] * 5, END], answer=["x"]))


def test_a_repeat_is_found_among_side_calls() -> None:
    turns = [[value(7), value(100 * n)] for n in range(5)]
    assert ErrorClass.TOOL_REPEAT in classes(trajectory([*turns, END], answer=["x"]))


@pytest.mark.parametrize(("times", "found"), [(9, False), (10, True)])
def test_single_tool_loop_is_ten_similar_turns_in_a_row(times: int, found: bool) -> None:
    made = trajectory([LOOK, *[[value(n)] for n in range(times)], END], answer=["x"])
    assert (ErrorClass.SINGLE_TOOL_LOOP in classes(made)) is found
    assert ErrorClass.TOOL_REPEAT not in classes(made)


def test_pure_repetition_is_a_repeat_and_no_single_tool_loop() -> None:
    found = classes(trajectory([LOOK, *[[value(7)]] * 12, END], answer=["x"]))
    assert ErrorClass.TOOL_REPEAT in found
    assert ErrorClass.SINGLE_TOOL_LOOP not in found


def test_one_tool_with_different_questions_is_no_loop() -> None:
    words = ("anaemia", "stroke", "cirrhosis", "fracture", "asthma", "gout", "epilepsy", "burns", "migraine", "hernia")
    turns = [[call("get_candidates_by_keyword", table_name="t", keyword=word)] for word in words]
    assert classes(trajectory([*turns, END], answer=["x"])) == set()


@pytest.mark.parametrize(("cycles", "found"), [(8, False), (9, True)])
def test_multi_tool_cycle_is_more_than_fifteen_revisits(cycles: int, found: bool) -> None:
    first = call("get_records_by_value", table_name="prescriptions", column_name="drug", value="Sodium Chloride")
    other = call("get_candidates_by_keyword", table_name="prescriptions_atc_candidates", keyword="electrolytes")
    turns = [[first], [other]] * cycles  # 2 * cycles calls, of which all but two revisit
    made = trajectory([*turns, END], answer=["x"])
    assert (ErrorClass.MULTI_TOOL_CYCLE in classes(made)) is found
    assert ErrorClass.SINGLE_TOOL_LOOP not in classes(made)


def test_a_refused_call_is_a_tool_usage_error() -> None:
    assert ErrorClass.TOOL_USAGE in classes(trajectory([LOOK, [value(1)], END], answer=["x"], refused=[1]))


@pytest.mark.parametrize(
    "bad",
    [
        call("get_weather", city="Boston"),
        call("get_candidates_by_keyword", keyword="sepsis"),
        call("think", response="a", mood="b"),
        call("think", "not json"),
        call("think", '["a"]'),
    ],
)
def test_a_call_without_a_result_is_checked_against_what_was_offered(bad: tuple[str, str]) -> None:
    assert ErrorClass.TOOL_USAGE in classes(trajectory([LOOK, [bad]], answer=["x"], answered=False))
    assert ErrorClass.TOOL_USAGE not in classes(trajectory([LOOK, END], answer=["x"], answered=False))


def test_no_candidate_tool() -> None:
    assert classes(trajectory([[value(1)], END], answer=["x"])) == {ErrorClass.NO_CANDIDATE_TOOL}


def test_only_the_actor_is_judged() -> None:
    summaries = ["act" if n % 2 else "summarise" for n in range(24)]
    turns: list[list[tuple[str, str]]] = [[value(7)] if n % 2 == 0 else [value(n * 37)] for n in range(24)]
    made = trajectory([LOOK, *turns, END], answer=["x"], purposes=["act", *summaries, "act"])
    assert ErrorClass.TOOL_REPEAT not in classes(made)


def test_ratcliff_obershelp_by_hand() -> None:
    # WIKIMEDIA / WIKIMANIA: WIKIM + IA = 7 of 9 + 9
    assert ratcliff_obershelp("WIKIMEDIA", "WIKIMANIA") == pytest.approx(2 * 7 / 18)
    assert ratcliff_obershelp("tide", "diet") == ratcliff_obershelp("diet", "tide")


@given(st.text("abc", max_size=12), st.text("abc", max_size=12), st.sampled_from([0.3, 0.5, 0.75, 0.95]))
def test_the_fast_bound_never_changes_the_verdict(first: str, second: str, bound: float) -> None:
    exact = max(
        SequenceMatcher(None, first, second, autojunk=False).ratio(),
        SequenceMatcher(None, second, first, autojunk=False).ratio(),
    )
    assert is_above(first, second, bound) == (exact > bound)


def test_a_hundred_turns_of_long_queries_are_classified() -> None:
    query = "SELECT " + ", ".join(f"column_{n}" for n in range(250))
    turns = [[call("get_records_by_value", table_name=f"{query} WHERE x = {n * 7919}")] for n in range(100)]
    assert ErrorClass.MULTI_TOOL_CYCLE in classes(trajectory([*turns, END], answer=["x"]))


def test_a_text_without_an_answer_of_a_method_without_tools_has_the_wrong_form() -> None:
    made = trajectory(["Reasoning: it is hard to say."], answer=None, finish="text")
    without = replace(made, turns=tuple(replace(turn, tools=()) for turn in made.turns))
    assert no_prediction_mode(without) == NoPrediction.FORMAT_SUBMERSION
    nothing = replace(without, turns=tuple(replace(t, reply=replace(t.reply, content="")) for t in without.turns))
    assert no_prediction_mode(nothing) == NoPrediction.INCOMPLETE


@pytest.mark.parametrize(("revisits", "found"), [(15, False), (16, True)])
def test_fifteen_revisits_are_none_too_many(revisits: int, found: bool) -> None:
    turns = [[value(n)] if n % 3 else [LOOK[0]] for n in range(revisits + 2)]  # two calls are new, the rest come back
    made = trajectory([*turns, END], answer=["x"])
    assert (ErrorClass.MULTI_TOOL_CYCLE in classes(made)) is found


@pytest.mark.parametrize(("revisits", "found"), [(15, False), (16, True)])
def test_fifteen_revisits_are_none_too_many_beside_calls_that_are_new(revisits: int, found: bool) -> None:
    """New calls of the same tools make more calls, not more revisits: only these are counted."""
    new = [[call("get_records_by_value", table_name=word, value=word[::-1])] for word in ("stroke", "gout", "burns")]
    turns = [[value(n)] if n % 3 else [LOOK[0]] for n in range(revisits + 2)]
    made = trajectory([*new, *turns, END], answer=["x"])
    assert (ErrorClass.MULTI_TOOL_CYCLE in classes(made)) is found


def test_what_a_later_trial_reads_again_is_no_repetition() -> None:
    trial = [LOOK, *[[call("think", response=letter * 30)] for letter in "abcdefghijklmnop"], END]
    joined = trajectory([*trial, *trial], answer=["x"])
    assert classes(joined) == {ErrorClass.MULTI_TOOL_CYCLE}
    assert classes(replace(joined, notes=(new_trial(2, acts=len(trial)),))) == set()
    across = trajectory([LOOK, *[[value(7)]] * 3, [value(7)], [value(7)], END], answer=["x"])
    assert ErrorClass.TOOL_REPEAT in classes(across)
    assert ErrorClass.TOOL_REPEAT not in classes(replace(across, notes=(new_trial(2, acts=4),)))
    within = trajectory([END, LOOK, *[[value(7)]] * 5, END], answer=["x"])
    assert ErrorClass.TOOL_REPEAT in classes(replace(within, notes=(new_trial(2, acts=1),)))


@pytest.mark.parametrize(
    ("statement", "refused", "seen"),
    [
        ("SELECT * FROM diagnoses_ccs_candidates WHERE label LIKE '%sepsis%'", False, True),
        ('select label from "Diagnoses_CCS_candidates"', False, True),
        ("SELECT * FROM diagnoses_ccs_candidates", True, False),
        ("SELECT 'diagnoses_ccs_candidates' FROM admissions -- diagnoses_ccs_candidates", False, False),
        ("SELECT * FROM diagnoses_icd", False, False),
    ],
)
def test_candidates_listed_by_sql_are_candidates(statement: str, refused: bool, seen: bool) -> None:
    made = trajectory([[call("run_sql_query", sql_query=statement)], END], answer=["x"], refused=[0] if refused else ())
    found = classify_errors(made, CANDIDATE_TOOLS, ["diagnoses_ccs_candidates"])
    assert (ErrorClass.NO_CANDIDATE_TOOL not in found) is seen


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["{}", '{"n": 1}'])), max_size=4),
        min_size=3,
        max_size=20,
    )
)
def test_a_trial_is_read_wherever_it_may_repeat_itself(turns: list[list[tuple[str, str]]]) -> None:
    made = trajectory(turns, answer=["x"])
    found = _repetition([[tool_calls(turn) for turn in made.turns]])
    assert _may_repeat(made.turns) or not any(found.values())


def test_most_trials_need_no_arguments_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = ["think", "get_records_by_value", "finish"]
    made = trajectory([[call(tools[number % 3], n=number)] for number in range(12)], answer=["x"])
    monkeypatch.setattr(errors, "tool_calls", None)
    assert ErrorClass.TOOL_REPEAT not in classes(made)


@pytest.mark.parametrize("length", [10, 600])
def test_arguments_are_read_alike_however_long_and_however_often(length: int) -> None:
    text = '{"b": "%s", "a": 1}' % ("x" * length)
    first, second = (Call.read(ToolCall(id=str(n), name="t", arguments=text)) for n in range(2))
    assert first == second
    assert first.parameters == '{"a":1,"b":"%s"}' % ("x" * length)
    assert Call.read(ToolCall(id="1", name="t", arguments=" [1 ")).parameters == "[1"
    assert Call.read(ToolCall(id="1", name="t", arguments="[1]")).values is None
