"""Run the one loop of agents; every method is a composition over it.

A turn: hooks run, the context policy renders the history within its room, the model replies, every tool call is
answered, hooks run. The loop ends by ``finish``, by text without a call (after a reminder), at the turn limit, at the
budget, at the limit of wall time, or by an endpoint's error; each is an Outcome. A bug in our code is raised.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from wardround.agents.loop.agent import AgentSpec, Hooks
from wardround.agents.loop.calls import (
    FINISH,
    CallRunner,
    Finish,
    Limits,
    Outcome,
    Prompt,
    ToolSession,
    as_sent_back,
    unique_ids,
    with_own_names,
    with_written_calls,
)
from wardround.agents.loop.episode import Ending, Episode, Exchange, Recorder, outcome_of, to_its_ending
from wardround.agents.loop.history import EstimatedTokens, Observation, TokenCounter
from wardround.agents.loop.steps import StepFeed, run_stay
from wardround.core import (
    FormatError,
    Message,
    PromptTooLong,
    ProviderError,
    load_prompt,
    without_thinking,
)
from wardround.models.protocol import Model, ModelSettings, Reply, Request
from wardround.models.schema import complete_structured
from wardround.models.wire import MOST_CALLS

MOST_TOO_LONG = 3
"""The limit of prompts in a row that an endpoint refuses as too long; the next refusal is raised."""
MOST_EMPTY = 3
"""Empty replies in a row that are answered with a reminder."""


async def run_episode(
    agent: AgentSpec,
    *,
    model: Model,
    environment: ToolSession,
    prompt: Prompt,
    limits: Limits,
    settings: ModelSettings,
    recorder: Recorder,
    episode: str,
    feed: StepFeed | None = None,
    counter: TokenCounter | None = None,
) -> Outcome:
    """Run one episode to its end; its turns and notes go to ``recorder``, its outcome is the caller's to record.

    With a ``feed`` the agent predicts what comes next after every bundle of a stay; without one it answers a question.
    """
    started = time.perf_counter()
    state = Episode(
        agent=agent,
        model=model,
        environment=environment,
        prompt=prompt,
        limits=limits,
        settings=settings,
        recorder=recorder,
        counter=counter or EstimatedTokens(),
        episode=episode,
    )
    if feed is not None:
        ending = await run_stay(agent.player(), state, feed)
        return outcome_of(state, ending, seconds=time.perf_counter() - started)
    ending = await to_its_ending(_Loop(agent, state).play(), state)
    citations = environment.check_evidence(ending.answer, ending.evidence) if ending.answer else ()
    return outcome_of(state, ending, seconds=time.perf_counter() - started, citations=tuple(citations))


class _Loop:
    """One episode's control flow."""

    def __init__(self, agent: AgentSpec, state: Episode) -> None:
        self.agent = agent
        self.state = state
        self.settings = agent.loop
        self.hooks: list[Hooks] = [hook() for hook in agent.hooks]
        self.runner = CallRunner(state.environment, repeat_guard=self.settings.repeat_guard)
        self.reminded = 0
        self.closing = False

    async def play(self) -> Ending:
        """Run turns, over as many trials as the hooks request, until an ending is final."""
        for hook in self.hooks:
            await hook.before_episode(self.state)
        while True:
            ending = await self._trial()
            if not await self._goes_on(ending):
                return ending

    async def _goes_on(self, ending: Ending) -> bool:
        """Ask the hooks whether to run another trial; an endpoint's failure there does not lose the answer."""
        trial = self.state.trial
        for hook in self.hooks:
            try:
                wanted = await hook.at_answer(self.state, ending)
            except ProviderError as error:
                self.state.recorder.note("trial", {"turn": self.state.turn, "skipped": str(error)})
                continue
            if wanted:
                return self.state.trial > trial
        return False

    async def _trial(self) -> Ending:
        state = self.state
        while state.trial_turn < state.limits.turns and not state.spent:
            state.turn += 1
            state.trial_turn += 1
            for hook in self.hooks:
                await hook.before_turn(state)
            ending = await self._act(await self._fitting(lambda: self.agent.choose(state)))
            if ending is not None:
                return ending
            for hook in self.hooks:
                await hook.after_turn(state)
        return await self._close("budget" if state.spent else "turn_limit")

    async def _fitting(self, choose: Callable[[], Awaitable[Exchange]]) -> Exchange:
        """Choose; choose again with less room if the endpoint refuses the prompt as too long."""
        for _ in range(MOST_TOO_LONG):
            try:
                return await choose()
            except PromptTooLong as error:
                self.state.fit(error)
        return await choose()

    async def _act(self, exchange: Exchange) -> Ending | None:
        """Run the action of a reply; return the ending, if it is one."""
        message = with_own_names(self._called(exchange), self.state.environment.toolset)
        message = unique_ids(message, self.state.used_ids)
        if message.tool_calls:
            self.reminded = 0
            return await self._answer_calls(exchange, message)
        return await self._take_text(exchange, message)

    def _called(self, exchange: Exchange) -> Message:
        """Return the reply's message, with the calls it wrote as text."""
        original = exchange.reply.message
        if not self.settings.written_calls or exchange.reply.finish_reason in ("length", "content_filter"):
            return original
        message = with_written_calls(original, {schema.name for schema in exchange.request.tools})
        if message is not original:
            detail = {"turn": self.state.turn, "calls": len(message.tool_calls)}
            self.state.recorder.note("written_call", detail)
        return message

    async def _answer_calls(self, exchange: Exchange, message: Message) -> Ending | None:
        state = self.state
        offered = [schema.name for schema in exchange.request.tools]
        if state.trial_turn >= state.limits.turns and not self.settings.forced_finish:
            state.environment.accept_any_answer()
        observations = await self.runner.run(message.tool_calls, offered)
        self._record(exchange, message, observations)
        if len(message.tool_calls) > MOST_CALLS:
            refused = max(exchange.reply.calls_left_out, len(message.tool_calls) - MOST_CALLS)
            state.recorder.note("calls", {"turn": state.turn, "most": MOST_CALLS, "not_run": refused})
        sent_back = as_sent_back(message)
        if sent_back is not message:
            state.recorder.note("arguments", {"turn": state.turn, "what": "rewritten as valid JSON for later prompts"})
        results = [seen.record.message for seen in observations]
        state.history.add(sent_back, *results, turn=state.turn, kind="turn", observations=observations)
        finished = [seen.result for seen in observations if seen.call.name == FINISH and seen.result.answer is not None]
        if not finished:
            return None
        given = finished[0].answer or ()
        answer = await self._read(state.answers.settle(given, about=state.about), ", ".join(given))
        return Ending(finish="finish", answer=answer, evidence=finished[0].evidence)

    async def _read(self, answer: tuple[str, ...] | None, given: str) -> tuple[str, ...] | None:
        """Note an answer without any declared label, and ask for one of them."""
        labels = self.state.answers.label_values
        if answer is not None or not labels:
            return answer
        detail = {"turn": self.state.turn, "unreadable": given[-200:], "labels": labels}
        self.state.recorder.note("answer", detail)
        return await self._bound(given) if self.settings.bound_labels else None

    async def _bound(self, given: str) -> tuple[str, ...] | None:
        """Ask once more, with the reply bound to the labels by a schema; a failure leaves no answer."""
        state = self.state
        given_message = (Message(role="assistant", content=given),) if given.strip() else ()
        instruction = load_prompt("wardround.agents", "loop.bind").render(kind=state.answers)
        request = Request(
            messages=(*state.last_prompt, *given_message, Message(role="user", content=instruction)),
            settings=state.settings,
            episode=state.id,
            ordinal=state.model_calls,
        )
        try:
            bound = await complete_structured(
                state.model, request, state.answers.schema or {}, record=partial(state.charge, purpose="bind")
            )
        except (FormatError, ProviderError) as error:
            state.recorder.note("answer", {"turn": state.turn, "not_bound": str(error)})
            return None
        state.recorder.note("answer", {"turn": state.turn, "bound": bound.value})
        return state.answers.settle(bound.value, about=state.about)

    async def _take_text(self, exchange: Exchange, message: Message) -> Ending | None:
        """Send a reply without a call back with a reminder, or accept it as the final text."""
        state = self.state
        self._record(exchange, message, ())
        text = (message.content or "").strip()
        if self.settings.written_calls and not without_thinking(text).strip():
            return await self._take_nothing(exchange)
        if self.reminded >= self.settings.reminders:
            state.recorder.note("text", {"turn": state.turn, "what": "taken as the final text"})
            finish = _end_of_text(exchange.reply)
            read = state.answers.read(text, about=state.about, whole=finish == "text")
            answer = await self._read(read, text)
            return Ending(finish=finish, answer=answer)
        self.reminded += 1
        reason = _reminder_reason(exchange.reply, text)
        state.recorder.note("reminder", {"turn": state.turn, "reason": reason})
        if text:
            state.history.add(Message(role="assistant", content=message.content), turn=state.turn, kind="turn")
        state.remind(load_prompt("wardround.agents", "loop.reminder").render(reason=reason))
        return None

    async def _take_nothing(self, exchange: Exchange) -> Ending | None:
        """Answer an empty reply: with a reminder, and after several empty replies in a row with the forced call."""
        state = self.state
        self.reminded += 1
        if self.closing or self.reminded > MOST_EMPTY:
            return None if self.closing else await self._close(_end_of_text(exchange.reply))
        state.recorder.note("reminder", {"turn": state.turn, "reason": "empty"})
        state.remind(load_prompt("wardround.agents", "loop.reminder").render(reason="empty"))
        return None

    def _record(self, exchange: Exchange, message: Message, observations: Sequence[Observation]) -> None:
        self.state.acts += 1
        reply = exchange.reply if message is exchange.reply.message else replace(exchange.reply, message=message)
        self.state.recorder.turn(exchange.request, reply, [seen.record for seen in observations], purpose="act")

    async def _close(self, finish: Finish) -> Ending:
        """End at a limit: at once, or after one forced call that offers only ``finish``."""
        state = self.state
        only = [schema for schema in state.schemas if schema.name == FINISH]
        forced = self.settings.forced_finish and bool(only)
        state.recorder.note("limit", {"turn": state.turn, "finish": finish, "forced_call": forced})
        if not forced:
            return Ending(finish=finish)
        state.remind(load_prompt("wardround.agents", "loop.finish_now").render())
        state.environment.accept_any_answer()
        self.reminded = self.settings.reminders
        self.closing = True
        ending = await self._act(await self._fitting(lambda: state.ask(state.render(only), schemas=only)))
        self.closing = False
        if ending is None:
            return Ending(finish=finish, forced=True)
        return replace(ending, finish=finish, forced=True)


def _end_of_text(reply: Reply) -> Finish:
    """Return the finish of an episode that ends with a text; a cut or withheld text has its own finish."""
    return reply.finish_reason if reply.finish_reason in ("length", "content_filter") else "text"


def _reminder_reason(reply: Reply, text: str) -> str:
    if reply.finish_reason in ("length", "content_filter"):
        return reply.finish_reason
    if not text:
        return "empty"
    return "written_call" if "<tool_call" in text or '"arguments"' in text else "no_call"
