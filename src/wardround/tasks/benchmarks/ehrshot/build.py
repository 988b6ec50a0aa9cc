"""The EHRSHOT benchmark: its fifteen tasks on any store that declares the needed places.

Labels come from the trusted store; an agent sees only the chart. Definitions: docs/design/2026-11-21-ehrshot.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np

from wardround.core import Reporter, UserError, content_hash, silent
from wardround.records import Store
from wardround.tasks.benchmarks.benchmark import Benchmark, name_of_file, samples_by_class
from wardround.tasks.benchmarks.ehrshot.concepts import (
    CodeMatcher,
    Places,
    TaskConcept,
    descendants,
    load_concepts,
    places_of,
    rules_of,
)
from wardround.tasks.benchmarks.ehrshot.labelling import (
    Labeller,
    Questions,
    ReportLabels,
    read_labels,
    report_questions,
)
from wardround.tasks.benchmarks.ehrshot.record import FirstEvents, SubjectRecord, read_record
from wardround.tasks.benchmarks.ehrshot.samples import by_class, draw, last_answers, make_samples
from wardround.tasks.benchmarks.encounters import Ints
from wardround.tasks.benchmarks.pipeline import BoundedOptions, BuildContext, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import EHRSHOT_TASKS, Task, get_task
from wardround.tools.candidates import CandidateSpace

_OF_STAYS = ("stay", "diagnosis")
"""Kinds of tasks with questions at a moment of a hospital stay."""


def build_ehrshot(
    store: Store,
    folder: Path,
    *,
    tasks: Sequence[str] = (),
    allow_missing: bool = False,
    chexpert_labels: Path | None = None,
    report: Reporter = silent,
    **options: Unpack[BoundedOptions],
) -> Benchmark:
    """Build the tasks from a store and save them: all fifteen, or the named ones.

    ``per_task`` limits the samples of a task in each split (0: no limit), ``per_subject`` those of one subject.
    UserError: a concept matches no code of the store; with ``allow_missing`` such a task is unavailable instead. A
    class that is the answer to no question is noted in the manifest.
    """
    family = EhrShot(
        names=tuple(sorted(set(tasks) or set(EHRSHOT_TASKS))),
        allow_missing=allow_missing,
        chexpert_labels=chexpert_labels,
    )
    return build_family(family, store, folder, BuildSettings(**options), report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class EhrShot:
    """The family: the tasks to build.

    ``allow_missing``: a task whose codes the store lacks is unavailable.
    """

    names: tuple[str, ...] = tuple(EHRSHOT_TASKS)
    allow_missing: bool = False
    chexpert_labels: Path | None = None
    kind: ClassVar[str] = "ehrshot"
    paper: ClassVar[str] = "EHRSHOT (tasks), EHR-RAG appendix C (questions)"
    has_own_splits: ClassVar[bool] = True

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build."""
        return [_task(name) for name in self.names]

    def options(self) -> Mapping[str, Any]:
        """Return the tasks and the file of report labels."""
        labels = None if self.chexpert_labels is None else name_of_file(self.chexpert_labels)
        return {"tasks": list(self.names), "allow_missing": self.allow_missing, "chexpert_labels": labels}

    def open(self, context: BuildContext) -> _OpenEhrShot:
        """Find the codes of the tasks' concepts and read the record once for all tasks."""
        store = context.store
        places = places_of(store.spec)
        matchers = _matchers(store, places, self.tasks)
        record = read_record(
            store,
            places,
            _matchers_about(matchers, "result"),
            _matchers_about(matchers, "diagnosis"),
            policy=context.settings.policy,
            report=context.report,
            spans=any(task.about in _OF_STAYS for task in self.tasks),
        )
        begins = FirstEvents(store=store, places=places, record=record, policy=context.settings.policy)
        return _OpenEhrShot(
            context=context,
            places=places,
            allow_missing=self.allow_missing,
            matchers=matchers,
            record=record,
            begins=begins,
            labeller=Labeller(places=places, record=record, begins=begins, policy=context.settings.policy),
            reports=None if self.chexpert_labels is None else read_labels(self.chexpert_labels),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenEhrShot:
    context: BuildContext
    places: Places
    allow_missing: bool
    matchers: Mapping[str, tuple[CodeMatcher, ...]]
    """By task."""
    record: SubjectRecord
    begins: FirstEvents
    labeller: Labeller
    reports: ReportLabels | None

    @property
    def spaces(self) -> Mapping[str, CandidateSpace]:
        return {}

    def unavailable(self, task: Task) -> str | None:
        reason = self._reason(task)
        if reason and not (self.allow_missing or task.about == "report" or self.places.refuses(task.name)):
            raise UserError(f"{reason}; leave the task out with --task, or build the rest with --allow-missing")
        return reason

    def questions(self, task: Task) -> Questions:
        if self.reports is not None and self.places.reports is not None and task.about == "report":
            return report_questions(self.context.store, self.places.reports, self.reports, self.begins)
        return self.all_questions(task).answered()

    def all_questions(self, task: Task) -> Questions:
        """Return every question of a task of stays, results or diagnoses, with or without a known answer."""
        return self.labeller.questions(task.name)

    def draw(self, task: Task, questions: Questions) -> Ints:
        settings = self.context.settings
        return draw(
            questions,
            self.context.splits,
            task=task.name,
            seed=settings.seed,
            per_task=settings.per_task,
            per_subject=settings.per_subject,
        )

    def samples(self, task: Task, questions: Questions, drawn: Ints) -> list[Sample]:
        return make_samples(self.context.store, self.places, self.context.splits, task, questions, drawn)

    def describe(self, task: Task, questions: Questions, drawn: Ints, samples: Sequence[Sample]) -> TaskFacts:
        concept = load_concepts().get(task.name)
        details: dict[str, Any] = {
            "title": task.title,
            "prompt": {"name": task.prompt.name, "version": task.prompt.version, "sha256": task.prompt.sha256},
            "classes": task.answer.class_names,
            "questions": len(questions),
            "subjects": len(np.unique(questions.subjects)),
            "by_class": by_class(task, questions.values),
            "samples_by_class": samples_by_class(samples),
        }
        if questions.short is not None:
            details["no_with_short_follow_up"] = questions.short
        return TaskFacts(
            rules=rules_of(concept).to_json(),
            details=details | self._code_facts(concept),
            answers=details["by_class"],
            drops={reason: count for reason, count in sorted(questions.dropped.items()) if count}
            | {"not_drawn": len(questions) - len(drawn)},
        )

    def last(
        self, task: Task, questions: Questions, drawn: Ints, samples: Sequence[Sample]
    ) -> dict[str, tuple[str, ...]]:
        """Return the class of the subject's last question whose answer is on the chart by then."""
        return last_answers(self.context.store, self.places, task, questions, drawn, samples)

    def facts(self) -> Mapping[str, Any]:
        return {
            "splits": "the data set's own" if self.context.store.splits() else "by hash of seed and person",
            "per_subject": self.context.settings.per_subject,
            "sampling": "uniform within each split, not by class",
            "concepts_sha256": content_hash([repr(concept) for concept in load_concepts().values()]),
            "places_sha256": content_hash(repr(self.places)),
            "stays": {kind: dict(counts) for kind, counts in sorted(self.record.kinds.items())},
        }

    def _code_facts(self, concept: TaskConcept | None) -> dict[str, Any]:
        """Return the codes of a concept, and the units of its results."""
        if concept is None:
            return {}
        matchers = self.matchers[concept.task]
        rows = sum((matcher.rows.get(concept.task, Counter()) for matcher in matchers), Counter[str]())
        listed = {code for matcher in matchers for code in matcher.listed.get(concept.task, ())}
        facts: dict[str, Any] = {
            "code_rows": dict(rows.most_common()),
            "codes_without_rows": sorted(listed - set(rows)),
        }
        if concept.is_result:
            units = self.record.units.get(concept.task, Counter())
            facts["units"] = {unit: {"rows": n, "factor": concept.factor(unit)} for unit, n in sorted(units.items())}
        return facts

    def _reason(self, task: Task) -> str | None:
        """Return why a task cannot be built here, None if it can."""
        source = self.context.store.spec.name
        if self.places.refuses(task.name):
            return f"{task.name}: {self.places.refuses(task.name)}"
        if task.about == "report":
            if self.reports is None:
                return "chexpert: no labels; EHRSHOT distributes them separately, pass them with --chexpert-labels FILE"
            if self.places.reports is None or self.places.reports.table not in self.context.store.table_names:
                return f"chexpert: source {source!r} has no table of radiology reports"
        if task.about in _OF_STAYS and not any(map(len, self.record.stays.values())):
            looked_for = self.places.stays.looked_for()
            return f"{task.name}: no row of source {source!r} is a stay in hospital; looked for {looked_for}"
        if task.name == "guo_icu" and not any(map(len, self.record.icu_stays.values())):
            looked_for = self.places.icu_stays.looked_for() if self.places.icu_stays else "nothing, as none is declared"
            return f"guo_icu: no row of source {source!r} is a stay in intensive care; looked for {looked_for}"
        if task.name not in load_concepts():
            return None
        matchers = self.matchers[task.name]
        if not matchers:
            role, places = ("lab", self.places.labs) if task.about == "result" else ("diagnosis", self.places.diagnoses)
            if not places:
                return f"{task.name}: no table plays the role `{role}` with `code` and `system`; see docs/roles.md"
            return f"{task.name}: the store has no table {' or '.join(dict.fromkeys(place.table for place in places))}"
        if any(matcher.rows.get(task.name) or matcher.listed.get(task.name) for matcher in matchers):
            return None
        nameless = [matcher for matcher in matchers if matcher.coded == 0 and matcher.place.dictionary]
        if len(nameless) == len(matchers):
            place = nameless[0].place
            where = f"{place.table}.{place.code} is empty in every row"
            return f"{task.name}: {where}, as the vocabulary {place.dictionary['name']!r} is missing or lacks its codes"
        concept = load_concepts()[task.name]
        where = (
            ", ".join(f"{matcher.place.table}.{matcher.place.code}" for matcher in matchers) or "no table of this store"
        )
        message = f"{task.name}: no code of {concept.title!r} in source {source!r} ({where})"
        return f"{message}; looked for {concept.looked_for()}"


def _task(name: str) -> Task:
    task = get_task(name)
    if task.family != "ehrshot":
        raise UserError(f"unknown EHRSHOT task {name!r}; the tasks are {', '.join(EHRSHOT_TASKS)}")
    return task


def _matchers(store: Store, places: Places, tasks: Sequence[Task]) -> dict[str, tuple[CodeMatcher, ...]]:
    """Return one matcher per place, shared by the tasks that use it."""
    concepts = load_concepts()
    matchers_by_task: dict[str, tuple[CodeMatcher, ...]] = {}
    for about, its_places in (("result", places.labs), ("diagnosis", places.diagnoses)):
        chosen: list[TaskConcept] = [concepts[task.name] for task in tasks if task.about == about]
        descendant_codes = {concept.task: descendants(store, places, concept) for concept in chosen}
        matchers = tuple(
            CodeMatcher(place=place, concepts=chosen, descendants=descendant_codes)
            for place in its_places
            if place.table in store.table_names
        )
        for matcher in matchers:
            matcher.read_dictionary(store)
        matchers_by_task.update({concept.task: matchers for concept in chosen})
    return matchers_by_task


def _matchers_about(matchers: Mapping[str, tuple[CodeMatcher, ...]], about: str) -> tuple[CodeMatcher, ...]:
    return next((made for task, made in matchers.items() if get_task(task).about == about), ())
