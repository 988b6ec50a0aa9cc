"""The AgentEHR benchmark (sections 2.1, 2.2 and appendix B of the paper), from MIMIC-IV or MIMIC-III.

Per task: every label event of every subject; one eligible event per subject, chosen by seed; weights of eq. 11 over
those candidates; common and rare pools; a weighted draw without replacement from each pool of each split. Subjects,
not samples, are split. MIMIC-III is drawn directly, without weights and pools (B.3). Count(y) of eq. 11 runs over all
candidates, as in the paper: it decides which questions exist and never reaches an agent. The candidate spaces and the
usual number of answers do reach an agent: they come from training subjects only, and for a question about a training
subject from the other groups (see ``split.group_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

from wardround.clinical.codes import LabelSet, how_to_add, normalise_label
from wardround.core import Progress, Reporter, UserError, silent, to_microseconds
from wardround.records import Policy, RowRole, Store, unplayed
from wardround.tasks.benchmarks.answer_rules import AnswerRules
from wardround.tasks.benchmarks.benchmark import Benchmark, label_map_facts, pool_facts, space_facts
from wardround.tasks.benchmarks.drawing import (
    DrawSettings,
    WeighedEvent,
    candidates_for,
    choose_events,
    draw,
    group_of,
    kinds_of_stays,
    label_rows,
    make_samples,
    read_encounters,
    training_sizes,
    weigh,
)
from wardround.tasks.benchmarks.encounters import Encounters
from wardround.tasks.benchmarks.label_events import EventFinder, LabelEvent, LabelSource, is_other_source, label_source
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildOptions, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import AGENTEHR_TASKS, Task, get_task
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces


def build_agentehr(
    store: Store,
    folder: Path,
    *,
    tasks: Sequence[str] = tuple(AGENTEHR_TASKS),
    user_codes: Path | None = None,
    report: Reporter = silent,
    **options: Unpack[BuildOptions],
) -> Benchmark:
    """Build the six tasks from a store and save them.

    ``per_task`` limits the samples of a task in each stratum of each split (the paper has 600). The same store and
    settings give the same samples, byte for byte.
    """
    family = AgentEhr(names=tuple(sorted(set(tasks))), user_codes=user_codes)
    return build_family(family, store, folder, BuildSettings(**options), report=report)


def label_events(store: Store, policy: Policy = "known_at") -> dict[str, dict[int, list[LabelEvent]]]:
    """Return every possible event by task and subject, without candidates or added code tables."""
    admission = store.spec.roles.admission
    if admission is None or admission.table not in store.table_names:
        return {}
    encounters = read_encounters(store, admission, policy)
    events: dict[str, dict[int, list[LabelEvent]]] = {}
    for task in AGENTEHR_TASKS.values():
        role = _role(store, task)
        if role is None:
            continue
        finder = EventFinder(source=label_source(task, role, store.spec, policy, None), policy=policy)
        events[task.name] = {
            subject: finder.events(subject, batch, encounters.get(subject, Encounters.none()))
            for subject, batch in label_rows(store, finder)
        }
    return events


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEhr:
    """The family: the tasks to build, and the user's code tables."""

    names: tuple[str, ...] = tuple(AGENTEHR_TASKS)
    user_codes: Path | None = None
    kind: ClassVar[str] = "agentehr"
    paper: ClassVar[str] = "AgentEHR, section 2 and appendix B"
    has_own_splits: ClassVar[bool] = False

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build."""
        return [get_task(name) for name in self.names]

    def options(self) -> Mapping[str, Any]:
        """Return the tasks."""
        return {"tasks": list(self.names)}

    def open(self, context: BuildContext) -> _OpenAgentEhr:
        """Group the training people, read the admissions, build the candidate spaces."""
        store, settings = context.store, context.settings
        if settings.per_task < 1:
            raise UserError(f"per_task must be at least 1, not {settings.per_task!r}")
        admission = store.spec.roles.admission
        if admission is None:
            raise UserError(f"no AgentEHR task is possible: {unplayed('admission')}; see docs/roles.md")
        if admission.table not in store.table_names:
            raise UserError(f"no AgentEHR task is possible: {_absent('admission', admission.table)}")
        recipe = DrawSettings(
            store=store,
            seed=settings.seed,
            policy=settings.policy,
            per_task=settings.per_task,
            splits=context.splits,
            groups=_groups(context),
            encounters=read_encounters(store, admission, settings.policy),
            report=context.report,
            direct=is_other_source(store.spec),
        )
        context.report(Progress(label="candidate spaces", done=0, total=1))
        names = {name for task in self.tasks for name in task.answer.spaces}
        return _OpenAgentEhr(
            recipe=recipe,
            user_codes=self.user_codes,
            spaces=build_candidate_spaces(store, recipe.groups, self.user_codes, names),
            sources={
                task.name: label_source(task, role, store.spec, settings.policy, self.user_codes)
                for task in self.tasks
                if (role := _role(store, task)) is not None
            },
            kinds=kinds_of_stays(store, admission),
        )


def _groups(context: BuildContext) -> dict[int, int]:
    store, seed = context.store, context.settings.seed
    training = (subject for subject, split in context.splits.items() if split == "train")
    groups = {subject: group_of(store.person_of(subject), seed) for subject in training}
    if not groups:
        number = len(context.splits)
        raise UserError(f"none of the {number} subjects is in train, so there are no candidates; use more subjects")
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class _Events:
    """The questions of a task: the weighted event of every subject that has candidates.

    ``alone`` counts the subjects without candidates.
    """

    finder: EventFinder
    candidates: list[WeighedEvent]
    alone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenAgentEhr:
    recipe: DrawSettings
    user_codes: Path | None
    spaces: Mapping[str, CandidateSpace]
    sources: Mapping[str, LabelSource]
    kinds: Mapping[str, Mapping[str, int]]

    def unavailable(self, task: Task) -> str | None:
        reason = _no_role(self.recipe.store, task)
        if reason is None and not any(name in self.spaces for name in task.answer.spaces):
            return f"no training subject has a label of {self.sources[task.name].table}, so there are no candidates"
        return reason

    def questions(self, task: Task) -> _Events:
        source, space = self.sources[task.name], self._space(task)
        official = replace(source, label=_official(source.label, space.labels))
        finder = EventFinder(source=official, policy=self.recipe.policy)
        chosen = choose_events(self.recipe, task, finder)
        events = [event for event in chosen if candidates_for(self.recipe, space, event) is not None]
        return _Events(finder=finder, candidates=weigh(self.recipe, task, events), alone=len(chosen) - len(events))

    def draw(self, task: Task, questions: _Events) -> list[WeighedEvent]:
        return draw(self.recipe, questions.candidates)

    def samples(self, task: Task, questions: _Events, drawn: list[WeighedEvent]) -> list[Sample]:
        return make_samples(self.recipe, task, questions.finder, self._space(task), drawn)

    def describe(
        self, task: Task, questions: _Events, drawn: list[WeighedEvent], samples: Sequence[Sample]
    ) -> TaskFacts:
        source, finder, candidates = self.sources[task.name], questions.finder, questions.candidates
        counted = AnswerRules.counted(task, training_sizes(self.recipe, candidates))
        not_chosen = finder.found - len(candidates) - questions.alone
        return TaskFacts(
            rules=counted.to_json(),
            drops=dict(sorted(finder.dropped.items()))
            | ({"others_have_no_candidates": questions.alone} if questions.alone else {})
            | {"not_chosen": not_chosen, "not_drawn": len(candidates) - len(drawn)},
            details={
                **_without_codes(source, finder, len(samples)),
                "title": task.title,
                "table": source.table,
                **space_facts(task, self._space(task), source.prompt),
                "events": finder.found,
                "candidates": len(candidates),
                "pools": pool_facts(samples),
            },
        )

    def last(
        self, task: Task, questions: _Events, drawn: list[WeighedEvent], samples: Sequence[Sample]
    ) -> dict[str, tuple[str, ...]]:
        """Return the names of the subject's last event whose rows are all on the chart by then."""
        finder = EventFinder(source=questions.finder.source, policy=self.recipe.policy)
        answers = {}
        for sample in samples:
            prediction_us = to_microseconds(sample.moment)
            before = [event for event in self._events(finder, sample) if event.known_us <= prediction_us]
            if before:
                answers[sample.id] = before[-1].target
        return answers

    def _events(self, finder: EventFinder, sample: Sample) -> list[LabelEvent]:
        rows = self.recipe.store.rows(sample.subject_id, finder.source.table)
        return finder.events(sample.subject_id, rows, self.recipe.encounters.get(sample.subject_id, Encounters.none()))

    def facts(self) -> Mapping[str, Any]:
        recipe = self.recipe
        return {
            "sampling": "direct" if recipe.direct else "eq. 11",
            "label_maps": label_map_facts(recipe.store.spec, self.user_codes),
            **({"stays": self.kinds} if self.kinds else {}),
        }

    def _space(self, task: Task) -> CandidateSpace:
        return next(self.spaces[name] for name in task.answer.spaces if name in self.spaces)


def _role(store: Store, task: Task) -> RowRole | None:
    """Return the role that a task needs, None where the store lacks it."""
    return None if _no_role(store, task) else store.spec.roles.first(task.role)


def _no_role(store: Store, task: Task) -> str | None:
    """Return why a store cannot have a task, None if it can."""
    roles = store.spec.roles
    role = roles.first(task.role)
    if role is None:
        return roles.refuses(task.name) or unplayed(task.role)
    return roles.refuses(task.name) or (None if role.table in store.table_names else _absent(task.role, role.table))


def _absent(role: str, table: str) -> str:
    return f"the store has no table {table!r}, which plays the role `{role}`"


def _without_codes(source: LabelSource, finder: EventFinder, samples: int) -> dict[str, str]:
    """Return what to add where a task has no sample because a code table is missing."""
    if samples or finder.found or source.wants is None:
        return {}
    return {"unavailable": f"no code of {source.table} has a label; {how_to_add(source.wants)}"}


def _official(label: Callable[..., str | None], labels: LabelSet) -> Callable[..., str | None]:
    """Return a labeller that uses the candidate space's spelling, else one spelling for equal labels."""
    spellings: dict[str, str] = {}

    def official(*cells: str | None) -> str | None:
        raw = label(*cells)
        if raw is None or not raw.strip():
            return None
        return labels.resolve(raw) or spellings.setdefault(normalise_label(raw), raw)

    return official
