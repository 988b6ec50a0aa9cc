"""Tool calls as models write them: read arguments, number and answer each call; the episode's outcome."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

from wardround.agents.loop.history import Observation
from wardround.core import Message, Picture, ToolBroke, ToolCall, Usage, WardroundError, without_thinking
from wardround.models.tool_questions import AskOwnModel
from wardround.models.wire import MOST_CALLS
from wardround.records import Chart, TextCaseRecord
from wardround.tasks.answers import AnswerKind, Candidates, Question
from wardround.tools.definition import ToolResult
from wardround.tools.grounding import Citation
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


def unique_ids(message: Message, used: set[str]) -> Message:
    """Return the message with call ids that occur nowhere else in the episode, and note them as used."""
    calls = tuple(_unique(call, used) for call in message.tool_calls)
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def _unique(call: ToolCall, used: set[str]) -> ToolCall:
    wanted = call.id or f"call_{len(used)}"
    fresh, number = wanted, 1
    while fresh in used:
        number += 1
        fresh = f"{wanted}_{number}"
    used.add(fresh)
    return call if fresh == call.id else replace(call, id=fresh)


def with_own_names(message: Message, toolset: Toolset) -> Message:
    """Return the message with its calls under the names that the toolset has for them."""
    calls = tuple(replace(call, name=toolset.own_name(call.name)) for call in message.tool_calls)
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def as_sent_back(message: Message) -> Message:
    """Return the message as later prompts carry it: servers refuse a history whose arguments are no JSON object."""
    calls = tuple(map(_sendable, message.tool_calls))
    return message if calls == message.tool_calls else replace(message, tool_calls=calls)


def _sendable(call: ToolCall) -> ToolCall:
    value = _object(call.arguments)
    if value is not None and call.name:
        return call
    twice = _object(_text(call.arguments)) if value is None else value
    blank = not call.arguments.strip()
    mended = twice if twice is not None else {} if blank else {"unreadable": call.arguments[:_KEPT_CHARACTERS]}
    return replace(call, name=call.name or "unnamed", arguments=json.dumps(mended, ensure_ascii=False))


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(text: str) -> str:
    """Return the string inside a JSON string (some models encode their arguments twice), or nothing."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""


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
            elif call.name != FINISH and self._reads_only(call.name):
                batch.append(call)
            elif call.name != FINISH:
                seen |= await self._side_by_side(batch)
                seen |= await self._side_by_side([call])
                batch = []
        seen |= await self._side_by_side(batch)
        seen |= await self._finish([call for call in calls if call.id not in seen])
        return tuple(seen[call.id] for call in calls)

    def _reads_only(self, name: str) -> bool:
        tool = self._environment.toolset.get(name)
        return tool is None or tool.reads_only

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

    async def _finish(self, calls: Sequence[ToolCall]) -> dict[str, Observation]:
        """Run finish calls until one is accepted; later ones of the same turn are refused."""
        seen: dict[str, Observation] = {}
        done = False
        for call in calls:
            late = _failure("the episode was finished by an earlier call of this turn.")
            seen[call.id] = Observation(call=call, result=late, seconds=0.0) if done else await self._one(call)
            done = done or seen[call.id].result.answer is not None
        return seen

    def _refusal(self, call: ToolCall, offered: set[str]) -> ToolResult | None:
        """Return the error a call gets without being run, or None."""
        if self._environment.toolset.get(call.name) is not None and call.name not in offered:
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


# What goes into an episode and what comes out of it.


Finish = Literal[
    "finish", "text", "length", "content_filter", "turn_limit", "step_limit", "time_limit", "budget", "error"
]


_NAMES = Candidates(tables=("candidates",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A task's own words. ``system`` is added to the agent's system prompt, ``user`` is the first user message, with
    ``pictures``.

    ``task`` is its name, by which memory tells the tasks apart; no model is shown it. ``question`` is the same task in
    parts, for methods that search with its queries and for reading a label out of a reply.
    """

    user: str
    system: str = ""
    task: str = ""
    pictures: tuple[Picture, ...] = ()
    question: Question | None = None

    @property
    def answers(self) -> AnswerKind:
        """The kind of the answer: names from a candidate table, unless the question declares another kind."""
        return _NAMES if self.question is None else self.question.answer

    @property
    def about(self) -> str:
        """The question's own words, empty if it is not known in parts."""
        return "" if self.question is None else self.question.about


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an episode may use.

    ``turns`` model calls that act. ``context_tokens`` hold schemas, prompt and reply of one call, of which
    ``reply_tokens`` are kept free for the reply. ``total_tokens`` (input and output of all calls) is unlimited if None,
    and so are the ``seconds`` of wall time. ``steps`` bound an episode of many steps, whose model calls are no turns.
    """

    turns: int = 100
    context_tokens: int = 64_000
    reply_tokens: int = 4096
    total_tokens: int | None = None
    seconds: float | None = None
    steps: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an episode ended.

    ``finish``: by the finish tool, by text without a call (``length``, ``content_filter``: a text that was cut off or
    withheld), at the turn limit, at the budget (an answer given in the forced last call still counts), at the limit of
    wall time, or by an endpoint's error. ``answer`` is None without a readable answer.
    ``citations`` are the environment's checks of the evidence. ``cost`` is in US dollars, None when no price is known.
    ``prefix_share`` is the part of all prompt tokens that repeats the start of the prompt before it.
    """

    answer: tuple[str, ...] | None
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    citations: tuple[Citation, ...] = ()
    finish: Finish
    turns: int
    model_calls: int
    usage: Usage
    cost: float | None
    seconds: float
    prefix_share: float | None = None
    forced: bool = False
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values for the log."""
        body = {name: getattr(self, name) for name in _PLAIN}
        return body | {
            "answer": None if self.answer is None else list(self.answer),
            "evidence": {answer: list(rows) for answer, rows in self.evidence.items()},
            "citations": [asdict(citation) for citation in self.citations],
            "usage": asdict(self.usage),
        }


_PLAIN = ("finish", "turns", "model_calls", "cost", "seconds", "prefix_share", "forced", "error")
