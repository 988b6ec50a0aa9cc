"""Read a task file: question, answer, question rule and labelling. ``docs/tasks.md`` lists every key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from wardround.core import Registry, UserError, content_hash
from wardround.core.errors import unknown
from wardround.records import SourceSpec
from wardround.records.specs import ROLES, Conditions
from wardround.tasks.answers import answer_kind
from wardround.tasks.benchmarks.benchmark import name_of_file
from wardround.tasks.benchmarks.encounters import EVENT
from wardround.tasks.benchmarks.own.labelling import AfterRows, Labelling, OwnTask, RuleLabel, SqlLabel
from wardround.tasks.benchmarks.own.rows import Where
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
