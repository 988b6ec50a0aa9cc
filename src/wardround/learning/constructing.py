"""Build a graph of experiences from the attempts of a training run, with its costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

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
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey
from wardround.tools.retrieval import Encoder

# What a construction is told, what came of it, and what each of its stages cost.


FOLDER = "construction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstructionSettings:
    """``success``: the least score that counts as one; by default that of the task's kind of answer.

    ``rules``: draw by rules, judge nothing; with the ``offline`` model it is always so. ``link``: how edges are made.
    """

    success: float | None = None
    rules: bool = False
    link: LinkSettings = field(default_factory=LinkSettings)


@dataclass(slots=True, kw_only=True)
class Construction:
    """What came of it. ``graph_calls`` are the model calls for entities, names and pairs; ``most_graph_calls`` those of
    the experience that took most. ``notes``: what a peer's memory did, by what it was (added, replaced, linked)."""

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
    """What one kind of question has cost over all constructions of a run: its purpose, calls and tokens."""

    purpose: str
    calls: int
    usage: Usage


def stages(folder: RunFolder, place: str = FOLDER) -> tuple[Stage, ...]:
    """The calls and tokens of construction by purpose; what was asked once counts once, however often it is served.

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


# Building a graph of experiences out of a run on training samples: several attempts at each become indications and
# contraindications, their entities, and edges to what a bank holds already (section 4.1 of the GSEM paper).
#
# Every model call is recorded in ``construction/`` of the run folder, and a killed construction serves recorded replies
# first. What was added and what was linked is written in the bank itself, each once, so going on does nothing twice.


_RULES_MODEL = "offline"
_NAMED, _LINKED = "named", "linked"
"""The feedback that says that an experience's names, and its pairs, were looked at."""
_COMPARED = 10


def construct(
    folder: RunFolder,
    bank: Bank,
    settings: ConstructionSettings,
    *,
    concurrency: int = 8,
    report: Reporter = silent,
) -> Construction:
    """Draw from every sample of a training run all of whose attempts are over, add what is new, and link it.

    Raises UserError unless the run is on the training split: nothing else may teach.
    """
    check_teaches(folder)
    return run_to_end(_construct(folder, bank, settings, concurrency, report))


async def _construct(
    folder: RunFolder, bank: Bank, settings: ConstructionSettings, concurrency: int, report: Reporter
) -> Construction:
    async with open_constructing(folder, bank, settings, concurrency) as constructing:
        groups, constructing.result.unfinished = constructing.cases.groups()
        await constructing.take_in(groups, concurrency=concurrency, report=report)
        return constructing.result


@asynccontextmanager
async def open_constructing(
    folder: RunFolder, bank: Bank, settings: ConstructionSettings, concurrency: int
) -> AsyncIterator[Constructing]:
    """Open everything that drawing and linking takes; its calls are recorded in the run folder."""
    async with open_training_run(folder, bank, FOLDER, concurrency=concurrency, success=settings.success) as (
        cases,
        asking,
        encoder,
    ):
        yield Constructing(folder=folder, settings=settings, cases=cases, bank=bank, encoder=encoder, asking=asking)


async def drawn_in_order(
    groups: Sequence[Sequence[EpisodeEntry]],
    draw: Callable[[Sequence[EpisodeEntry]], Awaitable[Sequence[Experience]]],
    *,
    concurrency: int,
    report: Reporter,
) -> list[Sequence[Experience]]:
    """What many cases give, drawn at once, in the order of the cases."""
    drawn: dict[int, Sequence[Experience]] = {}
    waiting = list(enumerate(groups))[::-1]

    async def drain() -> None:
        while waiting:
            place, group = waiting.pop()
            drawn[place] = await draw(group)
            report(Progress(label="drawing", done=len(drawn), total=len(groups), unit="samples"))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(concurrency):
            tasks.create_task(drain())
    return [drawn[place] for place in range(len(groups))]


@dataclass(slots=True, kw_only=True)
class Constructing:
    """What one construction holds open."""

    folder: RunFolder
    settings: ConstructionSettings
    cases: CaseReader
    bank: Bank
    encoder: Encoder
    asking: CaseAsking
    result: Construction = field(default_factory=Construction)
    _waiting: list[Experience] | None = None
    _names: NameIndex | None = None

    async def take_in(
        self, groups: Sequence[Sequence[EpisodeEntry]], *, concurrency: int = 1, report: Reporter = silent
    ) -> None:
        """Draw from many cases at once; add and link in the order of the cases, so that the bank does not depend on
        whose reply came first."""
        for drawn in await drawn_in_order(groups, self._draw, concurrency=concurrency, report=report):
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
            found = list(draw_by_rules(case))
        else:
            found = await self._ask(self.asking.asker(name, key.model, recorder), case)
        for one in found:
            self.result.drawn[one.kind] += 1
            self.result.naming_answers += bool(one.facts["names_answer"])
        recorder.finish({"ids": [one.id for one in found]})
        return found

    async def _ask(self, asker: ModelAsker, case: Case) -> list[Experience]:
        """Ask for everything a case gives; what cannot be had is counted and the rest goes on."""
        drafting = Drafting(
            asker=asker,
            room=Room(
                context_tokens=self.folder.settings.budget_tokens,
                reply_tokens=self.folder.settings.memory.reflection_tokens,
            ),
        )
        found: list[Experience] = []
        try:
            found += await drafting.indications(case)
        except (FormatError, ProviderError, UserError) as error:
            self.failed(error)
        for failure in case.failures:
            try:
                found.append(await drafting.contraindication(case, failure))
            except (FormatError, ProviderError, UserError) as error:
                self.failed(error)
        return [await self._structured(asker, one) for one in found]

    async def _structured(self, asker: ModelAsker, experience: Experience) -> Experience:
        budget = AskingBudget(left=MOST_CALLS)
        try:
            made = await with_structure(asker, experience, budget=budget)
        except ProviderError as error:
            self.failed(error)
            return experience
        return replace(made, facts={**made.facts, "structure_calls": budget.calls})

    def failed(self, error: Exception) -> None:
        """Count what could not be had, and why."""
        self.result.failed += 1
        self.result.problems[str(error)] += 1

    def by_rules(self, model: str) -> bool:
        """Whether nobody is asked: it was said, or nobody there could answer."""
        return self.settings.rules or model == _RULES_MODEL

    def _add(self, experience: Experience) -> None:
        """Add an experience under a key of its own, unless the bank says the same already."""
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
        """Link what is not linked yet: names first, all of them, then pairs against one state of names and counts."""
        if self._waiting is None:
            self._waiting = [one for one in self.bank.experiences() if one.polar and not self._is_marked(one, _LINKED)]
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if self._names is None:
            self._names = NameIndex(self.bank)
        calls = {one.id: await self._name(one, self._names) for one in waiting}
        comparing = Comparing(self.bank)
        for done, experience in enumerate(waiting, start=1):
            used = calls[experience.id]
            if used is not None:
                await self._link(experience, comparing, used)
            report(Progress(label="linking", done=done, total=len(waiting), unit="experiences"))

    def _is_marked(self, experience: Experience, mark: str) -> bool:
        return any(said.kind == mark for said in self.bank.feedback(experience.id))

    async def _name(self, experience: Experience, names: NameIndex) -> int | None:
        """Give the names of an experience their aliases, once; returns the calls that its graph has taken so far, None
        where they could not be had."""
        drawn = int(experience.facts.get("structure_calls", 0))
        marks = [said.value for said in self.bank.feedback(experience.id) if said.kind == _NAMED]
        if marks:
            return drawn + int(marks[0] or 0)
        name = f"name|{experience.id}"
        recorder = self.asking.log.begin(name, {"experience": experience.id})
        budget = AskingBudget(left=max(0, self.settings.link.most_calls - drawn))
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
        return drawn + budget.calls

    def _linking_asker(self, name: str, experience: Experience, recorder: EpisodeRecorder) -> ModelAsker | None:
        """Who judges pairs and names: the model that an experience was drawn with, where it can be asked."""
        model = experience.provenance.model
        return (
            self.asking.asker(name, model, recorder)
            if model in self.asking.models and not self.by_rules(model)
            else None
        )

    async def _link(self, experience: Experience, comparing: Comparing, used: int) -> None:
        """Give an experience its edges, once, in one transaction with the mark that says so."""
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
