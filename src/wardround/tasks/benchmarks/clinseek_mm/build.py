"""ClinSeek-Bench with chest films as a family of the pipeline, with examples from a store's own films."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Unpack

from wardround.clinical.codes import load_ccs
from wardround.core import (
    Reporter,
    UserError,
    content_hash,
    derive_seed,
    format_time,
    from_microseconds,
    parse_time,
    silent,
    to_microseconds,
)
from wardround.records import ImageRole, Store
from wardround.tasks.benchmarks.benchmark import Benchmark, name_of_file, samples_by_class
from wardround.tasks.benchmarks.clinseek.timeline import HOUR, MAX_EVENTS, Span, Timeline, ended_stay_rows
from wardround.tasks.benchmarks.clinseek_mm.examples import (
    CLINSEEK_MM_TASKS,
    FAMILY,
    MAX_SAMPLES,
    NO_CHANGE,
    PHENOTYPES,
    PUBLISHED_COUNTS,
    Film,
    MultimodalExample,
    films_of,
    image_role,
    mm_name,
    read_examples,
)
from wardround.tasks.benchmarks.drawing import person_id
from wardround.tasks.benchmarks.encounters import NO_TIME
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildOptions, BuildSettings, TaskFacts, build_family
from wardround.tasks.benchmarks.sample import SPLITS, Sample
from wardround.tasks.benchmarks.task import Task
from wardround.tools.candidates import CandidateSpace, role_labels

FIRST_HOUR, LAST_HOUR = 5, 48
"""MedMod predicts death at every whole hour after the fourth; here within the first two days."""
_DAY = 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleExample:
    """An example, and when it became possible.

    ``settled_us``: when everything is known that makes it an example. With ``kind_is_late`` the row of its ``stay``
    must also show its end.
    """

    example: MultimodalExample
    settled_us: int
    stay: str = ""
    kind_is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """Builds examples from a subject's own films.

    ``reports``: the question comes after the latest film's report.
    """

    role: ImageRole
    reports: bool
    seed: int = 0

    def examples(self, timeline: Timeline) -> Iterator[PossibleExample]:
        """Yield every example of a subject, in no order."""
        films = films_of(timeline, self.role)
        read = [film for film in films if film.findings]
        for index in range(len(read)):
            yield from self._of_film(timeline.subject, read[: index + 1])
        for span in timeline.spans("stay"):
            yield from self._of_stay(timeline, span, films)

    def _of_film(self, subject: int, films: Sequence[Film]) -> Iterator[PossibleExample]:
        latest = films[-1]
        present = sorted(name for name, yes in latest.findings.items() if yes)
        for name, yes in sorted(latest.findings.items()):
            text = f"Does the latest linked chest radiograph show {name}?"
            yield self._finding("finding_presence", subject, films[-1:], ("1" if yes else "0",), text)
        if present:
            yield self._finding("finding_enumeration", subject, films[-1:], present)
        earlier = {name for film in films for name, yes in film.findings.items() if yes}
        if len(films) > 1:
            yield self._finding("finding_enumeration_stay", subject, films, sorted(earlier) or present)
            before = films[-2].findings
            new = [name for name in present if not before.get(name, False)]
            yield self._finding("finding_change", subject, films[-2:], new or [NO_CHANGE])

    def _finding(
        self, task: str, subject: int, films: Sequence[Film], answer: Sequence[str], text: str = ""
    ) -> PossibleExample:
        """Build a question about films.

        With ``reports`` the latest report is on the chart; else the latest film's labels must not be on the chart yet.
        """
        latest = films[-1]
        reported = max(film.reported or film.taken_us for film in films)
        prediction_us = latest.reported if self.reports and latest.reported is not None else latest.taken_us
        example = MultimodalExample(
            task=task,
            subject_id=subject,
            cutoff=time_text(prediction_us),
            answer=tuple(answer),
            images=tuple(film.image for film in films),
            asked=text,
            event_time=time_text(latest.reported)
            if latest.reported is not None and latest.reported > prediction_us
            else None,
            row_ids=() if self.reports else latest.rows,
        )
        return PossibleExample(example=example, settled_us=reported)

    def _of_stay(self, timeline: Timeline, span: Span, films: Sequence[Film]) -> Iterator[PossibleExample]:
        """Yield the death questions of a stay and its phenotype question at the end."""
        stay = stay_around(timeline, span)
        if span.end == NO_TIME or stay is None:
            return
        hour = FIRST_HOUR + derive_seed(self.seed, "hour", timeline.subject, span.start) % (LAST_HOUR - FIRST_HOUR + 1)
        for task, prediction_us in (
            ("mortality_24h", span.start + hour * HOUR),
            ("mortality_inpatient", span.start + 2 * _DAY),
        ):
            linked = [film for film in films if span.start <= film.taken_us <= prediction_us]
            if linked and prediction_us < span.end and not died_by(timeline, stay, prediction_us):
                example = death_example(task, timeline, stay, prediction_us, linked)
                yield _span_example(example, span, prediction_us)
        linked = [film for film in films if span.start <= film.taken_us <= span.end]
        answer, coded = coded_phenotypes(timeline, stay)
        if linked and answer and span.end < stay.end:
            example = phenotype_example(timeline, stay, span.end, answer, coded, linked)
            yield _span_example(example, span, stay.end)


def _span_example(example: MultimodalExample, span: Span, until: int) -> PossibleExample:
    settled_us = max(until + 1, span.known)
    return PossibleExample(example=example, settled_us=settled_us, stay=span.row_id, kind_is_late=span.kind_is_late)


def stay_around(timeline: Timeline, span: Span) -> Span | None:
    """Return the hospital stay in which a stay in intensive care began."""
    return next((stay for stay in timeline.spans("admission") if stay.start <= span.start <= stay.end), None)


def died_by(timeline: Timeline, stay: Span, moment: int) -> bool:
    """Return whether a death in a stay happened by a moment."""
    return any(stay.start <= time <= moment for time in timeline.deaths.tolist())


def death_example(
    task: str, timeline: Timeline, stay: Span, prediction_us: int, films: Sequence[Film], *, yes: bool | None = None
) -> MultimodalExample:
    """Build a question about death within 24 hours, or in the stay.

    ``yes``: a data set's own answer, used instead of the record's.
    """
    last = prediction_us + _DAY if task == "mortality_24h" else stay.end
    deaths = [time for time in timeline.deaths.tolist() if prediction_us < time <= last]
    return MultimodalExample(
        task=task,
        subject_id=timeline.subject,
        cutoff=time_text(prediction_us),
        answer=("1" if (bool(deaths) if yes is None else yes) else "0",),
        images=tuple(film.image for film in films),
        event_time=time_text(deaths[0]) if deaths else None,
    )


def phenotype_example(
    timeline: Timeline,
    stay: Span,
    prediction_us: int,
    answer: Sequence[str],
    code_rows: tuple[str, ...],
    films: Sequence[Film],
) -> MultimodalExample:
    """Build a question about the codes of a stay; ``code_rows`` are the rows of its codes."""
    return MultimodalExample(
        task="phenotypes",
        subject_id=timeline.subject,
        cutoff=time_text(prediction_us),
        answer=tuple(answer),
        images=tuple(film.image for film in films),
        event_time=time_text(stay.end),
        row_ids=code_rows,
    )


def coded_phenotypes(timeline: Timeline, stay: Span) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of the 25 categories the codes of a hospital stay belong to, and the rows of its codes."""
    store = timeline.store
    role = store.spec.roles.first("diagnosis")
    if role is None or role.group != "ccs" or role.table not in store.table_names:
        return (), ()
    code_labels = role_labels("diagnosis", role, store.spec, None)
    encounter: Any = store.spec.tables[role.table].encounter
    labels = load_ccs("diagnoses", None).label_set()
    wanted = {labels.resolve(name): name for name in PHENOTYPES}
    rows = [row for row in timeline.rows(role.table).to_pylist() if row[encounter] == stay.names]
    categories = {
        code_labels.label(*(None if row[name] is None else str(row[name]) for name in code_labels.columns))
        for row in rows
    }
    return tuple(sorted(wanted[name] for name in categories if name in wanted)), tuple(row["row_id"] for row in rows)


def time_text(time: int) -> str:
    """Format a moment for manifests."""
    moment: datetime = from_microseconds(time)
    return moment.isoformat(sep=" ")


# The family of the pipeline: its questions, its draw and its samples.


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
    """Build the tasks with images from a store and save them.

    ``examples``: a user's own manifest; without one the examples come from the store's films. ``reports``: questions
    come after the latest film's report. ``vocabulary_shown``: to both arms, or to neither. ``per_task`` limits the
    samples of a task in each split (0: as many as the paper).
    """
    family = ClinSeekMm(examples=examples, reports=reports, vocabulary_shown=vocabulary_shown)
    options.setdefault("per_task", 0)
    return build_family(family, store, folder, BuildSettings(**options), report=report)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinSeekMm:
    """The family: where its examples come from, and what both arms see."""

    examples: Path | None = None
    reports: bool = False
    vocabulary_shown: bool = True
    kind: ClassVar[str] = FAMILY
    paper: ClassVar[str] = "ClinSeekAgent, section 3.1 (ClinSeek-Bench, multimodal)"
    has_own_splits: ClassVar[bool] = True

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks to build."""
        shown = {mm_name(what, shown=self.vocabulary_shown) for what in MAX_SAMPLES}
        named_elsewhere = set() if self.examples is None else {mm_name(what, shown=False) for what in MAX_SAMPLES}
        return [CLINSEEK_MM_TASKS[name] for name in sorted(shown | named_elsewhere)]

    def options(self) -> Mapping[str, Any]:
        """Return the manifest of examples, and what both arms see."""
        examples = None if self.examples is None else name_of_file(self.examples)
        return {"examples": examples, "reports": self.reports, "vocabulary_shown": self.vocabulary_shown}

    def open(self, context: BuildContext) -> _OpenClinSeekMm:
        """Read the manifest, or build examples from every subject's films. UserError: the store has no images."""
        role = image_role(context.store)
        dropped: Counter[str] = Counter()
        examples = self._store_examples(context, role) if self.examples is None else read_examples(self.examples)
        subjects = set(context.store.subjects.tolist())
        by_task: dict[str, list[MultimodalExample]] = {}
        for example in examples:
            if example.task not in MAX_SAMPLES:
                raise UserError(f"unknown task {example.task!r} with images; the tasks are {', '.join(MAX_SAMPLES)}")
            if example.subject_id in subjects:
                # an example with its own vocabulary does not show the task's
                name = mm_name(example.task, shown=self.vocabulary_shown and not example.vocabulary)
                by_task.setdefault(name, []).append(example)
            else:
                dropped["subject_not_in_the_store"] += 1
        return _OpenClinSeekMm(context=context, family=self, role=role, by_task=by_task, dropped=dropped)

    def _store_examples(self, context: BuildContext, role: ImageRole) -> list[MultimodalExample]:
        maker = StandIn(role=role, reports=self.reports, seed=context.settings.seed)
        subjects = context.store.subjects.tolist()
        timelines = (Timeline(context.store, subject, context.settings.policy) for subject in subjects)
        return [example.example for timeline in timelines for example in maker.examples(timeline)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenClinSeekMm:
    context: BuildContext
    family: ClinSeekMm
    role: ImageRole
    by_task: Mapping[str, list[MultimodalExample]]
    dropped: Counter[str]

    @property
    def spaces(self) -> Mapping[str, CandidateSpace]:
        return {}

    def unavailable(self, task: Task) -> str | None:
        return None if self.by_task.get(task.name) else "no film of this store gives an example"

    def questions(self, task: Task) -> list[MultimodalExample]:
        return self.by_task[task.name]

    def draw(self, task: Task, questions: list[MultimodalExample]) -> list[MultimodalExample]:
        """Draw by a random number per example, whatever its answer; first one example of each subject."""
        limit = self.context.settings.per_task or MAX_SAMPLES[task.name.split(".")[1]]
        seed = self.context.settings.seed
        order = sorted(
            questions,
            key=lambda question: derive_seed(seed, task.name, question.subject_id, question.cutoff, question.asked),
        )
        drawn_per_subject: Counter[int] = Counter()
        ranked: list[tuple[int, int, MultimodalExample]] = []
        for one in order:
            ranked.append((drawn_per_subject[one.subject_id], len(ranked), one))
            drawn_per_subject[one.subject_id] += 1
        drawn = []
        for split in SPLITS:
            drawn += [
                one
                for *_, one in sorted(ranked, key=lambda each: each[:2])
                if self.context.splits[one.subject_id] == split
            ][:limit]
        return sorted(drawn, key=lambda example: (example.subject_id, example.cutoff, example.asked))

    def samples(self, task: Task, questions: list[MultimodalExample], drawn: list[MultimodalExample]) -> list[Sample]:
        return [self._sample(task, example) for example in drawn]

    def describe(
        self,
        task: Task,
        questions: list[MultimodalExample],
        drawn: list[MultimodalExample],
        samples: Sequence[Sample],
    ) -> TaskFacts:
        details: dict[str, Any] = {"title": task.title, "group": task.about, "questions": len(questions)}
        if task.answer.label_values:
            details["samples_by_class"] = samples_by_class(samples)
        return TaskFacts(details=details, drops={"not_drawn": len(questions) - len(drawn)})

    def last(
        self,
        task: Task,
        questions: list[MultimodalExample],
        drawn: list[MultimodalExample],
        samples: Sequence[Sample],
    ) -> str:
        return "every example occurs once, so there is no earlier answer"

    def facts(self) -> Mapping[str, Any]:
        manifest = self.family.examples
        return {
            "splits": "the data set's own" if self.context.store.splits() else "by hash of seed and person",
            "examples": "made of the store's own films" if manifest is None else content_hash(manifest.read_bytes()),
            "reports": self.family.reports,
            "vocabulary_shown": self.family.vocabulary_shown,
            "left_out": dict(self.dropped),
        }

    def _sample(self, task: Task, example: MultimodalExample) -> Sample:
        moment = parse_time(example.cutoff)
        digest = content_hash([example.asked, list(example.images)])[:8]
        return Sample(
            id=f"{task.name}-{example.subject_id}-{moment:%Y%m%dT%H%M%S}-{digest}",
            task=task.name,
            subject_id=example.subject_id,
            person_id=person_id(self.context.store, example.subject_id),
            prediction_time=moment,
            target=tuple(sorted(set(example.answer))),
            split=self.context.splits[example.subject_id],
            stratum="any",
            facts={
                "event_time": example.event_time,
                "row_ids": list(example.row_ids),
                "curated_from": format_time(moment - _WINDOW),
                "curated_events": MAX_EVENTS,
                "asked": self._question_text(example),
                "images": self._image_rows(example),
            },
        )

    def _question_text(self, example: MultimodalExample) -> str:
        if not example.vocabulary or not self.family.vocabulary_shown:
            return example.asked
        return f"{example.asked} Answer with names out of: {'; '.join(example.vocabulary)}."

    def _image_rows(self, example: MultimodalExample) -> list[str]:
        """Return the row ids of the linked images. UserError: one is missing in the store."""
        rows = self.context.store.rows(example.subject_id, self.role.table)
        row_of_image = dict(zip(rows.column(self.role.id).to_pylist(), rows.column("row_id").to_pylist(), strict=True))
        absent = [image for image in example.images if image not in row_of_image]
        if absent:
            raise UserError(f"no image {absent[0]!r} of subject {example.subject_id} in the store")
        return [row_of_image[image] for image in example.images]


# The possible questions with images before given moments: they must be the same in another future.


def possible_film_questions(
    store: Store, moments: Mapping[int, datetime]
) -> tuple[dict[tuple[str, int, str], bool], dict[str, str]]:
    """Return the questions about films before each subject's moment, and the impossible tasks.

    The first table says of each question whether everything that made it a question was known by then; the second
    gives the reasons.
    """
    tasks = {what: mm_name(what, shown=True) for what in PUBLISHED_COUNTS}
    try:
        maker = StandIn(role=image_role(store), reports=False)
    except UserError as error:
        return {}, dict.fromkeys(tasks.values(), str(error))
    is_settled: dict[tuple[str, int, str], bool] = {}
    for subject in sorted(moments.keys() & set(store.subjects.tolist())):
        now_us, ended_stays = to_microseconds(moments[subject]), ended_stay_rows(store.chart(subject, moments[subject]))
        for possible in maker.examples(Timeline(store, subject, "known_at")):
            example = possible.example
            if parse_time(example.cutoff) <= moments[subject]:
                digest = content_hash([example.asked, list(example.images)])[:8]
                was_known = possible.settled_us <= now_us and (
                    possible.stay in ended_stays or not possible.kind_is_late
                )
                is_settled[tasks[example.task], subject, f"{example.cutoff}-{digest}"] = was_known
    return is_settled, {}
