"""A worker: lease episodes, run many at once, log them, set failures aside."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from wardround.agents import (
    AgentSpec,
    Limits,
    LoopSettings,
    Memory,
    Outcome,
    Prompt,
    get_agent,
    get_method,
    run_episode,
)
from wardround.core import Usage, private_folder
from wardround.log import EpisodeLog, EpisodeRecorder, LogReader
from wardround.memory import KnownCase, known_case
from wardround.models import Model, Recorded, recorded_replies, resumed
from wardround.records import Store, TextCaseRecord
from wardround.runs.banks import Memories, close_encoder, open_candidate_encoder, open_run_encoder, open_vectors
from wardround.runs.folder import RunFolder, Spending
from wardround.runs.judging import AnswerScores, Grading, Judging, open_grading, open_judging
from wardround.runs.models import candidates_for, data_use_guard, open_image_model, open_knowledge, open_models
from wardround.runs.queue import WorkQueue
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.sources import open_benchmark, open_store
from wardround.runs.stays import stay_feed
from wardround.tasks.benchmarks import Benchmark, Sample, ask, get_task, question_of
from wardround.tools import Environment, EnvironmentOptions, NoChartEnvironment, open_toolset
from wardround.tools.image_tools import image_visualizer
from wardround.tools.imaging import Imaging, open_images
from wardround.tools.knowledge import Knowledge
from wardround.tools.retrieval import Encoder, VectorCache
from wardround.tools.session import NO_OPTIONS
from wardround.tools.toolset import USUAL

# What an episode of a run is bound to and what is said of it, whoever plays it: our agents or an outside one.


Surrounding = Environment | NoChartEnvironment
NO_IMAGES = Imaging()


def open_run_images(settings: RunSettings, store: Store) -> Imaging:
    """Open the images of a run's charts, with the models that its image tools ask, behind its data-use guard.

    What it returns is handed to tools: it must not lead to the store.
    """
    guard = data_use_guard(settings, store)
    return open_images(settings.images, guard, opened=partial(open_image_model, settings, guard, store.spec.roles))


def open_environment(
    store: Store,
    benchmark: Benchmark,
    sample: Sample,
    options: EnvironmentOptions = NO_OPTIONS,
    *,
    toolset: str = USUAL,
    more_tools: Sequence[str] = (),
    images: Imaging = NO_IMAGES,
) -> Environment:
    """Bind the tools to a sample's subject and clock, with the benchmark's candidate tables.

    ``more_tools`` are offered beside those of the ``toolset``. ``images``: where the chart's images are opened; a
    question about films is asked with the tool that shows them.
    """
    space = benchmark.space(get_task(sample.task))
    chart = sample.chart(store, benchmark.policy)
    asks_of_films = images.source is not None and question_of(get_task(sample.task), sample).images
    return Environment(
        chart,
        open_toolset(toolset, more=(*more_tools, image_visualizer.name) if asks_of_films else more_tools),
        replace(
            options,
            candidates={} if space is None and options.aids.short_pages else benchmark.spaces_of(sample.person),
            answer_space=None if space is None else space.name,
            listed=sample.facts.get("listed", ()),
            images=images.of(chart, store.subject_key(sample.subject_id)),
        ),
    )


def open_surroundings(
    settings: RunSettings,
    store: Store,
    benchmark: Benchmark,
    sample: Sample,
    agent: AgentSpec,
    *,
    encoder: Encoder | None = None,
    knowledge: Knowledge | None = None,
    images: Imaging = NO_IMAGES,
) -> Surrounding:
    """Return what surrounds an agent's episode on a sample of a run: an environment, or for a text case one
    without a chart."""
    case = text_case(sample)
    if case is not None:
        return NoChartEnvironment(case)
    options = EnvironmentOptions(
        max_result_tokens=settings.budget.result_tokens,
        encoder=encoder,
        retrieval=settings.retrieval,
        aids=settings.aids,
        knowledge=knowledge,
    )
    more = (*settings.run.tools, *agent.more_tools)
    return open_environment(
        store, benchmark, sample, options, toolset=settings.run.toolset, more_tools=more, images=images
    )


def text_case(sample: Sample) -> TextCaseRecord | None:
    """Return the text case of a sample; None for a sample that has a chart."""
    return TextCaseRecord(subject_id=sample.person, text=str(sample.facts["asked"])) if sample.is_text_case else None


def case_of(store: Store, benchmark: Benchmark, sample: Sample) -> KnownCase:
    """Return the case of a sample as memory knows it: by its chart, or by the words that tell it."""
    chart = None if sample.is_text_case else sample.chart(store, benchmark.policy)
    found = known_case(chart, text_case(sample))
    assert found is not None  # a sample has the one or the other
    return found


def episode_facts(key: EpisodeKey, sample: Sample, benchmark: Benchmark, *, resumed_turns: int = 0) -> dict[str, Any]:
    """Return what the log keeps of an episode from its beginning; never its target."""
    return {
        **asdict(key),
        "subject_id": sample.subject_id,
        **({} if sample.is_text_case else {"prediction_time": sample.moment.isoformat(sep=" ")}),
        "policy": benchmark.policy,
        "resumed_turns": resumed_turns,
    }


# One worker: leases episodes, plays many at once on one event loop, writes its own log, marks them done.
#
# An episode that an earlier, killed worker had begun is played again with its recorded replies served first, so it goes
# on where it was without asking the model twice.


_PARENT_POLL_SECONDS = 1.0
_FAILED = "failed"
"""The note of an episode that a bug ended, by which a resumed run knows it again."""


@dataclass(slots=True, kw_only=True)
class Worker:
    """What one worker process holds open: see :func:`open_worker` and :func:`drain`."""

    folder: RunFolder
    settings: RunSettings
    store: Store
    benchmark: Benchmark
    queue: WorkQueue
    log: EpisodeLog
    earlier: LogReader
    models: dict[str, Model]
    agents: dict[str, AgentSpec]
    encoder: Encoder | None
    candidate_encoder: Encoder | None
    vectors: VectorCache | None
    samples: Mapping[str, Sample]
    knowledge: Knowledge
    scores: AnswerScores
    judging: Judging | None = None
    grading: Grading | None = None
    images: Imaging = NO_IMAGES
    max_cost: float | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self) -> None:
        """Play episodes until the queue has none left, the run has cost its most, or the worker is told to stop."""
        while not self.stopping.is_set() and not self._has_cost_its_most():
            leased = self.queue.lease(1)
            if not leased:
                return
            if self.queue.was_begun(leased[0]):
                self.earlier.look_again(but=self.log.path)  # who had it may have begun after this worker did
            try:
                await self.play(leased[0])
            except BaseException:
                self.stopping.set()
                self.queue.give_back(leased[0])
                raise
            self.queue.done(leased[0])

    def _has_cost_its_most(self) -> bool:
        return self.max_cost is not None and Spending.of(self.folder).reaches(self.max_cost)

    async def play(self, text: str) -> None:
        """Play the episode of a key, unless an earlier worker finished it."""
        key = EpisodeKey.parse(text)
        await self.play_as(text, key, self.agents[key.agent])

    async def play_as(self, text: str, key: EpisodeKey, agent: AgentSpec) -> None:
        """Play the sample of a key with an agent, as an episode of another name, unless an earlier worker finished
        it; then have its answer judged, where nobody else can say what it is worth."""
        sample = self.samples[key.sample]
        replies = self._earlier_replies(text)
        if replies is not None:
            await self._play_on(text, key, agent, replies)
        if self.judging is not None:
            self.log.flush()
            await self.judging.settle(text, sample, prompt_of(self.settings, self.benchmark, sample).user)
        if self.grading is not None:
            self.log.flush()
            await self.grading.settle(text, sample)

    async def _play_on(self, text: str, key: EpisodeKey, agent: AgentSpec, replies: list[Recorded]) -> None:
        """Play an episode, beginning with what is recorded of it."""
        sample = self.samples[key.sample]
        recorder = self.log.begin(text, episode_facts(key, sample, self.benchmark, resumed_turns=len(replies)))
        model = resumed(self.models[key.model], replies, note=recorder.note, keep=recorder.keep)
        environment = open_surroundings(
            self.settings,
            self.store,
            self.benchmark,
            sample,
            agent,
            encoder=self.encoder,
            knowledge=self.knowledge,
            images=self.images,
        )
        try:
            outcome = await run_episode(
                agent,
                model=model,
                environment=environment,
                prompt=prompt_of(self.settings, self.benchmark, sample),
                limits=limits_of(self.settings),
                settings=candidates_for(self.settings, key),
                recorder=recorder,
                episode=text,
                feed=None if agent.steps is None else stay_feed(self.store, sample, recorder),
            )
        except Exception as error:
            aside = self._set_aside(text, f"{type(error).__name__}: {error}", recorder)
            if aside is None:
                raise
            outcome = aside
        finally:
            environment.close()
        recorder.finish(outcome.to_json())

    def _set_aside(self, text: str, failure: str, recorder: EpisodeRecorder) -> Outcome | None:
        """The outcome of an episode that an earlier worker saw fail in the same way; None at the first time."""
        earlier = [detail.get("error") for episode, detail in self.earlier.notes(_FAILED) if episode == text]
        if failure not in earlier:
            recorder.note(_FAILED, {"error": failure})
            self.log.flush()
            return None
        error = f"set aside, it failed twice in the same way: {failure}"
        return Outcome(
            answer=None, finish="error", turns=0, model_calls=0, usage=Usage(), cost=None, seconds=0.0, error=error
        )

    def _earlier_replies(self, text: str) -> list[Recorded] | None:
        """Replies that killed workers recorded for this episode; None when one had finished it without an error."""
        entry = self.earlier.entry(text)
        if entry is None:
            return []
        failed = (entry.outcome or {}).get("finish") == "error"
        return None if entry.state == "finished" and not failed else recorded_replies(self.earlier, text)

    async def close(self) -> None:
        """Write what waits, and close everything but the memory."""
        close_encoder(self.encoder)
        close_encoder(self.candidate_encoder)
        self.log.close()
        self.earlier.close()
        self.queue.close()
        self.images.close()
        if self.vectors is not None:
            self.vectors.close()
        self.knowledge.close()
        if self.judging is not None:
            await self.judging.close()
        if self.grading is not None:
            await self.grading.close()
        for model in self.models.values():
            await model.close()


async def drain(
    folder: RunFolder, *, concurrency: int, alone: Callable[[], bool] | None = None, max_cost: float | None = None
) -> None:
    """Play episodes until none is left. ``alone``: end this process when it says yes. ``max_cost``: begin none when the
    run has cost so many US dollars."""
    memories = run_memories(folder)
    worker = open_worker(folder, concurrency, memories=memories)
    worker.max_cost = max_cost
    tasks = [asyncio.create_task(worker.work()) for _ in range(concurrency)]
    watch = asyncio.create_task(_watch(alone))
    try:
        await asyncio.gather(*tasks)
    finally:
        watch.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await worker.close()
        memories.close()


async def _watch(alone: Callable[[], bool] | None) -> None:
    """End this process when the one that started it is gone."""
    while alone is not None:
        await asyncio.sleep(_PARENT_POLL_SECONDS)
        if alone():
            os._exit(3)


def run_memories(folder: RunFolder) -> Memories:
    """The banks that the agents of a run read, as its manifest describes them."""
    return Memories.open(folder.settings, folder.manifest, open_store(folder))


def open_worker(
    folder: RunFolder,
    concurrency: int,
    *,
    memories: Memories,
    agents: dict[str, AgentSpec] | None = None,
    logs: str = "logs",
) -> Worker:
    """Open everything that playing a run's episodes takes; ``memories``, which stay the caller's, are what its
    agents read. ``agents`` play instead of the run's own, ``logs`` is the folder of the run they are recorded in."""
    settings = folder.settings
    store = open_store(folder)
    benchmark = open_benchmark(folder)
    naming = open_candidate_encoder(settings, store)
    private_folder(folder.path / logs)
    earlier = LogReader(folder.path / logs, may_be_empty=True)
    models = open_models(settings, store, concurrency)
    retriever = models.get(settings.memory.graph.retriever or "")
    agents = open_agents(settings, memories, retriever=retriever) if agents is None else agents
    searching = any(agent.searches for agent in agents.values())
    vectors = open_vectors(settings) if searching else None
    queue = WorkQueue(folder.queue)
    judged: Any = {"played": folder.path / logs, "several_machines": queue.spans_machines}
    return Worker(
        folder=folder,
        settings=settings,
        store=store,
        benchmark=benchmark if naming is None else benchmark.with_encoder(naming),
        queue=queue,
        log=EpisodeLog(folder.new_log(logs), several_machines=queue.spans_machines),
        earlier=earlier,
        models=models,
        agents=agents,
        encoder=open_run_encoder(settings, store, cache=vectors) if searching else None,
        candidate_encoder=naming,
        vectors=vectors,
        samples={sample.id: sample for sample in benchmark.all_samples},
        knowledge=open_knowledge(folder, store),
        scores=AnswerScores(folder, benchmark),
        judging=open_judging(folder, store, benchmark, **judged),
        grading=open_grading(folder, store, benchmark, **judged),
        images=open_run_images(settings, store),
    )


def open_agents(settings: RunSettings, memories: Memories, *, retriever: Model | None = None) -> dict[str, AgentSpec]:
    """Every agent of a run, with the loop that its budget and its aids ask for; ``retriever`` walks their memories."""
    agents = {
        name: get_agent(
            settings.spelling(name),
            settings.of_agent(name),
            memory=_walked_by(retriever, memories.of(name)),
            recall=settings.memory,
            context_policy=settings.run.context_policy,
        )
        for name in settings.run.agents
    }
    return {name: _of_run(name, one, settings) for name, one in agents.items()}


def _walked_by(retriever: Model | None, memory: Memory | None) -> Memory | None:
    return None if memory is None else replace(memory, retriever=retriever)


def plain_agent(settings: RunSettings, name: str) -> AgentSpec:
    """The method of a run's agent without what it reads of a bank."""
    agent = get_method(settings.spelling(name)).make(settings.of_agent(name))
    return _of_run(name, agent, settings)


def _of_run(name: str, agent: AgentSpec, settings: RunSettings) -> AgentSpec:
    """Return an agent with the name and the loop that a run gives it, prepared for text cases if the run has these."""
    agent = replace(agent, loop=_loop(agent, settings), **_named(name, agent))
    return agent.for_text_cases() if settings.is_text_cases else agent


def _named(name: str, agent: AgentSpec) -> dict[str, Any]:
    """What of an agent is another where a run gives it a name of its own."""
    return {} if name == agent.name else {"name": name, "facts": {**agent.facts, "variant_of": agent.name}}


def _loop(agent: AgentSpec, settings: RunSettings) -> LoopSettings:
    return replace(
        agent.loop,
        forced_finish=agent.loop.forced_finish and settings.budget.forced_finish,
        written_calls=settings.aids.written_calls,
        bound_labels=settings.aids.bound_labels,
    )


def prompt_of(settings: RunSettings, benchmark: Benchmark, sample: Sample) -> Prompt:
    """Return what an agent is asked of a sample."""
    task = get_task(sample.task)
    user = ask(benchmark, sample, rules=settings.aids.answer_rules)
    return Prompt(user=user, task=task.name, question=question_of(task, sample))


def limits_of(settings: RunSettings) -> Limits:
    """Return what every episode of a run is held to."""
    return Limits(
        turns=settings.budget.turns,
        context_tokens=settings.budget_tokens,
        reply_tokens=settings.budget.reply_tokens,
        seconds=settings.budget.episode_seconds,
        steps=settings.budget.steps,
    )
