"""Evolving: from the finished episodes of a run on training samples to experiences in a bank (RetroSum eq. 6-8).

Reflection is recorded like episodes are, in ``reflections/`` of the run folder: one entry per episode and kind, its
model calls as turns. Doing it again skips what is done and serves recorded replies first, so a killed evolve goes on
without asking twice; an entry that failed is tried again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wardround.agents import kinds_read
from wardround.agents.loop import read_text
from wardround.core import Progress, ProviderError, Reporter, UserError, run_to_end, silent
from wardround.learning.cases import CaseAsking, CaseReader, check_teaches, is_usable, open_training_run
from wardround.log import Trajectory
from wardround.memory import (
    POLARITIES,
    REFLECTED_KINDS,
    Bank,
    Key,
    Kind,
    Material,
    ModelAsker,
    Provenance,
    ReflectedKind,
    RuleReflector,
    extract_experiences,
    extract_reasoning,
    extract_tool_advice,
)
from wardround.memory.extract import Extraction, Room
from wardround.runs.banks import TRAINING_SPLIT
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.worker import case_of
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tools.retrieval import Encoder

_RULES_MODEL = "offline"
"""The model that cannot reflect: it has no language. Rules do it in its place."""


@dataclass(slots=True, kw_only=True)
class Evolution:
    """What came of it. ``problems`` counts reflections that gave nothing usable, by what they said; ``failed`` are
    those of them whose endpoint failed or had no room: the next call tries them again."""

    episodes: int = 0
    unfinished: int = 0
    reflected: int = 0
    skipped: int = 0
    added: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    problems: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One reflection to do: an episode, and the kind of experience to draw from it."""

    key: EpisodeKey
    kind: ReflectedKind

    @property
    def name(self) -> str:
        return f"reflect|{self.kind}|{self.key}"


def training_strata(benchmark: Benchmark) -> tuple[str, ...]:
    """Return the strata that experiences are drawn from: the common one, as in the paper (appendix D.2), so that rare
    labels stay a shift; all where a benchmark has no common one."""
    there = {sample.stratum for sample in benchmark.samples(split=TRAINING_SPLIT)}
    return ("common",) if "common" in there else ()


def evolve(
    folder: RunFolder,
    bank: Bank,
    *,
    kinds: Sequence[ReflectedKind] = REFLECTED_KINDS,
    rules: bool = False,
    concurrency: int = 8,
    report: Reporter = silent,
) -> Evolution:
    """Reflect on every finished episode of a training run that was not reflected on yet, and add to the bank.

    ``rules``: by rules without a model; with the ``offline`` model it is always so. Raises UserError unless the run is
    on the training split: nothing else may teach.
    """
    check_teaches(folder)
    return run_to_end(_evolve(folder, bank, kinds, rules, concurrency, report))


async def _evolve(
    folder: RunFolder, bank: Bank, kinds: Sequence[ReflectedKind], rules: bool, concurrency: int, report: Reporter
) -> Evolution:
    async with open_training_run(folder, bank, "reflections", concurrency=concurrency) as (cases, asking, encoder):
        reflecting = _Reflecting(
            settings=folder.settings, bank=bank, cases=cases, asking=asking, encoder=encoder, rules=rules
        )
        return await reflecting.all(kinds, concurrency, report)


@dataclass(slots=True, kw_only=True)
class _Reflecting:
    """What one evolve holds open."""

    settings: RunSettings
    bank: Bank
    cases: CaseReader
    asking: CaseAsking
    encoder: Encoder
    rules: bool
    result: Evolution = field(default_factory=Evolution)
    keys: dict[str, Key] = field(default_factory=dict)

    async def all(self, kinds: Sequence[ReflectedKind], concurrency: int, report: Reporter) -> Evolution:
        """Do everything that is left, a few episodes at once."""
        every = self.cases.episodes.episodes()
        entries = [entry for entry in every if is_usable(entry)]
        self.result.episodes = len(entries)
        self.result.unfinished = len(every) - len(entries)
        run = self.cases.folder.provenance
        held = {(one.provenance.episode, one.kind) for one in self.bank.experiences() if one.provenance.run == run}
        waiting = [[_Work(key=EpisodeKey.parse(entry.key), kind=kind) for kind in kinds] for entry in entries]
        waiting.reverse()
        total = len(entries)

        async def drain() -> None:
            while waiting:
                works = [work for work in waiting.pop() if not self._is_done(work, held)]
                if works:
                    await self._episode(works)
                report(Progress(label="reflecting", done=total - len(waiting), total=total, unit="episodes"))

        tasks = [asyncio.create_task(drain()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self.result

    def _is_done(self, work: _Work, held: set[tuple[str, Kind]]) -> bool:
        """Whether a reflection was made and what it gave is in this bank."""
        entry = self.asking.earlier.entry(work.name)
        outcome = (entry.outcome or {}) if entry is not None and entry.state == "finished" else {}
        done = "error" not in outcome and "experiences" in outcome
        if done and (outcome["experiences"] == 0 or (str(work.key), work.kind) in held):
            self.result.skipped += 1
            return True
        return False

    async def _episode(self, works: Sequence[_Work]) -> None:
        key = works[0].key
        sample = self.cases.sample(key)
        trajectory = self.cases.episodes.trajectory(str(key))
        material = replace(self.cases.material(trajectory, sample), summary=_last_summary(trajectory))
        provenance = replace(self.cases.provenance(sample), episode=str(key))
        for work in works:
            await self._reflect(work, material, provenance, sample)

    async def _reflect(self, work: _Work, material: Material, provenance: Provenance, sample: Sample) -> None:
        recorder = self.asking.log.begin(work.name, {"episode": str(work.key), "kind": work.kind, "sample": sample.id})
        try:
            if self.rules or self.settings.model_named(work.key.model).name == _RULES_MODEL:
                origin = replace(provenance, model=RuleReflector.name)
                extractions = [
                    Extraction(experiences=RuleReflector().reflect(material, kind=work.kind, provenance=origin))
                ]
            else:
                asker = self.asking.asker(work.name, work.key.model, recorder)
                extractions = await self._extract(asker, work.kind, material, provenance)
        except (ProviderError, UserError) as error:  # the latter: the context has no room for the reflection
            self.result.failed += 1
            self.result.problems[str(error)] += 1
            recorder.finish({"error": str(error)})
            return
        experiences = [one for extraction in extractions for one in extraction.experiences]
        problems = [extraction.problem for extraction in extractions if extraction.problem]
        key = await self._key(sample)
        self.asking.log.flush()  # killed after adding: the same replies are served again and give the same ids
        self.result.added[work.kind] += self.bank.add(experiences, key=key, reason="evolve")
        self.result.problems.update(problems)
        self.result.reflected += 1
        recorder.finish({"experiences": len(experiences), "ids": [one.id for one in experiences], "problems": problems})

    async def _extract(
        self, asker: ModelAsker, kind: ReflectedKind, material: Material, provenance: Provenance
    ) -> list[Extraction]:
        said = self.settings.memory
        room = Room(context_tokens=self.settings.budget_tokens, reply_tokens=said.reflection_tokens)
        if kind == "reasoning":
            most = said.max_reasoning_items
            return [await extract_reasoning(asker, material, provenance=provenance, maximum=most, room=room)]
        if kind == "tool":
            most = said.max_tool_items
            return [
                await extract_tool_advice(asker, material, tool=tool, provenance=provenance, maximum=most, room=room)
                for tool in _tools_called(material)
            ]
        most = said.max_items
        return [await extract_experiences(asker, material, kind=kind, provenance=provenance, maximum=most, room=room)]

    async def _key(self, sample: Sample) -> Key:
        """The key of a sample's case, made once."""
        if sample.id not in self.keys:
            case = case_of(self.cases.store, self.cases.benchmark, sample)
            self.keys[sample.id] = await asyncio.to_thread(case.key, self.encoder)
        return self.keys[sample.id]


def _last_summary(trajectory: Trajectory) -> str:
    """The last summary that could be used (S_final of eq. 7), as its readers saw it."""
    written = (read_text(one.reply, one.finish_reason) for one in trajectory.turns if one.purpose == "summarise")
    return next((text for text in reversed([text for text, _ in written]) if text), "")


def _tools_called(material: Material) -> list[str]:
    return sorted({call.name for message in material.messages for call in message.tool_calls})


def training_changes(asked: Mapping[str, Any], bank: Path) -> dict[str, Any]:
    """Return what a run that fills a bank has besides the settings ``asked`` for, as nested tables.

    It is on training samples, of the strata that teach unless others are named, with last summaries. An agent that
    reads a bank reads this very one, which is made where it is not there.
    """
    settings = RunSettings.read(asked)
    changes: dict[str, Any] = {"run": {"split": TRAINING_SPLIT}, "agent": {}}
    for name in settings.run.agents:
        if hasattr(settings.of_agent(name), "final_summary"):
            changes["agent"][settings.section_of(name)] = {"final_summary": True}
    reading = [name for name in settings.run.agents if kinds_read(settings.spelling(name))]
    if reading:
        Bank.open(bank).close()
        changes["memory"] = {"bank": str(bank)}
    if settings.run.benchmark and not settings.run.strata:
        changes["run"]["strata"] = list(training_strata(Benchmark.open(Path(settings.run.benchmark))))
    return changes


def walks_a_graph(folder: RunFolder) -> bool:
    """Whether a run's agents read a bank's graph, so that the graph itself learns; UserError where only some do."""
    if folder.settings.memory.banks:
        raise UserError("evolve fills one bank, that of --bank: leave memory.banks out")
    noted = [name for name in folder.settings.run.agents if "note" in kinds_read(folder.settings.spelling(name))]
    if noted:
        raise UserError(f"{noted[0]} reads another memory's notes: `wardround memory build --peer` fills them")
    walking = [bool(set(POLARITIES) & set(kinds_read(name))) for name in folder.settings.run.agents]
    if any(walking) and not all(walking):
        raise UserError("evolve reflects on episodes or lets a graph learn from a stream: name agents of one sort")
    return all(walking)
