"""What must stay the same of a benchmark when only the future changes."""

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
from wardround.tasks.benchmarks.clinseek.definitions import CLINSEEK_TASKS
from wardround.tasks.benchmarks.clinseek.other_futures import possible_questions, time_text
from wardround.tasks.benchmarks.clinseek_mm.build import possible_film_questions
from wardround.tasks.benchmarks.clinseek_mm.definitions import PUBLISHED_COUNTS, mm_name
from wardround.tasks.benchmarks.drawing import choose_event
from wardround.tasks.benchmarks.ehrshot.build import EhrShot
from wardround.tasks.benchmarks.ehrshot.concepts import load_concepts, places_of
from wardround.tasks.benchmarks.encounters import EVENT
from wardround.tasks.benchmarks.label_events import LabelEvent
from wardround.tasks.benchmarks.leaks import draw_reason, hindsight_of
from wardround.tasks.benchmarks.pipeline import BuildContext, BuildSettings
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import get_task
from wardround.tools import Environment, EnvironmentOptions, Toolset, open_toolset
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces

# What else must be the same in another future of the same past: the answers of tools, evidence and candidates too.


EVIDENCE_QUERIES = ("death or discharge", "infection, culture, organism", "last potassium and creatinine")
CANDIDATE_QUERIES = ("sepsis", "CBC", "heparin", "intensive care", "ultrasound")
_LABELS_PER_SPACE = 4
_ASKED, _OTHERS = 0, 1
Call = tuple[str, Mapping[str, object]]


def differing_answers(shown: Chart, other: Chart) -> Iterator[str]:
    """Call the record tools and the search for evidence alike and yield, in words, every call whose texts differ."""
    toolset = open_toolset("agentehr", more=("retrieve_evidence",))
    here, there = Environment(shown, toolset), Environment(other, toolset)
    calls: list[Call] = [("get_event_counts_by_time", {}), ("get_table_names", {})]
    for name in shown.table_names:
        if not shown.table(name).num_rows and not other.table(name).num_rows:
            continue
        calls += [(tool, {"table_name": name}) for tool in ("get_latest_records", "get_table_description")]
        calls.append(("run_sql_query", {"sql_query": f'SELECT COUNT(*) AS rows, MAX(row_id) AS last FROM "{name}"'}))
    calls += [("retrieve_evidence", {"query": query}) for query in EVIDENCE_QUERIES]
    yield from _differing(here, there, calls)
    here.close()
    there.close()


def differing_candidates(store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
    """Call the candidate tools alike on the spaces that a question about one of these subjects is asked with, were all
    of them training subjects: made by everybody else, whatever future these have."""
    found = Compared()
    if not set(store.subjects.tolist()) - moments.keys() <= set(other.subjects.tolist()):
        found.left_out["candidates"] = "they are made by everybody, and the other future holds the asked subjects alone"
        return found
    try:
        here, there = (_spaces_beside(each, moments) for each in (store, other))
    except UserError as error:
        found.left_out["candidates"] = str(error)
        return found
    if not here:
        found.left_out["candidates"] = "nobody else is there who has a row of the tables that candidates are made of"
        return found
    for name in sorted(here.keys() ^ there.keys()):
        found.differences.append(f"candidate table {name} is there in one future only")
    subject, as_of = next(iter(moments.items()))
    first, second = (
        Environment(store.chart(subject, as_of), options=EnvironmentOptions(candidates=here)),
        Environment(store.chart(subject, as_of), options=EnvironmentOptions(candidates=there)),
    )
    calls = [call for name in sorted(here.keys() & there.keys()) for call in _candidate_calls(here[name])]
    found.compared["calls of candidate tools"] += len(calls)
    found.differences += _differing(first, second, calls)
    found.places["candidate tables"] += len(found.differences)
    first.close()
    second.close()
    return found


def _spaces_beside(store: Store, moments: Mapping[int, datetime]) -> dict[str, CandidateSpace]:
    groups = {subject: _ASKED if subject in moments else _OTHERS for subject in store.subjects.tolist()}
    spaces = build_candidate_spaces(store, groups, None)
    return {name: space.without[_ASKED] for name, space in spaces.items() if _ASKED in space.without}


def _candidate_calls(space: CandidateSpace) -> Iterator[Call]:
    """Fixed words and some of its own labels, to every tool; and the whole table by SQL."""
    labels = space.labels.labels
    own = labels[:: max(1, len(labels) // _LABELS_PER_SPACE)]
    for tool in _candidate_tools().names:
        for query in (*CANDIDATE_QUERIES, *own):
            yield tool, {"table_name": space.name, "query": query}
    yield "run_sql_query", {"sql_query": f'SELECT * FROM "{space.name}"'}


def _candidate_tools() -> Toolset:
    return open_toolset("agentehr", more=("get_candidates",)).select(["candidate"])


def _differing(here: Environment, there: Environment, calls: list[Call]) -> Iterator[str]:
    for tool, arguments in calls:
        what = arguments.get("table_name") or arguments.get("query") or arguments.get("sql_query") or ""
        first, second = here.call(tool, arguments), there.call(tool, arguments)
        if first.is_error:
            yield f"{tool} {what} cannot be called: {first.text}"  # two equal errors compare nothing
        elif first.text != second.text:
            yield f"{tool} {what} answers otherwise".replace("  ", " ")


# What must be the same of a store in another future of the same past: every question that is asked by then.
#
# A question is what is asked and when; its answer lies in the future and may differ. One whose being asked was settled
# by a subject's moment (what chose it is on the chart) is asked in both futures, or something of the outcome decides
# who is asked. One that is not settled may differ, where its task is defined by what comes later and that is declared.


_SEED = 0
Question = tuple[str, int, str]
"""Task, subject, and what tells its questions apart: the time, as people read it, and what else is of its own."""
Moments = Mapping[int, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestions:
    """The questions asked of a store by each subject's moment, with whether each was settled by then.

    ``tasks`` are those the source can ask, whether or not a subject is asked one; ``left_out`` says why others cannot;
    ``hangs_on`` names by task the columns that decide whether and when it is asked.
    """

    settled: Mapping[Question, bool] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    hangs_on: Mapping[str, str] = field(default_factory=dict)


def differing_questions(store: Store, other: Store, moments: Moments) -> Compared:
    """Compare every question of every task that the source can tell, and which event of a subject AgentEHR draws."""
    found = Compared()
    _compare(found, store.spec.name, _ehrshot(store, moments), _ehrshot(other, moments))
    _compare(found, store.spec.name, _clinseek(store, moments), _clinseek(other, moments))
    _compare(found, store.spec.name, _films(store, moments), _films(other, moments))
    here, there = label_events(store), label_events(other)
    if not here:
        found.left_out["AgentEHR"] = unplayed("admission")
    for task in here:
        if not any(here[task].values()) and not any(there.get(task, {}).values()):
            found.left_out[task] = "no row of either future has a label of it"
    known = [_Known(store=one, moments=moments) for one in (store, other)]
    _compare(found, store.spec.name, _agentehr(here, known[0]), _agentehr(there, known[1]))
    _compare_draws(found, (here, there), known)
    return found


def _compare(found: Compared, source: str, here: AskedQuestions, there: AskedQuestions) -> None:
    found.left_out |= {**here.left_out, **there.left_out}  # whether a source has a code at all is of the source
    settled = {**here.settled, **there.settled}
    for question in sorted(settled):
        task, subject, asked = question
        if task in found.left_out:
            continue
        found.compared[f"questions of {task}"] += 1
        if question in here.settled and question in there.settled:
            continue
        reason = hindsight_of(task, source)
        if reason is not None and not settled[question]:
            found.declared[reason] += 1
            continue
        where = "only here" if question in here.settled else "only in the other future"
        hangs_on = here.hangs_on.get(task) or there.hangs_on.get(task, "")
        found.differences.append(f"{subject}: {task} at {asked} is asked {where}: it hangs on {hangs_on}")
        found.places[f"{get_task(task).family}: {task} ({hangs_on})"] += 1
    for task in here.tasks:
        if task not in found.left_out and not found.compared[f"questions of {task}"]:
            found.left_out[task] = "nobody is asked it by then in either future"


def _ehrshot(store: Store, moments: Moments) -> AskedQuestions:
    family = EhrShot(allow_missing=True)
    here = {subject: as_of for subject, as_of in moments.items() if subject in store.subjects}
    ground = BuildContext(
        store=store, settings=BuildSettings(per_task=0), splits=dict.fromkeys(store.subjects.tolist(), "test")
    )
    try:
        opened = family.open(ground)
    except UserError as error:  # a source of which nothing can be asked
        return AskedQuestions(left_out={"EHRSHOT": str(error)})
    charts = {subject: store.chart(subject, as_of) for subject, as_of in here.items()}
    left_out, settled = {}, {}
    for task in family.tasks:
        reason = opened.unavailable(task)
        if reason is not None:
            left_out[task.name] = reason
            continue
        asked = opened.asked(task)
        by_then = [
            place
            for place, (subject, time) in enumerate(
                zip(asked.subjects.tolist(), asked.predictions.tolist(), strict=True)
            )
            if subject in here and time <= to_microseconds(here[subject])
        ]
        for one in opened.samples(task, asked, np.array(by_then, np.int64)):
            settled[task.name, one.subject_id, _told_apart(one)] = _is_settled(charts[one.subject_id], one)
    names = [task.name for task in family.tasks]
    return AskedQuestions(
        settled=settled, left_out=left_out, tasks=names, hangs_on={name: _hangs_on(store, name) for name in names}
    )


def _told_apart(sample: Sample) -> str:
    """The moment of a question, and the result that it is about."""
    about = sample.facts["row_ids"] if get_task(sample.task).about == "result" else ()
    return " for ".join((format_time(sample.moment), *about))


def _hangs_on(store: Store, task: str) -> str:
    """The columns that decide whether an EHRSHOT question is asked."""
    if get_task(task).about == "result":
        return ", ".join(f"{place.table}.{EVENT}" for place in store.spec.roles.lab)
    stays = places_of(store.spec).stays
    return f"{stays.table}.{','.join(stays.ends)}"


def _clinseek(store: Store, moments: Moments) -> AskedQuestions:
    settled, left_out, hangs_on = possible_questions(store, moments)
    return AskedQuestions(settled=settled, left_out=left_out, tasks=tuple(CLINSEEK_TASKS), hangs_on=hangs_on)


def _films(store: Store, moments: Moments) -> AskedQuestions:
    settled, left_out = possible_film_questions(store, moments)
    tasks = tuple(mm_name(one, shown=True) for one in PUBLISHED_COUNTS)
    table = next((one.table for one in store.spec.roles.image), "")
    return AskedQuestions(settled=settled, left_out=left_out, tasks=tasks, hangs_on=dict.fromkeys(tasks, table))


def _is_settled(chart: Chart, sample: Sample) -> bool:
    """Whether a chart shows what chose a question: the result that it asks for, or the stay it is about and its end."""
    concept = load_concepts().get(sample.task)
    if concept is not None and concept.is_result:
        return all(_shows(chart, row, ()) for row in sample.facts["row_ids"])
    ends = [column for named in places_of(chart.spec).stays.ends for column in named.split("|")]
    return _shows(chart, sample.facts["stay"], ends)


def _shows(chart: Chart, row: str, columns: Sequence[str]) -> bool:
    """Whether a row is on a chart, one of these cells filled (where there are any)."""
    batch = chart.table(row.partition(":")[0]).batch
    held = [batch.column(name) for name in columns if name in batch.schema.names]
    shown = batch.column("row_id").to_pylist()
    return row in shown and (not held or any(cells[shown.index(row)].is_valid for cells in held))


Events = Mapping[str, Mapping[int, Sequence[LabelEvent]]]
"""By task and subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a store's charts show at each subject's moment of what makes a question."""

    store: Store
    moments: Moments
    _over: dict[int, frozenset[Any]] = field(default_factory=dict)

    def settles(self, subject: int, event: LabelEvent) -> bool:
        """Whether the rows of an event are known, and that its visit was a stay where cells that come late say so."""
        if event.known_us > to_microseconds(self.moments[subject]):
            return False
        admission = self.store.spec.roles.admission
        if admission is None or admission.id is None or not self._is_told_late(admission):
            return True
        if subject not in self._over:
            batch = self.store.chart(subject, self.moments[subject]).table(admission.table).batch
            self._over[subject] = _stays_over(admission, batch)
        return event.encounter in self._over[subject]

    def _is_told_late(self, admission: SpanRole) -> bool:
        named = {name for condition in admission.where for name in condition}
        return not named.isdisjoint(self.store.spec.tables[admission.table].late)


def _stays_over(admission: SpanRole, shown: pa.RecordBatch) -> frozenset[Any]:
    """The ids of the stays of which a chart shows an end."""
    ends = {part for end in admission.ends for part in end.split("|")} & set(shown.schema.names)
    ended = [shown.column(name).is_valid().to_pylist() for name in sorted(ends)]
    ids = shown.column(str(admission.id)).to_pylist()
    return frozenset(one for place, one in enumerate(ids) if any(column[place] for column in ended))


def _agentehr(events: Events, known: _Known) -> AskedQuestions:
    """Every event that could be asked about."""
    return AskedQuestions(
        settled={
            (task, subject, _asked_at(event)): known.settles(subject, event)
            for task, by_subject in events.items()
            for subject, as_of in known.moments.items()
            for event in by_subject.get(subject, ())
            if event.prediction_us <= to_microseconds(as_of)
        },
        hangs_on={task: _rows_of(known.store, task) for task in events},
    )


def _asked_at(event: LabelEvent) -> str:
    return f"{time_text(event.prediction_us)} for {time_text(event.event_us)} in encounter {event.encounter}"


def _rows_of(store: Store, task: str) -> str:
    role = store.spec.roles.first(get_task(task).role)
    return "" if role is None else f"{role.table}.{EVENT}"


def _compare_draws(found: Compared, futures: tuple[Events, Events], known: Sequence[_Known]) -> None:
    """Where the drawn events of two futures are both known they are the same one; else one that is to come was drawn
    before a known one, and that is counted."""
    for task in futures[0]:
        for subject in known[0].moments:
            drawn = [_drawn(task, each[task].get(subject, ())) for each in futures]
            found.compared["draws"] += 1
            if _place(drawn[0]) == _place(drawn[1]):
                continue
            pairs = zip(drawn, known, strict=True)
            if all(event is not None and one.settles(subject, event) for event, one in pairs):
                found.differences.append(f"{subject}: {task}: of the events known another is drawn in the other future")
                found.places[f"{get_task(task).family}: {task} (which event is drawn)"] += 1
            else:
                found.declared[draw_reason()] += 1


def _drawn(task: str, events: Sequence[LabelEvent]) -> LabelEvent | None:
    return choose_event(events, _SEED, task) if events else None


def _place(event: LabelEvent | None) -> tuple[int, int] | None:
    return None if event is None else (event.event_us, event.encounter)
