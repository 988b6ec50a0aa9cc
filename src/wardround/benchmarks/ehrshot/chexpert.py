"""chexpert: labels of chest radiographs from a CheXpert-format file; nothing is read from the reports themselves."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wardround.benchmarks.columns import DAY, NO_TIME, event_times, texts
from wardround.benchmarks.ehrshot.labelling import Questions
from wardround.benchmarks.ehrshot.record import FirstEvents
from wardround.benchmarks.task import CHEXPERT_LABELS
from wardround.core import UserError
from wardround.records import RowRole, Store

_ID_COLUMNS = ("report_id", "note_id", "study_id", "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLabels:
    """A report's labels as a number with one bit per label; ``uncertain`` counts cells of -1, which do not hold."""

    bits: Mapping[str, int]
    uncertain: int


def read_labels(path: Path) -> ReportLabels:
    """Read a file with the id of a report and the 14 columns: 1 holds; 0, -1 (uncertain) and empty do not."""
    try:
        with path.open(encoding="utf-8", newline="") as source:
            reader = csv.DictReader(source)
            header = reader.fieldnames or ()
            key = next((name for name in _ID_COLUMNS if name in header), None)
            missing = [name for name in CHEXPERT_LABELS if name not in header]
            if key is None or missing:
                wanted = f"one of {', '.join(_ID_COLUMNS)}" if key is None else ", ".join(missing)
                raise UserError(f"{path}: not a file of CheXpert labels, it lacks the column {wanted}")
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
    """Ask 24 hours before every report that has labels, unless the record begins later."""
    dropped: Counter[str] = Counter({"uncertain_cells_taken_as_no": labels.uncertain})
    found: list[tuple[int, int, int, int, int]] = []
    named: set[str] = set()
    for subject, batch in store.scan(place.table):
        times = event_times(batch).tolist()
        ids = texts(batch.column(place.id))
        for row, (time, report) in enumerate(zip(times, ids, strict=True)):
            if report not in labels.bits:
                dropped["report_without_labels"] += 1
                continue
            named.add(report)
            if time == NO_TIME or begins.before(subject, time - DAY) >= time - DAY:
                dropped["record_begins_later" if time != NO_TIME else "report_without_time"] += 1
                continue
            found.append((subject, time - DAY, labels.bits[report], time, row))
    dropped["labels_without_report"] = len(labels.bits.keys() - named)
    subjects, predictions, values, events, rows = np.array(sorted(found), np.int64).reshape(-1, 5).T
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
