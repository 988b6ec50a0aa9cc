"""What an agent is: a composition of small parts on the one loop.

A method adds ``Hooks`` (what to do before and after a turn and at an answer), a context policy, a way to choose the
next action, and prompts. ``docs/design/2026-11-20-agent-loop.md`` shows how each method is composed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from wardround.agents.loop.context import ContextFactory, FullContext
from wardround.agents.loop.episode import Ending, Episode, Exchange
from wardround.agents.loop.steps import StepPlayer
from wardround.core import PromptFile, UserError, load_prompt
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
        own = [_prompt_file(self.package, name) for name in (self.system, *self.prompts)]
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


def _prompt_file(package: str, name: str) -> PromptFile:
    room, _, file = name.rpartition("/")
    return load_prompt(f"wardround.{room}" if room else package, file)
