"""The card at the top of an episode's page: patient, time, question, answer, and what happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from wardround.clinical.bundles import EventKind
from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import UserError
from wardround.records import Chart, Event
from wardround.reports.standing import StandingEvent, StandingRecord
from wardround.reports.summary import UNKNOWN, sex_of
from wardround.tasks.benchmarks import Sample, Task, question_of
from wardround.tasks.scoring import EpisodeScore

_PEOPLE = {"female": "woman", "male": "man"}
_OLDEST = 90
"""Sources cap ages here."""
_GROWN_UP = 18
_BEFORE_ADMISSION = timedelta(hours=24)
"""A note of the emergency department, so long before an admission, is of the same visit."""
_LONGEST_REASON, _MOST_KNOWN = 240, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientFacts:
    """A patient as of the question: only what was known then.

    ``who``: age and sex; ``when``: day and hours of the stay; ``reason``: why admitted, with the note's table and time;
    ``problems``: diagnoses known by then, the latest first, of ``problem_count``.
    """

    who: str
    when: str
    reason: str
    reason_from: str
    problems: tuple[str, ...]
    problem_count: int


ItemState = Literal["right", "wrong", "outside", "missed", "judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardItem:
    """A name that was answered or that happened. ``meaning``: of a class, what its value means; ``state``: ``right``,
    ``wrong``, ``outside`` (not in the candidate table), ``missed`` (happened and was not answered), ``judged`` (a text
    that a judge scores)."""

    text: str
    meaning: str
    state: ItemState


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCard:
    """``question``: what is asked, in a sentence; ``patient``: None without a chart, and ``missing`` says why.
    ``answer`` and ``happened``: by item; ``verdict``: the counts of both, in a sentence."""

    question: str
    patient: PatientFacts | None
    missing: str
    answer: tuple[CardItem, ...]
    happened: tuple[CardItem, ...]
    verdict: str


def question_text(task: Task, sample: Sample) -> str:
    """Return a task's question in a sentence; its title if it declares none."""
    try:
        return question_of(task, sample).description
    except UserError:
        return task.title


def episode_card(
    score: EpisodeScore,
    sample: Sample,
    task: Task,
    labels: LabelSet | None,
    patient: PatientFacts | None,
    *,
    missing: str = "",
) -> EpisodeCard:
    """Return the card of an episode. ``labels``: allowed names of answers; ``missing``: why there is no patient."""
    answer, happened = _items(score, sample, task, labels)
    return EpisodeCard(
        question=question_text(task, sample),
        patient=patient,
        missing=missing,
        answer=answer,
        happened=happened,
        verdict=_verdict(score, sample, task, answer, happened),
    )


def facts_of(chart: Chart, record: StandingRecord) -> PatientFacts:
    """Return who the patient is, how long in hospital and why, as far as it was known; ``chart`` and ``record`` are as
    of the same moment."""
    events = [event for event in record.events if event.event.time <= record.as_of]
    admission, ended = _stay(events)
    problems = _problems(events)
    reason, source = _reason(record, admission)
    return PatientFacts(
        who=_who(chart),
        when=_when(record.as_of, admission, ended, events),
        reason=reason,
        reason_from=source,
        problems=tuple(problems[:_MOST_KNOWN]),
        problem_count=len(problems),
    )


def _who(chart: Chart) -> str:
    """Return age and sex in words: ``67-year-old woman``; "patient" if the sex is unknown."""
    age, sex = chart.age, sex_of(chart)
    grown = age is None or age >= _GROWN_UP
    person = _PEOPLE.get(sex, "patient") if grown else {"female": "girl", "male": "boy"}.get(sex, "child")
    years = "" if age is None else f"{age} years or older, " if age >= _OLDEST else f"{age}-year-old "
    unknown = [what for what, is_unknown in (("age", age is None), ("sex", sex == UNKNOWN)) if is_unknown]
    return f"{years}{person}" + (f" ({' and '.join(unknown)} not on record)" if unknown else "")


def _stay(events: Sequence[StandingEvent]) -> tuple[StandingEvent | None, datetime | None]:
    """Return the latest admission, and when that stay ended."""
    admissions = [event for event in events if event.event.kind is EventKind.ADMISSION]
    if not admissions:
        return None, None
    latest = max(admissions, key=lambda admission: admission.event.time)
    ends = (event.event.time for event in events if event.event.kind is EventKind.DISCHARGE)
    return latest, next((end for end in sorted(ends) if end >= latest.event.time), None)


def _when(
    as_of: datetime, admission: StandingEvent | None, ended: datetime | None, events: Sequence[StandingEvent]
) -> str:
    moment = f"as of {as_of:%Y-%m-%d %H:%M}"
    if admission is None:
        return f"{moment}; no admission on record by then"
    since = admission.event.time
    if ended is not None:
        return f"{moment}, {_span(as_of - ended)} after discharge ({since:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M})"
    units = [
        event.event.concept for event in events if event.event.kind is EventKind.TRANSFER and event.event.time >= since
    ]
    unit = f", last in {units[-1]}" if units else ""
    day = (as_of.date() - since.date()).days + 1
    return f"hospital day {day}, {_span(as_of - since)} after admission ({since:%Y-%m-%d %H:%M}){unit}; {moment}"


def _span(time: timedelta) -> str:
    """Write a duration in minutes, hours or days."""
    minutes = max(0, round(time.total_seconds() / 60))
    if minutes < 120:
        return f"{minutes} minute{'s' * (minutes != 1)}"
    return f"{minutes // 60:,} hours" if minutes < 60 * 24 * 14 else f"{minutes // (60 * 24):,} days"


def _reason(record: StandingRecord, admission: StandingEvent | None) -> tuple[str, str]:
    """Return the first note of the stay, with its table and time; without one, what the admission row says."""
    if admission is None:
        return "", ""
    start = admission.event.time - _BEFORE_ADMISSION
    notes = sorted(_notes(record.documents, start, record.as_of), key=lambda note: (note.time or start, note.row_id))
    if notes:
        first = notes[0]
        return _short(first.text_value or ""), f"{first.table} {first.time:%Y-%m-%d %H:%M}"
    return _short(admission.event.text or ""), f"admitted {admission.event.time:%Y-%m-%d %H:%M}"


def _notes(documents: Iterable[Event], start: datetime, end: datetime) -> list[Event]:
    return [
        document
        for document in documents
        if document.time is not None and start <= document.time <= end and (document.text_value or "").strip()
    ]


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST_REASON else f"{plain[:_LONGEST_REASON]} …"


def _problems(events: Sequence[StandingEvent]) -> list[str]:
    """Return the diagnoses that were known, each once, the latest first."""
    known = [event.event for event in events if event.event.kind is EventKind.DIAGNOSIS]
    return list(dict.fromkeys(event.concept for event in reversed(known)))


def _items(
    score: EpisodeScore, sample: Sample, task: Task, labels: LabelSet | None
) -> tuple[tuple[CardItem, ...], tuple[CardItem, ...]]:
    """Compare answer and target as the scorer does: by official label, ignoring case and repeated spaces; empty for a
    stay."""
    if task.answer.by_steps:
        return (), ()
    kind = task.answer.for_sample(sample.facts)
    meanings = kind.class_names
    wanted = {_key(text, labels) for text in sample.target}
    given = {_key(text, labels) for text in score.answer or ()}

    def item(text: str, state: ItemState) -> CardItem:
        official = (labels.resolve(text) if labels is not None else None) or text
        return CardItem(text=text, meaning=meanings.get(official, ""), state=state)

    if task.answer.judged:
        return tuple(item(one, "judged") for one in score.answer or ()), tuple(
            item(one, "judged") for one in sample.target
        )
    answer = tuple(
        item(one, "right" if _key(one, labels) in wanted else "outside" if one in score.score.outside else "wrong")
        for one in score.answer or ()
    )
    happened = tuple(item(one, "right" if _key(one, labels) in given else "missed") for one in sample.target)
    return answer, happened


def _key(text: str, labels: LabelSet | None) -> str:
    official = labels.resolve(text) if labels is not None else None
    return normalise_label(official if official is not None else text)


def _verdict(
    score: EpisodeScore, sample: Sample, task: Task, answer: Sequence[CardItem], happened: Sequence[CardItem]
) -> str:
    if task.answer.by_steps:
        return f"{len(sample.target):,} decisions followed in this stay; step by step below."
    if score.answer is None:
        return "No answer was given."
    if task.answer.judged:
        return "The answer is free text; a judge compares it with the right answer."
    if not task.answer.several:
        return "Right." if score.right else "Wrong."
    right = sum(one.state == "right" for one in answer)
    missed = sum(one.state == "missed" for one in happened)
    return f"{right} of {len(answer)} answers are right; {missed} of {len(happened)} that happened were missed."
