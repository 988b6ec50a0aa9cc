"""The six error classes of AgentEHR, appendix E, as code over a trajectory.

A *turn* is one reply of the actor (purpose ``act``); its tool calls may be several. Parameters are compared as
canonical JSON, so that key order and spaces make no difference; arguments that are no JSON are compared as written.
Repetition is looked for within a trial: a later one starts afresh and has to read again what the one before it read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from wardround.log import Played, PlayedTurn
from wardround.scoring.calls import Call, are_identical, are_similar, tool_calls
from wardround.scoring.no_prediction import no_prediction_mode
from wardround.scoring.trials import trials_of
from wardround.tools.sql_text import tokens

REPEAT_TURNS = 5
LOOP_TURNS = 10
CYCLE_CALLS = 15
_SQL_TOOL = "run_sql_query"


class ErrorClass(StrEnum):
    """What went wrong with an episode; several may hold at once."""

    NO_PREDICTION = "no_prediction"
    TOOL_REPEAT = "tool_repeat"
    SINGLE_TOOL_LOOP = "single_tool_loop"
    MULTI_TOOL_CYCLE = "multi_tool_cycle"
    TOOL_USAGE = "tool_usage"
    NO_CANDIDATE_TOOL = "no_candidate_tool"


def classify_errors(
    trajectory: Played, candidate_tools: Iterable[str], candidate_tables: Iterable[str] = ()
) -> frozenset[ErrorClass]:
    """Return every error class that holds for an episode.

    *Tool repeat*: one identical call in 5 consecutive turns. *Single-tool loop*: one tool in 10 consecutive turns, each
    call more than 0.95 similar to the one before, not all identical (that is a repeat). *Multi-tool cycle*: more than
    15 calls that are that similar to an earlier call of the same tool. *Tool usage*: a call that the tools refused.
    *No candidate tool*: neither one of ``candidate_tools`` was called nor one of ``candidate_tables`` read by SQL.
    """
    trials = trials_of(trajectory)
    turns = [turn for trial in trials for turn in trial]
    holds = {
        ErrorClass.NO_PREDICTION: no_prediction_mode(trajectory) is not None,
        **_repetition([[tool_calls(turn) for turn in trial] for trial in trials if _may_repeat(trial)]),
        ErrorClass.TOOL_USAGE: any(_was_refused(turn) for turn in turns),
        ErrorClass.NO_CANDIDATE_TOOL: not _saw_candidates(turns, set(candidate_tools), set(candidate_tables)),
    }
    return frozenset(name for name, found in holds.items() if found)


def _may_repeat(trial: Sequence[PlayedTurn]) -> bool:
    """Whether the tools' names leave room for any of the three; most trials need no arguments read."""
    names = [{call.name for call in turn.reply.tool_calls} for turn in trial]
    calls = sum(len(turn.reply.tool_calls) for turn in trial)
    if calls - len(set().union(*names)) > CYCLE_CALLS:
        return True
    windows = (names[start : start + REPEAT_TURNS] for start in range(len(names) - REPEAT_TURNS + 1))
    return any(set.intersection(*window) for window in windows)


def _repetition(trials: Sequence[Sequence[tuple[Call, ...]]]) -> dict[ErrorClass, bool]:
    """Whether any trial repeats itself in one of the three ways."""
    return {
        ErrorClass.TOOL_REPEAT: any(
            len(calls) >= REPEAT_TURNS and max(_runs(calls, are_identical), default=0) >= REPEAT_TURNS
            for calls in trials
        ),
        ErrorClass.SINGLE_TOOL_LOOP: any(map(_has_single_tool_loop, trials)),
        ErrorClass.MULTI_TOOL_CYCLE: any(
            len(flat) > CYCLE_CALLS and count_revisits(flat, enough=CYCLE_CALLS + 1) > CYCLE_CALLS
            for flat in ([call for turn in calls for call in turn] for calls in trials)
        ),
    }


def _saw_candidates(turns: Iterable[PlayedTurn], tools: Collection[str], tables: Collection[str]) -> bool:
    """Whether a candidate tool was called, or SQL that was not refused reads a candidate table."""
    if any(call.name in tools for turn in turns for call in turn.reply.tool_calls):
        return True
    queries = [one for turn in turns for one in turn.results if one.call.name == _SQL_TOOL and not one.is_error]
    return any(not _named_in(Call.read(one.call)).isdisjoint(tables) for one in queries)


def _named_in(call: Call) -> set[str]:
    """Return the names in a statement: words and quoted names, not what stands in a string or a comment."""
    statement = " ".join(text for text in (call.values or {}).values() if isinstance(text, str))
    return {token.text for token in tokens(statement) if token.kind in ("word", "quoted")}


def count_revisits(calls: Sequence[Call], *, enough: int | None = None) -> int:
    """Count the calls that are similar to an earlier one of the same tool; stop counting at ``enough``."""
    seen: dict[str, dict[Call, None]] = {}
    count = 0
    for call in calls:
        earlier = seen.setdefault(call.name, {})
        if call in earlier or any(are_similar(call, one) for one in earlier):
            count += 1
            if count == enough:
                break
        earlier[call] = None
    return count


def _runs(turns: Sequence[tuple[Call, ...]], alike: Callable[[Call, Call], bool]) -> list[int]:
    """For every call, over how many consecutive turns up to its own a chain of alike calls reaches."""
    lengths: list[int] = []
    before: list[tuple[Call, int]] = []
    for turn in turns:
        now = [(call, 1 + max((run for one, run in before if alike(one, call)), default=0)) for call in turn]
        lengths.extend(run for _, run in now)
        before = now
    return lengths


def _has_single_tool_loop(turns: Sequence[tuple[Call, ...]]) -> bool:
    if len(turns) < LOOP_TURNS:
        return False
    similar = _runs(turns, are_similar)
    identical = _runs(turns, are_identical)
    return any(run >= LOOP_TURNS and same < LOOP_TURNS for run, same in zip(similar, identical, strict=True))


def _was_refused(turn: PlayedTurn) -> bool:
    """A call whose result is an error, or that got no result and names no offered tool or misses its parameters."""
    results = {record.call.id: record for record in turn.results}
    for raw in turn.reply.tool_calls:
        record = results.get(raw.id)
        if record.is_error if record else not _fits(Call.read(raw), _offered(turn)):
            return True
    return False


def _offered(turn: PlayedTurn) -> dict[str, Mapping[str, Any]]:
    return {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in turn.tools}


def _fits(call: Call, offered: Mapping[str, Mapping[str, Any]]) -> bool:
    if call.name not in offered or call.values is None:
        return False
    schema = offered[call.name]
    known = schema.get("properties", {})
    return set(schema.get("required", ())) <= set(call.values) <= set(known)
