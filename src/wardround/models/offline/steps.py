"""Steps that several plans share, and what an answer is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wardround.models.offline import queries
from wardround.models.offline.beliefs import Beliefs
from wardround.models.offline.conversation import Result
from wardround.models.offline.notes import Known, Note
from wardround.models.offline.plan import (
    PLACE,
    Step,
    habits,
    names_found,
    number,
    row_ids,
    rows_of,
    since,
    tally,
    thinking,
    thoughts_on,
)

_MOST_ABNORMAL = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to finish with."""

    labels: tuple[str, ...]
    evidence: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A task: its steps, and its answer. ``answer`` takes a small shift of its threshold, so that episodes with other
    seeds differ."""

    task: str
    steps: tuple[Step, ...]
    answer: Callable[[Known, float], Answer]


def settled(beliefs: Beliefs, *, least: float, most: int, fewest: int = 1) -> Answer:
    """Return the answer that beliefs amount to."""
    labels = beliefs.best(least=least, most=most, fewest=fewest)
    evidence = {label: rows for label in labels if (rows := beliefs.rows(label))}
    return Answer(labels=tuple(labels), evidence=evidence)


def believe_thoughts(task: str, known: Known, beliefs: Beliefs) -> None:
    """Add every thought under its official name."""
    named = names_found(known)
    for note in known.of("thought") + habits(task, known):
        beliefs.add(named.get(note.value, note.value), note.amount, note.rows)


def place(task: str) -> Step:
    """PLACE, with what units and services make one think of."""
    return PLACE.reading(thinking(PLACE.read, task))


def counted(task: str, kind: str, table: str, column: str, time: str) -> Step:
    """Count the values of a column since the admission and think about them."""
    return Step(
        name=f"{table} of this stay",
        ask=lambda known: [queries.counts(table, column, time, since(known))] if known.table(table) else [],
        read=thinking(tally(kind, column, most=60), task),
        otherwise=lambda known: [queries.by_time(table, since(known))],
    )


def drugs(task: str) -> Step:
    """Drugs ordered in this stay."""
    return counted(task, "drug", "prescriptions", "drug", "starttime")


def care(task: str) -> Step:
    """What was done at the bedside in this stay."""
    return counted(task, "care", "procedureevents", "label", "starttime")


def abnormal(task: str) -> Step:
    """Abnormal laboratory results of this stay."""
    return Step(
        name="abnormal results of this stay",
        ask=lambda known: [queries.abnormal_labs(since(known))] if known.table("labevents") else [],
        read=thinking(_sides, task),
        otherwise=lambda known: [queries.by_time("labevents", since(known))],
    )


def _sides(known: Known, results: Sequence[Result]) -> list[Note]:
    found = []
    for row in rows_of(results):
        total = max(number(row, "n", 1), 1)
        for side in ("high", "low"):
            share = number(row, side) / total
            if share >= 0.34:
                value = f"{row.get('label', '')} {side}"
                found.append(Note(kind="lab", value=value, amount=round(share, 2), rows=row_ids(row)))
    return found[:_MOST_ABNORMAL]


def reason_to_come(task: str) -> Step:
    """The admission note and the complaint at triage, and what their words make one think of."""

    def read(known: Known, results: Sequence[Result]) -> list[Note]:
        found = []
        for row in (row for result in results for row in result.rows):
            text = row.get("chiefcomplaint") or row.get("text") or ""
            found += thoughts_on(task, "word", text, row_ids(row))
            if row.get("chiefcomplaint"):
                found.append(Note(kind="complaint", value=text, rows=row_ids(row)))
        return found

    return Step(
        name="why the patient came",
        ask=lambda known: [
            *([queries.admission_note()] if known.table("admission_note") else []),
            *([queries.complaints()] if known.table("triage") else []),
        ],
        read=read,
        otherwise=lambda known: [queries.latest("admission_note")],
    )
