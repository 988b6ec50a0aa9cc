"""A table of labels as MEDS has it: ``subject_id``, ``prediction_time`` and one column of values."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from wardround.core import UserError
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
    """The labels of one file, by moment. It says both when to ask and what is right, and names no row that says so: the
    audit can check the clock of such a question, not where its answer stands."""

    labels: Mapping[Moment, str]
    without_value: int = 0

    def moments(self, store: Store, policy: Policy, dropped: Counter[str]) -> Iterator[Moment]:
        """Yield the moments of the subjects that the store has."""
        known = set(store.subjects.tolist())
        dropped["row_without_value"] += self.without_value
        for moment in sorted(self.labels, key=lambda one: (one.subject_id, one.prediction_time)):
            if moment.subject_id in known:
                yield moment
            else:
                dropped["subject_not_in_the_store"] += 1

    def label(self, moment: Moment, future: Chart) -> Label:
        """Return what the table says."""
        return Label(target=(self.labels[moment],))

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"label_table": "given; no row of the record is known to hold an answer, so the audit looks for none"}


def read_label_table(
    path: Path,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    classes: Sequence[AnswerClass] = (),
    cuts: Sequence[float] = (),
) -> OwnTask:
    """Read a CSV or Parquet file of labels as a task. ``classes``: what integer and categorical values mean; ``cuts``:
    where a class of float values ends and the next begins. UserError: the file is no such table."""
    table = _read(path)
    column = _value_column(path, table)
    own = name or path.stem
    meanings = _meanings(path, table.column(column), column, classes, cuts)
    task = Task(
        name=own,
        title=title or own.replace("_", " "),
        answer=OneClass(classes=meanings),
        template="classification",
        family=FAMILY,
        words=QuestionText(category="Own question", description=description or f"What will {own!r} be?"),
    )
    labels = _labels(path, table, column, meanings, cuts)
    read = LabelTable(labels=labels, without_value=table.column(column).null_count)
    file = name_of_file(path)
    said = {"name": own, "title": title, "description": description, "classes": list(classes), "cuts": list(cuts)}
    return OwnTask(
        task=task,
        asked=read,
        labelling=read,
        sources=((file["name"], file["sha256"]),),
        made_of={"label_table": file, **said},
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
        raise UserError(f"{path}: not a table of labels, it lacks the column {' and '.join(missing)}")
    held = [name for name in VALUE_COLUMNS if name in table.column_names and table.column(name).null_count < len(table)]
    if len(held) != 1:
        found = f"{' and '.join(held)} hold values" if held else "none of them holds a value"
        raise UserError(f"{path}: exactly one of {', '.join(VALUE_COLUMNS)} must hold the labels; {found}")
    return held[0]


def _meanings(
    path: Path, values: pa.ChunkedArray, column: str, classes: Sequence[AnswerClass], cuts: Sequence[float]
) -> tuple[AnswerClass, ...]:
    """Return the classes: declared, of a boolean yes and no, of numbers those that the cuts part.

    They are never taken from the values: then what other people's outcomes are would stand in a prompt.
    """
    if column == "float_value":
        if not cuts or sorted(set(cuts)) != list(cuts):
            raise UserError(f"{path}: numbers need --cut, the bounds of their classes in rising order")
        names = (f"less than {cuts[0]:g}", *(f"{a:g} to less than {b:g}" for a, b in pairwise(cuts)))
        every = (*names, f"{cuts[-1]:g} or more")
        return tuple(classes) or tuple((str(n), name) for n, name in enumerate(every))
    if column == "boolean_value":
        return tuple(classes) or _YES_NO
    if not classes:
        held = sorted(map(str, pc.unique(values).drop_null().to_pylist()))
        shown = ", ".join(held[:8]) + (" ..." if len(held) > 8 else "")
        raise UserError(f"{path}: say what the {len(held)} values ({shown}) mean: --class VALUE=MEANING ...")
    return tuple(classes)


def _labels(
    path: Path, table: pa.Table, column: str, meanings: Sequence[AnswerClass], cuts: Sequence[float]
) -> dict[Moment, str]:
    known = {value for value, _ in meanings} | {name for _, name in meanings}
    value_of = {name: value for value, name in meanings}
    found: dict[Moment, str] = {}
    times = _times(path, table)
    subjects, values = (table.column(name).to_pylist() for name in ("subject_id", column))
    for line, (subject, time, value) in enumerate(zip(subjects, times, values, strict=True), 2):
        if value is None:
            continue
        text = str(bisect_right(cuts, value)) if cuts else str(int(value)) if isinstance(value, bool) else str(value)
        if text not in known:
            raise UserError(f"{path}, row {line}: {value!r} is none of the classes {', '.join(sorted(known))}")
        number = subject if isinstance(subject, int) else subject_number(str(subject))
        moment = Moment(subject_id=number, prediction_time=time)
        label = value_of.get(text, text)
        if found.setdefault(moment, label) != label:
            raise UserError(f"{path}, row {line}: subject {subject} has another label at {time} in a row before")
    return found


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
