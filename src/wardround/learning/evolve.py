"""Evolve: turn finished episodes of a training run into experiences in a bank (RetroSum eq. 6-8).

Reflections are recorded like episodes, in ``reflections/`` of the run folder: one entry per episode and kind, with
model calls as turns. A second call skips finished reflections and replays recorded replies first, so a killed evolve
continues without repeated calls; a failed entry is tried again.
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
"""The model without language: rules reflect in its place."""


@dataclass(slots=True, kw_only=True)
class Evolution:
    """The result of an evolve.

    ``problems`` counts reflections without a usable result, by message. ``failed``: those whose endpoint failed or had
    no room; the next call tries them again.
    """

    episodes: int = 0
    unfinished: int = 0
    reflected: int = 0
    skipped: int = 0
    added: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    problems: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One reflection to do: an episode and a kind of experience."""

    key: EpisodeKey
    kind: ReflectedKind

    @property
    def name(self) -> str:
        return f"reflect|{self.kind}|{self.key}"


def training_strata(benchmark: Benchmark) -> tuple[str, ...]:
    """Return the strata that experiences are drawn from: ``common`` where it exists, else all.

    As in the paper (appendix D.2), rare labels stay a distribution shift.
    """
    strata = {sample.stratum for sample in benchmark.samples(split=TRAINING_SPLIT)}
    return ("common",) if "common" in strata else ()


def evolve(
    folder: RunFolder,
    bank: Bank,
    *,
    kinds: Sequence[ReflectedKind] = REFLECTED_KINDS,
    rules: bool = False,
    concurrency: int = 8,
    report: Reporter = silent,
) -> Evolution:
    """Reflect on every finished episode of a training run that has no reflection yet, and add to the bank.

    ``rules``: reflect by rules without a model; the ``offline`` model always does so. UserError: the run is not on the
    training split; nothing else may teach.
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
    """The open resources of one evolve."""

    settings: RunSettings
    bank: Bank
    cases: CaseReader
    asking: CaseAsking
    encoder: Encoder
    rules: bool
    result: Evolution = field(default_factory=Evolution)
    keys: dict[str, Key] = field(default_factory=dict)

    async def all(self, kinds: Sequence[ReflectedKind], concurrency: int, report: Reporter) -> Evolution:
        """Do all remaining reflections, a few episodes at once."""
        all_entries = self.cases.episodes.episodes()
        entries = [entry for entry in all_entries if is_usable(entry)]
        self.result.episodes = len(entries)
        self.result.unfinished = len(all_entries) - len(entries)
        run = self.cases.folder.provenance
        done_kinds = {
            (experience.provenance.episode, experience.kind)
            for experience in self.bank.experiences()
            if experience.provenance.run == run
        }
        pending = [[_Work(key=EpisodeKey.parse(entry.key), kind=kind) for kind in kinds] for entry in entries]
        pending.reverse()
        total = len(entries)

        async def drain() -> None:
            while pending:
                works = [work for work in pending.pop() if not self._is_done(work, done_kinds)]
                if works:
                    await self._episode(works)
                report(Progress(label="reflecting", done=total - len(pending), total=total, unit="episodes"))

        tasks = [asyncio.create_task(drain()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self.result

    def _is_done(self, work: _Work, done_kinds: set[tuple[str, Kind]]) -> bool:
        """Return whether a reflection was made and its experiences are in this bank."""
        entry = self.asking.earlier.entry(work.name)
        outcome = (entry.outcome or {}) if entry is not None and entry.state == "finished" else {}
        done = "error" not in outcome and "experiences" in outcome
        if done and (outcome["experiences"] == 0 or (str(work.key), work.kind) in done_kinds):
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
        except (ProviderError, UserError) as error:  # UserError: the context has no room for the reflection
            self.result.failed += 1
            self.result.problems[str(error)] += 1
            recorder.finish({"error": str(error)})
            return
        experiences = [experience for extraction in extractions for experience in extraction.experiences]
        problems = [extraction.problem for extraction in extractions if extraction.problem]
        key = await self._key(sample)
        self.asking.log.flush()  # if killed after adding, the replayed replies give the same ids
        self.result.added[work.kind] += self.bank.add(experiences, key=key, reason="evolve")
        self.result.problems.update(problems)
        self.result.reflected += 1
        recorder.finish(
            {
                "experiences": len(experiences),
                "ids": [experience.id for experience in experiences],
                "problems": problems,
            }
        )

    async def _extract(
        self, asker: ModelAsker, kind: ReflectedKind, material: Material, provenance: Provenance
    ) -> list[Extraction]:
        memory_settings = self.settings.memory
        room = Room(context_tokens=self.settings.budget_tokens, reply_tokens=memory_settings.reflection_tokens)
        if kind == "reasoning":
            limit = memory_settings.max_reasoning_items
            return [await extract_reasoning(asker, material, provenance=provenance, maximum=limit, room=room)]
        if kind == "tool":
            limit = memory_settings.max_tool_items
            return [
                await extract_tool_advice(asker, material, tool=tool, provenance=provenance, maximum=limit, room=room)
                for tool in _tools_called(material)
            ]
        limit = memory_settings.max_items
        return [await extract_experiences(asker, material, kind=kind, provenance=provenance, maximum=limit, room=room)]

    async def _key(self, sample: Sample) -> Key:
        """Return the key of a sample's case; computed once."""
        if sample.id not in self.keys:
            case = case_of(self.cases.store, self.cases.benchmark, sample)
            self.keys[sample.id] = await asyncio.to_thread(case.key, self.encoder)
        return self.keys[sample.id]


def training_changes(requested: Mapping[str, Any], bank: Path) -> dict[str, Any]:
    """Return the settings of a run that fills a bank, besides the requested ones, as nested tables.

    The run is on training samples, of the strata that teach unless others are named, with last summaries. An agent
    that reads a bank reads this bank, which is created where it is missing.
    """
    settings = RunSettings.read(requested)
    changes: dict[str, Any] = {"run": {"split": TRAINING_SPLIT}, "agent": {}}
    for name in settings.run.agents:
        if hasattr(settings.of_agent(name), "final_summary"):
            changes["agent"][settings.section_of(name)] = {"final_summary": True}
    reading_agents = [name for name in settings.run.agents if kinds_read(settings.spelling(name))]
    if reading_agents:
        Bank.open(bank).close()
        changes["memory"] = {"bank": str(bank)}
    if settings.run.benchmark and not settings.run.strata:
        changes["run"]["strata"] = list(training_strata(Benchmark.open(Path(settings.run.benchmark))))
    return changes


def walks_a_graph(folder: RunFolder) -> bool:
    """Return whether a run's agents read a bank's graph, so that the graph itself learns.

    UserError: only some of them do.
    """
    if folder.settings.memory.banks:
        raise UserError("evolve fills one bank, that of --bank: leave out memory.banks")
    note_readers = [name for name in folder.settings.run.agents if "note" in kinds_read(folder.settings.spelling(name))]
    if note_readers:
        raise UserError(f"{note_readers[0]} reads another memory's notes: `wardround memory build --peer` fills them")
    reads_graph = [bool(set(POLARITIES) & set(kinds_read(name))) for name in folder.settings.run.agents]
    if any(reads_graph) and not all(reads_graph):
        raise UserError(
            "evolve either reflects on episodes or lets a graph learn from a stream: name agents of one kind"
        )
    return all(reads_graph)


def _last_summary(trajectory: Trajectory) -> str:
    """Return the last usable summary (S_final of eq. 7), as its readers saw it."""
    summaries = (read_text(turn.reply, turn.finish_reason) for turn in trajectory.turns if turn.purpose == "summarise")
    return next((text for text in reversed([text for text, _ in summaries]) if text), "")


def _tools_called(material: Material) -> list[str]:
    return sorted({call.name for message in material.messages for call in message.tool_calls})
