"""The EHRSHOT benchmark: its fifteen tasks on any store whose places are declared.

Labels come from the trusted store; what reaches an agent is the chart. Definitions: docs/design/2026-11-21-ehrshot.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wardround import __version__
from wardround.benchmarks.benchmark import Benchmark, must_be_new
from wardround.benchmarks.ehrshot.chexpert import ReportLabels, read_labels, report_questions
from wardround.benchmarks.ehrshot.concepts import Concept, load_concepts
from wardround.benchmarks.ehrshot.hierarchy import descendants
from wardround.benchmarks.ehrshot.labelling import Labeller, Questions
from wardround.benchmarks.ehrshot.matching import CodeMatcher
from wardround.benchmarks.ehrshot.places import Places, places_of
from wardround.benchmarks.ehrshot.record import FirstEvents, Record, read_record
from wardround.benchmarks.ehrshot.rules import NO_TIME, Ints
from wardround.benchmarks.ehrshot.sampling import draw
from wardround.benchmarks.ehrshot.thresholds import rules_of
from wardround.benchmarks.facts import CLOCKS, source_facts
from wardround.benchmarks.hindsight import hindsight_facts
from wardround.benchmarks.sample import SPLITS, Sample, Split
from wardround.benchmarks.split import DEFAULT_FRACTIONS, Fractions, check_fractions, person_id, split_of
from wardround.benchmarks.task import EHRSHOT_TASKS, Task, get_task
from wardround.core import Reporter, UserError, content_hash, format_time, from_microseconds, silent
from wardround.records import Policy, Store

_SPLIT_NAMES: Mapping[str, Split] = {"train": "train", "tuning": "dev", "held_out": "test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    store: Store
    places: Places
    policy: Policy
    seed: int
    per_task: int
    per_subject: int | None
    splits: Mapping[int, Split]
    matchers: Mapping[str, tuple[CodeMatcher, ...]]
    """By task."""


def build_ehrshot(
    store: Store,
    folder: Path,
    *,
    seed: int = 0,
    policy: Policy = "known_at",
    tasks: Sequence[str] = (),
    per_task: int = 600,
    per_subject: int | None = None,
    fractions: Fractions = DEFAULT_FRACTIONS,
    allow_missing: bool = False,
    chexpert_labels: Path | None = None,
    report: Reporter = silent,
) -> Benchmark:
    """Build the tasks from a store and save them; all fifteen unless some are named.

    ``per_task`` is the most samples of a task in each split (0: all), ``per_subject`` the most of one subject.
    UserError: a concept matches no code of the store; ``allow_missing`` makes that a task that is called unavailable.
    """
    must_be_new(folder)
    wanted = [_task(name) for name in sorted(set(tasks) or set(EHRSHOT_TASKS))]
    check_fractions(fractions)
    if policy not in CLOCKS:
        raise UserError(f"unknown clock policy {policy!r}; known are {', '.join(CLOCKS)}")
    if per_task < 0 or (per_subject is not None and per_subject < 1):
        raise UserError("per_task must be 0 (all) or more, per_subject at least 1")
    places = places_of(store.spec)
    matchers = _matchers(store, places, [task.name for task in wanted])
    record = read_record(
        store,
        places,
        _flat(matchers, "lab_"),
        _flat(matchers, "new_"),
        report=report,
        spans=any(not task.name.startswith(("lab_", "chexpert")) for task in wanted),
    )
    recipe = _Recipe(
        store=store,
        places=places,
        policy=policy,
        seed=seed,
        per_task=per_task,
        per_subject=per_subject,
        splits=_splits(store, seed, fractions),
        matchers=matchers,
    )
    begins = FirstEvents(store=store, places=places, record=record)
    labeller = Labeller(places=places, record=record, begins=begins, policy=policy)
    reports = read_labels(chexpert_labels) if chexpert_labels is not None else None
    built: dict[str, tuple[list[Sample], dict[str, Any]]] = {}
    for task in wanted:
        reason = _unavailable(recipe, task, record, reports)
        if reason and not (allow_missing or task.name == "chexpert" or places.refuses(task.name)):
            raise UserError(f"{reason}; leave the task out with --task, or build the rest with --allow-missing")
        if reason:
            built[task.name] = ([], {"title": task.title, "unavailable": reason})
            continue
        if reports is not None and places.reports is not None and task.name == "chexpert":
            questions = report_questions(store, places.reports, reports, begins)
        else:
            questions = labeller.questions(task.name)
        built[task.name] = _build_task(recipe, task, questions, record.units.get(task.name, Counter()))
    samples = tuple(sample for made, _ in built.values() for sample in made)
    if not samples:
        raise UserError("no question of any task could be asked in this store; nothing was written")
    manifest = {
        "name": "ehrshot",
        "paper": "EHRSHOT (tasks), EHR-RAG appendix C (questions)",
        "wardround": __version__,
        "policy": policy,
        "clocks": CLOCKS[policy],
        "seed": seed,
        "fractions": list(fractions),
        "splits": "the data set's own" if store.splits() else "by hash of seed and person",
        "per_task": per_task,
        "per_subject": per_subject,
        "sampling": "uniform within each split, not by class",
        "concepts_sha256": content_hash([repr(concept) for concept in load_concepts().values()]),
        "places_sha256": content_hash(repr(places)),
        "source": source_facts(store),
        "subjects": {"total": len(recipe.splits)} | {split: _count(recipe.splits, split) for split in SPLITS},
        "tasks": {name: said for name, (_, said) in built.items()},
        "stays": {kind: dict(counts) for kind, counts in sorted(record.kinds.items())},
        "hindsight": hindsight_facts(wanted, store.spec.name),
        "answer_rules": {task.name: rules_of(load_concepts().get(task.name)).to_json() for task in wanted},
        "drops": {name: said.pop("drops") for name, (_, said) in built.items() if "drops" in said},
    }
    return Benchmark(manifest=manifest, all_samples=samples).save(folder)


def _task(name: str) -> Task:
    task = get_task(name)
    if task.family != "ehrshot":
        raise UserError(f"{name!r} is no task of EHRSHOT; its tasks are {', '.join(EHRSHOT_TASKS)}")
    return task


def _matchers(store: Store, places: Places, tasks: Sequence[str]) -> dict[str, tuple[CodeMatcher, ...]]:
    """One matcher per place, shared by the tasks that look there."""
    concepts = load_concepts()
    found: dict[str, tuple[CodeMatcher, ...]] = {}
    for kind, kind_places in (("lab_", places.labs), ("new_", places.diagnoses)):
        chosen: list[Concept] = [concepts[task] for task in tasks if task.startswith(kind)]
        below = {concept.task: descendants(store, places, concept) for concept in chosen}
        made = tuple(
            CodeMatcher(place=place, concepts=chosen, descendants=below)
            for place in kind_places
            if place.table in store.table_names
        )
        for matcher in made:
            matcher.read_dictionary(store)
        found.update({concept.task: made for concept in chosen})
    return found


def _flat(matchers: Mapping[str, tuple[CodeMatcher, ...]], kind: str) -> tuple[CodeMatcher, ...]:
    return next((made for task, made in matchers.items() if task.startswith(kind)), ())


def _splits(store: Store, seed: int, fractions: Fractions) -> dict[int, Split]:
    """The data set's own splits where it has some; a subject it does not name is split like any other."""
    own = store.splits()
    return {
        subject: _SPLIT_NAMES.get(own.get(subject, "")) or split_of(store.person_of(subject), seed, fractions)
        for subject in store.subjects.tolist()
    }


def _unavailable(recipe: _Recipe, task: Task, record: Record, reports: ReportLabels | None) -> str | None:
    """Say why a task cannot be built here, None if it can."""
    source = recipe.store.spec.name
    if recipe.places.refuses(task.name):
        return f"{task.name}: {recipe.places.refuses(task.name)}"
    if task.name == "chexpert":
        if reports is None:
            return "chexpert: no labels; EHRSHOT hands them out apart, give them with --chexpert-labels FILE"
        if recipe.places.reports is None or recipe.places.reports.table not in recipe.store.table_names:
            return f"chexpert: source {source!r} has no table of radiology reports"
    if not task.name.startswith(("lab_", "chexpert")) and not any(map(len, record.stays.values())):
        looked = recipe.places.stays.looked_for()
        return f"{task.name}: no row of source {source!r} is a stay in hospital; looked for {looked}"
    if task.name == "guo_icu" and not any(map(len, record.icu_stays.values())):
        looked = recipe.places.icu_stays.looked_for() if recipe.places.icu_stays else "nothing, as none is declared"
        return f"guo_icu: no row of source {source!r} is a stay in intensive care; looked for {looked}"
    if task.name not in load_concepts():
        return None
    matchers = recipe.matchers[task.name]
    if not matchers:
        places = recipe.places.labs if task.name.startswith("lab_") else recipe.places.diagnoses
        return f"{task.name}: the store has no table {' or '.join(dict.fromkeys(place.table for place in places))}"
    if any(matcher.rows.get(task.name) or matcher.listed.get(task.name) for matcher in matchers):
        return None
    nameless = [matcher for matcher in matchers if matcher.coded == 0 and matcher.place.dictionary]
    if len(nameless) == len(matchers):
        place = nameless[0].place
        where = f"{place.table}.{place.code} is empty in every row"
        return f"{task.name}: {where}, as the vocabulary {place.dictionary['name']!r} is not there or lacks its codes"
    concept = load_concepts()[task.name]
    where = ", ".join(f"{matcher.place.table}.{matcher.place.code}" for matcher in matchers) or "no table of this store"
    said = f"{task.name}: no code of {concept.title!r} in source {source!r} ({where})"
    return f"{said}; looked for {concept.looked_for()}"


def _build_task(
    recipe: _Recipe, task: Task, questions: Questions, units: Mapping[str, int]
) -> tuple[list[Sample], dict[str, Any]]:
    """Draw and write down one task; return its samples and what the manifest says of it."""
    drawn = draw(
        questions,
        recipe.splits,
        task=task.name,
        seed=recipe.seed,
        per_task=recipe.per_task,
        per_subject=recipe.per_subject,
    )
    samples = _samples(recipe, task, questions, drawn)
    concept = load_concepts().get(task.name)
    said: dict[str, Any] = {
        "title": task.title,
        "prompt": {"name": task.prompt.name, "version": task.prompt.version, "sha256": task.prompt.sha256},
        "classes": task.answer.class_names,
        "questions": len(questions),
        "subjects": len(np.unique(questions.subjects)),
        "by_class": _by_class(task, questions.values),
        "samples_by_class": {
            split: dict(sorted(Counter(label for one in samples if one.split == split for label in one.target).items()))
            for split in SPLITS
        },
        "drops": {reason: count for reason, count in sorted(questions.dropped.items()) if count}
        | {"not_drawn": len(questions) - len(drawn)},
    }
    if questions.short is not None:
        said["no_with_short_follow_up"] = questions.short
    if concept is not None:
        matchers = recipe.matchers[task.name]
        rows = sum((matcher.rows.get(task.name, Counter()) for matcher in matchers), Counter())
        said["code_rows"] = dict(rows.most_common())
        said["codes_without_rows"] = sorted(
            {code for matcher in matchers for code in matcher.listed.get(task.name, ())} - set(rows)
        )
    if concept is not None and concept.is_result:
        said["units"] = {unit: {"rows": n, "factor": concept.factor(unit)} for unit, n in sorted(units.items())}
    return samples, said


def _samples(recipe: _Recipe, task: Task, questions: Questions, drawn: Ints) -> list[Sample]:
    """Make samples of the drawn questions; their rows' ids are looked up now, for these only."""
    ids = _RowIds(recipe.store)
    seen: Counter[tuple[int, int]] = Counter()
    made = []
    answer = _answer(task)
    for place in drawn.tolist():
        subject, asked = int(questions.subjects[place]), int(questions.predictions[place])
        row, event, stay = (int(column[place]) for column in (questions.rows, questions.events, questions.stays))
        table = questions.tables[int(questions.table_of[place])]
        of_stay = row == stay and table == recipe.places.stays.table
        moment = from_microseconds(asked)
        seen[subject, asked] += 1
        again = f"-{seen[subject, asked]}" if seen[subject, asked] > 1 else ""
        made.append(
            Sample(
                id=f"{task.name}-{subject}-{moment:%Y%m%dT%H%M%S}{again}",
                task=task.name,
                subject_id=subject,
                person_id=person_id(recipe.store, subject),
                prediction_time=moment,
                target=answer(int(questions.values[place])),
                split=recipe.splits[subject],
                stratum="any",
                facts={
                    "event_time": None if event == NO_TIME else format_time(from_microseconds(event)),
                    **_answer_place(recipe.places, "" if row < 0 else ids.of(subject, table, row), of_stay),
                    **({"stay": ids.of(subject, recipe.places.stays.table, stay)} if stay >= 0 else {}),
                },
            )
        )
    return made


def _answer_place(places: Places, row_id: str, is_of_stay: bool) -> dict[str, Any]:
    """Say which row no chart may show when the question is asked, or, where that is the row of the stay itself, which
    cells of it."""
    if row_id and is_of_stay:
        return {"row_ids": [], "late_cells": {row_id: list(places.stays.ends)}}
    return {"row_ids": [row_id] if row_id else []}


def _answer(task: Task) -> Callable[[int], tuple[str, ...]]:
    """What turns a value into a target: itself, or with several labels the bits that are set."""
    if not task.answer.several:
        return lambda value: (str(value),)
    positive = task.answer.label_values[1:]
    return lambda value: (
        tuple(sorted(label for bit, label in enumerate(positive) if value >> bit & 1)) or (task.answer.label_values[0],)
    )


def _by_class(task: Task, values: Ints) -> dict[str, int]:
    answer = _answer(task)
    counts: Counter[str] = Counter()
    for value, count in zip(*(column.tolist() for column in np.unique(values, return_counts=True)), strict=True):
        counts.update(dict.fromkeys(answer(value), count))
    return {value: counts[value] for value in task.answer.label_values}


def _count(splits: Mapping[int, Split], split: Split) -> int:
    return sum(one == split for one in splits.values())


class _RowIds:
    """Ids of rows by their place, one subject's table at a time: samples come in the order of subjects."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: tuple[int, str] | None = None
        self._ids: Any = None

    def of(self, subject_id: int, table: str, row: int) -> str:
        """Return a row's id."""
        if self._held != (subject_id, table):
            self._held, self._ids = (subject_id, table), self._store.rows(subject_id, table).column("row_id")
        return str(self._ids[row].as_py())
