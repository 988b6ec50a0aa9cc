"""The state of a running episode, side readers (summariser, critic), and how an episode ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from traceback import format_exception
from typing import Any, Literal, Protocol

from wardround.agents.loop.calls import Finish, Limits, Outcome, Prompt, ToolSession
from wardround.agents.loop.context import ContextFactory, Rendered, cut_notice, cut_text
from wardround.agents.loop.history import (
    Block,
    Calibration,
    History,
    TokenCounter,
    Transcript,
    count_message,
    count_schemas,
)
from wardround.core import (
    LimitReached,
    Message,
    Picture,
    PromptTooLong,
    PromptWithheld,
    ProviderError,
    ToolBroke,
    ToolSchema,
    Usage,
    load_prompt,
    without_thinking,
)
from wardround.log import ToolRecord
from wardround.memory import Experience, Kind
from wardround.models.protocol import Model, ModelSettings, Reply, Request
from wardround.models.replay import beside
from wardround.models.tool_questions import PURPOSE, EpisodeQuestions
from wardround.tools.grounding import Citation

# An episode while it runs: what the loop and the hooks share.


class Recorder(Protocol):
    """Where an episode is written; ``wardround.log.EpisodeRecorder`` is one."""

    def turn(self, request: Request, reply: Reply, results: Sequence[ToolRecord] = (), *, purpose: str = "act") -> None:
        """Record one model call and the tool results that followed."""
        ...

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Record anything else that decided what a model saw."""
        ...


class PlayingAgent(Protocol):
    """The part of an agent that an episode uses."""

    @property
    def name(self) -> str: ...
    @property
    def package(self) -> str: ...
    @property
    def system(self) -> str: ...
    @property
    def context(self) -> ContextFactory: ...
    @property
    def tools(self) -> Literal["all", "none"]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its reply."""

    request: Request
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why an episode is about to end, and with what answer."""

    finish: Finish
    answer: tuple[str, ...] | None = None
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    error: str | None = None
    forced: bool = False


class Episode:
    """The running state. Hooks read and change ``history`` and call ``ask``, ``record``, ``pin`` and ``new_trial``."""

    def __init__(
        self,
        *,
        agent: PlayingAgent,
        model: Model,
        environment: ToolSession,
        prompt: Prompt,
        limits: Limits,
        settings: ModelSettings,
        recorder: Recorder,
        counter: TokenCounter,
        episode: str,
    ) -> None:
        self.agent = agent
        self.model = model
        self.environment = environment
        self.limits = limits
        self.settings = replace(settings, max_output_tokens=limits.reply_tokens)
        self.recorder = recorder
        self.counter = counter
        self.id = episode
        self.task = prompt.task
        self.question = prompt.question
        self.answers, self.about = prompt.answers, prompt.about
        self.lessons: dict[Kind, tuple[Experience, ...]] = {}
        """The experiences that memory served for this episode, by kind; the writer of a prompt of that kind shows
        them."""
        self.schemas: tuple[ToolSchema, ...] = () if agent.tools == "none" else environment.toolset.schemas
        self.history = History(_prompt_messages(agent, prompt, limits))
        self.context = agent.context(counter)
        self.calibration = Calibration()
        self.turn = 0
        """Turns run, over all trials."""
        self.trial = 1
        self.trial_turn = 0
        """Turns run in this trial: the number that the turn limit bounds."""
        self.acts = 0
        """Actions recorded, over all trials: a forced last answer is one, and no turn of its own."""
        self.model_calls = 0
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.used_ids: set[str] = set()
        self.prompt_tokens = 0
        self.shared_tokens = 0
        self._all_schema_tokens = count_schemas(counter, self.schemas)
        self._last_schemas: Sequence[ToolSchema] | None = None
        self._rendered = Rendered(messages=(), tokens=0, shared_tokens=0)

    def room(self, schemas: Sequence[ToolSchema] | None = None) -> int:
        """Return the counted tokens that messages may take: the window less the reply and the schemas, calibrated."""
        window = self.limits.context_tokens - self.limits.reply_tokens
        return int(window / self.calibration.factor) - self.schema_tokens(self.schemas if schemas is None else schemas)

    def schema_tokens(self, schemas: Sequence[ToolSchema]) -> int:
        """Return what a set of tool schemas takes of every prompt."""
        if schemas is self.schemas:
            return self._all_schema_tokens
        return count_schemas(self.counter, schemas)

    def render(self, schemas: Sequence[ToolSchema] | None = None, *, reserve: int = 0) -> tuple[Message, ...]:
        """Return the next prompt of the actor and note what the budget took out of it.

        ``reserve`` keeps counted tokens free for messages that the caller adds to it.
        """
        offered = self.schemas if schemas is None else schemas
        rendered = self._rendered = self.context.render(self.history, self.room(offered) - reserve)
        self.note_decisions(rendered, role="actor")
        self._count_prefix(rendered, offered)
        return rendered.messages

    @property
    def last_prompt(self) -> tuple[Message, ...]:
        """The actor's newest prompt, as the model was given it."""
        return tuple(self._rendered.messages)

    @property
    def rendered_tokens(self) -> int:
        """Counted tokens of the actor's newest prompt, without schemas."""
        return self._rendered.tokens

    def note_decisions(self, rendered: Rendered, *, role: str) -> None:
        """Note what the budget removed from a prompt; ``role`` names the reader of the prompt."""
        whose = {} if role == "actor" else {"role": role}
        for decision in rendered.decisions:
            self.recorder.note("context", {"step": decision.step, "turn": self.turn, **whose, **decision.detail})

    def _count_prefix(self, rendered: Rendered, offered: Sequence[ToolSchema]) -> None:
        schemas = self.schema_tokens(offered)
        self.prompt_tokens += schemas + rendered.tokens
        if offered is self._last_schemas:
            self.shared_tokens += schemas + rendered.shared_tokens
        self._last_schemas = offered

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schemas: Sequence[ToolSchema] | None = None,
        settings: ModelSettings | None = None,
        counted: int | None = None,
        text_only: bool = False,
        of: Model | None = None,
    ) -> Exchange:
        """Call the model. The caller records the exchange, except the action, which the loop records.

        ``counted``: the tokens of the messages where the caller has counted them. ``text_only``: the tools are shown,
        as the history uses them, and none may be called. ``of`` is called instead of the agent's model; its replies are
        recorded with the others and served from the same recordings.
        """
        request = Request(
            messages=messages if isinstance(messages, tuple) else tuple(messages),
            tools=self.schemas if schemas is None else schemas,
            settings=settings or self.settings,
            episode=self.id,
            ordinal=self.model_calls,
            tool_choice="none" if text_only else "auto",
        )
        self.model_calls += 1
        reply = await (self.model if of is None else beside(self.model, of)).complete(request)
        self._pay(reply)
        if of is None:  # another model counts tokens in its own way
            self._calibrate(request, reply, counted)
        return Exchange(request=request, reply=reply)

    def charge(self, request: Request, reply: Reply, *, purpose: str) -> None:
        """Count and record a call that was made without ``ask``, with the ordinal that was this episode's next."""
        self.model_calls += 1
        self._pay(reply)
        self.recorder.turn(request, reply, (), purpose=purpose)

    def _pay(self, reply: Reply) -> None:
        self.usage += reply.usage
        self.cost = None if self.cost is None or reply.cost is None else self.cost + reply.cost

    def _calibrate(self, request: Request, reply: Reply, counted: int | None) -> None:
        if not reply.usage_known:
            return
        if counted is None and request.messages is self._rendered.messages:
            counted = self._rendered.tokens
        elif counted is None:
            counted = sum(count_message(self.counter, message) for message in request.messages)
        counted += self.schema_tokens(request.tools)
        if self.calibration.observe(counted, reply.usage.input_tokens):
            self.recorder.note("calibration", {"turn": self.turn, "factor": round(self.calibration.factor, 4)})

    def fit(self, refused: PromptTooLong) -> None:
        """Set the prompt limit from an endpoint's refusal: its window and count, else 3/4 of this prompt."""
        counted = self._rendered.tokens + self.schema_tokens(self.schemas)
        before = self.limits.context_tokens
        window = refused.window_tokens or int(counted * self.calibration.factor * 0.75) + self.limits.reply_tokens
        if self.limits.reply_tokens < window < before:
            self.limits = replace(self.limits, context_tokens=window)
        raised = self.calibration.observe(counted, refused.prompt_tokens or 0)
        if not raised and self.limits.context_tokens == before:
            self.calibration.tighten()
        self.recorder.note(
            "too_long",
            {"turn": self.turn, "prompt": refused.prompt_tokens, "window": refused.window_tokens}
            | {"context_tokens": self.limits.context_tokens, "factor": round(self.calibration.factor, 4)},
        )

    def record(self, exchange: Exchange, purpose: str) -> None:
        """Record a call of the model that is not the action."""
        self.recorder.turn(exchange.request, exchange.reply, (), purpose=purpose)

    def pin(self, text: str, pictures: tuple[Picture, ...] = ()) -> int:
        """Add a user message that no budget removes; returns its block number, to withdraw it later."""
        message = Message(role="user", content=text, pictures=pictures)
        return self.history.add(message, turn=self.turn, kind="pinned").number

    def remind(self, text: str) -> None:
        """Add a user message that ages like a turn."""
        self.history.add(Message(role="user", content=text), turn=self.turn, kind="aside")

    def new_trial(self) -> None:
        """Withdraw every turn and reminder and count turns from 0 again; pinned messages stay."""
        self.history.withdraw(block.number for block in self.history.visible() if block.kind != "pinned")
        self.trial += 1
        self.trial_turn = 0
        self.recorder.note("trial", {"trial": self.trial, "turn": self.turn, "acts": self.acts})

    @property
    def spent(self) -> bool:
        """Return whether the episode's own token budget is used up."""
        used = self.usage.input_tokens + self.usage.output_tokens
        return self.limits.total_tokens is not None and used >= self.limits.total_tokens


def _prompt_messages(agent: PlayingAgent, prompt: Prompt, limits: Limits) -> tuple[Message, ...]:
    system = load_prompt(agent.package, agent.system).render(turns=limits.turns, answers=prompt.answers)
    joined = "\n\n".join(part for part in (system, prompt.system) if part)
    question = Message(role="user", content=prompt.user, pictures=prompt.pictures)
    return Message(role="system", content=joined), question


# A side reader: a summariser or a critic reads the history under its own prompt and budget.
#
# The actor's context policy reduces its input too, and every step is noted under its role. It reads a text
# (``transcript``). It cannot end the episode: an unusable reply is a named problem.


_SUMMARY = re.compile(r"<summary>(.*?\S.*?)</summary>", re.DOTALL | re.IGNORECASE)
FEW_WORDS = 10
_TAGS = re.compile(r"</?summary>", re.IGNORECASE)


Flaw = Callable[[str], str]
"""Returns the problem of a reply, without its thinking; empty if the reply is acceptable."""


def none_found(text: str) -> str:
    """Accept any text."""
    return ""


def too_short(text: str) -> str:
    """Return the problem of a text of ten words or fewer: neither notes nor a case. Notes between their tags may be
    short."""
    count = len(text.split())
    return "" if count > FEW_WORDS or _SUMMARY.search(text) else f"its {count} words are not what was asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideReply:
    """The result of a side call: ``text``, or the ``problem`` of the reply. ``cut``: it was too long for its share."""

    text: str = ""
    problem: str | None = None
    cut: bool = False


class SideReader:
    """One reader of an episode's history. ``role`` names it in notes; its question is the task's own.

    ``model`` is its model, if it is not the agent's.
    """

    def __init__(self, episode: Episode, *, role: str, system: str, model: Model | None = None) -> None:
        self._episode = episode
        self._role = role
        self._model = model
        self._history = History((Message(role="system", content=system), *episode.history.prompt[1:]))
        self._context = episode.agent.context(episode.counter)
        self._transcript = Transcript(episode.counter)

    def show(self, blocks: Iterable[Block]) -> None:
        """Add turns and reminders after what the reader has read already."""
        before = self._episode.turn - self._episode.trial_turn
        for block in blocks:
            if block.kind == "turn":
                self._transcript.number(block.messages[0], block.turn - before)
            if block.kind != "pinned":
                self._history.add(*block.messages, turn=block.turn, kind=block.kind, observations=block.observations)

    def say(self, text: str) -> int:
        """Add a message to what the reader reads; return its number, to remove it later."""
        message = Message(role="user", content=text)
        return self._history.add(message, turn=self._episode.turn, kind="pinned").number

    def take_out(self, numbers: Iterable[int]) -> None:
        """Remove messages."""
        self._history.withdraw(numbers)

    def forget(self) -> None:
        """Remove everything that the reader was shown."""
        self.take_out(block.number for block in self._history.visible())

    async def ask(self, instruction: str, *, purpose: str, limit_tokens: int, flaw: Flaw = none_found) -> SideReply:
        """Ask for a text, cut to ``limit_tokens``; each call is recorded under ``purpose``.

        A reply that calls a tool, is empty or has a ``flaw`` is not used; the request is repeated once. The reply has
        the usual token limit: a thinking model would spend a smaller limit before it writes.
        """
        message_numbers = [self.say(instruction)]
        try:
            exchange = await self._record(purpose)
            written = self._read(exchange, limit_tokens, flaw)
            if written.problem is not None and exchange.reply.finish_reason != "content_filter":
                self._note_unused(written.problem, purpose)
                message_numbers.append(self.say(prompt_text("loop.ask_again", problem=written.problem)))
                written = self._read(await self._record(purpose), limit_tokens, flaw)
        except (LimitReached, ProviderError) as error:
            return SideReply(problem=str(error))
        finally:
            self.take_out(message_numbers)
        return written

    async def _record(self, purpose: str) -> Exchange:
        exchange = await self._ask()
        self._episode.record(exchange, purpose)
        return exchange

    def _note_unused(self, problem: str, purpose: str) -> None:
        detail = {"turn": self._episode.turn, "role": purpose, "problem": problem}
        self._episode.recorder.note("asked_again", detail)

    async def _ask(self) -> Exchange:
        episode = self._episode
        messages, tokens = self._rendered()
        return await episode.ask(messages, schemas=(), counted=tokens, of=self._model)

    def _rendered(self) -> tuple[tuple[Message, ...], int]:
        """Return the reader's text, within its room; headings may need more tokens than what they replace."""
        room, excess = self._episode.room(()), 0
        for _ in range(3):
            rendered = self._context.render(self._history, room - excess)
            self._episode.note_decisions(rendered, role=self._role)
            messages, tokens = self._transcript.write(rendered.messages)
            if tokens <= room:
                break
            excess += tokens - room
        return messages, tokens

    def _read(self, exchange: Exchange, limit_tokens: int, flaw: Flaw) -> SideReply:
        text, problem = read_text(exchange.reply.message, exchange.reply.finish_reason)
        problem = problem or flaw(without_thinking(exchange.reply.message.content or ""))
        if problem:
            return SideReply(problem=problem)
        fitted = cut_text(text, self._episode.counter, limit_tokens, notice=cut_notice)
        return SideReply(text=fitted, cut=fitted is not text or exchange.reply.finish_reason == "length")


def read_text(message: Message, finish_reason: str) -> tuple[str, str | None]:
    """Return the text of a reply (no thinking, nothing around a summary), or the problem of an empty one."""
    reply_text = without_thinking(message.content or "")
    inside = _SUMMARY.findall(reply_text)
    text = _TAGS.sub("", inside[-1] if inside else reply_text).strip()
    if message.tool_calls or "<tool_call" in text:
        return "", "it called a tool instead"
    if finish_reason == "content_filter":
        return "", "it was withheld by the endpoint's content filter"
    return (text, None) if text else ("", "it was empty")


def prompt_text(name: str, **values: object) -> str:
    """Fill a template of the agents: ``reflexion.criticise`` is that block of ``prompts/reflexion.jinja``."""
    return load_prompt("wardround.agents", name).render(**values)


# Endings from outside: a limit, an endpoint's failure and a tool that breaks end an episode; any other bug is raised.


async def to_its_ending(playing: Awaitable[Ending], state: Episode) -> Ending:
    """Await an episode's own ending; return the limit or the failure that ended it otherwise."""
    limits = state.limits
    try:
        async with asyncio.timeout(limits.seconds) as clock:
            with _tools_asking_in(state):
                return await playing
    except TimeoutError:
        if not clock.expired():
            raise
        return Ending(finish="time_limit", error=f"the episode took longer than {limits.seconds:g} s")
    except ProviderError as error:
        withheld = isinstance(error, PromptWithheld)
        error_text = f"{error} (status {error.status}, {error.attempts} attempts)"
        return Ending(finish="content_filter" if withheld else "error", error=error_text)
    except ToolBroke as error:
        state.recorder.note("tool_broke", {"error": str(error), "traceback": format_exception(error.__cause__)})
        return Ending(finish="error", error=str(error))
    except LimitReached as limit:
        return Ending(finish="budget", error=str(limit))


@contextmanager
def _tools_asking_in(state: Episode) -> Iterator[None]:
    """Record the model calls of tools in this episode: in its log, its cost and its recordings."""
    questions = EpisodeQuestions(
        state.id,
        player=state.model,
        ordinal=lambda: state.model_calls,
        record=partial(state.charge, purpose=PURPOSE),
    )
    state.environment.ask_model = questions
    try:
        yield
    finally:
        questions.end()


def outcome_of(state: Episode, ending: Ending, *, seconds: float, citations: tuple[Citation, ...] = ()) -> Outcome:
    """Return the outcome of an episode: its ending, and what it used until then."""
    return Outcome(
        answer=ending.answer,
        evidence=ending.evidence,
        citations=citations,
        finish=ending.finish,
        turns=state.turn,
        model_calls=state.model_calls,
        usage=state.usage,
        cost=state.cost,
        seconds=seconds,
        prefix_share=state.shared_tokens / state.prompt_tokens if state.prompt_tokens else None,
        forced=ending.forced,
        error=ending.error,
    )
