"""A table of labels in MEDS form: ``subject_id``, ``prediction_time`` and one column of values."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from wardround.core import Reporter, UserError, silent
from wardround.exports.aces import aces_labels
from wardround.records import Chart, Policy, Store
from wardround.records.reading import subject_number
from wardround.tasks.answers import AnswerClass, OneClass
from wardround.tasks.benchmarks.benchmark import name_of_file
from wardround.tasks.benchmarks.own.labelling import Label, Moment, OwnTask
from wardround.tasks.benchmarks.task import QuestionText, Task

VALUE_COLUMNS = ("boolean_value", "integer_value", "float_value", "categorical_value")
_YES_NO: tuple[AnswerClass, ...] = (("0", "no"), ("1", "yes"))
FAMILY = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTable:
    """The labels of one file, by moment.

    It gives both the questions and the answers, and names no row that holds an answer: the audit can check the clock
    of a question, but not where its answer stands.
    """

    labels: Mapping[Moment, str]
    without_value: int = 0
    origin: Mapping[str, Any] = field(default_factory=dict)

    def moments(self, store: Store, policy: Policy, dropped: Counter[str]) -> Iterator[Moment]:
        """Yield the moments of the subjects in the store."""
        subjects = set(store.subjects.tolist())
        dropped["row_without_value"] += self.without_value
        for moment in sorted(self.labels, key=lambda label: (label.subject_id, label.prediction_time)):
            if moment.subject_id in subjects:
                yield moment
            else:
                dropped["subject_not_in_the_store"] += 1

    def label(self, moment: Moment, future: Chart) -> Label:
        """Return the label of a moment."""
        return Label(target=(self.labels[moment],))

    def facts(self) -> dict[str, Any]:
        """Return the entry in the manifest."""
        given = "given; no row of the record is known to hold an answer, so the audit looks for none"
        return {"label_table": given, **self.origin}


def read_label_table(
    path: Path,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    classes: Sequence[AnswerClass] = (),
    cuts: Sequence[float] = (),
) -> OwnTask:
    """Read a CSV or Parquet file of labels as a task.

    ``classes``: the meanings of integer and categorical values. ``cuts``: the limits between classes of float values.
    UserError: the file is no such table.
    """
    table = _read(path)
    column = _value_column(path, table)
    task_name = name or path.stem
    meanings = _meanings(path, table.column(column), column, classes, cuts)
    task = _task(task_name, title, description, meanings)
    labels = _labels(path, table, column, meanings, cuts)
    label_table = LabelTable(labels=labels, without_value=table.column(column).null_count)
    file = name_of_file(path)
    options = {
        "name": task_name,
        "title": title,
        "description": description,
        "classes": list(classes),
        "cuts": list(cuts),
    }
    return OwnTask(
        task=task,
        question_rule=label_table,
        labelling=label_table,
        sources=((file["name"], file["sha256"]),),
        built_from={"label_table": file, **options},
    )


def read_aces_task(
    path: Path, store: Store, *, name: str | None = None, description: str | None = None, report: Reporter = silent
) -> OwnTask:
    """Label a store by a task file of ACES (extra [aces]) and return the task. UserError: as :func:`aces_labels`."""
    found = aces_labels(store, path, report)
    labels = {
        Moment(subject_id=who, prediction_time=when): str(int(is_so)) for (who, when), is_so in found.by_event.items()
    }
    table = LabelTable(labels=labels, origin={"aces": asdict(found.counts())})
    file, task_name = name_of_file(path), name or path.stem
    return OwnTask(
        task=_task(task_name, None, description, _YES_NO),
        question_rule=table,
        labelling=table,
        sources=((file["name"], file["sha256"]),),
        built_from={"aces": file, "name": task_name, "description": description},
    )


def _task(name: str, title: str | None, description: str | None, meanings: tuple[AnswerClass, ...]) -> Task:
    return Task(
        name=name,
        title=title or name.replace("_", " "),
        answer=OneClass(classes=meanings),
        template="classification",
        family=FAMILY,
        words=QuestionText(category="Own question", description=description or f"What will {name!r} be?"),
    )


def _read(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        return pyarrow.csv.read_csv(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a table of labels ({error})") from error


def _value_column(path: Path, table: pa.Table) -> str:
    missing = [name for name in ("subject_id", "prediction_time") if name not in table.column_names]
    if missing:
        raise UserError(f"{path}: not a table of labels, missing the column {' and '.join(missing)}")
    filled = [
        name for name in VALUE_COLUMNS if name in table.column_names and table.column(name).null_count < len(table)
    ]
    if len(filled) != 1:
        problem = f"{' and '.join(filled)} have values" if filled else "all of them are empty"
        raise UserError(f"{path}: exactly one of {', '.join(VALUE_COLUMNS)} must hold the labels; {problem}")
    return filled[0]


def _meanings(
    path: Path, values: pa.ChunkedArray, column: str, classes: Sequence[AnswerClass], cuts: Sequence[float]
) -> tuple[AnswerClass, ...]:
    """Return the classes: declared ones, yes and no for booleans, intervals between the cuts for numbers.

    They never come from the values: otherwise other people's outcomes would appear in a prompt.
    """
    if column == "float_value":
        if not cuts or sorted(set(cuts)) != list(cuts):
            raise UserError(f"{path}: numbers need --cut, the bounds of their classes in rising order")
        names = (f"less than {cuts[0]:g}", *(f"{a:g} to less than {b:g}" for a, b in pairwise(cuts)))
        interval_names = (*names, f"{cuts[-1]:g} or more")
        return tuple(classes) or tuple((str(n), name) for n, name in enumerate(interval_names))
    if column == "boolean_value":
        return tuple(classes) or _YES_NO
    if not classes:
        distinct = sorted(map(str, pc.unique(values).drop_null().to_pylist()))
        shown = ", ".join(distinct[:8]) + (" ..." if len(distinct) > 8 else "")
        raise UserError(f"{path}: give the meanings of the {len(distinct)} values ({shown}): --class VALUE=MEANING ...")
    return tuple(classes)


def _labels(
    path: Path, table: pa.Table, column: str, meanings: Sequence[AnswerClass], cuts: Sequence[float]
) -> dict[Moment, str]:
    allowed = {value for value, _ in meanings} | {name for _, name in meanings}
    value_of = {name: value for value, name in meanings}
    labels: dict[Moment, str] = {}
    times = _times(path, table)
    subjects, values = (table.column(name).to_pylist() for name in ("subject_id", column))
    for line, (subject, time, value) in enumerate(zip(subjects, times, values, strict=True), 2):
        if value is None:
            continue
        text = str(bisect_right(cuts, value)) if cuts else str(int(value)) if isinstance(value, bool) else str(value)
        if text not in allowed:
            raise UserError(f"{path}, row {line}: {value!r} is none of the classes {', '.join(sorted(allowed))}")
        number = subject if isinstance(subject, int) else subject_number(str(subject))
        moment = Moment(subject_id=number, prediction_time=time)
        label = value_of.get(text, text)
        if labels.setdefault(moment, label) != label:
            raise UserError(f"{path}, row {line}: subject {subject} has another label at {time} in an earlier row")
    return labels


def _times(path: Path, table: pa.Table) -> list[datetime]:
    column = table.column("prediction_time")
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        raise UserError(
            f"{path}: prediction_time has an offset from UTC ({column.type}); write times as the record has them, "
            "on the hospital's clock and without an offset"
        )
    try:
        times: list[Any] = column.cast(pa.timestamp("us")).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(f"{path}: prediction_time must hold times such as 2150-01-01 08:00:00 ({error})") from error
    if None in times or table.column("subject_id").null_count:
        raise UserError(f"{path}: every row needs a subject_id and a prediction_time")
    return times
