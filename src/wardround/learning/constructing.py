"""Fill a bank from the attempts of a training run: a graph of experiences, or what a peer stores; count the costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from wardround.core import (
    FormatError,
    Progress,
    ProviderError,
    Reporter,
    Usage,
    UserError,
    run_to_end,
    silent,
)
from wardround.learning.cases import CaseAsking, CaseReader, check_teaches, open_training_run
from wardround.log import EpisodeEntry, EpisodeRecorder, LogReader
from wardround.memory import Bank, Experience, ModelAsker, text_key
from wardround.memory.construction import (
    MOST_CALLS,
    AskingBudget,
    Case,
    Comparing,
    Drafting,
    LinkSettings,
    NameIndex,
    draw_by_rules,
    edges_of,
    normalise_names,
    says_the_same,
    with_structure,
)
from wardround.memory.extract import Room
from wardround.memory.peer import PEERS, USED, NoteChanges, Peer, PeerAsking, PeerMemory
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey
from wardround.tools.retrieval import Encoder

# Settings, result and costs of a construction.


FOLDER = "construction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstructionSettings:
    """Settings of a construction.

    ``success``: the minimum score of a success; default: that of the task's kind of answer. ``rules``: draw by rules
    and judge nothing; the ``offline`` model always does so. ``link``: how edges are made.
    """

    success: float | None = None
    rules: bool = False
    link: LinkSettings = field(default_factory=LinkSettings)


@dataclass(slots=True, kw_only=True)
class Construction:
    """The result of a construction.

    ``graph_calls``: model calls for entities, names and pairs. ``most_graph_calls``: those of the most expensive
    experience. ``notes``: a peer memory's operations by kind (added, replaced, linked).
    """

    cases: int = 0
    unfinished: int = 0
    attempts: int = 0
    successes: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    added: int = 0
    naming_answers: int = 0
    aliases: int = 0
    linked: int = 0
    edges: Counter[str] = field(default_factory=Counter)
    graph_calls: int = 0
    most_graph_calls: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    problems: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The costs of one kind of question over all constructions of a run: purpose, calls and tokens."""

    purpose: str
    calls: int
    usage: Usage


def stages(folder: RunFolder, place: str = FOLDER) -> tuple[Stage, ...]:
    """Return calls and tokens of construction by purpose; a replayed call counts once.

    ``place``: another folder of the run whose calls are counted.
    """
    calls: Counter[str] = Counter()
    usage: dict[str, Usage] = {}
    if (folder.path / place).is_dir():
        with LogReader(folder.path / place, may_be_empty=True) as reader:
            for turn in (turn for trajectory in reader.trajectories() for turn in trajectory.turns):
                calls[turn.purpose] += 1
                usage[turn.purpose] = usage.get(turn.purpose, Usage()) + turn.usage
    return tuple(Stage(purpose=name, calls=calls[name], usage=usage[name]) for name in sorted(calls))


# Build a graph of experiences from a run on training samples: several attempts at each sample become indications and
# contraindications, their entities, and edges to the experiences in the bank (section 4.1 of the GSEM paper).
#
# Every model call is recorded in ``construction/`` of the run folder, and a killed construction replays recorded
# replies first. The bank records what was added and linked, so continuing repeats nothing.


_RULES_MODEL = "offline"
_NAMED, _LINKED = "named", "linked"
"""Feedback kinds: the names of an experience were normalised; its pairs were linked."""
_COMPARED = 10


def construct(
    folder: RunFolder,
    bank: Bank,
    settings: ConstructionSettings,
    *,
    concurrency: int = 8,
    report: Reporter = silent,
) -> Construction:
    """Draw experiences from every sample whose attempts are all finished, add the new ones, and link them.

    UserError: the run is not on the training split; nothing else may teach.
    """
    check_teaches(folder)
    return run_to_end(_construct(folder, bank, settings, concurrency, report))


async def _construct(
    folder: RunFolder, bank: Bank, settings: ConstructionSettings, concurrency: int, report: Reporter
) -> Construction:
    async with open_constructing(folder, bank, settings, concurrency) as constructing:
        groups, constructing.result.unfinished = constructing.cases.groups()
        await constructing.process(groups, concurrency=concurrency, report=report)
        return constructing.result


@asynccontextmanager
async def open_constructing(
    folder: RunFolder, bank: Bank, settings: ConstructionSettings, concurrency: int
) -> AsyncIterator[Constructing]:
    """Open everything that drawing and linking need; calls are recorded in the run folder."""
    async with open_training_run(folder, bank, FOLDER, concurrency=concurrency, success=settings.success) as (
        cases,
        asking,
        encoder,
    ):
        yield Constructing(folder=folder, settings=settings, cases=cases, bank=bank, encoder=encoder, asking=asking)


async def draw_concurrently(
    groups: Sequence[Sequence[EpisodeEntry]],
    draw: Callable[[Sequence[EpisodeEntry]], Awaitable[Sequence[Experience]]],
    *,
    concurrency: int,
    report: Reporter,
) -> list[Sequence[Experience]]:
    """Draw from many cases at once and return the results in the order of the cases."""
    drawn: dict[int, Sequence[Experience]] = {}
    pending = list(enumerate(groups))[::-1]

    async def drain() -> None:
        while pending:
            index, group = pending.pop()
            drawn[index] = await draw(group)
            report(Progress(label="drawing", done=len(drawn), total=len(groups), unit="samples"))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(concurrency):
            tasks.create_task(drain())
    return [drawn[index] for index in range(len(groups))]


@dataclass(slots=True, kw_only=True)
class Constructing:
    """The open resources of one construction."""

    folder: RunFolder
    settings: ConstructionSettings
    cases: CaseReader
    bank: Bank
    encoder: Encoder
    asking: CaseAsking
    result: Construction = field(default_factory=Construction)
    _waiting: list[Experience] | None = None
    _names: NameIndex | None = None

    async def process(
        self, groups: Sequence[Sequence[EpisodeEntry]], *, concurrency: int = 1, report: Reporter = silent
    ) -> None:
        """Draw from many cases at once; add and link in the order of the cases.

        The bank then does not depend on which reply came first.
        """
        for drawn in await draw_concurrently(groups, self._draw, concurrency=concurrency, report=report):
            for experience in drawn:
                self._add(experience)
        await self._link_all(report)

    async def _draw(self, group: Sequence[EpisodeEntry]) -> list[Experience]:
        key = EpisodeKey.parse(group[0].key)
        case = self.cases.case(group)
        self.result.cases += 1
        self.result.attempts += len(case.attempts)
        self.result.successes += len(case.successes)
        name = f"draw|{key.agent}|{key.model}|{key.task}|{key.sample}"
        if len(group) < self.folder.settings.run.epochs:
            name = f"{name}|{key.epoch}"
        recorder = self.asking.log.begin(name, {"sample": key.sample, "attempts": [entry.key for entry in group]})
        if self.by_rules(key.model):
            experiences = list(draw_by_rules(case))
        else:
            experiences = await self._ask(self.asking.asker(name, key.model, recorder), case)
        for experience in experiences:
            self.result.drawn[experience.kind] += 1
            self.result.naming_answers += bool(experience.facts["names_answer"])
        recorder.finish({"ids": [experience.id for experience in experiences]})
        return experiences

    async def _ask(self, asker: ModelAsker, case: Case) -> list[Experience]:
        """Draw all experiences of a case; failures are counted and the rest continues."""
        drafting = Drafting(
            asker=asker,
            room=Room(
                context_tokens=self.folder.settings.budget_tokens,
                reply_tokens=self.folder.settings.memory.reflection_tokens,
            ),
        )
        experiences: list[Experience] = []
        try:
            experiences += await drafting.indications(case)
        except (FormatError, ProviderError, UserError) as error:
            self.failed(error)
        for failure in case.failures:
            try:
                experiences.append(await drafting.contraindication(case, failure))
            except (FormatError, ProviderError, UserError) as error:
                self.failed(error)
        return [await self._structured(asker, experience) for experience in experiences]

    async def _structured(self, asker: ModelAsker, experience: Experience) -> Experience:
        budget = AskingBudget(left=MOST_CALLS)
        try:
            structured = await with_structure(asker, experience, budget=budget)
        except ProviderError as error:
            self.failed(error)
            return experience
        return replace(structured, facts={**structured.facts, "structure_calls": budget.calls})

    def failed(self, error: Exception) -> None:
        """Count a failure and its reason."""
        self.result.failed += 1
        self.result.problems[str(error)] += 1

    def by_rules(self, model: str) -> bool:
        """Return whether rules draw instead of a model: by setting, or because the model has no language."""
        return self.settings.rules or model == _RULES_MODEL

    def _add(self, experience: Experience) -> None:
        """Add an experience under its own key, unless the bank has an equal one."""
        if self.bank.holds(experience.id):
            return
        if any(says_the_same(experience, other) for other in self.bank.related(experience, limit=_COMPARED)):
            self.result.duplicates += 1
            return
        key = text_key(self.encoder, f"{experience.condition}\n{experience.content}")
        if self.bank.add([experience], key=key, reason="constructed"):
            self.result.added += 1
            if self._waiting is not None:
                self._waiting.append(experience)

    async def _link_all(self, report: Reporter) -> None:
        """Link all unlinked experiences: first all names, then pairs against one state of names and counts."""
        if self._waiting is None:
            self._waiting = [
                experience
                for experience in self.bank.experiences()
                if experience.polar and not any(entry.kind == _LINKED for entry in self.bank.feedback(experience.id))
            ]
        pending, self._waiting = self._waiting, []
        if not pending:
            return
        if self._names is None:
            self._names = NameIndex(self.bank)
        calls = {experience.id: await self._name(experience, self._names) for experience in pending}
        comparing = Comparing(self.bank)
        for done, experience in enumerate(pending, start=1):
            used = calls[experience.id]
            if used is not None:
                await self._link(experience, comparing, used)
            report(Progress(label="linking", done=done, total=len(pending), unit="experiences"))

    async def _name(self, experience: Experience, names: NameIndex) -> int | None:
        """Normalise the names of an experience once; return the calls its graph has used so far.

        None on failure.
        """
        calls_for_drawing = int(experience.facts.get("structure_calls", 0))
        marks = [entry.value for entry in self.bank.feedback(experience.id) if entry.kind == _NAMED]
        if marks:
            return calls_for_drawing + int(marks[0] or 0)
        name = f"name|{experience.id}"
        recorder = self.asking.log.begin(name, {"experience": experience.id})
        budget = AskingBudget(left=max(0, self.settings.link.most_calls - calls_for_drawing))
        asker = self._linking_asker(name, experience, recorder)
        try:
            aliases = await normalise_names(self.bank, names, experience, asker=asker, budget=budget)
        except ProviderError as error:
            self.failed(error)
            recorder.finish({"error": str(error)})
            return None
        self.asking.log.flush()
        self.bank.add_feedback(experience.id, _NAMED, value=float(budget.calls), episode=name)
        self.result.aliases += aliases
        recorder.finish({"aliases": aliases, "calls": budget.calls, "refused": budget.refused})
        return calls_for_drawing + budget.calls

    def _linking_asker(self, name: str, experience: Experience, recorder: EpisodeRecorder) -> ModelAsker | None:
        """Return the model that judges pairs and names: the one that drew the experience, where available."""
        model = experience.provenance.model
        return (
            self.asking.asker(name, model, recorder)
            if model in self.asking.models and not self.by_rules(model)
            else None
        )

    async def _link(self, experience: Experience, comparing: Comparing, used: int) -> None:
        """Add the edges of an experience once, in one transaction with the mark that records it."""
        name = f"link|{experience.id}"
        recorder = self.asking.log.begin(name, {"experience": experience.id})
        budget = AskingBudget(left=max(0, self.settings.link.most_calls - used))
        asker = self._linking_asker(name, experience, recorder)
        try:
            edges = await edges_of(
                self.bank, experience, comparing=comparing, asker=asker, settings=self.settings.link, budget=budget
            )
        except ProviderError as error:
            self.failed(error)
            recorder.finish({"error": str(error)})
            return
        self.asking.log.flush()
        with self.bank.batch():
            if edges:
                reason = f"linked {experience.id}, frequencies of {comparing.revision}"
                self.bank.set_graph(edges=edges, reason=reason)
            self.bank.add_feedback(experience.id, _LINKED, value=float(len(edges)), episode=name)
        self.result.linked += 1
        self.result.edges.update(edge.relation for edge in edges)
        self.result.graph_calls += used + budget.calls
        self.result.most_graph_calls = max(self.result.most_graph_calls, used + budget.calls)
        recorder.finish({"edges": len(edges), "calls": budget.calls, "refused": budget.refused})


# A peer's memory out of a training run: the same cases, attempts and model that construction draws from.
#
# Cases are drawn from at once and settled one after the other, each note once: what a killed building has done stands
# in the bank under a mark, and its recorded calls are replayed.


T = TypeVar("T")


def build_peer(
    folder: RunFolder,
    bank: Bank,
    peer: str,
    settings: ConstructionSettings,
    *,
    concurrency: int = 8,
    report: Reporter = silent,
) -> Construction:
    """Fill a bank with what a peer stores of a training run. Raises UserError for a run on another split."""
    check_teaches(folder)
    return run_to_end(_build(folder, bank, PEERS.get(peer), settings, concurrency, report))


async def _build(
    folder: RunFolder, bank: Bank, peer: Peer, settings: ConstructionSettings, concurrency: int, report: Reporter
) -> Construction:
    async with open_constructing(folder, bank, settings, concurrency) as opened:
        peer_settings = folder.settings.memory.peers
        memory = PeerMemory(
            peer=peer.name, bank=bank, encoder=opened.encoder, settings=peer_settings, keyed_by=peer.keyed_by
        )
        groups, opened.result.unfinished = opened.cases.groups()
        await _PeerBuilding(opened=opened, peer=peer, memory=memory).process(groups, concurrency, report)
        opened.result.added = memory.counts["added"]
        opened.result.notes = memory.counts
        return opened.result


@dataclass(slots=True, kw_only=True)
class _PeerBuilding:
    """The open resources of one build, and the peer's own memory."""

    opened: Constructing
    peer: Peer
    memory: PeerMemory
    _undrawn: set[str] = field(default_factory=set)
    """The marks of cases that could not be drawn from: the next building tries again."""

    async def process(self, groups: Sequence[Sequence[EpisodeEntry]], concurrency: int, report: Reporter) -> None:
        """Draw from all cases, process every note, close."""
        drawn = await draw_concurrently(groups, self._draw, concurrency=concurrency, report=report)
        for done, (group, notes) in enumerate(zip(groups, drawn, strict=True), start=1):
            await self._take(group, notes)
            report(Progress(label="settling", done=done, total=len(groups), unit="samples"))
        models = sorted({EpisodeKey.parse(group[0].key).model for group in groups})
        if models:
            name = f"peer|{self.peer.name}|close|{self.memory.bank.revision}"
            changes = await self._asked(name, models[0], lambda asking: self.peer.close(self.memory, asking))
            self.memory.apply(changes or NoteChanges())

    async def _draw(self, group: Sequence[EpisodeEntry]) -> Sequence[Experience]:
        """Return the notes of a case; empty where the bank has the case already."""
        if self.memory.bank.learnt_at(self._mark(group)) is not None:
            return ()
        case, result = self.opened.cases.case(group), self.opened.result
        result.cases += 1
        result.attempts += len(case.attempts)
        result.successes += len(case.successes)
        self._keep_uses(case)
        name = f"peer|draw|{self._mark(group)}"
        model = EpisodeKey.parse(group[0].key).model
        found = await self._asked(name, model, lambda asking: self.peer.draw(case, asking, self.memory.settings))
        if found is None:
            self._undrawn.add(self._mark(group))
            return ()
        result.drawn["note"] += len(found)
        result.naming_answers += sum(bool(one.facts["names_answer"]) for one in found)
        return found

    async def _take(self, group: Sequence[EpisodeEntry], notes: Sequence[Experience]) -> None:
        """Settle a case's notes in order, each once, then mark the case; one that an endpoint failed waits."""
        key, mark = EpisodeKey.parse(group[0].key), self._mark(group)
        for place, note in enumerate(notes):
            own = f"{mark}|{place}"
            if self.memory.bank.learnt_at(own) is None:
                changes = await self._settled(f"peer|settle|{own}", key.model, note)
                if changes is None:
                    return
                self.memory.apply(changes, mark=own, sample=key.sample)
        if mark not in self._undrawn:
            self.memory.apply(NoteChanges(), mark=mark)

    async def _settled(self, name: str, model: str, note: Experience) -> NoteChanges | None:
        """Return the operation for a note; by rules where the reply is unusable, None where the call failed."""

        async def settle(asking: PeerAsking | None) -> NoteChanges:
            try:
                return await self.peer.settle(note, self.memory, asking)
            except FormatError as error:
                self.opened.failed(error)
                return await self.peer.settle(note, self.memory, None)

        return await self._asked(name, model, settle)

    async def _asked(self, name: str, model: str, do: Callable[[PeerAsking | None], Awaitable[T]]) -> T | None:
        """Run a task with a model under a name in the log; None, and counted, where it failed."""
        recorder = self.opened.asking.log.begin(name, {"peer": self.peer.name})
        asking = None
        if not self.opened.by_rules(model):
            asking = PeerAsking(asker=self.opened.asking.asker(name, model, recorder), model=model)
        try:
            found = await do(asking)
        except (FormatError, ProviderError) as error:
            self.opened.failed(error)
            recorder.finish({"error": str(error)})
            return None
        recorder.finish({})
        self.opened.asking.log.flush()
        return found

    def _mark(self, group: Sequence[EpisodeEntry]) -> str:
        key = EpisodeKey.parse(group[0].key)
        return "|".join((self.peer.name, self.opened.folder.provenance, key.agent, key.model, key.task, key.sample))

    def _keep_uses(self, case: Case) -> None:
        """Record for every shown note whether the attempt succeeded, once each."""
        for attempt in case.attempts:
            notes = self.opened.cases.episodes.trajectory(attempt.episode).notes
            shown = [
                one for note in notes if note.detail.get("peer") == self.peer.name for one in note.detail["served"]
            ]
            episode = f"{self.opened.folder.provenance}|{attempt.episode}"
            for one in shown:
                if self.memory.bank.holds(one["id"]):
                    self.memory.bank.add_feedback(one["id"], USED, value=float(attempt.success), episode=episode)
