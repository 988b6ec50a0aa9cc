"""Start, run and resume a run: check first, fill the queue, watch the workers."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from wardround.agents import AgentSpec, check_question
from wardround.core import Plugin, Progress, Reporter, UserError, derive_seed, load_plugins, run_to_end, silent
from wardround.core.errors import unknown
from wardround.core.executors import EXECUTORS, Executor, Job, left_alone, opened, watched
from wardround.log import settle_logs
from wardround.records import Store
from wardround.runs.banks import Memories, bank_facts, close_encoder, open_candidate_encoder, own_bank_facts
from wardround.runs.experiment import refuse_other_settings, with_own_corpora
from wardround.runs.folder import RunFolder, must_have_prices
from wardround.runs.judging import JUDGEMENTS, must_have_judge, ungraded, unjudged
from wardround.runs.models import corpora_facts, must_not_be_taught_by, open_models, open_named_model
from wardround.runs.presets import PRESETS
from wardround.runs.queue import Counts, WorkQueue
from wardround.runs.results import finished_entries, finished_keys
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.sources import (
    must_fit_cassettes,
    must_have_plugins,
    must_have_prompts,
    open_benchmark,
    open_records,
    open_store,
    prompt_hashes,
    source_facts,
)
from wardround.runs.worker import drain, open_agents
from wardround.tasks.benchmarks import Benchmark, Sample, get_task, question_of
from wardround.tasks.scoring import scorer_of
from wardround.tasks.scoring.judging import WORDS

# What a run is about to play, checked against what exists before anything is written or paid for.


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that could start: its settled settings, what they name, and the keys of its episodes in order."""

    settings: RunSettings
    store: Store
    benchmark: Benchmark
    keys: tuple[str, ...]
    bank: Mapping[str, Any] | None
    banks: Mapping[str, Any]
    agents: tuple[AgentSpec, ...]
    plugins: tuple[Plugin, ...]


def prepare(settings: RunSettings, *, outside: bool = False) -> PreparedRun:
    """Settle the settings and open what they name; UserError for whatever does not fit. No model is asked.

    ``outside``: an agent that is not ours will play.
    """
    settings = settings.resolved()
    must_have_prices(settings, settings.run.max_cost)
    plugins = load_plugins(settings.run.plugins)
    store = open_records(settings)
    benchmark = Benchmark.open(Path(settings.run.benchmark))
    _check_store(settings, benchmark)
    context = settings.budget.context_tokens or benchmark.context_tokens
    settings = replace(settings, budget=replace(settings.budget, context_tokens=context))
    if benchmark.manifest["source"]["store_digest"] != store.digest:
        built, other = settings.run.benchmark, settings.run.store
        raise UserError(f"benchmark {built!r} was built from another store than {other!r}")
    keys = tuple(str(key) for key in episode_keys(settings, benchmark))
    _check_samples(settings, keys)
    if not keys:
        raise UserError("no sample matches these tasks, split and strata; `wardround bench show` lists what there is")
    must_have_judge(settings, (EpisodeKey.parse(key).task for key in keys))
    bank = bank_facts(settings)
    banks = own_bank_facts(settings)
    agents = () if outside else all_agents(settings, {"bank": bank, "banks": banks}, store)
    _check_questions(agents, keys, benchmark)
    _check_scorers(keys)
    must_not_be_taught_by(settings, store, benchmark, keys)
    return PreparedRun(
        settings=settings,
        store=store,
        benchmark=benchmark,
        keys=keys,
        bank=bank,
        banks=banks,
        agents=agents,
        plugins=tuple(plugins),
    )


def _check_store(settings: RunSettings, benchmark: Benchmark) -> None:
    """Raise UserError where a store is missing, or given for cases that are told in words."""
    if benchmark.is_text_cases and not settings.is_text_cases:
        raise UserError(f"the cases of {settings.run.benchmark!r} are told in words: leave --store out")
    if settings.is_text_cases and not benchmark.is_text_cases:
        raise UserError(f"the questions of {settings.run.benchmark!r} are about charts: give their --store")


def episode_keys(settings: RunSettings, benchmark: Benchmark) -> Iterator[EpisodeKey]:
    """List the episodes of a run; samples outermost, so that an unfinished run compares agents on the same samples."""
    played = settings.run
    there = [task.name for task in benchmark.tasks]
    for name in played.tasks:
        if name not in there:
            raise UserError(unknown("task in this benchmark called", name, there))
    names = list(played.tasks) or there
    for name in names:
        samples: tuple[Sample, ...] = benchmark.samples(name, played.split, played.strata or None)
        for sample in _named(samples, settings) if played.samples else _some(samples, settings):
            for epoch in range(played.epochs):
                for model in played.models:
                    for agent in played.agents:
                        yield EpisodeKey(agent=agent, model=model, task=name, sample=sample.id, epoch=epoch)


def _named(samples: Sequence[Sample], settings: RunSettings) -> Sequence[Sample]:
    return [sample for sample in samples if sample.id in settings.run.samples]


def _some(samples: Sequence[Sample], settings: RunSettings) -> Sequence[Sample]:
    """At most ``limit`` samples, drawn by the run's seed: a higher limit adds to them. Ids follow subjects and time, so
    the first ones by id would be a few subjects' samples."""
    if settings.run.limit is None or settings.run.limit >= len(samples):
        return samples
    seed = settings.run.seed
    drawn = sorted(samples, key=lambda sample: derive_seed(seed, "limit", sample.id))[: settings.run.limit]
    return sorted(drawn, key=lambda sample: sample.id)


def all_agents(settings: RunSettings, manifest: Mapping[str, Any], store: Store) -> tuple[AgentSpec, ...]:
    """Return every agent of a run, to be looked at: its banks are opened as the manifest has them, and closed again."""
    memories = Memories.open(settings, manifest, store)
    try:
        return tuple(open_agents(settings, memories).values())
    finally:
        memories.close()


def _check_samples(settings: RunSettings, keys: Sequence[str]) -> None:
    """Raise UserError for a sample that was asked for by name and is not among those of the tasks, split and strata."""
    found = {EpisodeKey.parse(key).sample for key in keys}
    missing = [sample for sample in settings.run.samples if sample not in found]
    if missing:
        tasks = settings.run.tasks
        where = f"in split {settings.run.split!r}" + (f" of {', '.join(tasks)}" if tasks else "")
        raise UserError(f"no sample {missing[0]!r} {where}; samples.jsonl of the benchmark lists them")


def _check_questions(agents: Sequence[AgentSpec], keys: Sequence[str], benchmark: Benchmark) -> None:
    """Raise UserError where an agent cannot be asked a task, before anything is paid for."""
    samples = {sample.id: sample for sample in benchmark.all_samples}
    parsed = {key.task: samples[key.sample] for key in map(EpisodeKey.parse, keys)}
    for name, sample in parsed.items():
        for agent in agents:
            check_question(agent, name, question_of(get_task(name), sample))


def _check_scorers(keys: Sequence[str]) -> None:
    """Raise UserError where nobody can score a task, before anything is asked: no scorer, or something else under its
    name (a class instead of an instance of it)."""
    for name in sorted({EpisodeKey.parse(key).task for key in keys}):
        scorer_of(get_task(name).answer)


# Starting, running and resuming a run: fill the queue, start workers, watch them, report progress.
#
# The same call serves a new run and a killed one: what is finished is never repeated, and what a power cut took from
# the logs is played again.


_POLL_SECONDS = 0.2


def start(path: Path | str, settings: RunSettings, *, outside: bool = False) -> RunFolder:
    """Make a run folder: check every setting against what exists, write the manifest, fill the queue.

    ``outside``: an agent that is not ours will play (``wardround serve play``), so there is no agent or model to check.
    """
    plan = prepare(settings, outside=outside)
    settings, store = plan.settings, plan.store
    if not outside:
        run_to_end(_check(settings, store))
    facts = {
        **_facts(settings, store, plan.benchmark, plan.agents, len(plan.keys)),
        "bank": plan.bank,
        **({"banks": plan.banks} if plan.banks else {}),
        "corpora": corpora_facts(settings, plan.agents, store),
        "plugins": [one.to_json() for one in plan.plugins],
        "preset": _preset_facts(settings),
    }
    if not outside:
        must_fit_cassettes(settings, facts["prompts"])
    folder = RunFolder.create(Path(path), settings, facts)
    queue = WorkQueue(folder.queue)
    queue.add(plan.keys)
    queue.close()
    return folder


def open_or_start(path: Path, asked: Mapping[str, Any]) -> RunFolder:
    """Open the run in a folder, or make it where there is none, with the user's own corpora.

    UserError: the run there was begun with other settings.
    """
    if not (path / "manifest.json").is_file():
        return start(path, RunSettings.read(with_own_corpora(asked)))
    folder = RunFolder.open(path)
    refuse_other_settings(asked, folder.settings)
    return folder


def _preset_facts(settings: RunSettings) -> dict[str, Any] | None:
    """Name the preset a run began with, its hash, and what differs from it."""
    name = settings.run.preset
    if name is None:
        return None
    return {"name": name, "sha256": PRESETS.get(name).sha256, "changed": settings.changes_of_preset()}


def execute(
    folder: RunFolder,
    *,
    workers: int = 1,
    concurrency: int = 16,
    report: Reporter = silent,
    retry_errors: bool = False,
    max_cost: float | None = None,
    executor: str | None = None,
) -> Counts:
    """Play everything that is not finished; return the counts at the end.

    ``workers`` play ``concurrency`` episodes each, on another ``executor`` than the run's settings name where one is
    given. Raises what a worker raised (a bug is a crash, not a row); a worker whose process or machine is gone starts
    again.
    ``max_cost``: another limit in US dollars than the run began with. When the recorded cost reaches it, the episodes
    that are running end and the rest stays open.
    """
    limit = folder.settings.run.max_cost if max_cost is None else max_cost
    name = executor or folder.settings.run.executor
    spans_machines = EXECUTORS.get(name).spans_machines
    queue = open_work(folder, limit=limit, retry_errors=retry_errors)
    try:
        if queue.counts().open:
            queue.journal_for(several_machines=spans_machines)
            if workers > 1 or spans_machines:
                work = partial(_work, str(folder.path.resolve()), concurrency, limit)
                _run_elsewhere(folder, queue, workers, work, name, report)
            else:
                run_to_end(_run_here(folder, concurrency, limit, report))
        return queue.counts()
    finally:
        queue.close()


def open_work(folder: RunFolder, *, limit: float | None = None, retry_errors: bool = False) -> WorkQueue:
    """Check that a run may go on as it began, and open its queue: what is finished is done, what nobody plays is open.

    Raises UserError where its plug-ins or sources are not those it began with.
    """
    must_have_prices(folder.settings, limit)
    must_have_plugins(folder)
    if any(folder.logs.iterdir()):
        _check_sources(folder)
    queue = WorkQueue(folder.queue)
    if not queue.counts().total:
        queue.add(str(key) for key in episode_keys(folder.settings, open_benchmark(folder)))
    benchmark = open_benchmark(folder)
    left = unjudged(folder, benchmark) | ungraded(folder, benchmark)
    queue.reopen(set(queue.listed("done")) - (finished_keys(folder) - left))
    if retry_errors:
        queue.reopen(_failed_keys(folder))
    queue.reclaim()
    return queue


def _check_sources(folder: RunFolder) -> None:
    """Raise UserError where a run would go on with another store, benchmark or prompts."""
    settings, store, benchmark = folder.settings, open_store(folder), open_benchmark(folder)
    agents = all_agents(settings, folder.manifest, store)
    must_have_prompts(folder, prompt_hashes(agents, benchmark, settings))


async def _check(settings: RunSettings, store: Store) -> None:
    close_encoder(open_candidate_encoder(settings, store))
    models = open_models(settings, store)
    judge = settings.scoring.judge
    if judge is not None and judge != WORDS:
        models |= {f"judge {judge}": open_named_model(settings, store, judge)}
    try:
        for model in models.values():
            check = getattr(model, "check", None)
            if check is not None:
                await check()
    finally:
        for model in models.values():
            await model.close()


def _facts(
    settings: RunSettings, store: Store, benchmark: Benchmark, agents: Sequence[AgentSpec], episodes: int
) -> Mapping[str, Any]:
    return {
        "policy": benchmark.policy,
        "episodes": episodes,
        **source_facts(store, benchmark),
        "assumptions": list(store.manifest.get("assumptions", ())) if benchmark.policy == "known_at" else [],
        "permitted_endpoints": list(settings.run.permitted_endpoints),
        "agents": [agent.manifest() for agent in agents],
        "aids": list(settings.aids.names),
        "prompts": prompt_hashes(agents, benchmark, settings),
    }


def _failed_keys(folder: RunFolder) -> list[str]:
    entries = finished_entries(folder)
    return [key for key, entry in entries.items() if (entry.outcome or {}).get("finish") == "error"]


async def _run_here(folder: RunFolder, concurrency: int, max_cost: float | None, report: Reporter) -> None:
    with closing(WorkQueue(folder.queue)) as queue:  # of this thread: SQLite lets no other one use a connection
        watching = asyncio.create_task(_watch(queue, report))
        try:
            await drain(folder, concurrency=concurrency, max_cost=max_cost)
        finally:
            watching.cancel()
        report(_progress(queue.counts()))


async def _watch(queue: WorkQueue, report: Reporter) -> None:
    while True:
        report(_progress(queue.counts()))
        await asyncio.sleep(_POLL_SECONDS)


def _run_elsewhere(
    folder: RunFolder, queue: WorkQueue, workers: int, work: Callable[..., None], name: str, report: Reporter
) -> None:
    """Have workers drain the queue, in processes or on machines; what was leased by one that is gone opens again."""
    jobs = [Job(number=number, work=work) for number in range(workers)]

    def free_the_lost() -> None:
        for place in (folder.logs, folder.path / JUDGEMENTS):
            settle_logs(place)
        queue.reclaim()

    free_the_lost()  # those of an earlier call
    with opened(name, workers) as executor:
        lost = _watch_workers(executor, jobs, queue, report, free_the_lost)
        while lost and _frees_leases(queue):
            _watch_workers(executor, jobs, queue, report, free_the_lost)
    report(_progress(queue.counts()))


def _watch_workers(
    executor: Executor, jobs: Sequence[Job], queue: WorkQueue, report: Reporter, free_the_lost: Callable[[], None]
) -> bool:
    """Return when every worker has ended; say whether any was lost on the way."""
    losses: list[None] = []

    def on_loss() -> None:
        losses.append(None)
        free_the_lost()

    def on_poll() -> None:
        report(_progress(queue.counts()))

    for _ in watched(executor, jobs, workers=len(jobs), on_poll=on_poll, on_loss=on_loss):
        pass
    return bool(losses)


def _frees_leases(queue: WorkQueue) -> bool:
    """Wait for the leases of workers that are lost: one that cannot be reached may still live, and keeps them until
    it ends. Return whether there is anything to play again."""
    while queue.counts().leased:
        if queue.reclaim():
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _work(path: str, concurrency: int, max_cost: float | None) -> None:
    """One worker, in the process it was sent to."""
    asyncio.run(_drain_until_told(RunFolder.open(Path(path)), concurrency, max_cost, left_alone()))


async def _drain_until_told(
    folder: RunFolder, concurrency: int, max_cost: float | None, alone: Callable[[], bool]
) -> None:
    """Drain; SIGTERM cancels it, so that the log is written and the leases go back before the process ends."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.add_signal_handler(signal.SIGTERM, lambda: None)  # a second one would cut the writing down short
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    await drain(folder, concurrency=concurrency, alone=alone, max_cost=max_cost)


def _progress(counts: Counts) -> Progress:
    return Progress(label="episodes", done=counts.done, total=counts.total, unit="episodes", running=counts.leased)
