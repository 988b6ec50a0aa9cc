"""Find every possible EHRSHOT question in a record, including chest X-ray labels."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wardround.core import UserError
from wardround.records import Policy, RowRole, Store
from wardround.tasks.benchmarks.ehrshot.concepts import Places
from wardround.tasks.benchmarks.ehrshot.record import (
    DIAGNOSIS_DAYS,
    READMISSION_DAYS,
    UNKNOWN,
    FirstEvents,
    LabelledQuestions,
    SubjectRecord,
    ask_before_results,
    icu_transfers,
    long_stays,
    new_diagnoses,
    readmissions,
)
from wardround.tasks.benchmarks.encounters import DAY, NO_TIME, Ints, Spans, event_times, texts
from wardround.tasks.benchmarks.task import CHEXPERT_LABELS, get_task

# From a record to every possible question: one set of columns per task, before the draw.


_HORIZON = {"guo_readmission": READMISSION_DAYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Every question of a task, ordered by subject and time.

    The columns are those of ``LabelledQuestions``, with the subject and the index in ``tables`` of the table of the
    answer's row. ``short`` counts negative answers with a short follow-up.
    """

    subjects: Ints
    predictions: Ints
    values: Ints
    events: Ints
    stays: Ints
    rows: Ints
    tables: tuple[str, ...]
    table_of: Ints
    dropped: Counter[str]
    short: int | None = None

    def __len__(self) -> int:
        return len(self.subjects)

    def answered(self) -> Questions:
        """Return the questions with a known answer; the others (stays without an end) are counted."""
        is_known = self.values != UNKNOWN
        columns = ("subjects", "predictions", "values", "events", "stays", "rows", "table_of")
        dropped = self.dropped + Counter({"no_discharge": int(np.count_nonzero(~is_known))})
        return replace(self, dropped=dropped, **{name: getattr(self, name)[is_known] for name in columns})


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeller:
    """Finds every question of a task in a record.

    Under ``published`` the dead have questions too, as in EHRSHOT.
    """

    places: Places
    record: SubjectRecord
    begins: FirstEvents
    policy: Policy

    def questions(self, task: str) -> Questions:
        """Return every question of a task."""
        dropped: Counter[str] = Counter(self.record.dropped.get(task, {}))
        parts = list(self._question_parts(task, dropped))
        tables = tuple(sorted({table for _, table, _ in parts}))
        subjects = _joined([np.full(len(questions), subject, np.int64) for subject, _, questions in parts])
        columns = {
            name: _joined([getattr(questions, name) for _, _, questions in parts])
            for name in ("predictions", "values", "events", "stays", "rows")
        }
        table_of = _joined([np.full(len(questions), tables.index(table), np.int64) for _, table, questions in parts])
        order = np.lexsort((columns["rows"], columns["predictions"], subjects))
        ordered = {name: column[order] for name, column in columns.items()}
        return Questions(
            subjects=subjects[order],
            tables=tables,
            table_of=table_of[order],
            dropped=dropped,
            short=self._short(task, subjects[order], ordered),
            **ordered,
        )

    def _question_parts(self, task: str, dropped: Counter[str]) -> Iterator[tuple[int, str, LabelledQuestions]]:
        """Yield (subject, table of the answer's rows, questions)."""
        if get_task(task).about == "result":
            yield from self._results(task, dropped)
            return
        stays_table = self.places.stays.table
        for subject, stays in sorted(self.record.stays.items()):
            death = self.record.death(subject) if self.policy == "known_at" else NO_TIME
            if task == "guo_los":
                yield subject, stays_table, long_stays(stays, dropped)
            elif task == "guo_icu":
                icu = self.record.icu_stays.get(subject, Spans.none())
                icu_table = self.places.icu_stays.table if self.places.icu_stays else stays_table
                yield subject, icu_table, icu_transfers(stays, icu, dropped)
            elif task == "guo_readmission":
                yield subject, stays_table, readmissions(stays, death, dropped)
            else:
                first_diagnosis = self.record.first_diagnoses.get(task, {}).get(subject, (NO_TIME, stays_table, -1))
                yield (
                    subject,
                    first_diagnosis[1],
                    new_diagnoses(stays, first_diagnosis[0], first_diagnosis[2], death, dropped),
                )

    def _results(self, task: str, dropped: Counter[str]) -> Iterator[tuple[int, str, LabelledQuestions]]:
        begins = self.begins
        for subject, parts in sorted(self.record.results.get(task, {}).items()):
            earliest = min(int(part.times.min()) for part in parts)
            begin = begins.before(subject, earliest)
            for part in parts:
                yield subject, part.table, ask_before_results(part, begin, dropped)

    def _short(self, task: str, subjects: Ints, columns: dict[str, Ints]) -> int | None:
        """Count the negative answers whose horizon ends after the record; None without a horizon."""
        days = DIAGNOSIS_DAYS if get_task(task).about == "diagnosis" else _HORIZON.get(task)
        if days is None:
            return None
        record_ends = np.array([self.record.ends.get(subject, NO_TIME) for subject in subjects.tolist()], np.int64)
        return int(np.count_nonzero((columns["values"] == 0) & (record_ends < columns["predictions"] + days * DAY)))


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


# chexpert: labels of chest radiographs from a file in CheXpert's format; reports themselves are not read.


_ID_COLUMNS = ("report_id", "note_id", "study_id", "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLabels:
    """A report's labels as a number with one bit per label.

    ``uncertain`` counts cells of -1, read as negative.
    """

    bits: Mapping[str, int]
    uncertain: int


def read_labels(path: Path) -> ReportLabels:
    """Read a file with report ids and the 14 columns.

    1 is positive; 0, -1 (uncertain) and empty are negative.
    """
    try:
        with path.open(encoding="utf-8", newline="") as source:
            reader = csv.DictReader(source)
            header = reader.fieldnames or ()
            key = next((name for name in _ID_COLUMNS if name in header), None)
            missing = [name for name in CHEXPERT_LABELS if name not in header]
            if key is None or missing:
                wanted = f"one of {', '.join(_ID_COLUMNS)}" if key is None else ", ".join(missing)
                raise UserError(f"{path}: not a file of CheXpert labels, missing column {wanted}")
            rows = list(reader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give a CSV file of CheXpert labels") from error
    bits: dict[str, int] = {}
    uncertain = 0
    for number, row in enumerate(rows, start=2):
        cells = [_cell(path, number, row[name]) for name in CHEXPERT_LABELS]
        uncertain += cells.count(-1)
        bits[row[key].strip()] = sum(1 << place for place, cell in enumerate(cells) if cell == 1)
    return ReportLabels(bits=bits, uncertain=uncertain)


def report_questions(store: Store, place: RowRole, labels: ReportLabels, begins: FirstEvents) -> Questions:
    """Return a question 24 hours before every labelled report, unless the record begins later."""
    dropped: Counter[str] = Counter({"uncertain_cells_taken_as_no": labels.uncertain})
    questions: list[tuple[int, int, int, int, int]] = []
    labelled_reports: set[str] = set()
    for subject, batch in store.scan(place.table):
        times = event_times(batch).tolist()
        ids = texts(batch.column(place.id))
        for row, (time, report) in enumerate(zip(times, ids, strict=True)):
            if report not in labels.bits:
                dropped["report_without_labels"] += 1
                continue
            labelled_reports.add(report)
            if time == NO_TIME or begins.before(subject, time - DAY) >= time - DAY:
                dropped["record_begins_later" if time != NO_TIME else "report_without_time"] += 1
                continue
            questions.append((subject, time - DAY, labels.bits[report], time, row))
    dropped["labels_without_report"] = len(labels.bits.keys() - labelled_reports)
    subjects, predictions, values, events, rows = np.array(sorted(questions), np.int64).reshape(-1, 5).T
    return Questions(
        subjects=subjects,
        predictions=predictions,
        values=values,
        events=events,
        stays=np.full(len(subjects), -1, np.int64),
        rows=rows,
        tables=(place.table,),
        table_of=np.zeros(len(subjects), np.int64),
        dropped=dropped,
    )


def _cell(path: Path, line: int, text: str | None) -> int:
    try:
        value = float(text) if text and text.strip() else 0.0
    except ValueError:
        value = float("nan")
    if value not in (1.0, 0.0, -1.0):
        raise UserError(f"{path}, line {line}: a CheXpert label is 1, 0, -1 or empty, not {text!r}")
    return int(value)
