"""The rules of the EHRSHOT tasks on the times of one subject, and those times as they are read from a record.

Cases without a question are counted by reason. All times are microseconds. The prediction time is 23:59:59 of a day, or
one minute before a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import Progress, Reporter, UserError
from wardround.records import MomentRole, Policy, RowRole, Store
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import CodedRows
from wardround.tasks.benchmarks.ehrshot.concepts import CodeMatcher, Places, TaskConcept
from wardround.tasks.benchmarks.encounters import (
    AVAILABLE,
    DAY,
    EVENT,
    MINUTE,
    NO_TIME,
    SECOND,
    Flags,
    Ints,
    Spans,
    cell_times,
    count_kinds,
    event_times,
    microseconds,
    read_spans,
    texts,
)

LONG_STAY_DAYS, READMISSION_DAYS, DIAGNOSIS_DAYS = 7, 30, 365
UNKNOWN = -1
"""The class of a question without a known answer; it never becomes a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledQuestions:
    """Questions of one subject, one array item per question.

    ``predictions``: prediction times. ``values``: classes. ``events``: when the answer happened (NO_TIME: never).
    ``stays``: row index of the stay. ``rows``: row index of the answer (-1: none).
    """

    predictions: Ints
    values: Ints
    events: Ints
    stays: Ints
    rows: Ints

    @classmethod
    def of(cls, questions: list[tuple[int, int, int, int, int]]) -> LabelledQuestions:
        """Build the arrays from tuples in the order of the fields."""
        columns = np.array(questions, np.int64).reshape(-1, 5).T
        predictions, values, events, stays, rows = columns
        return cls(predictions=predictions, values=values, events=events, stays=stays, rows=rows)

    def __len__(self) -> int:
        return len(self.predictions)


def end_of_day(time: int) -> int:
    """Return 23:59:59 of the day of a time."""
    return time - time % DAY + DAY - SECOND


def long_stays(stays: Spans, dropped: Counter[str]) -> LabelledQuestions:
    """guo_los: predict at the end of the first day whether a stay lasts 7 days or more.

    There is no question about a stay that ends on its first day.
    """
    questions = []
    for index, (start, end) in enumerate(_pairs(stays)):
        reason = _same_day_reason(start, end)
        if reason:
            dropped[reason] += 1
            continue
        if end == NO_TIME:
            questions.append((end_of_day(start), UNKNOWN, NO_TIME, int(stays.rows[index]), -1))
            continue
        long = end - start >= LONG_STAY_DAYS * DAY
        questions.append((end_of_day(start), int(long), end, int(stays.rows[index]), int(stays.stops[index])))
    return LabelledQuestions.of(questions)


def icu_transfers(stays: Spans, icu: Spans, dropped: Counter[str]) -> LabelledQuestions:
    """guo_icu: predict at the end of the first day whether intensive care begins later in the stay.

    There is no question about a stay that ends on that day, nor about a person who is or was in intensive care by
    then. Intensive care that began before the stay (in the emergency room) and continues in it, or has no end on
    record, belongs to it.
    """
    questions = []
    for index, (start, end) in enumerate(_pairs(stays)):
        reason = _same_day_reason(start, end)
        prediction_us = end_of_day(start)
        left_before = int(stays.ends[:index].max(initial=NO_TIME))
        goes_on = (icu.ends > start) | ((icu.ends == NO_TIME) & (icu.starts > left_before))
        within = ((icu.starts <= end) | (end == NO_TIME)) & ((icu.starts >= start) | goes_on)
        if not reason and bool(np.any(within & (icu.starts <= prediction_us))):
            reason = "icu_on_admission_day"
        if reason:
            dropped[reason] += 1
            continue
        if end == NO_TIME:
            questions.append((prediction_us, UNKNOWN, NO_TIME, int(stays.rows[index]), -1))
            continue
        later = np.flatnonzero(within)
        event, row = (int(icu.starts[later[0]]), int(icu.rows[later[0]])) if len(later) else (NO_TIME, -1)
        questions.append((prediction_us, int(len(later) > 0), event, int(stays.rows[index]), row))
    return LabelledQuestions.of(questions)


def readmissions(stays: Spans, death: int, dropped: Counter[str]) -> LabelledQuestions:
    """guo_readmission: predict at the end of the discharge day whether a stay begins within 30 days.

    There is no question about a person who is back in hospital on the day of discharge, as EHRSHOT's documents say
    (its code differs), nor about a person who has died (``death``; NO_TIME: alive, or EHRSHOT's rule, which includes
    the dead).
    """
    questions = []
    for index, (start, end) in enumerate(_pairs(stays)):
        prediction_us = end_of_day(end) if end != NO_TIME else NO_TIME
        others = np.arange(len(stays)) != index
        back = others & (stays.starts <= prediction_us) & ((stays.starts >= end) | (stays.ends > prediction_us))
        reason = (
            _no_length_reason(start, end)
            or _death_reason(death, prediction_us)
            or ("back_on_the_same_day" if np.any(back) else "")
        )
        if reason:
            dropped[reason] += 1
            continue
        later = np.flatnonzero(stays.starts > prediction_us)
        event, row = (int(stays.starts[later[0]]), int(stays.rows[later[0]])) if len(later) else (NO_TIME, -1)
        positive = len(later) > 0 and event <= prediction_us + READMISSION_DAYS * DAY
        stay = int(stays.rows[index])
        questions.append((prediction_us, 1, event, stay, row) if positive else (prediction_us, 0, NO_TIME, stay, -1))
    return LabelledQuestions.of(questions)


def new_diagnoses(stays: Spans, first: int, row: int, death: int, dropped: Counter[str]) -> LabelledQuestions:
    """new_*: predict whether the first diagnosis comes within 1 to 365 days of a discharge.

    ``first`` is the time of the first diagnosis (NO_TIME: never). The prediction time is the end of the day of
    discharge; questions exist only before the first diagnosis, one per day. Nothing is censored: without a diagnosis
    the answer is no, however short the follow-up. A first diagnosis on the first of these days is a no, and counted.
    """
    questions: dict[int, tuple[int, int, int, int, int]] = {}
    for index, (start, end) in enumerate(_pairs(stays)):
        prediction_us = end_of_day(end) if end != NO_TIME else NO_TIME
        diagnosed = "diagnosed_before" if NO_TIME < first <= prediction_us else ""
        reason = _no_length_reason(start, end) or diagnosed or _death_reason(death, prediction_us)
        if prediction_us in questions and not reason:
            reason = "another_discharge_that_day"
        if reason:
            dropped[reason] += 1
            continue
        dropped["diagnosed_within_a_day_is_no"] += prediction_us < first < prediction_us + DAY
        positive = first != NO_TIME and prediction_us + DAY <= first <= prediction_us + DIAGNOSIS_DAYS * DAY
        stay = int(stays.rows[index])
        questions[prediction_us] = (
            (prediction_us, 1, first, stay, row) if positive else (prediction_us, 0, NO_TIME, stay, -1)
        )
    return LabelledQuestions.of(list(questions.values()))


def _pairs(stays: Spans) -> list[tuple[int, int]]:
    return list(zip(stays.starts.tolist(), stays.ends.tolist(), strict=True))


def _no_length_reason(start: int, end: int) -> str:
    """Return why a stay has no length, if it has none; EHRSHOT drops stays that end as they begin."""
    if end == NO_TIME:
        return "no_discharge"
    if end == start:
        return "ends_as_it_begins"
    return "ends_before_it_begins" if end < start else ""


def _same_day_reason(start: int, end: int) -> str:
    if end == NO_TIME:
        return ""
    return _no_length_reason(start, end) or ("ends_on_the_day_of_admission" if end - end % DAY <= start else "")


def _death_reason(death: int, prediction_us: int) -> str:
    return "dead_by_then" if NO_TIME < death <= prediction_us else ""


# Laboratory results: rows to classes, with their units converted. What cannot be read is counted by its reason.


_NORMAL_WORDS = frozenset({"normal", "adequate"})
_BOUNDS = {"<": -0.001, ">": 0.001}
"""What a number that is only a bound ("<3 mmol/L" with the number 3) lies beyond it, in the concept's unit: a value
below 3 is not 3, whatever else it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Results of one concept in one table: time, class, place of the row."""

    table: str
    times: Ints
    classes: npt.NDArray[np.int8]
    rows: Ints

    def __len__(self) -> int:
        return len(self.times)


def read_results(
    concept: TaskConcept,
    place: RowRole,
    batch: pa.RecordBatch,
    *,
    times: Ints,
    rows: Ints,
    coded_units: Sequence[str | None],
    dropped: Counter[str],
    units: Counter[str],
) -> Results:
    """Classify the rows of a concept. ``coded_units`` are those that their codes name, used where the row has none.

    A text that says normal or adequate is class 0 without a number; a number counts only with a unit that the concept
    has a factor for. ``units`` counts every unit met; ``dropped`` says what was left out and why.
    """
    named = [name for name in (place.value, place.text, place.unit) if name and name in batch.schema.names]
    part = batch.select(named).take(pa.array(rows)) if named else pa.RecordBatch.from_pydict({"": pa.nulls(len(rows))})
    values = _numbers(part, place)
    words = [text.strip().casefold() if text else "" for text in _cells(part, place.text)]
    written = [unit or coded for unit, coded in zip(_cells(part, place.unit), coded_units, strict=True)]
    values = np.array([_read(word) if np.isnan(value) else value for word, value in zip(words, values, strict=True)])
    normal = np.isnan(values) & np.fromiter((word in _NORMAL_WORDS for word in words), bool, len(words))
    factors = np.array([np.nan if (found := concept.factor(unit)) is None else found for unit in written], float)
    units.update(unit or "(none)" for unit, wordy in zip(written, normal.tolist(), strict=True) if not wordy)
    timed = times[rows] != NO_TIME
    reasons = {
        "result_without_time": ~timed,
        "result_without_number": timed & np.isnan(values) & ~normal,
        "unknown_unit": timed & ~np.isnan(values) & np.isnan(factors),
    }
    kept = timed & ~reasons["result_without_number"] & ~reasons["unknown_unit"]
    dropped.update({reason: int(np.count_nonzero(flags)) for reason, flags in reasons.items()})
    beyond = np.array([_BOUNDS.get(word[:1], 0.0) if word[1:2] != "=" else 0.0 for word in words])
    converted = np.where(normal, 0.0, values * factors + beyond)[kept]
    classes = np.where(normal[kept], 0, concept.classes(converted)).astype(np.int8)
    return Results(table=place.table, times=times[rows][kept], classes=classes, rows=rows[kept])


def ask_before_results(results: Results, first_event: int, dropped: Counter[str]) -> LabelledQuestions:
    """lab_*: predict the class of every result one minute before it; results at the first event are left out."""
    kept = results.times > first_event
    dropped["at_the_first_event"] += int(np.count_nonzero(~kept))
    times = results.times[kept]
    return LabelledQuestions(
        predictions=times - MINUTE,
        values=results.classes[kept].astype(np.int64),
        events=times,
        stays=np.full(len(times), -1, np.int64),
        rows=results.rows[kept],
    )


def _numbers(batch: pa.RecordBatch, place: RowRole) -> npt.NDArray[np.float64]:
    if place.value is None or place.value not in batch.schema.names:
        return np.full(batch.num_rows, np.nan)
    column = batch.column(place.value).cast(pa.float64())
    values = np.asarray(column.fill_null(np.nan).to_numpy(zero_copy_only=False), float)
    return np.where(np.isfinite(values), values, np.nan)


def _cells(batch: pa.RecordBatch, name: str | None) -> list[str | None]:
    if name is None or name not in batch.schema.names:
        return [None] * batch.num_rows
    return texts(batch.column(name))


def _read(word: str) -> float:
    """Read a plain number written as text; anything else is NaN."""
    try:
        value = float(word)
    except ValueError:
        return float("nan")
    return value if np.isfinite(value) else float("nan")


# What the rules need of every subject, read from the trusted store in one pass over each table.


RevisionRow = tuple[int, str, int]
"""A moment, the table it was found in and the place of its row there."""


@dataclass(slots=True, kw_only=True)
class SubjectRecord:
    """Everything labels are made of, by subject. ``begins`` and ``ends`` are the first and last event of the tables
    that were read (``tables``), ``begins`` the first that was known under the policy ``known_at``; ``results`` and
    ``first_diagnoses`` are by task, then subject."""

    stays: dict[int, Spans] = field(default_factory=dict)
    icu_stays: dict[int, Spans] = field(default_factory=dict)
    deaths: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    results: dict[str, dict[int, list[Results]]] = field(default_factory=dict)
    first_diagnoses: dict[str, dict[int, RevisionRow]] = field(default_factory=dict)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    units: dict[str, Counter[str]] = field(default_factory=dict)
    tables: frozenset[str] = frozenset()
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    """Rows of the table of stays by their kind, where it has kinds: stays, none, or of a kind that nobody declared."""

    def death(self, subject_id: int) -> int:
        """Return when a subject died, NO_TIME where unknown."""
        return self.deaths.get(subject_id, NO_TIME)


def read_record(
    store: Store,
    places: Places,
    labs: Sequence[CodeMatcher],
    diagnoses: Sequence[CodeMatcher],
    *,
    policy: Policy,
    report: Reporter,
    spans: bool = True,
) -> SubjectRecord:
    """Read every table that labels come from. UserError: the store has no table of stays."""
    reader = _Reader(store=store, places=places, labs=labs, diagnoses=diagnoses, policy=policy, spans=spans)
    tables = [name for name in store.table_names if name in reader.tables]
    if spans and places.stays.table not in tables:
        raise UserError(f"the store has no table {places.stays.table!r}, which says when people were in hospital")
    total = len(store.subjects)
    reader.record.tables = frozenset(tables)
    for table in tables:
        for done, (subject_id, batch) in enumerate(store.scan(table)):
            reader.take(table, subject_id, CodedRows(batch=batch))
            report(Progress(label=f"labels from {table}", done=done + 1, total=total, unit="subjects"))
    return reader.record


@dataclass(slots=True, kw_only=True)
class _Reader:
    store: Store
    places: Places
    labs: Sequence[CodeMatcher]
    diagnoses: Sequence[CodeMatcher]
    policy: Policy
    spans: bool
    record: SubjectRecord = field(default_factory=SubjectRecord)

    @property
    def tables(self) -> set[str]:
        named = {matcher.place.table for matcher in (*self.labs, *self.diagnoses)}
        if self.spans:
            named |= {place.table for place in (self.places.stays, self.places.icu_stays, *self.places.deaths) if place}
        return named

    def take(self, table: str, subject_id: int, rows: CodedRows) -> None:
        """Note what one subject's rows of one table say."""
        times = event_times(rows.batch)
        self._note_extent(subject_id, times, rows)
        if self.spans:
            self._take_spans(table, subject_id, times, rows)
        for matcher in self.labs:
            if matcher.place.table == table:
                self._take_results(matcher, subject_id, times, rows)
        for matcher in self.diagnoses:
            if matcher.place.table == table:
                self._take_diagnoses(matcher, subject_id, times, rows)

    def _take_spans(self, table: str, subject_id: int, times: Ints, rows: CodedRows) -> None:
        if self.places.stays.table == table:
            self.record.stays[subject_id] = read_spans(self.places.stays, times, rows)
            count_kinds(self.places.stays, rows, self.record.kinds)
        if self.places.icu_stays is not None and self.places.icu_stays.table == table:
            self.record.icu_stays[subject_id] = read_spans(self.places.icu_stays, times, rows)
        for place in self.places.deaths:
            if place.table == table:
                found = _moments(place, times, rows)
                if len(found):
                    earlier = self.record.deaths.get(subject_id, NEVER_TIME)
                    self.record.deaths[subject_id] = min(earlier, int(found.min()))

    def _take_results(self, matcher: CodeMatcher, subject_id: int, times: Ints, rows: CodedRows) -> None:
        index, meanings = matcher.match(rows)
        concept_of = np.array([meaning.concept for meaning in meanings], np.int64)[index]
        for number in np.unique(concept_of[concept_of >= 0]).tolist():
            concept = matcher.concepts[number]
            places = np.flatnonzero(concept_of == number)
            dropped = self.record.dropped.setdefault(concept.task, Counter())
            units = self.record.units.setdefault(concept.task, Counter())
            coded = [meanings[place].unit for place in index[places].tolist()]
            found = read_results(
                concept,
                matcher.place,
                rows.batch,
                times=times,
                rows=places,
                coded_units=coded,
                dropped=dropped,
                units=units,
            )
            if len(found):
                self.record.results.setdefault(concept.task, {}).setdefault(subject_id, []).append(found)

    def _take_diagnoses(self, matcher: CodeMatcher, subject_id: int, times: Ints, rows: CodedRows) -> None:
        index, meanings = matcher.match(rows)
        concept_of = np.array([meaning.concept for meaning in meanings], np.int64)[index]
        for number in np.unique(concept_of[concept_of >= 0]).tolist():
            task = matcher.concepts[number].task
            places = np.flatnonzero((concept_of == number) & (times != NO_TIME))
            dropped = self.record.dropped.setdefault(task, Counter())
            dropped["diagnosis_without_time"] += int(np.count_nonzero(concept_of == number)) - len(places)
            if len(places):
                row = int(places[np.argmin(times[places])])
                firsts = self.record.first_diagnoses.setdefault(task, {})
                mark = (int(times[row]), matcher.place.table, row)
                firsts[subject_id] = min(firsts.get(subject_id, mark), mark)

    def _note_extent(self, subject_id: int, times: Ints, rows: CodedRows) -> None:
        begins, ends = self.record.begins, self.record.ends
        begins[subject_id] = min(begins.get(subject_id, NEVER_TIME), first_event(self.places, rows, self.policy))
        timed = times[(times != NO_TIME) & counts_as_event(self.places, rows)]
        if len(timed):
            ends[subject_id] = max(ends.get(subject_id, NO_TIME), int(timed.max()))


def first_event(places: Places, rows: CodedRows, policy: Policy) -> int:
    """Return the time of a subject's first event in a table, NEVER_TIME without one. Under ``known_at`` an event counts
    from when it was known: a procedure that is coded after the discharge does not begin the record at its midnight."""
    times = event_times(rows.batch)
    if policy == "known_at":
        times = np.where(times == NO_TIME, NO_TIME, np.maximum(times, microseconds(rows.batch.column(AVAILABLE))))
    times = times[(times != NO_TIME) & counts_as_event(places, rows)]
    return int(times.min()) if len(times) else NEVER_TIME


def counts_as_event(places: Places, rows: CodedRows) -> Flags:
    """Say which rows are events of the record: all but births."""
    if not places.not_the_record or not rows.has(["code"]):
        return np.ones(rows.batch.num_rows, bool)
    return ~rows.fits("code", places.not_the_record)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEvents:
    """When each subject's record begins. Tables that were not read for labels are read for the few subjects of whom
    nothing is known from before the moment in question."""

    store: Store
    places: Places
    record: SubjectRecord
    policy: Policy
    _found: dict[int, int] = field(default_factory=dict, init=False, repr=False)

    def before(self, subject_id: int, moment: int) -> int:
        """Return the time of a subject's first event, or of any event before the moment."""
        known = self.record.begins.get(subject_id, NEVER_TIME)
        if known < moment:
            return known
        if subject_id not in self._found:
            self._found[subject_id] = min([known, *self._elsewhere(subject_id)])
        return self._found[subject_id]

    def _elsewhere(self, subject_id: int) -> Iterator[int]:
        for table in self.store.table_names:
            if table in self.record.tables or self.store.spec.tables[table].is_static:
                continue
            yield first_event(self.places, CodedRows(batch=self.store.rows(subject_id, table)), self.policy)


def _moments(place: MomentRole, times: Ints, rows: CodedRows) -> Ints:
    found: Ints
    if place.time == EVENT:
        found = times
    elif place.code is not None:
        found = times[rows.fits(place.code, place.starts)]
    elif place.time is not None and rows.has([place.time]):
        found = cell_times(rows.batch.column(place.time))
    else:
        found = np.empty(0, np.int64)
    return np.extract(found != NO_TIME, found)
