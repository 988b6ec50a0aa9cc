"""Tool calls as models write them: read arguments, number and answer each call."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from wardround.core import Message, ToolBroke, ToolCall, WardroundError, without_thinking
from wardround.log import ToolRecord
from wardround.models.tool_questions import AskOwnModel
from wardround.models.wire import MOST_CALLS
from wardround.records import Chart, TextCaseRecord
from wardround.tools import ToolResult
from wardround.tools.finish import Citation
from wardround.tools.retrieval import EvidenceIndex
from wardround.tools.toolset import Toolset

_KEPT_CHARACTERS = 500

FINISH = "finish"
_TOO_MANY = (
    f"only the first {MOST_CALLS} calls of a reply are run; this one and any after it were not. Ask for them in the "
    "next turns."
)


class ToolSession(Protocol):
    """The part of :class:`wardround.tools.Environment` the loop and its hooks use: a toolset bound to one chart.

    ``chart`` and ``evidence`` (the index of the chart's events) are None if the tools have no record; ``text_case`` is
    the case of a question that contains it as text.
    """

    toolset: Toolset
    ask_model: AskOwnModel
    """How a tool asks a model of its own; the episode sets it, so that these calls are its own."""

    @property
    def chart(self) -> Chart | None:
        """The record of the subject, as of the moment of the question."""
        ...

    @property
    def text_case(self) -> TextCaseRecord | None:
        """The text of a case without a chart."""
        ...

    @property
    def evidence(self) -> EvidenceIndex | None:
        """The index of the chart's events; making it may block."""
        ...

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Run one tool off the event loop; a model's mistake is an error result, never an exception."""
        ...

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[Citation, ...]:
        """Check every cited row: it exists, it was read, it supports its answer."""
        ...

    def accept_any_answer(self) -> None:
        """Refuse no answer from now on: the next one is the last that can be given."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One tool call as it went. ``seconds`` is wall time."""

    call: ToolCall
    result: ToolResult
    seconds: float

    @property
    def record(self) -> ToolRecord:
        """The call and its result as the log keeps them."""
        result = self.result
        return ToolRecord(
            call=self.call,
            result_text=result.text,
            is_error=result.is_error,
            seconds=self.seconds,
            table=result.table,
            rows_total=result.rows_total,
            rows_shown=result.rows_shown,
            row_ids=result.row_ids,
            cursor=result.cursor,
            pictures=result.pictures,
        )


def as_own_calls(message: Message, toolset: Toolset, used: set[str]) -> Message:
    """Return the message with its calls under the toolset's names for them and under ids that occur nowhere else in
    the episode; these are added to ``used``."""
    calls = []
    for call in message.tool_calls:
        wanted = call.id or f"call_{len(used)}"
        fresh, number = wanted, 1
        while fresh in used:
            number += 1
            fresh = f"{wanted}_{number}"
        used.add(fresh)
        calls.append(replace(call, id=fresh, name=toolset.own_name(call.name)))
    return message if tuple(calls) == message.tool_calls else replace(message, tool_calls=tuple(calls))


def as_sent_back(message: Message) -> Message:
    """Return the message as later prompts carry it: servers refuse a history whose arguments are no JSON object."""
    calls = []
    for call in message.tool_calls:
        value = _value(call.arguments)
        if isinstance(value, dict) and call.name:
            calls.append(call)
            continue
        if isinstance(value, str):
            value = _value(value)  # some models encode their arguments twice
        if not isinstance(value, dict):
            value = {"unreadable": call.arguments[:_KEPT_CHARACTERS]} if call.arguments.strip() else {}
        arguments = json.dumps(value, ensure_ascii=False)
        calls.append(replace(call, name=call.name or "unnamed", arguments=arguments))
    return message if tuple(calls) == message.tool_calls else replace(message, tool_calls=tuple(calls))


class CallRunner:
    """Runs the calls of one turn after another against one environment.

    Calls of tools that only read run side by side, the others one by one between them; ``finish`` runs last whatever
    its place, so that calls beside it still count as read. With ``repeat_guard`` = n, the n-th identical call in a row
    is not run but answered with a hint.
    """

    def __init__(self, environment: ToolSession, *, repeat_guard: int | None = None) -> None:
        self._environment = environment
        self._guard = repeat_guard
        self._last: tuple[str, str] = ("", "")
        self._streak = 0

    async def run(self, calls: Sequence[ToolCall], offered: Iterable[str]) -> tuple[Observation, ...]:
        """Return one observation per call, in the order of the calls. Tools not ``offered`` are refused."""
        names = set(offered)
        refused = {call.id: self._refusal(call, names) for call in calls[:MOST_CALLS]}
        refused |= {call.id: _failure(_TOO_MANY) for call in calls[MOST_CALLS:]}
        seen: dict[str, Observation] = {}
        batch: list[ToolCall] = []
        for call in calls:
            if (refusal := refused[call.id]) is not None:
                seen[call.id] = Observation(call=call, result=refusal, seconds=0.0)
            elif call.name != FINISH:
                tool = self._environment.toolset.by_name.get(call.name)
                if tool is None or tool.reads_only:
                    batch.append(call)
                    continue
                seen |= await self._side_by_side(batch)
                seen |= await self._side_by_side([call])
                batch = []
        seen |= await self._side_by_side(batch)
        is_finished = False
        for call in [call for call in calls if call.id not in seen]:  # those of finish
            if is_finished:
                late = _failure("the episode was finished by an earlier call of this turn.")
                seen[call.id] = Observation(call=call, result=late, seconds=0.0)
            else:
                seen[call.id] = await self._one(call)
                is_finished = seen[call.id].result.answer is not None
        return tuple(seen[call.id] for call in calls)

    async def _side_by_side(self, calls: Sequence[ToolCall]) -> dict[str, Observation]:
        if len(calls) == 1:
            return {calls[0].id: await self._one(calls[0])}
        return {seen.call.id: seen for seen in await asyncio.gather(*map(self._one, calls))}

    async def _one(self, call: ToolCall) -> Observation:
        started = time.perf_counter()
        try:
            result = await self._environment.call_async(call.name, call.arguments)
        except (WardroundError, asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a decoder's panic is no Exception
            raise ToolBroke(f"the tool {call.name} broke: {type(error).__name__}: {error}") from error
        return Observation(call=call, result=result, seconds=time.perf_counter() - started)

    def _refusal(self, call: ToolCall, offered: set[str]) -> ToolResult | None:
        """Return the error a call gets without being run, or None."""
        if call.name in self._environment.toolset.by_name and call.name not in offered:
            allowed = f"only {', '.join(sorted(offered))}" if offered else "no tool"
            return _failure(f"{allowed} can be called now.")
        call_key = (call.name, call.arguments)
        self._streak = self._streak + 1 if call_key == self._last else 1
        self._last = call_key
        if self._guard is None or self._streak < self._guard:
            return None
        return _failure(
            f"this is the same call {self._streak} times in a row; it was not run again because its result "
            "cannot change. Ask for something else, or call finish with what you have."
        )


def _failure(text: str) -> ToolResult:
    return ToolResult(text=f"Error: {text}", is_error=True)


# Tool calls that a model wrote into its text, because a server's template did not lift them out, as calls.
#
# Read are ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` (also without its end), the function and
# parameter tags of some coders' templates inside it, and a reply that is one such JSON object and nothing else. A call
# must name an offered tool; nothing else in a text counts as a call.


MOST_WRITTEN_CALLS = 16
_LONGEST = 100_000
_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"\s*<function=([\w.-]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json|tool_call)?\s*\n(.*?)\n?```\Z", re.DOTALL)


def with_written_calls(message: Message, offered: Collection[str]) -> Message:
    """Return the message with the calls written in its text; unchanged if there are none."""
    if message.tool_calls or not message.content:
        return message
    text = without_thinking(message.content)[-_LONGEST:].strip()
    blocks = list(_BLOCK.finditer(text))
    bodies = [block.group(1) for block in blocks] or [_FENCE.sub(r"\1", text)]
    found = [call for body in bodies[:MOST_WRITTEN_CALLS] for call in _calls(body.strip()) if call[0] in offered]
    if not found:
        return message
    spoken = text[: blocks[0].start()].strip() if blocks else ""
    calls = tuple(
        ToolCall(id=f"written_{number}", name=name, arguments=json.dumps(given, ensure_ascii=False))
        for number, (name, given) in enumerate(found, start=1)
    )
    return replace(message, content=spoken or None, tool_calls=calls)


def _calls(body: str) -> Iterator[tuple[str, dict[str, Any]]]:
    function = _FUNCTION.match(body)
    if function:
        yield function.group(1), {name: _value(text) for name, text in _PARAMETER.findall(function.group(2))}
        return
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(body)
    except (ValueError, RecursionError):
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            given = item.get("arguments", item.get("parameters", {}))
            if isinstance(given, str):
                given = _value(given)
            if isinstance(given, dict):
                yield item["name"], given


def _value(text: str) -> Any:
    """Return a value as JSON if it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
