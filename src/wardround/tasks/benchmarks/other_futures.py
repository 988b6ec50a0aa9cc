"""Check that a benchmark's questions stay the same when only the future changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from wardround.audits import Compared
from wardround.core import UserError, format_time, to_microseconds
from wardround.records import Chart, SpanRole, Store, unplayed
from wardround.tasks.benchmarks.agentehr import label_events
from wardround.tasks.benchmarks.clinseek.build import question_source
from wardround.tasks.benchmarks.clinseek.definitions import CLINSEEK_TASKS, RULES
from wardround.tasks.benchmarks.clinseek.timeline import Timeline, ended_stay_rows, time_text
from wardround.tasks.benchmarks.clinseek_mm.build import possible_film_questions
from wardround.tasks.benchmarks.clinseek_mm.examples import PUBLISHED_COUNTS, mm_name
from wardround.tasks.benchmarks.drawing import choose_event
from wardround.tasks.benchmarks.ehrshot.build import EhrShot
from wardround.tasks.benchmarks.ehrshot.concepts import load_concepts, places_of
from wardround.tasks.benchmarks.encounters import EVENT
from wardround.tasks.benchmarks.label_events import LabelEvent
from wardround.tasks.benchmarks.leaks import draw_reason, hindsight_of
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildSettings
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import get_task
from wardround.tools import Environment, EnvironmentOptions, open_toolset
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces

# Answers of tools, retrieved evidence and candidates must be the same in another future of the same past.


EVIDENCE_QUERIES = ("death or discharge", "infection, culture, organism", "last potassium and creatinine")
CANDIDATE_QUERIES = ("sepsis", "CBC", "heparin", "intensive care", "ultrasound")
_LABELS_PER_SPACE = 4
_QUESTION_GROUP, _OTHER_GROUP = 0, 1
Call = tuple[str, Mapping[str, object]]


def differing_answers(shown: Chart, other: Chart) -> Iterator[str]:
    """Call record tools and evidence retrieval on both charts and yield a message per differing call."""
    toolset = open_toolset("agentehr", more=("retrieve_evidence",))
    first, second = Environment(shown, toolset), Environment(other, toolset)
    calls: list[Call] = [("get_event_counts_by_time", {}), ("get_table_names", {})]
    for name in shown.table_names:
        if not shown.table(name).num_rows and not other.table(name).num_rows:
            continue
        calls += [(tool, {"table_name": name}) for tool in ("get_latest_records", "get_table_description")]
        calls.append(("run_sql_query", {"sql_query": f'SELECT COUNT(*) AS rows, MAX(row_id) AS last FROM "{name}"'}))
    calls += [("retrieve_evidence", {"query": query}) for query in EVIDENCE_QUERIES]
    yield from _differing(first, second, calls)
    first.close()
    second.close()


def differing_candidates(store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
    """Compare the candidate tools on the spaces that questions about these subjects have.

    All subjects count as training subjects: the spaces come from everybody else, whose futures may be any.
    """
    compared = Compared()
    if not set(store.subjects.tolist()) - moments.keys() <= set(other.subjects.tolist()):
        compared.left_out["candidates"] = (
            "candidates come from all subjects, and the other future has only the subjects of the questions"
        )
        return compared
    try:
        spaces, other_spaces = (_spaces_beside(side, moments) for side in (store, other))
    except UserError as error:
        compared.left_out["candidates"] = str(error)
        return compared
    if not spaces:
        compared.left_out["candidates"] = "no other subject has a row of the tables that candidates come from"
        return compared
    for name in sorted(spaces.keys() ^ other_spaces.keys()):
        compared.differences.append(f"candidate table {name} exists in one future only")
    subject, as_of = next(iter(moments.items()))
    first, second = (
        Environment(store.chart(subject, as_of), options=EnvironmentOptions(candidates=spaces)),
        Environment(store.chart(subject, as_of), options=EnvironmentOptions(candidates=other_spaces)),
    )
    calls = [call for name in sorted(spaces.keys() & other_spaces.keys()) for call in _candidate_calls(spaces[name])]
    compared.compared["calls of candidate tools"] += len(calls)
    compared.differences += _differing(first, second, calls)
    compared.places["candidate tables"] += len(compared.differences)
    first.close()
    second.close()
    return compared


def _spaces_beside(store: Store, moments: Mapping[int, datetime]) -> dict[str, CandidateSpace]:
    groups = {subject: _QUESTION_GROUP if subject in moments else _OTHER_GROUP for subject in store.subjects.tolist()}
    spaces = build_candidate_spaces(store, groups, None)
    return {name: space.without[_QUESTION_GROUP] for name, space in spaces.items() if _QUESTION_GROUP in space.without}


def _candidate_calls(space: CandidateSpace) -> Iterator[Call]:
    """Yield calls of every tool with fixed words and some labels, and one SQL call for the table."""
    labels = space.labels.labels
    own = labels[:: max(1, len(labels) // _LABELS_PER_SPACE)]
    for tool in open_toolset("agentehr", more=("get_candidates",)).select(["candidate"]).names:
        for query in (*CANDIDATE_QUERIES, *own):
            yield tool, {"table_name": space.name, "query": query}
    yield "run_sql_query", {"sql_query": f'SELECT * FROM "{space.name}"'}


def _differing(original: Environment, swapped: Environment, calls: list[Call]) -> Iterator[str]:
    for tool, arguments in calls:
        argument = arguments.get("table_name") or arguments.get("query") or arguments.get("sql_query") or ""
        expected, actual = original.call(tool, arguments), swapped.call(tool, arguments)
        if expected.is_error:
            yield f"{tool} {argument} cannot be called: {expected.text}"  # equal errors prove nothing
        elif expected.text != actual.text:
            yield f"{tool} {argument} gives a different answer".replace("  ", " ")


# Every question before a subject's moment must exist in both futures of the same past.
#
# A question is a task and a time; its answer lies in the future and may differ. A question is *settled* when everything
# that made it a question is on the chart by the subject's moment. A settled question must exist in both futures, else
# the outcome decides who gets a question. Others may differ where the task's definition uses the future and says so.


_SEED = 0
Question = tuple[str, int, str]
"""Task, subject, and a text that identifies the question: its time and its other properties."""
Moments = Mapping[int, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """The questions of a store up to each subject's moment, each with whether it was settled by then.

    ``tasks``: the tasks that the source can have, with or without questions. ``left_out``: why other tasks are
    impossible. ``deciding_columns``: by task, the columns that decide whether and when a question exists.
    """

    settled: Mapping[Question, bool] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    deciding_columns: Mapping[str, str] = field(default_factory=dict)


def differing_questions(store: Store, other: Store, moments: Moments) -> Compared:
    """Compare every question of every task, and the AgentEHR event drawn for each subject."""
    compared = Compared()
    _compare(compared, store.spec.name, _ehrshot(store, moments), _ehrshot(other, moments))
    _compare(compared, store.spec.name, clinseek_questions(store, moments), clinseek_questions(other, moments))
    _compare(compared, store.spec.name, _films(store, moments), _films(other, moments))
    events, other_events = label_events(store), label_events(other)
    if not events:
        compared.left_out["AgentEHR"] = unplayed("admission")
    for task in events:
        if not any(events[task].values()) and not any(other_events.get(task, {}).values()):
            compared.left_out[task] = "no row of either future has a label of it"
    availability = [_Availability(store=side, moments=moments) for side in (store, other)]
    _compare(compared, store.spec.name, _agentehr(events, availability[0]), _agentehr(other_events, availability[1]))
    _compare_draws(compared, (events, other_events), availability)
    return compared


def _compare(compared: Compared, source: str, here: QuestionSet, there: QuestionSet) -> None:
    compared.left_out |= {**here.left_out, **there.left_out}  # whether a code exists is a property of the source
    settled = {**here.settled, **there.settled}
    for question in sorted(settled):
        task, subject, question_text = question
        if task in compared.left_out:
            continue
        compared.compared[f"questions of {task}"] += 1
        if question in here.settled and question in there.settled:
            continue
        reason = hindsight_of(task, source)
        if reason is not None and not settled[question]:
            compared.declared[reason] += 1
            continue
        where = "only here" if question in here.settled else "only in the other future"
        deciding_columns = here.deciding_columns.get(task) or there.deciding_columns.get(task, "")
        compared.differences.append(
            f"{subject}: {task} at {question_text} exists {where}: it depends on {deciding_columns}"
        )
        compared.places[f"{get_task(task).family}: {task} ({deciding_columns})"] += 1
    for task in here.tasks:
        if task not in compared.left_out and not compared.compared[f"questions of {task}"]:
            compared.left_out[task] = "no subject has a question by then in either future"


def _ehrshot(store: Store, moments: Moments) -> QuestionSet:
    family = EhrShot(allow_missing=True)
    as_of_times = {subject: as_of for subject, as_of in moments.items() if subject in store.subjects}
    ground = BuildContext(
        store=store, settings=BuildSettings(per_task=0), splits=dict.fromkeys(store.subjects.tolist(), "test")
    )
    try:
        opened = family.open(ground)
    except UserError as error:  # the source supports no question
        return QuestionSet(left_out={"EHRSHOT": str(error)})
    charts = {subject: store.chart(subject, as_of) for subject, as_of in as_of_times.items()}
    left_out, settled = {}, {}
    for task in family.tasks:
        reason = opened.unavailable(task)
        if reason is not None:
            left_out[task.name] = reason
            continue
        questions = opened.all_questions(task)
        indices = [
            index
            for index, (subject, time) in enumerate(
                zip(questions.subjects.tolist(), questions.predictions.tolist(), strict=True)
            )
            if subject in as_of_times and time <= to_microseconds(as_of_times[subject])
        ]
        for sample in opened.samples(task, questions, np.array(indices, np.int64)):
            about = sample.facts["row_ids"] if task.about == "result" else ()
            question = " for ".join((format_time(sample.moment), *about))
            settled[task.name, sample.subject_id, question] = _is_settled(charts[sample.subject_id], sample)
    names = [task.name for task in family.tasks]
    return QuestionSet(
        settled=settled,
        left_out=left_out,
        tasks=names,
        deciding_columns={name: _deciding_columns(store, name) for name in names},
    )


def _deciding_columns(store: Store, task: str) -> str:
    """Return the columns that decide whether an EHRSHOT question exists."""
    if get_task(task).about == "result":
        return ", ".join(f"{place.table}.{EVENT}" for place in store.spec.roles.lab)
    stays = places_of(store.spec).stays
    return f"{stays.table}.{','.join(stays.ends)}"


def clinseek_questions(store: Store, moments: Moments) -> QuestionSet:
    """Return the questions of ClinSeek-Bench before each subject's moment."""
    settings = BuildSettings()
    sources = {name: question_source(name, store, settings, None) for name in RULES}
    left_out = {name: reason for name, source in sources.items() if (reason := source.unavailable()) is not None}
    sources = {name: source for name, source in sources.items() if name not in left_out}
    settled: dict[Question, bool] = {}
    subjects = set(store.subjects.tolist())
    for subject, as_of in moments.items():
        if subject not in subjects:
            continue
        timeline, now_us = Timeline(store, subject, "known_at"), to_microseconds(as_of)
        ended_stays = ended_stay_rows(store.chart(subject, as_of))
        for name, source in sources.items():
            for question in source.questions(timeline):
                if question.prediction_us <= now_us:
                    times = f"{time_text(question.prediction_us)} with input from {time_text(question.curated_from)}"
                    settled[name, question.subject, times] = question.settled_us <= now_us and (
                        question.stay in ended_stays or not question.kind_is_late
                    )
    deciding_columns = {name: source.deciding_columns for name, source in sources.items()}
    return QuestionSet(
        settled=settled, left_out=left_out, tasks=tuple(CLINSEEK_TASKS), deciding_columns=deciding_columns
    )


def _films(store: Store, moments: Moments) -> QuestionSet:
    settled, left_out = possible_film_questions(store, moments)
    tasks = tuple(mm_name(count_name, shown=True) for count_name in PUBLISHED_COUNTS)
    table = next((one.table for one in store.spec.roles.image), "")
    return QuestionSet(settled=settled, left_out=left_out, tasks=tasks, deciding_columns=dict.fromkeys(tasks, table))


def _is_settled(chart: Chart, sample: Sample) -> bool:
    """Return whether a chart shows what made a question: its result, or its stay and the stay's end."""
    concept = load_concepts().get(sample.task)
    if concept is not None and concept.is_result:
        return all(_shows(chart, row, ()) for row in sample.facts["row_ids"])
    ends = [column for named in places_of(chart.spec).stays.ends for column in named.split("|")]
    return _shows(chart, sample.facts["stay"], ends)


def _shows(chart: Chart, row: str, columns: Sequence[str]) -> bool:
    """Return whether a row is on a chart, with one of these cells filled (if any are given)."""
    batch = chart.table(row.partition(":")[0]).batch
    cells_by_column = [batch.column(name) for name in columns if name in batch.schema.names]
    row_ids = batch.column("row_id").to_pylist()
    return row in row_ids and (
        not cells_by_column or any(cells[row_ids.index(row)].is_valid for cells in cells_by_column)
    )


Events = Mapping[str, Mapping[int, Sequence[LabelEvent]]]
"""By task and subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Availability:
    """What the charts of a store show at each subject's moment, for the events of questions."""

    store: Store
    moments: Moments
    _ended: dict[int, frozenset[Any]] = field(default_factory=dict)

    def settles(self, subject: int, event: LabelEvent) -> bool:
        """Return whether the event's rows are known and its visit was certainly a stay."""
        if event.known_us > to_microseconds(self.moments[subject]):
            return False
        admission = self.store.spec.roles.admission
        if admission is None or admission.id is None or not self._kind_is_late(admission):
            return True
        if subject not in self._ended:
            batch = self.store.chart(subject, self.moments[subject]).table(admission.table).batch
            self._ended[subject] = _ended_stays(admission, batch)
        return event.encounter in self._ended[subject]

    def _kind_is_late(self, admission: SpanRole) -> bool:
        named = {name for condition in admission.where for name in condition}
        return not named.isdisjoint(self.store.spec.tables[admission.table].late)


def _ended_stays(admission: SpanRole, shown: pa.RecordBatch) -> frozenset[Any]:
    """Return the ids of the stays whose end a chart shows."""
    ends = {part for end in admission.ends for part in end.split("|")} & set(shown.schema.names)
    ended = [shown.column(name).is_valid().to_pylist() for name in sorted(ends)]
    ids = shown.column(str(admission.id)).to_pylist()
    return frozenset(stay for row, stay in enumerate(ids) if any(column[row] for column in ended))


def _agentehr(events: Events, availability: _Availability) -> QuestionSet:
    """Return every event that could become a question."""
    spec = availability.store.spec
    roles = {task: spec.roles.first(get_task(task).role) for task in events}
    return QuestionSet(
        settled={
            (
                task,
                subject,
                f"{time_text(event.prediction_us)} for {time_text(event.event_us)} in encounter {event.encounter}",
            ): availability.settles(subject, event)
            for task, by_subject in events.items()
            for subject, as_of in availability.moments.items()
            for event in by_subject.get(subject, ())
            if event.prediction_us <= to_microseconds(as_of)
        },
        deciding_columns={task: "" if role is None else f"{role.table}.{EVENT}" for task, role in roles.items()},
    )


def _compare_draws(compared: Compared, futures: tuple[Events, Events], availability: Sequence[_Availability]) -> None:
    """Compare the drawn events where both are known.

    If only one of two differing events is known, a future event was drawn before a known one: this is counted.
    """
    for task in futures[0]:
        for subject in availability[0].moments:
            some = [events[task].get(subject, ()) for events in futures]
            drawn = [choose_event(one, _SEED, task) if one else None for one in some]
            compared.compared["draws"] += 1
            first, second = (None if event is None else (event.event_us, event.encounter) for event in drawn)
            if first == second:
                continue
            pairs = zip(drawn, availability, strict=True)
            if all(event is not None and side.settles(subject, event) for event, side in pairs):
                compared.differences.append(
                    f"{subject}: {task}: among the known events another one is drawn in the other future"
                )
                compared.places[f"{get_task(task).family}: {task} (which event is drawn)"] += 1
            else:
                compared.declared[draw_reason()] += 1
