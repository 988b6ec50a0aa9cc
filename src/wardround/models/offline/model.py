"""The offline policy: one request in, the next step of its plan out."""

from __future__ import annotations

import json
import random
import re
from collections import OrderedDict
from collections.abc import Sequence

from wardround.core import Message, ToolCall, ToolSchema, Usage, derive_seed, estimate_tokens
from wardround.models.offline.conversation import (
    Conversation,
    OfflineFinding,
    OfflineFindings,
    Result,
    asked_job,
    read_conversation,
)
from wardround.models.offline.plan import Ask, EpisodePlan, PlanStep
from wardround.models.offline.tasks import answer_text, job_reply, labelled_plan, labels_of, plan_for
from wardround.models.protocol import Reply, Request
from wardround.records import Roles, load_source_spec

# A step through a memory's graph without language: take what there is, go on to the best candidate, stop.


_POSSIBLE = re.compile(r"^Possible actions: ([A-Z, ]+)\.", re.MULTILINE)
_FIRST = re.compile(r"EXPLORE one of:\n- (\w+):")


def walk_reply(instruction: str) -> str:
    """Return the action at a place: COLLECT where possible, else EXPLORE the first candidate, else STOP."""
    possible, first = _POSSIBLE.search(instruction), _FIRST.search(instruction)
    actions = possible[1].split(", ") if possible else []
    if "COLLECT" in actions:
        return json.dumps({"action": "COLLECT"})
    if "EXPLORE" in actions and first:
        return json.dumps({"action": "EXPLORE", "target": first[1]})
    return json.dumps({"action": "STOP"})


# The model itself: one request in, the next step of the plan out.


_COUNTS_KEPT = 4096
_SHIFT = 0.04
_ANSWER_LINE = "`Answer: `"
"""The answer line that the system prompt of an agent without tools requires."""
_CRITIQUE = "The plan was followed. Follow it again from the beginning, and look every answer up before finishing."


class OfflineModel:
    """A rule-based policy with the model interface. The same request and seed give the same reply.

    A seed shifts the threshold of the answer a little; without one nothing is random. Token counts come from the
    offline estimator, its only tokenizer.
    """

    name = "offline"
    identity = "offline/2"

    def __init__(self, roles: Roles | None = None) -> None:
        """``roles`` are those of the source in question; default: MIMIC-IV's."""
        self._roles = roles or load_source_spec("mimiciv").roles
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    async def check(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        """Nothing to release."""

    async def complete(self, request: Request) -> Reply:
        """Report the newest results and make the calls of the next step."""
        message = _reply(request, self._roles)
        input_tokens = sum(map(self._count, request.messages)) + sum(map(self._count, request.tools))
        usage = Usage(input_tokens=input_tokens, output_tokens=estimate_tokens(message.wire.decode()))
        reason = "tool_calls" if message.tool_calls else "stop"
        return Reply(message=message, usage=usage, finish_reason=reason, model=self.name, identity=self.identity)  # type: ignore[arg-type]

    def _count(self, part: Message | ToolSchema) -> int:
        key = part.digest if isinstance(part, Message) else part.wire
        known = self._counts.get(key)
        if known is None:
            known = self._counts[key] = estimate_tokens(part.wire.decode())
            if len(self._counts) > _COUNTS_KEPT:
                self._counts.popitem(last=False)
        return known


def _reply(request: Request, roles: Roles) -> Message:
    """Do what the last message requests; by default, the next step."""
    job = asked_job(request.messages)
    if job == "choose":
        return Message(role="assistant", content="The first one is what the plan asks for.\nChoice: 1")
    if job == "walk":
        return Message(role="assistant", content=walk_reply(request.messages[-1].content or ""))
    if job == "criticise":
        return Message(role="assistant", content=_CRITIQUE)
    messages = request.messages[:-1] if job else request.messages
    talk = read_conversation(messages)
    job_message = job_reply(job, request.messages, talk)
    if job_message is not None:
        return job_message
    labelled = bool(labels_of(talk.question))
    plan = labelled_plan(talk.question, roles) if labelled else plan_for(talk.space, roles)
    offered = {schema.name for schema in request.tools}
    if not offered and not job and _ANSWER_LINE in (request.messages[0].content or ""):
        known = talk.findings()
        return answer_text(talk) if labelled else _finish(plan, talk, known, [], offered, request)
    return _next(plan, talk, offered, request) if offered else _summary(plan, talk)


def _next(plan: EpisodePlan, talk: Conversation, offered: set[str], request: Request) -> Message:
    """Return the reply that follows from the conversation."""
    known = talk.findings()
    last_step = plan.steps[talk.step - 1] if 0 < talk.step <= len(plan.steps) else None
    fresh, again = _learn(last_step, known, talk.results) if last_step else ([], [])
    known_lines = {note.line for note in talk.notes}
    fresh = [note for note in fresh if note.line not in known_lines]  # a summary may contain them already
    known.add(fresh)
    if again and last_step:
        return _say(request, plan, talk.step, f"{last_step.name}, another way", fresh, again)
    for index in range(talk.step, len(plan.steps)):
        step = plan.steps[index]
        asks = [ask for ask in step.ask(known) if ask.tool in offered]
        if asks:
            return _say(request, plan, index + 1, step.name, fresh, asks)
    return _finish(plan, talk, known, fresh, offered, request)


def _learn(step: PlanStep, known: OfflineFindings, results: Sequence[Result]) -> tuple[list[OfflineFinding], list[Ask]]:
    """Return the findings of a step's results, and the calls of its alternative if they failed."""
    failed = [result for result in results if result.error is not None]
    fresh = step.read(known, results)
    if not failed or known.has("failed", step.name):
        return fresh, []
    fresh.append(OfflineFinding(kind="failed", value=step.name))
    return fresh, list(step.otherwise(known)) if step.otherwise else []


def _finish(
    plan: EpisodePlan,
    talk: Conversation,
    known: OfflineFindings,
    fresh: list[OfflineFinding],
    offered: set[str],
    request: Request,
) -> Message:
    answer = plan.answer(known, _shift(request))
    if "finish" not in offered or _refused_twice(talk):
        return Message(role="assistant", content=json.dumps(list(answer.labels), ensure_ascii=False))
    arguments = {"response": list(answer.labels)} | ({} if _refused(talk) else {"evidence": answer.evidence})
    asks = [Ask(tool="finish", arguments=arguments)]
    return _say(request, plan, len(plan.steps) + 1, "the answer", fresh, asks)


def _refused(talk: Conversation) -> bool:
    return any(result.call.name == "finish" for result in talk.results)


def _refused_twice(talk: Conversation) -> bool:
    return any(result.call.name == "finish" and "evidence" not in result.call.arguments for result in talk.results)


def _shift(request: Request) -> float:
    if request.settings.seed is None:
        return 0.0
    chance = random.Random(derive_seed("offline", request.settings.seed))
    return chance.uniform(-_SHIFT, _SHIFT)


def _say(
    request: Request, plan: EpisodePlan, step: int, thought: str, notes: Sequence[OfflineFinding], asks: Sequence[Ask]
) -> Message:
    lines = [f"Step {step} of {len(plan.steps) + 1}: {thought}.", *_lines(notes)]
    calls = tuple(
        ToolCall(
            id=f"call_{request.ordinal}_{place}",
            name=ask.tool,
            arguments=json.dumps(dict(ask.arguments), ensure_ascii=False),
        )
        for place, ask in enumerate(asks)
    )
    return Message(role="assistant", content="\n".join(lines), tool_calls=calls)


def _lines(notes: Sequence[OfflineFinding]) -> list[str]:
    return list(dict.fromkeys(note.line for note in notes))


def _summary(plan: EpisodePlan, talk: Conversation) -> Message:
    """Return the findings so far: without tools there is nothing else to do."""
    known = talk.findings()
    if 0 < talk.step <= len(plan.steps):
        known.add(plan.steps[talk.step - 1].read(known, talk.results))
    lines = [f"Step {talk.step} of {len(plan.steps) + 1}: what is known so far.", *_lines(known.everything)]
    return Message(role="assistant", content="\n".join(lines))
