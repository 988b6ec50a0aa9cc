"""What an agent is, and the one loop that plays it.

A turn: hooks run, the context policy renders the history within its room, the model replies, every tool call is
answered, hooks run. The loop ends by ``finish``, by text without a call (after a reminder), at the turn limit, at the
budget, at the limit of wall time, or by an endpoint's error; each is an Outcome. A bug in our code is raised.

Every method is a composition over it: ``Hooks`` (what to do before and after a turn and at an answer), a context
policy, a way to choose the next action, and prompts. ``docs/design/2026-11-20-agent-loop.md`` shows how each method is
composed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

from wardround.agents.loop.calls import (
    FINISH,
    CallRunner,
    Observation,
    ToolSession,
    as_own_calls,
    as_sent_back,
    with_written_calls,
)
from wardround.agents.loop.context import ContextFactory, EstimatedTokens, FullContext, TokenCounter
from wardround.agents.loop.episode import (
    Ending,
    Episode,
    Exchange,
    Finish,
    Limits,
    Outcome,
    Prompt,
    Recorder,
    prompt_text,
    to_its_ending,
)
from wardround.agents.loop.steps import StepFeed, StepPlayer, run_stay
from wardround.core import (
    FormatError,
    Message,
    PromptFile,
    PromptTooLong,
    ProviderError,
    UserError,
    load_prompt,
    without_thinking,
)
from wardround.models.protocol import Model, ModelSettings, Request
from wardround.models.schema import complete_structured
from wardround.models.wire import MOST_CALLS
from wardround.tasks.answers import Question

EVIDENCE_TOOL = "retrieve_evidence"
TEXT_CASE_SYSTEM = "loop.text_case"
Needs = Literal["nothing", "question", "labels"]
Choose = Callable[[Episode], Awaitable[Exchange]]
"""Decides the next action. It may call the model any number of times; only the returned reply is acted on."""


class Hooks:
    """The moments at which a method may act. One instance serves one episode, so state lives in the instance."""

    async def before_episode(self, episode: Episode) -> None:
        """Run when the prompt is ready and no turn was run: retrieve an experience, pin it."""

    async def before_turn(self, episode: Episode) -> None:
        """Run before the next prompt is rendered."""

    async def after_turn(self, episode: Episode) -> None:
        """Run when a turn is in the history with all its results: summarise, withdraw, pin. Not called after an
        answer."""

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        """Run when the episode is about to end. Return True to continue instead, after ``episode.new_trial()``."""
        return False


async def ask_once(episode: Episode) -> Exchange:
    """Choose by default: one prompt, one reply."""
    return await episode.ask(episode.render())


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """The settings of the loop.

    ``forced_finish``: at the turn limit or a spent token budget, one more call that offers only ``finish``.
    ``reminders``: how often in a row a reply without a tool call is sent back before it counts as the final text.
    ``repeat_guard``: see CallRunner; None, the default, leaves repetition to the error taxonomy.
    ``written_calls``: a tool call in the text of a reply is run, and an empty reply is never the answer.
    ``bound_labels``: an answer without any declared label is requested once more, bound by a schema.
    """

    forced_finish: bool = True
    reminders: int = 1
    repeat_guard: int | None = None
    written_calls: bool = True
    bound_labels: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """One agent. ``hooks`` are factories, called once per episode; they run in order. ``prompts`` names further
    template files the hooks use (``room/name`` for those of another room), so that the run's manifest can hash them.
    ``tools``: "all" of the environment's are offered at every turn, or "none": it answers from what its hooks pinned.
    ``more_tools``: extra tools beside the usual ones. ``needs``: what the agent requires of a task.
    ``steps``: makes the player of a stay, bundle by bundle; such an agent has no loop of turns.
    ``files``: further files shown to models, which are hashed into the run (a frozen protocol).
    ``charted``: the agent requires a chart, so it does not run on text cases.
    """

    name: str
    title: str
    system: str
    context: ContextFactory = FullContext
    hooks: tuple[Callable[[], Hooks], ...] = ()
    choose: Choose = ask_once
    loop: LoopSettings = LoopSettings()
    tools: Literal["all", "none"] = "all"
    more_tools: tuple[str, ...] = ()
    needs: Needs = "nothing"
    charted: bool = False
    steps: Callable[[], StepPlayer] | None = None
    prompts: tuple[str, ...] = ()
    files: tuple[PromptFile, ...] = ()
    package: str = "wardround.agents"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not callable(self.context):
            raise UserError(
                f"agent {self.name!r}: context = {self.context!r} is no context policy; give the class or function"
            )

    @property
    def searches(self) -> bool:
        """Return whether it searches charts for evidence, by a hook or by the tool."""
        return EVIDENCE_TOOL in self.more_tools or self.needs != "nothing"

    def for_text_cases(self) -> AgentSpec:
        """Return the agent for text cases: no tools, and one reply that ends in its answer.

        Raises UserError if the agent requires a chart.
        """
        if self.charted:
            raise UserError(
                f"agent {self.name!r} reads a chart, and the cases of this benchmark are texts; choose direct, "
                "gsem or gsem-walk"
            )
        loop = replace(self.loop, reminders=0)
        return replace(self, system=TEXT_CASE_SYSTEM, tools="none", more_tools=(), needs="nothing", loop=loop)

    def player(self) -> StepPlayer:
        """Return a player for one stay. Raises UserError if the agent does not run on stays."""
        if self.steps is None:
            raise UserError(f"agent {self.name!r} reads charts with tools; it does not run on stays bundle by bundle")
        return self.steps()

    def prompt_files(self) -> tuple[PromptFile, ...]:
        """Return every template this agent may put before a model."""
        own = []
        for name in (self.system, *self.prompts):
            room, _, file = name.rpartition("/")
            own.append(load_prompt(f"wardround.{room}" if room else self.package, file))
        return (*own, *self.files, load_prompt("wardround.agents", "loop"))

    def manifest(self) -> dict[str, Any]:
        """Return what a run records about its agent."""
        files = {file.name: {"version": file.version, "sha256": file.sha256} for file in self.prompt_files()}
        return {
            "name": self.name,
            "loop": asdict(self.loop),
            "tools": self.tools,
            "evidence_tool": EVIDENCE_TOOL in self.more_tools,
            "more_tools": list(self.more_tools),
            "prompts": files,
            **self.facts,
        }


def check_question(agent: AgentSpec, task: str, question: Question | None) -> None:
    """Raise UserError if an agent does not fit a task.

    It needs queries to search with or labels to argue for and the task has none; or it takes turns and the task is a
    stay by steps, or the other way round.
    """
    by_steps = question is not None and question.answer.by_steps
    if by_steps != (agent.steps is not None):
        plays = "a stay, bundle by bundle" if by_steps else "a chart, read with tools"
        raise UserError(
            f"agent {agent.name!r} does not play {task!r}: that is {plays}; `wardround list agents` says who"
        )
    if agent.needs != "nothing" and question is None:
        raise UserError(f"agent {agent.name!r} searches with a task's queries, and {task!r} has none; leave it out")
    if agent.needs == "labels" and question is not None and not question.label_values:
        raise UserError(
            f"agent {agent.name!r} argues for and against a label, and {task!r} has none; "
            "take one without two sides (ehr-rag-no-der) or an agent with evidence (retrosum+ether)"
        )


# The loop.


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
    if feed is None:
        ending = await to_its_ending(_Loop(agent, state).play(), state)
    else:
        ending = await run_stay(agent.player(), state, feed)
    citations = environment.check_evidence(ending.answer, ending.evidence) if ending.answer and feed is None else ()
    return Outcome(
        answer=ending.answer,
        evidence=ending.evidence,
        citations=tuple(citations),
        finish=ending.finish,
        turns=state.turn,
        model_calls=state.model_calls,
        usage=state.usage,
        cost=state.cost,
        seconds=time.perf_counter() - started,
        prefix_share=state.shared_tokens / state.prompt_tokens if state.prompt_tokens else None,
        forced=ending.forced,
        error=ending.error,
    )


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
        """Run the action of a reply: its calls, also those that it wrote as text; return the ending, if it is one."""
        state, reply = self.state, exchange.reply
        message = reply.message
        if self.settings.written_calls and reply.finish_reason not in ("length", "content_filter"):
            message = with_written_calls(message, {schema.name for schema in exchange.request.tools})
        if message is not reply.message:
            state.recorder.note("written_call", {"turn": state.turn, "calls": len(message.tool_calls)})
        message = as_own_calls(message, state.environment.toolset, state.used_ids)
        if not message.tool_calls:
            return await self._take_text(exchange, message)
        self.reminded = 0
        return await self._answer_calls(exchange, message)

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
        instruction = prompt_text("loop.bind", kind=state.answers)
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
        """Send a reply without a call back with a reminder, or accept it as the final text.

        An empty reply is no text: after several of them in a row comes the forced call.
        """
        state, reply = self.state, exchange.reply
        self._record(exchange, message, ())
        text = (message.content or "").strip()
        finish: Finish = reply.finish_reason if reply.finish_reason in ("length", "content_filter") else "text"
        is_empty = self.settings.written_calls and not without_thinking(text).strip()
        if not is_empty and self.reminded >= self.settings.reminders:
            state.recorder.note("text", {"turn": state.turn, "what": "taken as the final text"})
            read = state.answers.read(text, about=state.about, whole=finish == "text")
            return Ending(finish=finish, answer=await self._read(read, text))
        self.reminded += 1
        if is_empty and (self.closing or self.reminded > MOST_EMPTY):
            return None if self.closing else await self._close(finish)
        reason = "empty" if is_empty else _reminder_reason(finish, text)
        state.recorder.note("reminder", {"turn": state.turn, "reason": reason})
        if text and not is_empty:
            state.history.add(Message(role="assistant", content=message.content), turn=state.turn, kind="turn")
        state.remind(prompt_text("loop.reminder", reason=reason))
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
        state.remind(prompt_text("loop.finish_now"))
        state.environment.accept_any_answer()
        self.reminded = self.settings.reminders
        self.closing = True
        ending = await self._act(await self._fitting(lambda: state.ask(state.render(only), schemas=only)))
        self.closing = False
        if ending is None:
            return Ending(finish=finish, forced=True)
        return replace(ending, finish=finish, forced=True)


def _reminder_reason(finish: Finish, text: str) -> str:
    if finish != "text":
        return finish
    if not text:
        return "empty"
    return "written_call" if "<tool_call" in text or '"arguments"' in text else "no_call"
