"""The tasks with pictures (ClinSeekAgent, section 3.1 and table 6), with their vocabulary shown and without, and their
examples: manifest lines, converted data sets, the examinations of a subject.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from wardround.core import UserError, parse_time, strict, write_atomically
from wardround.records import ImageRole, Store, unplayed
from wardround.tasks.answers import AnswerKind, FreeLabels, OneClass
from wardround.tasks.benchmarks.clinseek.timeline import Timeline
from wardround.tasks.benchmarks.task import CHEXPERT_LABELS, TASKS, QuestionText, Task

FAMILY = "clinseek-mm"
NO_CHANGE = "no new finding"
PHENOTYPES = (
    "Acute and unspecified renal failure",
    "Acute cerebrovascular disease",
    "Acute myocardial infarction",
    "Cardiac dysrhythmias",
    "Chronic kidney disease",
    "Chronic obstructive pulmonary disease and bronchiectasis",
    "Complications of surgical procedures or medical care",
    "Conduction disorders",
    "Congestive heart failure; nonhypertensive",
    "Coronary atherosclerosis and other heart disease",
    "Diabetes mellitus with complications",
    "Diabetes mellitus without complication",
    "Disorders of lipid metabolism",
    "Essential hypertension",
    "Fluid and electrolyte disorders",
    "Gastrointestinal hemorrhage",
    "Hypertension with complications and secondary hypertension",
    "Other liver diseases",
    "Other lower respiratory disease",
    "Other upper respiratory disease",
    "Pleurisy; pneumothorax; pulmonary collapse",
    "Pneumonia (except that caused by tuberculosis or sexually transmitted disease)",
    "Respiratory failure; insufficiency; arrest (adult)",
    "Septicemia (except in labor)",
    "Shock",
)
"""The 25 CCS categories of the phenotyping task (Harutyunyan et al., 2019)."""
PUBLISHED_COUNTS: Mapping[str, int] = {
    "finding_presence": 177,
    "finding_enumeration": 98,
    "finding_enumeration_stay": 122,
    "finding_change": 222,
    "mortality_24h": 125,
    "mortality_inpatient": 125,
    "phenotypes": 120,
}
"""The paper's samples per task, 989 in all."""
MAX_SAMPLES: Mapping[str, int] = {**PUBLISHED_COUNTS, "finding_change_yes_no": PUBLISHED_COUNTS["finding_change"]}
"""How many of each task are drawn at most. EHRXQA also asks about change with yes or no: the paper's 222 hold both."""
_YES_NO = OneClass(classes=(("0", "no"), ("1", "yes")))
_WORDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "finding_presence": ("Presence of a finding", "Does the latest linked chest radiograph show the finding?", ()),
    "finding_enumeration": (
        "Findings of one examination",
        "Which findings does the latest linked chest radiograph show?",
        CHEXPERT_LABELS,
    ),
    "finding_enumeration_stay": (
        "Findings of several examinations",
        "Which findings does at least one of the linked chest radiographs show?",
        CHEXPERT_LABELS,
    ),
    "finding_change": (
        "New findings since the examination before",
        f'Which findings are on the latest linked chest radiograph and not on the one before? If none: "{NO_CHANGE}".',
        (NO_CHANGE, *CHEXPERT_LABELS),
    ),
    "finding_change_yes_no": (
        "A finding's change since the examination before",
        "Is the finding on the latest linked chest radiograph as the question says, compared with the one before?",
        (),
    ),
    "mortality_24h": ("Death within 24 hours", "Will the patient die within 24 hours from now?", ()),
    "mortality_inpatient": ("Death in this hospital stay", "Will the patient die in this hospital stay?", ()),
    "phenotypes": (
        "Phenotypes of the stay",
        "The patient leaves intensive care now. Which conditions will this hospital stay be coded with?",
        PHENOTYPES,
    ),
}
GROUPS: Mapping[str, str] = {
    "finding_presence": "presence",
    "finding_enumeration": "enumeration",
    "finding_enumeration_stay": "enumeration",
    "finding_change": "change",
    "finding_change_yes_no": "change",
    "mortality_24h": "death-24h",
    "mortality_inpatient": "death",
    "phenotypes": "phenotypes",
}
"""The groups of table 6, by task."""


def _task(what: str, *, shown: bool) -> Task:
    title, description, vocabulary = _WORDS[what]
    answer: AnswerKind = FreeLabels(vocabulary=vocabulary, shown=shown) if vocabulary else _YES_NO
    return Task(
        name=mm_name(what, shown=shown),
        title=title,
        answer=answer,
        about=GROUPS[what],
        template="clinseek_mm",
        family=FAMILY,
        words=QuestionText(category="Chest radiograph and record", description=description),
    )


def mm_name(what: str, *, shown: bool) -> str:
    """Return the name of a task; with ``.open`` where both arms do not see its vocabulary."""
    return f"{FAMILY}.{what}" if shown or not _WORDS[what][2] else f"{FAMILY}.{what}.open"


CLINSEEK_MM_TASKS: Mapping[str, Task] = {
    task.name: task for what in _WORDS for shown in (True, False) for task in (_task(what, shown=shown),)
}
"""Every task, by its name here."""

for _name, _one in CLINSEEK_MM_TASKS.items():
    TASKS.add(_name, _one)


# Examples with images: one line of a manifest each, from a user's file or from a store's own films.
#
# A manifest is JSON lines; ``wardround bench examples`` converts EHRXQA's or MedMod's own files (``ehrxqa``,
# ``medmod``). ``build`` makes examples of the same form from a store's own films.


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalExample:
    """One question about images.

    ``task``: its name without the family. ``cutoff``: the prediction time. ``images``: the ids of the linked images,
    the latest last. ``asked``: its text, where it differs from the task's. ``vocabulary``: the possible names, where
    they differ from the task's. ``row_ids``: rows with the answer, which no chart may show at the cutoff.
    ``event_time``: when the answer happens.
    """

    task: str
    subject_id: int
    cutoff: str
    answer: tuple[str, ...]
    images: tuple[str, ...] = ()
    asked: str = ""
    vocabulary: tuple[str, ...] = ()
    event_time: str | None = None
    row_ids: tuple[str, ...] = ()


def read_examples(path: Path) -> list[MultimodalExample]:
    """Read a manifest. UserError names an invalid line."""
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}; docs/clinseek-bench.md describes a manifest of examples")
    examples = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                body = json.loads(line)
            except ValueError as error:
                raise UserError(f"{path}, line {number}: not JSON: {error}") from None
            examples.append(strict(MultimodalExample, body, f"{path}, line {number}"))
            _check_times(examples[-1], f"{path}, line {number}")
    return examples


def _check_times(example: MultimodalExample, where: str) -> None:
    for name, text in (("cutoff", example.cutoff), ("event_time", example.event_time)):
        try:
            parse_time("2000-01-01" if text is None else text)
        except ValueError as error:
            raise UserError(
                f'{where}, {name}: {error}; write the record\'s own time, such as "2150-01-01 10:00:00"'
            ) from None


def write_examples(examples: Sequence[MultimodalExample], path: Path) -> None:
    """Write a manifest."""
    write_atomically(path, "".join(json.dumps(asdict(example), ensure_ascii=False) + "\n" for example in examples))


# The films of one subject: when each was taken, when its report became available, and its findings.


LABELS = "cxr_labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """One image.

    ``findings``: the report's value for each label, empty without labels. ``reported``: when the labels became
    available (None: never). ``rows``: the rows of the labels.
    """

    image: str
    taken_us: int
    study: Any = None
    view: str | None = None
    reported: int | None = None
    findings: Mapping[str, bool] = field(default_factory=dict)
    rows: tuple[str, ...] = ()


def image_role(store: Store) -> ImageRole:
    """Return the role of images in a store. UserError: it has none."""
    role = next(iter(store.spec.roles.image), None)
    if role is None or role.table not in store.table_names:
        reason = unplayed("image") if role is None else f"the store has no table {role.table!r}"
        raise UserError(f"no task with images is possible: {reason}; see docs/clinseek-bench.md")
    return role


def films_of(timeline: Timeline, role: ImageRole) -> list[Film]:
    """Return every image of a subject, in the order in which they were taken."""
    readings = _readings(timeline)
    rows = timeline.rows(role.table).to_pylist()
    films = [
        _film(row, taken_us, role, readings)
        for row, taken_us in zip(rows, timeline.event(role.table).tolist(), strict=True)
    ]
    return sorted(films, key=lambda film: (film.taken_us, film.image))


@dataclass(slots=True, kw_only=True)
class _Reading:
    known: int
    findings: dict[str, bool] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)


def _readings(timeline: Timeline) -> dict[Any, _Reading]:
    """Return the label values of each study, without uncertain ones."""
    if LABELS not in timeline.store.table_names:
        return {}
    readings: dict[Any, _Reading] = {}
    for row, available in zip(timeline.rows(LABELS).to_pylist(), timeline.known(LABELS).tolist(), strict=True):
        if row["value"] is not None and row["value"] >= 0:
            study = readings.setdefault(row["study_id"], _Reading(known=available))
            study.findings[row["finding"]] = row["value"] > 0
            study.rows.append(row["row_id"])
    return readings


def _film(row: Mapping[str, Any], taken_us: int, role: ImageRole, readings: Mapping[Any, _Reading]) -> Film:
    study = None if role.study is None else row[role.study]
    reading = readings.get(study)
    return Film(
        image=row[role.id],
        taken_us=taken_us,
        study=study,
        view=None if role.view is None else row[role.view],
        reported=None if reading is None else reading.known,
        findings={} if reading is None else reading.findings,
        rows=() if reading is None else tuple(reading.rows),
    )


# The result of converting a data set's own files: examples, and the rows left out, by reason.


YES_NO_TASKS = ("finding_presence", "finding_change_yes_no")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Converted examples, and the number of rows left out, by reason."""

    examples: Sequence[MultimodalExample]
    left_out: Counter[str]


def collected(examples_or_reasons: Iterable[MultimodalExample | str]) -> Conversion:
    """Separate examples from reasons; each example is kept once."""
    examples: dict[MultimodalExample, None] = {}
    left_out: Counter[str] = Counter()
    for item in examples_or_reasons:
        if isinstance(item, str):
            left_out[item] += 1
        else:
            examples[item] = None
    return Conversion(examples=list(examples), left_out=left_out)


def with_vocabulary(examples: Sequence[MultimodalExample]) -> list[MultimodalExample]:
    """Add to each example with names as answer the vocabulary of its task, the same for all its examples."""
    names: dict[str, set[str]] = {}
    for example in examples:
        names.setdefault(example.task, set()).update(example.answer)
    return [
        example if example.task in YES_NO_TASKS else replace(example, vocabulary=tuple(sorted(names[example.task])))
        for example in examples
    ]


class FilmIndex:
    """The films of a store by subject and by study."""

    def __init__(self, store: Store, role: ImageRole) -> None:
        self.store, self.role = store, role
        self._timelines: dict[int, tuple[Timeline, list[Film]]] = {}
        self._subjects = frozenset(store.subjects.tolist())

    def of(self, subject: int) -> tuple[Timeline, list[Film]] | None:
        """Return a subject's timeline and films; None where the store lacks the subject."""
        if subject not in self._subjects:
            return None
        if subject not in self._timelines:
            timeline = Timeline(self.store, subject, "known_at")
            self._timelines[subject] = timeline, films_of(timeline, self.role)
        return self._timelines[subject]

    def subject_of_study(self) -> dict[int, int]:
        """Return the subject of each study; reads every subject's films once."""
        if self.role.study is None:
            raise UserError("the images of this store have no study column, so questions about studies are impossible")
        subjects: dict[int, int] = {}
        for subject in sorted(self._subjects):
            _, films = self.of(subject) or (None, [])
            subjects |= {int(film.study): subject for film in films if film.study is not None}
        return subjects


def studies(films: Sequence[Film]) -> Iterator[list[Film]]:
    """Yield the films of a subject by study, in the order of their first film."""
    by_study: dict[object, list[Film]] = {}
    for film in films:
        by_study.setdefault(film.study, []).append(film)
    yield from by_study.values()
