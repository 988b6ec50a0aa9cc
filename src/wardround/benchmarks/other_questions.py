"""What must be the same of a store in another future of the same past: every question that is asked by then.

A question is what is asked and when; its answer lies in the future and may differ. One whose being asked was settled by
a subject's moment (what chose it is on the chart) is asked in both futures, or something of the outcome decides who is
asked. One that is not settled may differ, where its task is defined by what comes later and that is declared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from wardround.audits import Compared
from wardround.benchmarks.agentehr import label_events
from wardround.benchmarks.drawing import choose_event
from wardround.benchmarks.ehrshot import build_ehrshot
from wardround.benchmarks.ehrshot.concepts import load_concepts
from wardround.benchmarks.ehrshot.places import load_places
from wardround.benchmarks.hindsight import draw_reason, hindsight_of
from wardround.benchmarks.label_events import LabelEvent
from wardround.benchmarks.sample import Sample
from wardround.core import UserError, to_microseconds
from wardround.records import Chart, Store

_SEED = 0
Question = tuple[str, int, str]
"""Task, subject, and what tells its questions apart: the time, and a number among those of one time."""
Moments = Mapping[int, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The questions asked of a store by each subject's moment, with whether each was settled by then."""

    settled: Mapping[Question, bool] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def differing_questions(store: Store, other: Store, moments: Moments) -> Compared:
    """Compare every question of every task that the source can tell, and which event of a subject AgentEHR draws."""
    found = Compared()
    _compare(found, store.spec.name, _ehrshot(store, moments), _ehrshot(other, moments))
    if "admissions" not in store.table_names:
        found.left_out["AgentEHR"] = "its tasks are defined on the tables of MIMIC"
        return found
    here, there = label_events(store), label_events(other)
    _compare(found, store.spec.name, _agentehr(here, moments), _agentehr(there, moments))
    _compare_draws(found, here, there, moments)
    return found


def _compare(found: Compared, source: str, here: Asked, there: Asked) -> None:
    found.left_out |= {**here.left_out, **there.left_out}  # whether a source has a code at all is of the source
    for question in sorted(here.settled.keys() | there.settled.keys()):
        task, subject, asked = question
        if task in found.left_out:
            continue
        found.compared[f"questions of {task}"] += 1
        if question in here.settled and question in there.settled:
            continue
        reason = hindsight_of(task, source)
        if reason is not None and not ({**here.settled, **there.settled})[question]:
            found.declared[reason] += 1
            continue
        where = "only here" if question in here.settled else "only in the other future"
        found.differences.append(f"{subject}: {task} at {asked} is asked {where}")


def _ehrshot(store: Store, moments: Moments) -> Asked:
    with tempfile.TemporaryDirectory(prefix="wardround-questions-") as folder:
        try:
            built = build_ehrshot(store, Path(folder) / "questions", seed=_SEED, per_task=0, allow_missing=True)
        except UserError as error:  # a source, or a few subjects, of whom nothing can be asked
            return Asked(left_out={"EHRSHOT": str(error)})
    charts = {subject: store.chart(subject, as_of) for subject, as_of in moments.items() if subject in store.subjects}
    asked = [one for one in built.all_samples if one.prediction_time <= moments.get(one.subject_id, datetime.min)]
    return Asked(
        settled={
            (one.task, one.subject_id, one.id.removeprefix(f"{one.task}-{one.subject_id}-")): _is_settled(
                charts[one.subject_id], one
            )
            for one in asked
        },
        left_out={name: said["unavailable"] for name, said in built.manifest["tasks"].items() if "unavailable" in said},
    )


def _is_settled(chart: Chart, sample: Sample) -> bool:
    """Whether a chart shows what chose a question: the result that it asks for, or the stay it is about and its end."""
    concept = load_concepts().get(sample.task)
    if concept is not None and concept.is_result:
        return all(_shows(chart, row, ()) for row in sample.facts["row_ids"])
    ends = [column for named in load_places(chart.spec.name).stays.ends for column in named.split("|")]
    return _shows(chart, sample.facts["stay"], ends)


def _shows(chart: Chart, row: str, columns: Sequence[str]) -> bool:
    """Whether a row is on a chart, one of these cells filled (where there are any)."""
    batch = chart.table(row.partition(":")[0]).batch
    held = [batch.column(name) for name in columns if name in batch.schema.names]
    shown = batch.column("row_id").to_pylist()
    return row in shown and (not held or any(cells[shown.index(row)].is_valid for cells in held))


Events = Mapping[str, Mapping[int, Sequence[LabelEvent]]]
"""By task and subject."""


def _agentehr(events: Events, moments: Moments) -> Asked:
    """Every event that could be asked about."""
    return Asked(
        settled={
            (task, subject, f"{event.prediction_us}-{event.event_us}-{event.encounter}"): _is_known(event, as_of)
            for task, by_subject in events.items()
            for subject, as_of in moments.items()
            for event in by_subject.get(subject, ())
            if event.prediction_us <= to_microseconds(as_of)
        }
    )


def _is_known(event: LabelEvent, as_of: datetime) -> bool:
    return event.known_us <= to_microseconds(as_of)


def _compare_draws(found: Compared, here: Events, there: Events, moments: Moments) -> None:
    """Where the drawn events of two futures are both known they are the same one; else one that is to come was drawn
    before a known one, and that is counted."""
    for task in here:
        for subject, as_of in moments.items():
            drawn = [_drawn(task, each[task].get(subject, ())) for each in (here, there)]
            found.compared["draws"] += 1
            if _place(drawn[0]) == _place(drawn[1]):
                continue
            if all(event is not None and _is_known(event, as_of) for event in drawn):
                found.differences.append(f"{subject}: {task}: of the events known another is drawn in the other future")
            else:
                found.declared[draw_reason()] += 1


def _drawn(task: str, events: Sequence[LabelEvent]) -> LabelEvent | None:
    return choose_event(events, _SEED, task) if events else None


def _place(event: LabelEvent | None) -> tuple[int, int] | None:
    return None if event is None else (event.event_us, event.encounter)
