"""What a run is about to play, checked against what exists before anything is written or paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wardround.agents import AgentSpec, check_question
from wardround.benchmarks import Benchmark, Sample, get_task, question_of
from wardround.core import Plugin, UserError, derive_seed, load_plugins
from wardround.core.suggestions import unknown
from wardround.records import Store
from wardround.runs.banks import Memories, bank_facts, own_bank_facts
from wardround.runs.judging import must_have_judge
from wardround.runs.protocols import must_not_be_taught_by
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.sources import open_records
from wardround.runs.spending import must_have_prices
from wardround.runs.worker import open_agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that could start: its settled settings, what they name, and the keys of its episodes in order."""

    settings: RunSettings
    store: Store
    benchmark: Benchmark
    keys: tuple[str, ...]
    bank: Mapping[str, Any] | None
    banks: Mapping[str, Any]
    agents: tuple[AgentSpec, ...]
    plugins: tuple[Plugin, ...]


def prepare(settings: RunSettings, *, outside: bool = False) -> Prepared:
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
    must_not_be_taught_by(settings, store, benchmark, keys)
    return Prepared(
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
    if benchmark.told and not settings.told:
        raise UserError(f"the cases of {settings.run.benchmark!r} are told in words: leave --store out")
    if settings.told and not benchmark.told:
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
