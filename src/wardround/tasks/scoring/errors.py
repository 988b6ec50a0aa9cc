"""The error taxonomy of AgentEHR (appendix E) over trajectories."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Any

from rapidfuzz.distance import Indel, Postfix, Prefix
from rapidfuzz.process import extractOne

from wardround.core import canonical_json
from wardround.log import Played, PlayedCall, PlayedTurn
from wardround.tools.sql_text import tokens

# Tool calls as the taxonomy compares them: by name and by how alike their parameters are (appendix E, eq. 18).


SIMILARITY = 0.95
_SHORT = 500
"""Characters of arguments that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: ``parameters`` in one canonical spelling, ``values`` None where the text is no JSON object."""

    name: str
    parameters: str
    values: Mapping[str, Any] | None = field(default=None, compare=False)

    @classmethod
    def read(cls, call: PlayedCall) -> Call:
        """Read a call as the model wrote it."""
        return cls.of(call.name, call.arguments)

    @classmethod
    def of(cls, name: str, arguments: str) -> Call:
        """Read a call by its parts."""
        return (_call_short if len(arguments) <= _SHORT else _call)(name, arguments)


def _call(name: str, arguments: str) -> Call:
    try:
        values = json.loads(arguments or "{}")
        parameters = canonical_json(values).decode()
    except (ValueError, RecursionError):
        return Call(name=name, parameters=arguments.strip())
    return Call(name=name, parameters=parameters, values=values if isinstance(values, dict) else None)


_call_short = lru_cache(maxsize=16_384)(_call)
"""Most calls of a run are made in other episodes too: the latest rows of one table, say."""


def tool_calls(turn: PlayedTurn) -> tuple[Call, ...]:
    """The calls of one turn, in order."""
    return tuple(Call.read(call) for call in turn.reply.tool_calls)


def are_similar(first: Call, second: Call) -> bool:
    """Same tool, Ratcliff-Obershelp similarity of the parameters above 0.95."""
    if first.name != second.name:
        return False
    return is_above(*sorted((first.parameters, second.parameters)), SIMILARITY)


def ratcliff_obershelp(first: str, second: str) -> float:
    """Return 2 K_m / (|P1| + |P2|) (eq. 18); of the two orders, which ties between matches tell apart, the larger."""
    forward = SequenceMatcher(None, first, second, autojunk=False).ratio()
    return max(forward, SequenceMatcher(None, second, first, autojunk=False).ratio())


@lru_cache(maxsize=4096)
def is_above(first: str, second: str, bound: float) -> bool:
    """Say whether the similarity exceeds a bound.

    What Ratcliff-Obershelp matches is a common subsequence, so the longest common subsequence (fast, compiled) bounds
    it from above and rules out nearly every pair. Its first match is the longest common block, so a common start or end
    that is long enough decides too. Only what is left is computed.
    """
    if first == second:
        return True
    if Indel.normalized_similarity(first, second) <= bound:
        return False
    ends = max(Prefix.similarity(first, second), Postfix.similarity(first, second))
    return 2 * ends > bound * (len(first) + len(second)) or ratcliff_obershelp(first, second) > bound


# The four ways in which an episode ends without an answer (AgentEHR, appendix E).


FINISH = "finish"
_CALL_IN_TEXT = re.compile(
    r"<tool_call|<function|\"arguments\"\s*:|\[TOOL_CALLS\]|```tool_code|\b(?:finish|get_\w+)\s*[({]"
)


class NoPrediction(StrEnum):
    """The reason why an episode has no answer."""

    TOOL_PARSING = "tool_parsing_failure"
    FORMAT_SUBMERSION = "format_submersion"
    EMPTY_ANSWER = "answer_induced_failure"
    INCOMPLETE = "incomplete_termination"


def no_prediction_mode(trajectory: Played) -> NoPrediction | None:
    """Return why an episode has no answer, or None when it has one.

    *Tool parsing*: a call written as text, or ``finish`` with arguments that cannot be read. *Format submersion*:
    ``finish`` was called with something from which no answer could be taken, or a method that is offered no tools wrote
    a text without one. *Answer induced*: ``finish`` with nothing.
    *Incomplete*: ``finish`` was never called (a limit, an endpoint's error, plain text).
    """
    if any(str(label).strip() for label in (trajectory.outcome or {}).get("answer") or ()):
        return None
    turns = [turn for turn in trajectory.turns if turn.purpose == "act"]
    finishes = [call for turn in turns for call in turn.reply.tool_calls if call.name == FINISH]
    if finishes:
        return _of_finish(finishes[-1])
    text = turns[-1].reply.content if turns and not turns[-1].reply.tool_calls else None
    if text and not any(turn.tools for turn in turns):
        return NoPrediction.FORMAT_SUBMERSION
    return NoPrediction.TOOL_PARSING if text and _CALL_IN_TEXT.search(text) else NoPrediction.INCOMPLETE


def _of_finish(call: PlayedCall) -> NoPrediction:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return NoPrediction.TOOL_PARSING
    response = arguments.get("response") if isinstance(arguments, Mapping) else arguments
    if _is_empty(response):
        return NoPrediction.EMPTY_ANSWER
    return NoPrediction.TOOL_PARSING if _CALL_IN_TEXT.search(str(response)) else NoPrediction.FORMAT_SUBMERSION


def _is_empty(response: Any) -> bool:
    if isinstance(response, list):
        return all(_is_empty(one) for one in response)
    return (
        response is None
        or response == {}
        or (isinstance(response, str) and response.strip() in ("", "[]", "null", "None"))
    )


# The trials of an episode: Reflexion plays a question several times, and each trial starts afresh.


def trials_of(trajectory: Played) -> tuple[tuple[PlayedTurn, ...], ...]:
    """Return the actor's turns trial by trial; methods without trials have one.

    A note says how many actions went before each further trial.
    """
    turns = tuple(turn for turn in trajectory.turns if turn.purpose == "act")
    starts = [int(note.detail["acts"]) for note in trajectory.notes if note.kind == "trial" and "trial" in note.detail]
    edges = [0, *(start for start in starts if start < len(turns)), len(turns)]
    return tuple(turns[start:end] for start, end in pairwise(edges))


# The six error classes of AgentEHR, appendix E, as code over a trajectory.
#
# A *turn* is one reply of the actor (purpose ``act``); its tool calls may be several. Parameters are compared as
# canonical JSON, so that key order and spaces make no difference; arguments that are no JSON are compared as written.
# Repetition is looked for within a trial: a later one starts afresh and has to read again what the one before it read.


REPEAT_TURNS = 5
LOOP_TURNS = 10
CYCLE_CALLS = 15
_SQL_TOOL = "run_sql_query"


class ErrorClass(StrEnum):
    """An error class of an episode; an episode may have several."""

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
    return calls - len(set().union(*names)) > CYCLE_CALLS or _share_a_tool(names, REPEAT_TURNS)


def _share_a_tool(names: Sequence[set[str]], turns: int) -> bool:
    """Whether one tool was called in so many consecutive turns."""
    return any(set.intersection(*names[start : start + turns]) for start in range(len(names) - turns + 1))


def _repetition(trials: Sequence[Sequence[tuple[Call, ...]]]) -> dict[ErrorClass, bool]:
    """Whether any trial repeats itself in one of the three ways."""
    steady = [calls for calls in trials if _share_a_tool([{one.name for one in turn} for turn in calls], REPEAT_TURNS)]
    return {
        ErrorClass.TOOL_REPEAT: any(max(_identical_runs(calls), default=0) >= REPEAT_TURNS for calls in steady),
        ErrorClass.SINGLE_TOOL_LOOP: any(map(_has_single_tool_loop, steady)),
        ErrorClass.MULTI_TOOL_CYCLE: any(
            len(flat) > CYCLE_CALLS and count_revisits(flat, enough=CYCLE_CALLS + 1) > CYCLE_CALLS
            for flat in ([call for turn in calls for call in turn] for calls in trials)
        ),
    }


def _saw_candidates(turns: Iterable[PlayedTurn], tools: Collection[str], tables: Collection[str]) -> bool:
    """Whether a candidate tool was called, or SQL that was not refused reads a candidate table."""
    if any(call.name in tools for turn in turns for call in turn.reply.tool_calls):
        return True
    queries = [
        result for turn in turns for result in turn.results if result.call.name == _SQL_TOOL and not result.is_error
    ]
    for query in queries:
        values = Call.read(query.call).values or {}
        statement = " ".join(text for text in values.values() if isinstance(text, str))
        # the names in a statement are words and quoted names, not what stands in a string or a comment
        if any(token.text in tables for token in tokens(statement) if token.kind in ("word", "quoted")):
            return True
    return False


def count_revisits(calls: Sequence[Call], *, enough: int | None = None) -> int:
    """Count the calls that are similar to an earlier one of the same tool; stop counting at ``enough``."""
    seen: dict[str, set[str]] = {}
    count = 0
    for call in calls:
        earlier = seen.setdefault(call.name, set())
        # the upper bound of is_above, over all of them at once, rules out nearly every list
        if call.parameters in earlier or (
            extractOne(call.parameters, earlier, scorer=Indel.normalized_similarity, score_cutoff=SIMILARITY)
            and any(is_above(*sorted((call.parameters, other)), SIMILARITY) for other in earlier)
        ):
            count += 1
            if count == enough:
                break
        earlier.add(call.parameters)
    return count


def _identical_runs(turns: Sequence[tuple[Call, ...]]) -> list[int]:
    """For every call, in how many consecutive turns up to its own the same call was made."""
    lengths: list[int] = []
    before: dict[tuple[str, str], int] = {}
    for turn in turns:
        calls = [(call.name, call.parameters) for call in turn]
        before = {call: 1 + before.get(call, 0) for call in calls}
        lengths.extend([before[call] for call in calls])
    return lengths


def _has_single_tool_loop(turns: Sequence[tuple[Call, ...]]) -> bool:
    """Whether a chain of similar calls, not all identical, reaches over enough consecutive turns."""
    if not _share_a_tool([{call.name for call in turn} for turn in turns], LOOP_TURNS):
        return False
    similar_runs: list[int] = []
    before: list[tuple[Call, int]] = []
    for turn in turns:
        before = [(call, 1 + max((run for one, run in before if are_similar(one, call)), default=0)) for call in turn]
        similar_runs.extend(run for _, run in before)
    runs = zip(similar_runs, _identical_runs(turns), strict=True)
    return any(run >= LOOP_TURNS and same < LOOP_TURNS for run, same in runs)


def _was_refused(turn: PlayedTurn) -> bool:
    """A call whose result is an error, or that got no result and names no offered tool or misses its parameters."""
    if not turn.reply.tool_calls:
        return False
    results = {record.call.id: record for record in turn.results}
    for raw in turn.reply.tool_calls:
        record = results.get(raw.id)
        if record.is_error if record else not _fits(Call.read(raw), turn):
            return True
    return False


def _fits(call: Call, turn: PlayedTurn) -> bool:
    """Whether a call names a tool that was offered, with all that it requires and nothing that it does not know."""
    offered = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in turn.tools}
    if call.name not in offered or call.values is None:
        return False
    schema = offered[call.name]
    return set(schema.get("required", ())) <= set(call.values) <= set(schema.get("properties", {}))
