"""An episode: what goes into it, its state while it runs, how it ends, and what comes out of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from traceback import format_exception
from typing import Any, Literal, Protocol

from wardround.agents.loop.calls import ToolSession
from wardround.agents.loop.context import (
    Calibration,
    ContextFactory,
    History,
    Rendered,
    TokenCounter,
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
)
from wardround.log import ToolRecord
from wardround.memory import Experience, Kind
from wardround.models.protocol import Model, ModelSettings, Reply, Request
from wardround.models.replay import beside
from wardround.models.tool_questions import PURPOSE, EpisodeQuestions
from wardround.tasks.answers import AnswerKind, Candidates, Question
from wardround.tools.finish import Citation

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
        system = load_prompt(agent.package, agent.system).render(turns=limits.turns, answers=prompt.answers)
        joined = "\n\n".join(part for part in (system, prompt.system) if part)
        question = Message(role="user", content=prompt.user, pictures=prompt.pictures)
        self.history = History((Message(role="system", content=joined), question))
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
        schema_tokens = self.schema_tokens(offered)
        self.prompt_tokens += schema_tokens + rendered.tokens
        if offered is self._last_schemas:
            self.shared_tokens += schema_tokens + rendered.shared_tokens
        self._last_schemas = offered
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
        if of is None and reply.usage_known:  # another model counts tokens in its own way
            if counted is None and request.messages is self._rendered.messages:
                counted = self._rendered.tokens
            elif counted is None:
                counted = sum(count_message(self.counter, message) for message in request.messages)
            counted += self.schema_tokens(request.tools)
            if self.calibration.observe(counted, reply.usage.input_tokens):
                self.recorder.note("calibration", {"turn": self.turn, "factor": round(self.calibration.factor, 4)})
        return Exchange(request=request, reply=reply)

    def charge(self, request: Request, reply: Reply, *, purpose: str) -> None:
        """Count and record a call that was made without ``ask``, with the ordinal that was this episode's next."""
        self.model_calls += 1
        self._pay(reply)
        self.recorder.turn(request, reply, (), purpose=purpose)

    def _pay(self, reply: Reply) -> None:
        self.usage += reply.usage
        self.cost = None if self.cost is None or reply.cost is None else self.cost + reply.cost

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


def prompt_text(name: str, **values: object) -> str:
    """Fill a template of the agents: ``reflexion.criticise`` is that block of ``prompts/reflexion.jinja``."""
    return load_prompt("wardround.agents", name).render(**values)


# Endings from outside: a limit, an endpoint's failure and a tool that breaks end an episode; any other bug is raised.


async def to_its_ending(playing: Awaitable[Ending], state: Episode) -> Ending:
    """Await an episode's own ending; return the limit or the failure that ended it otherwise.

    Until then the model calls of tools are this episode's: in its log, its cost and its recordings.
    """
    limits = state.limits
    questions = EpisodeQuestions(
        state.id,
        player=state.model,
        ordinal=lambda: state.model_calls,
        record=partial(state.charge, purpose=PURPOSE),
    )
    state.environment.ask_model = questions
    try:
        async with asyncio.timeout(limits.seconds) as clock:
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
    finally:
        questions.end()
