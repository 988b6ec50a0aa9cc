"""The files of a user's own tasks: a task file (``docs/tasks.md`` lists every key), a table of labels, an ACES task."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from wardround.core import Registry, Reporter, UserError, content_hash, silent
from wardround.core.errors import unknown
from wardround.exports.aces import aces_labels
from wardround.records import Chart, Policy, SourceSpec, Store
from wardround.records.reading import subject_number
from wardround.records.specs import ROLES, Conditions
from wardround.tasks.answers import AnswerClass, OneClass, answer_kind
from wardround.tasks.benchmarks.benchmark import name_of_file
from wardround.tasks.benchmarks.encounters import EVENT
from wardround.tasks.benchmarks.own.labelling import (
    AfterRows,
    Label,
    Labelling,
    Moment,
    OwnTask,
    RuleLabel,
    SqlLabel,
    Where,
)
from wardround.tasks.benchmarks.task import QuestionText, Task

FAMILY = "own"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(m|h|d)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


OwnTaskMaker = Callable[[SourceSpec], OwnTask]
OWN_TASKS: Registry[OwnTaskMaker] = Registry("own_tasks", one="task of your own")
"""Tasks of plug-ins by name: functions from a source spec to a task."""


def add_task(text: str) -> None:
    """Register the text of a task file under its own name, as a plug-in of one file."""
    body = tomllib.loads(text)
    maker = _TaskText(name=str(body.get("name", "")), title=str(body.get("title", "")), text=text)
    OWN_TASKS.add(maker.name, maker)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskText:
    """Builds the task of a file's text on a source."""

    name: str
    title: str
    text: str

    def __call__(self, spec: SourceSpec) -> OwnTask:
        return task_of_text(self.text, spec, f"the task {self.name!r}", source=self.name)


def read_task_file(path: Path, spec: SourceSpec) -> OwnTask:
    """Read a task file for a source; the file may name roles instead of tables.

    UserError: the file is invalid.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a TOML file: {error}") from error
    own = task_of_text(text, spec, str(path), source=path.name)
    return replace(own, built_from={"task_file": name_of_file(path)})


def task_of_text(text: str, spec: SourceSpec, where: str, *, source: str) -> OwnTask:
    """Read the text of a task file. ``where`` names it in errors, ``source`` in the benchmark's manifest."""
    try:
        own = _own_task(_Part(tomllib.loads(text), "the file"), spec)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where}: not a TOML file: {error}") from error
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return replace(own, sources=((source, content_hash(text.encode("utf-8"))),))


def _own_task(body: _Part, spec: SourceSpec) -> OwnTask:
    name = body.text("name")
    if not _NAME.fullmatch(name):
        raise UserError(f"name: {name!r} must be small letters, digits and _, and begin with a letter")
    question, answer = body.part("question"), body.part("answer")
    task = Task(
        name=name,
        title=body.text("title"),
        answer=answer_kind(answer.rest()),
        template="classification",
        family=FAMILY,
        words=QuestionText(
            category=question.text("category", "Own question"),
            description=question.text("description"),
            factual_query=question.text("factual_query", ""),
            counterfactual_query=question.text("counterfactual_query", ""),
            instructions=question.text("instructions", ""),
        ),
    )
    question.must_be_empty()
    question_rule, labelling = _question_rule(body.part("asked"), spec), _labelling(body.part("label"), spec)
    body.must_be_empty()
    return OwnTask(task=task, question_rule=question_rule, labelling=labelling)


def _question_rule(part: _Part, spec: SourceSpec) -> AfterRows:
    table, role = _table(part, spec)
    time = part.text("time", getattr(role, "start", None) or EVENT)
    rule = AfterRows(
        table=table,
        time=time,
        after=part.duration("after") or timedelta(0),
        where=replace(part.where(), role=_conditions(role)),
        empty=part.text("empty", "") or None,
    )
    part.must_be_empty()
    return rule


def _labelling(part: _Part, spec: SourceSpec) -> Labelling:
    if part.has("sql"):
        sql = part.text("sql")
        part.must_be_empty()
        return SqlLabel(sql=sql)
    if not part.has("rule"):
        raise UserError('label: missing; write sql = "SELECT ...", or the table [label.rule]')
    rule = part.part("rule")
    part.must_be_empty()
    table, role = _table(rule, spec)
    label = RuleLabel(
        table=table,
        where=replace(rule.where(), role=_conditions(role)),
        within=rule.duration("within"),
        column=rule.text("column", getattr(role, "value", None) or "") or None,
        above=rule.number("above"),
        below=rule.number("below"),
        names=rule.text("names", "") or None,
        cuts=tuple(rule.numbers("cuts")),
    )
    rule.must_be_empty()
    bounded = label.above is not None or label.below is not None or label.cuts
    if bounded and label.column is None:
        raise UserError("label.rule: above, below and cuts need column, where the number stands")
    return label if bounded else RuleLabel(table=table, where=label.where, within=label.within, names=label.names)


def _conditions(role: Any) -> Conditions:
    """Return the conditions of a role; for a stream of events, the codes that start a stay."""
    starts = getattr(role, "starts", ())
    own: Conditions = ({role.code: starts},) if starts and role.code else ()
    return own or getattr(role, "where", ())


def _table(part: _Part, spec: SourceSpec) -> tuple[str, Any]:
    """Return a table and the role that names it, if any; of several tables in a role, the first."""
    role = part.text("role", "")
    if not role:
        return part.text("table"), None
    value = getattr(spec.roles, role, None) if role in ROLES else None
    if role not in ROLES:
        raise UserError(unknown("role", role, ROLES))
    table_role = value[0] if isinstance(value, tuple) and value else value
    if not table_role:
        raise UserError(f"no table of source {spec.name!r} plays the role {role!r}; name a table instead")
    return table_role.table, table_role


class _Part:
    """One table of the file; unknown keys are errors."""

    def __init__(self, body: Mapping[str, Any], name: str) -> None:
        self._body = dict(body)
        self._name = name
        self._known: list[str] = []

    def has(self, key: str) -> bool:
        """Return whether the key is present."""
        return key in self._body

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; without a default it is required and not empty."""
        value = self._pop(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise UserError(f"{self._name}: {key} must be a text{'' if value is None else f', not {value!r}'}")
        return value

    def number(self, key: str) -> float | None:
        """Return a number, None where the key is missing."""
        value = self._pop(key, None)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UserError(f"{self._name}: {key} must be a number, not {value!r}")
        return None if value is None else float(value)

    def numbers(self, key: str) -> list[float]:
        """Return numbers in rising order, empty where the key is missing."""
        value = self._pop(key, [])
        numeric = isinstance(value, list) and all(isinstance(n, int | float) for n in value)
        if not numeric or sorted(set(value)) != value:
            raise UserError(f"{self._name}: {key} must be numbers in rising order, not {value!r}")
        return [float(n) for n in value]

    def duration(self, key: str) -> timedelta | None:
        """Return a time span such as 30m, 48h or 7d, None where the key is missing."""
        value = self._pop(key, None)
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if value is not None and match is None:
            raise UserError(f"{self._name}: {key} must be a time such as 30m, 48h or 7d, not {value!r}")
        return None if match is None else timedelta(**{_UNITS[match[2]]: float(match[1])})

    def where(self) -> Where:
        """Return the conditions under ``where``: by column one pattern or several."""
        conditions = self._pop("where", {})
        if not isinstance(conditions, dict):
            raise UserError(f"{self._name}: where must name columns and their texts, not {conditions!r}")
        lists = {name: [value] if isinstance(value, str) else value for name, value in conditions.items()}
        for name, values in lists.items():
            if not isinstance(values, list) or not all(isinstance(value, str) for value in values) or not values:
                raise UserError(f"{self._name}: where.{name} must be a text or a list of texts")
        return Where(patterns={name: tuple(values) for name, values in lists.items()})

    def part(self, key: str) -> _Part:
        """Return a table within this one."""
        value = self._pop(key, None)
        if not isinstance(value, dict):
            raise UserError(f"{self._name}: the table [{key}] is missing")
        return _Part(value, key if self._name == "the file" else f"{self._name}.{key}")

    def rest(self) -> dict[str, Any]:
        """Return the remaining body, for another reader."""
        return self._body

    def must_be_empty(self) -> None:
        """Raise UserError for an unknown key."""
        for key in self._body:
            raise UserError(f"{self._name}: {unknown('key', key, self._known)}")

    def _pop(self, key: str, default: Any) -> Any:
        self._known.append(key)
        return self._body.pop(key, default)


# A table of labels in MEDS form: ``subject_id``, ``prediction_time`` and one column of values.


VALUE_COLUMNS = ("boolean_value", "integer_value", "float_value", "categorical_value")
_YES_NO: tuple[AnswerClass, ...] = (("0", "no"), ("1", "yes"))
LABELS_FAMILY = "labels"


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
        family=LABELS_FAMILY,
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
