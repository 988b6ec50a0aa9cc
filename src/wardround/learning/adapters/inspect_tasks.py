"""Our tasks inside Inspect: ``inspect eval wardround/tasks -T store=store -T benchmark=bench --model NAME``.

The episode is that of :mod:`wardround.learning.world`: its question, its tools as of its moment, its limit of calls,
its score. Model, loop, log and limits are Inspect's; another solver (``--solver``) finds the same tools. A task or
agent of somebody else takes the tools of one chart: :func:`chart_tools`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.dataset import Sample as Row
from inspect_ai.model import ChatMessageUser, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolDef, ToolParams

from wardround.core import ToolSchema, UserError, load_prompt
from wardround.learning.world import MOST_CALLS, World, WorldEpisode, WorldSettings
from wardround.models import DataUseGuard
from wardround.records import Store
from wardround.tasks.benchmarks import Sample
from wardround.tools import Environment, default_toolset

IN_PROCESS = ("hf", "mockllm", "transformer_lens", "nnterp")
"""Inspect's providers without network access."""


class Charts:
    """The episodes being played, by Inspect's id of the sample's attempt; each is opened after the guard allowed it."""

    def __init__(self, world: World, guard: DataUseGuard) -> None:
        self.world = world
        self._guard = guard
        self._open: dict[str, WorldEpisode] = {}

    def begin(self, state: TaskState, model: Model) -> WorldEpisode:
        """Open the chart of a sample; UserError where the records may not be sent to this model."""
        check_model(self._guard, str(model), model.api.base_url)
        self._open[state.uuid] = self.world.begin(str(state.sample_id))
        return self._open[state.uuid]

    def of(self, state: TaskState) -> WorldEpisode:
        """Return the episode of a state."""
        return self._open[state.uuid]

    def close(self, state: TaskState) -> None:
        """Free the resources of the episode."""
        if state.uuid in self._open:
            self._open.pop(state.uuid).close()


def check_model(guard: DataUseGuard, model: str, url: str | None) -> None:
    """Raise UserError unless record text may be sent to a model that Inspect asks at ``url``."""
    in_process = url is None and model.split("/")[0] in IN_PROCESS
    if guard.sensitivity == "synthetic" or in_process:
        return
    if url is None:
        raise UserError(f"record text needs an allowed endpoint: give the URL of {model} (--model-base-url URL)")
    if not guard.allows(url):
        raise UserError(f"these records may not go to {url}; if your data-use agreement allows it: -T permit={url}")
    guard.check(url)


@contextmanager
def chart_tools(
    store: Store, subject_id: int, as_of: datetime | str, *, model: Model, permit: Sequence[str] = ()
) -> Iterator[list[Tool]]:
    """Open the tools of one chart, without ``finish``, for any agent of Inspect; ``permit``: endpoints that may see it.

    UserError: the records may not be sent to this model, or ``as_of`` is no time. RecordError: no such subject.
    """
    guard = DataUseGuard(sensitivity=store.spec.sensitivity, permitted=tuple(permit))
    check_model(guard, str(model), model.api.base_url)
    environment = Environment(store.chart(subject_id, as_of), default_toolset().without(["finish"]))
    try:
        yield [_tool(schema, lambda name, given: environment.call(name, given).text) for schema in environment.schemas]
    finally:
        environment.close()


@task
def tasks(
    store: str,
    benchmark: str,
    task: str | Sequence[str] = (),
    split: str = "test",
    calls: int = MOST_CALLS,
    permit: str | Sequence[str] = (),
) -> Task:
    """The samples of a benchmark; ``task`` names some of its tasks, ``permit`` endpoints that may see the records.

    The figures: the mean score of each task, and the standard error over people, since one person's samples are alike.
    """
    settings = WorldSettings(split=split, tasks=_names(task), calls=calls)
    world = World.open(Path(store), Path(benchmark), settings)
    charts = Charts(world, DataUseGuard(sensitivity=world.store.spec.sensitivity, permitted=_names(permit)))

    async def close(state: TaskState) -> None:
        charts.close(state)

    return Task(
        dataset=MemoryDataset([_row(world, sample) for sample in world.samples.values()], name=Path(benchmark).name),
        setup=_chart_opened(charts),
        solver=_played(charts),
        scorer=_score(charts),
        cleanup=close,
        metadata={"benchmark": benchmark, "split": split, "calls": calls},
    )


def _chart_opened(charts: Charts) -> Solver:
    @solver(name="wardround/open_chart")
    def open_chart() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            episode = charts.begin(state, get_model())
            state.tools = [_tool(schema, episode.call) for schema in episode.tools]
            return state

        return solve

    return open_chart()


def _played(charts: Charts) -> Solver:
    """Turns until ``finish``. After a reply without a call the model is reminded, and must call something next."""

    @solver(name="wardround/play")
    def play() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            reminder = load_prompt("wardround.learning", "inspect_reminder").render()
            for left in reversed(range(charts.world.settings.calls)):
                state = await generate(state, tool_calls="single")
                state.tool_choice = None
                if state.completed or charts.of(state).done:
                    break
                if left and not state.output.message.tool_calls:
                    state.messages.append(ChatMessageUser(content=reminder))
                    state.tool_choice = "any"
            return state

        return solve

    return play()


def _score(charts: Charts) -> Scorer:
    @scorer(name="score", metrics=[grouped(mean(), "task"), stderr(cluster="person")])
    def score() -> Scorer:
        async def scored(state: TaskState, target: Target) -> Score:
            episode = charts.of(state)
            answer = None if episode.answer is None else "\n".join(episode.answer)
            return Score(value=episode.reward, answer=answer, metadata={"calls": episode.calls})

        return scored

    return score()


def _row(world: World, sample: Sample) -> Row:
    person = sample.subject_id if sample.person_id is None else sample.person_id
    return Row(
        id=sample.id,
        input=world.question(sample),
        target=list(sample.target),
        metadata={"task": sample.task, "person": str(person)},
    )


def _tool(schema: ToolSchema, call: Callable[[str, Mapping[str, Any]], str]) -> Tool:
    async def execute(**kwargs: Any) -> str:
        return call(schema.name, kwargs)

    properties = {
        name: {"description": name.replace("_", " "), **part}  # Inspect refuses a parameter without a description
        for name, part in schema.parameters.get("properties", {}).items()
    }
    parameters = ToolParams.model_validate(
        {"additionalProperties": False, **schema.parameters, "properties": properties}
    )
    return ToolDef(
        execute, name=schema.name.replace(".", "_"), description=schema.description, parameters=parameters, max_output=0
    ).as_tool()


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
