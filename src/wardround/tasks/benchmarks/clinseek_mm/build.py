"""ClinSeek-Bench with chest films as a family of the pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Unpack

from wardround.core import (
    Reporter,
    UserError,
    content_hash,
    derive_seed,
    format_time,
    parse_time,
    silent,
    to_microseconds,
)
from wardround.records import ImageRole, Store
from wardround.tasks.benchmarks.benchmark import Benchmark, name_of_file, samples_by_class
from wardround.tasks.benchmarks.clinseek.other_futures import stays_over
from wardround.tasks.benchmarks.clinseek.timeline import MOST_EVENTS, Timeline
from wardround.tasks.benchmarks.clinseek_mm.definitions import (
    CLINSEEK_MM_TASKS,
    FAMILY,
    MOST_SAMPLES,
    PUBLISHED_COUNTS,
    mm_name,
)
from wardround.tasks.benchmarks.clinseek_mm.examples import MultimodalExample, image_role, read_examples
from wardround.tasks.benchmarks.clinseek_mm.stand_in import StandIn
from wardround.tasks.benchmarks.drawing import person_id
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildOptions, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import SPLITS, Sample
from wardround.tasks.benchmarks.task import Task
from wardround.tools.candidates import CandidateSpace

_WINDOW = timedelta(hours=24)


def build_clinseek_mm(
    store: Store,
    folder: Path,
    *,
    examples: Path | None = None,
    reports: bool = False,
    vocabulary_shown: bool = True,
    report: Reporter = silent,
    **options: Unpack[BuildOptions],
) -> Benchmark:
    """Build the tasks with pictures from a store and save them.

    ``examples``: a manifest of a user's own; without one they are made of the store's films. ``reports``: asked when
    the latest film's report is there. ``vocabulary_shown``: to both arms, or to neither. ``per_task``: most samples of
    a task in each split (0: as many as the paper has).
    """
    family = ClinSeekMm(examples=examples, reports=reports, vocabulary_shown=vocabulary_shown)
    options.setdefault("per_task", 0)
    return build_family(family, store, folder, BuildSettings(**options), report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinSeekMm:
    """The family: where its examples come from, and what both arms are shown."""

    examples: Path | None = None
    reports: bool = False
    vocabulary_shown: bool = True
    kind: ClassVar[str] = FAMILY
    paper: ClassVar[str] = "ClinSeekAgent, section 3.1 (ClinSeek-Bench, multimodal)"
    has_own_splits: ClassVar[bool] = True

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build."""
        shown = {mm_name(what, shown=self.vocabulary_shown) for what in MOST_SAMPLES}
        named_elsewhere = set() if self.examples is None else {mm_name(what, shown=False) for what in MOST_SAMPLES}
        return [CLINSEEK_MM_TASKS[name] for name in sorted(shown | named_elsewhere)]

    def options(self) -> Mapping[str, Any]:
        """The manifest of examples, and what both arms are shown."""
        examples = None if self.examples is None else name_of_file(self.examples)
        return {"examples": examples, "reports": self.reports, "vocabulary_shown": self.vocabulary_shown}

    def open(self, ground: BuildContext) -> _OpenClinSeekMm:
        """Read the manifest, or make examples of every subject's films. UserError: the store has no pictures."""
        role = image_role(ground.store)
        dropped: Counter[str] = Counter()
        found = self._made(ground, role) if self.examples is None else read_examples(self.examples)
        known = set(ground.store.subjects.tolist())
        by_task: dict[str, list[MultimodalExample]] = {}
        for one in found:
            if one.task not in MOST_SAMPLES:
                raise UserError(f"no task {one.task!r} with pictures; there are {', '.join(MOST_SAMPLES)}")
            if one.subject_id in known:
                by_task.setdefault(self._task_of(one), []).append(one)
            else:
                dropped["subject_not_in_the_store"] += 1
        return _OpenClinSeekMm(ground=ground, family=self, role=role, by_task=by_task, dropped=dropped)

    def _task_of(self, one: MultimodalExample) -> str:
        """An example with a vocabulary of its own is not asked with the task's."""
        return mm_name(one.task, shown=self.vocabulary_shown and not one.vocabulary)

    def _made(self, ground: BuildContext, role: ImageRole) -> list[MultimodalExample]:
        maker = StandIn(role=role, reports=self.reports, seed=ground.settings.seed)
        subjects = ground.store.subjects.tolist()
        timelines = (Timeline(ground.store, subject, ground.settings.policy) for subject in subjects)
        return [one.example for timeline in timelines for one in maker.examples(timeline)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenClinSeekMm:
    ground: BuildContext
    family: ClinSeekMm
    role: ImageRole
    by_task: Mapping[str, list[MultimodalExample]]
    dropped: Counter[str]

    @property
    def spaces(self) -> Mapping[str, CandidateSpace]:
        return {}

    def unavailable(self, task: Task) -> str | None:
        return None if self.by_task.get(task.name) else "no film of this store gives an example of it"

    def questions(self, task: Task) -> list[MultimodalExample]:
        return self.by_task[task.name]

    def draw(self, task: Task, questions: list[MultimodalExample]) -> list[MultimodalExample]:
        """By a number of each example's own, whatever its answer; one of a subject before a second."""
        most = self.ground.settings.per_task or MOST_SAMPLES[task.name.split(".")[1]]
        seed = self.ground.settings.seed
        order = sorted(questions, key=lambda one: derive_seed(seed, task.name, one.subject_id, one.cutoff, one.asked))
        turn: Counter[int] = Counter()
        ranked: list[tuple[int, int, MultimodalExample]] = []
        for one in order:
            ranked.append((turn[one.subject_id], len(ranked), one))
            turn[one.subject_id] += 1
        drawn = []
        for split in SPLITS:
            drawn += [one for *_, one in sorted(ranked, key=lambda each: each[:2]) if self._split(one) == split][:most]
        return sorted(drawn, key=lambda one: (one.subject_id, one.cutoff, one.asked))

    def samples(self, task: Task, questions: list[MultimodalExample], drawn: list[MultimodalExample]) -> list[Sample]:
        return [self._sample(task, one) for one in drawn]

    def describe(
        self,
        task: Task,
        questions: list[MultimodalExample],
        drawn: list[MultimodalExample],
        samples: Sequence[Sample],
    ) -> TaskFacts:
        said: dict[str, Any] = {"title": task.title, "group": task.about, "questions": len(questions)}
        if task.answer.label_values:
            said["samples_by_class"] = samples_by_class(samples)
        return TaskFacts(said=said, drops={"not_drawn": len(questions) - len(drawn)})

    def last(
        self,
        task: Task,
        questions: list[MultimodalExample],
        drawn: list[MultimodalExample],
        samples: Sequence[Sample],
    ) -> str:
        return "an example is asked once, so what an earlier one was answered with is not known"

    def facts(self) -> Mapping[str, Any]:
        manifest = self.family.examples
        return {
            "splits": "the data set's own" if self.ground.store.splits() else "by hash of seed and person",
            "examples": "made of the store's own films" if manifest is None else content_hash(manifest.read_bytes()),
            "reports": self.family.reports,
            "vocabulary_shown": self.family.vocabulary_shown,
            "left_out": dict(self.dropped),
        }

    def _split(self, one: MultimodalExample) -> str:
        return self.ground.splits[one.subject_id]

    def _sample(self, task: Task, one: MultimodalExample) -> Sample:
        moment = parse_time(one.cutoff)
        told = content_hash([one.asked, list(one.images)])[:8]
        return Sample(
            id=f"{task.name}-{one.subject_id}-{moment:%Y%m%dT%H%M%S}-{told}",
            task=task.name,
            subject_id=one.subject_id,
            person_id=person_id(self.ground.store, one.subject_id),
            prediction_time=moment,
            target=tuple(sorted(set(one.answer))),
            split=self.ground.splits[one.subject_id],
            stratum="any",
            facts={
                "event_time": one.event_time,
                "row_ids": list(one.row_ids),
                "curated_from": format_time(moment - _WINDOW),
                "curated_events": MOST_EVENTS,
                "asked": self._asked(one),
                "images": self._handles(one),
            },
        )

    def _asked(self, one: MultimodalExample) -> str:
        if not one.vocabulary or not self.family.vocabulary_shown:
            return one.asked
        return f"{one.asked} Answer with names out of: {'; '.join(one.vocabulary)}."

    def _handles(self, one: MultimodalExample) -> list[str]:
        """The row ids of the linked pictures. UserError: one is not in the store."""
        rows = self.ground.store.rows(one.subject_id, self.role.table)
        named = dict(zip(rows.column(self.role.id).to_pylist(), rows.column("row_id").to_pylist(), strict=True))
        absent = [image for image in one.images if image not in named]
        if absent:
            raise UserError(f"no picture {absent[0]!r} of subject {one.subject_id} in the store")
        return [named[image] for image in one.images]


# The questions with pictures that could be asked by some moments: what must be the same in another future.


def possible_film_questions(
    store: Store, moments: Mapping[int, datetime]
) -> tuple[dict[tuple[str, int, str], bool], dict[str, str]]:
    """Return every question about films that a subject is asked by its moment, with whether what made it be asked was
    known by then; and the tasks that the store cannot ask, with the reasons."""
    tasks = {what: mm_name(what, shown=True) for what in PUBLISHED_COUNTS}
    try:
        maker = StandIn(role=image_role(store), reports=False)
    except UserError as error:
        return {}, dict.fromkeys(tasks.values(), str(error))
    settled: dict[tuple[str, int, str], bool] = {}
    for subject in sorted(moments.keys() & set(store.subjects.tolist())):
        now, over = to_microseconds(moments[subject]), stays_over(store.chart(subject, moments[subject]))
        for one in maker.examples(Timeline(store, subject, "known_at")):
            example = one.example
            if parse_time(example.cutoff) <= moments[subject]:
                told = content_hash([example.asked, list(example.images)])[:8]
                known = one.settled <= now and (one.stay in over or not one.told_late)
                settled[tasks[example.task], subject, f"{example.cutoff}-{told}"] = known
    return settled, {}
