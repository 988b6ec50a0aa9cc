"""An episode while it runs: what the loop and the hooks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from wardround.agents.loop.calls import Surroundings
from wardround.agents.loop.context import ContextFactory, Rendered
from wardround.agents.loop.history import History
from wardround.agents.loop.outcome import Finish, Limits, Prompt
from wardround.agents.loop.tokens import Calibration, TokenCounter, count_message, count_schemas
from wardround.core import Message, Picture, PromptTooLong, ToolSchema, Usage, load_prompt
from wardround.log import ToolRecord
from wardround.memory import Experience, Kind
from wardround.models.protocol import Model, ModelSettings, Reply, Request
from wardround.models.replay import beside


class Recorder(Protocol):
    """Where an episode is written; ``wardround.log.EpisodeRecorder`` is one."""

    def turn(self, request: Request, reply: Reply, results: Sequence[ToolRecord] = (), *, purpose: str = "act") -> None:
        """Record one model call and the tool results that followed."""
        ...

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Record anything else that decided what a model saw."""
        ...


class PlayingAgent(Protocol):
    """What an episode needs to know of the agent that plays it."""

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
class Asked:
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
        environment: Surroundings,
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
        """What memory served for this episode, by kind; whoever writes a prompt of that kind shows it."""
        self.schemas: tuple[ToolSchema, ...] = () if agent.tools == "none" else environment.toolset.schemas
        self.history = History(_prompt_messages(agent, prompt, limits))
        self.context = agent.context(counter)
        self.calibration = Calibration()
        self.turn = 0
        """Turns played, over all trials."""
        self.trial = 1
        self.trial_turn = 0
        """Turns played in this trial: what the turn limit counts."""
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
        """Note what the budget took out of a prompt; ``role`` says whose prompt it was, where it is not the actor's."""
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
    ) -> Asked:
        """Ask the model. The caller records what it asked, except the action, which the loop records.

        ``counted``: the tokens of the messages where the caller has counted them. ``text_only``: the tools are shown,
        as the history uses them, and none may be called. ``of`` is asked instead of the model that plays; its replies
        are recorded with the others and served from the same recordings.
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
        return Asked(request=request, reply=reply)

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
        """Take from an endpoint's refusal how long prompts may be: its window and count, else 3/4 of this."""
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

    def record(self, asked: Asked, purpose: str) -> None:
        """Record a call of the model that is not the action."""
        self.recorder.turn(asked.request, asked.reply, (), purpose=purpose)

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
        """Whether the episode's own token budget is used up."""
        used = self.usage.input_tokens + self.usage.output_tokens
        return self.limits.total_tokens is not None and used >= self.limits.total_tokens


def _prompt_messages(agent: PlayingAgent, prompt: Prompt, limits: Limits) -> tuple[Message, ...]:
    system = load_prompt(agent.package, agent.system).render(turns=limits.turns, answers=prompt.answers)
    joined = "\n\n".join(part for part in (system, prompt.system) if part)
    asked = Message(role="user", content=prompt.user, pictures=prompt.pictures)
    return Message(role="system", content=joined), asked
