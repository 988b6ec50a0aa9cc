"""Evolving a bank's graph over an ordered stream of training episodes (section 4.3 of the GSEM paper).

Episodes are played in one order that the run's seed decides; after each, what came of it is learnt in one transaction
of the bank, under the episode's name. A stream that was killed goes on where it was: an episode is not played twice,
nothing is learnt twice, and an episode that was under way is served what it was served before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from wardround.agents import Memory
from wardround.core import LeakError, Progress, Reporter, UserError, derive_seed, run_to_end, silent
from wardround.learning.constructing import Constructing, ConstructionSettings, open_constructing
from wardround.log import LogReader, Trajectory
from wardround.memory import Bank
from wardround.memory.credit import EpisodeName, is_masked
from wardround.memory.learning import EvolutionSettings, PlayedEpisode, learn
from wardround.runs.banks import TRAINING_SPLIT, Memories, open_key_encoder, withhold_evaluated
from wardround.runs.evolution_record import StreamStep, barred, stream_record, write_record
from wardround.runs.execute import open_work
from wardround.runs.folder import RunFolder
from wardround.runs.queue import WorkQueue
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.sources import open_store
from wardround.runs.worker import Worker, open_worker

_INSERTED = "inserted|"


@dataclass(slots=True, kw_only=True)
class StreamEvolution:
    """What came of a stream. ``updates`` are those of the whole stream, ``learnt`` those of this call; ``shown`` and
    ``masked`` count experiences over its episodes, ``barred`` those of the bank that harm some task; ``snapshots`` are
    revisions by name."""

    episodes: int = 0
    failed: int = 0
    updates: int = 0
    learnt: int = 0
    shown: int = 0
    masked: int = 0
    barred: int = 0
    inserted: int = 0
    snapshots: dict[str, int] = field(default_factory=dict)
    steps: list[StreamStep] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)


def evolve_stream(
    folder: RunFolder,
    bank: Bank,
    construction: ConstructionSettings | None = None,
    *,
    retry_errors: bool = False,
    report: Reporter = silent,
) -> StreamEvolution:
    """Play a training run's samples in order and learn from each; raises UserError unless the run is on the training
    split, of one agent and one model: nothing else may teach."""
    run = folder.settings.run
    if run.split != TRAINING_SPLIT:
        raise UserError(f"experiences come from the {TRAINING_SPLIT} split; this run is on {run.split!r}")
    if len(run.agents) > 1 or len(run.models) > 1:
        raise UserError("a stream is played by one agent with one model: what it learns is learnt of these")
    settings = ConstructionSettings() if construction is None else construction
    return run_to_end(_evolve_stream(folder, bank, settings, retry_errors, report))


def stream_order(keys: Sequence[EpisodeKey], seed: int) -> list[EpisodeKey]:
    """Return the order of a stream: epoch by epoch, all samples shuffled by the seed in each."""
    return sorted(keys, key=lambda key: (key.epoch, derive_seed(seed, "stream", key.task, key.sample)))


def live_memory(folder: RunFolder, bank: Bank) -> Memory:
    """The bank as a stream reads it: as it is now, with coins by the seed and the name of the run's folder: the same
    run in another place tosses the same."""
    settings, store = folder.settings, open_store(folder)
    withhold_evaluated(bank, settings)
    encoder = open_key_encoder(settings, store, bank.encoder)
    masks = partial(_masks, folder.path.name, settings.run.seed, settings.memory.evolution)
    return Memory(bank=bank, encoder=encoder, masks=masks, served_tokens=settings.memory.served_tokens)


def _masks(run: str, seed: int, settings: EvolutionSettings, episode: str, experience: str, barred: bool) -> bool:
    name, share = episode_name(run, EpisodeKey.parse(episode)), settings.masked_chance(barred=barred)
    return is_masked(name, experience, seed=seed, share=share)


def episode_name(run: str, key: EpisodeKey) -> EpisodeName:
    """Return the name of a run's episode in the bank."""
    return EpisodeName(run=run, agent=key.agent, sample=f"{key.task}|{key.sample}", epoch=key.epoch)


async def _evolve_stream(
    folder: RunFolder, bank: Bank, construction: ConstructionSettings, retry_errors: bool, report: Reporter
) -> StreamEvolution:
    settings = folder.settings
    queue = open_work(folder, retry_errors=retry_errors)
    try:
        keys = stream_order([EpisodeKey.parse(text) for text in queue.listed()], settings.run.seed)
        memory = live_memory(folder, bank)
        memories = Memories(shared=memory)
        worker = open_worker(folder, settings.memory.evolution.together, memories=memories)
        try:
            async with open_constructing(folder, bank, construction, 1) as constructing:
                stream = _Stream(
                    folder=folder, settings=settings, bank=bank, queue=queue, worker=worker, constructing=constructing
                )
                found = await stream.all(keys, report)
                bar_above = settings.memory.graph.bar_above
                write_record(folder, stream_record(bank, found.steps, found.snapshots, bar_above))
                return found
        finally:
            await worker.close()
    finally:
        queue.close()


@dataclass(slots=True, kw_only=True)
class _Stream:
    """The open resources and the position of one stream."""

    folder: RunFolder
    settings: RunSettings
    bank: Bank
    queue: WorkQueue
    worker: Worker
    constructing: Constructing
    result: StreamEvolution = field(default_factory=StreamEvolution)

    @property
    def _said(self) -> EvolutionSettings:
        return self.settings.memory.evolution

    async def all(self, keys: Sequence[EpisodeKey], report: Reporter) -> StreamEvolution:
        """Run, learn and insert batch by batch; before the first batch the bank may get a snapshot."""
        self.result.episodes = len(keys)
        if not any(self.bank.learnt_at(str(episode_name(self.folder.provenance, key))) for key in keys):
            self._name_snapshot(self.bank.revision)
        for batch in _batches(keys, self._said.together):
            await self._play(batch)
            with LogReader(self.folder.logs) as logs:
                for key in batch:
                    self._learn(key, logs)
            if self._said.insert:
                for key in batch:
                    await self._insert(key)
            report(Progress(label="learning", done=self.result.updates, total=len(keys), unit="episodes"))
        self.result.inserted = self.constructing.result.added
        self.result.barred = len(barred(self.bank, self.settings.memory.graph.bar_above))
        self.result.problems.update(self.constructing.result.problems)
        return self.result

    async def _play(self, batch: Sequence[EpisodeKey]) -> None:
        """Run the open episodes of a batch; all of them read one revision."""
        names = [str(key) for key in batch]
        leased = self.queue.lease_these(names)
        try:
            async with asyncio.TaskGroup() as tasks:
                for name in leased:
                    tasks.create_task(self._play_one(name))
        except BaseException:
            for name in leased:
                self.queue.give_back(name)
            raise
        self.worker.log.flush()
        elsewhere = sorted(set(names) & set(self.queue.listed("leased")))
        if elsewhere:
            raise UserError(f"another process plays {elsewhere[0]!r} of this stream; let it end, or end it, then go on")

    async def _play_one(self, name: str) -> None:
        await self.worker.play(name)
        self.queue.done(name)

    def _learn(self, key: EpisodeKey, logs: LogReader) -> None:
        """Learn from an episode, once; name the revision where a snapshot is due."""
        played = self._played(key, logs.trajectory(str(key)))
        if played is None:
            self.result.failed += 1
            return
        name = str(played.name)
        with self.bank.batch():
            learnt = learn(self.bank, played, self._said)
            revision = self.bank.learnt_at(name)
            if revision is None:
                return
            self.result.updates += 1
            self._name_snapshot(revision)
        self.result.learnt += learnt is not None
        self.result.shown += len(played.shown)
        self.result.masked += len(played.masked)
        step = StreamStep(
            revision=revision,
            task=played.task,
            score=played.score,
            shown=len(played.shown),
            masked=len(played.masked),
        )
        self.result.steps.append(step)

    def _played(self, key: EpisodeKey, trajectory: Trajectory) -> PlayedEpisode | None:
        """Return a finished episode as the bank learns from it; None if its endpoint failed."""
        outcome = trajectory.outcome or {}
        if outcome.get("finish") == "error" or not trajectory.turns:
            self.result.problems[str(outcome.get("error") or "an episode without a turn")] += 1
            return None
        sample = self.worker.samples[key.sample]
        if sample.split != TRAINING_SPLIT:
            raise LeakError(f"sample {sample.id!r} is of split {sample.split!r}: nothing may be learnt from it")
        answer = outcome.get("answer")
        given = None if answer is None else tuple(answer)
        score = self.worker.scores.score(str(key), given, sample)
        if score is None:
            self.result.problems["an answer without a verdict of the judge"] += 1
            return None
        shown, masked, retested = _met(trajectory)
        return PlayedEpisode(
            name=episode_name(self.folder.provenance, key),
            sample=sample.id,
            task=key.task,
            split=sample.split,
            score=score,
            shown=shown,
            masked=masked,
            masked_shares=dict.fromkeys(retested, self._said.masked_chance(barred=True)),
        )

    def _name_snapshot(self, revision: int) -> None:
        if self.result.updates not in self._said.snapshots:
            return
        name = f"{self.folder.path.name}-{self.result.updates}"
        if self.bank.snapshots().get(name, revision) != revision:  # of another run in a folder of this name
            name = f"{name}-at-{revision}"
        self.result.snapshots[name] = self.bank.name_revision(name, revision)

    async def _insert(self, key: EpisodeKey) -> None:
        """Draw experiences from an episode, score and link the new ones, once."""
        mark = f"{_INSERTED}{episode_name(self.folder.provenance, key)}"
        entry = self.constructing.cases.episodes.entry(str(key))
        if entry is None or self.bank.learnt_at(mark) is not None:
            return
        if (entry.outcome or {}).get("finish") == "error" or not entry.turns:
            return
        await self.constructing.process([[entry]])
        self.bank.set_graph(reason="drawn from", episode=mark)


def _batches(keys: Sequence[EpisodeKey], size: int) -> Iterator[Sequence[EpisodeKey]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))


def _met(trajectory: Trajectory) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The experiences that an episode was shown, best first, those that coins held back from it, and those of both that
    are barred and were up to be tried again."""
    noted = [
        note.detail for note in trajectory.notes if note.kind == "experiences" and note.detail.get("kind") == "graph"
    ]
    shown = dict.fromkeys(one["id"] for detail in noted for one in detail["served"])
    masked = dict.fromkeys(name for detail in noted for name in detail.get("masked", ()) if name not in shown)
    return tuple(shown), tuple(masked), tuple(name for detail in noted for name in detail.get("retested", ()))
