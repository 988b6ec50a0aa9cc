"""The SQL of the plans, made of roles and of the columns that a chart has. Every statement gives ``row_id``, so that
what it found can be cited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wardround.records import RowRole, SpanRole
from wardround.records.specs.roles import Conditions

_MOST_TEXT = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One tool call to make."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A role on a chart: only the columns that it shows there. Expressions are SQL, empty where nothing is shown."""

    table: str
    label: str = ""
    time: str = ""
    where: str = ""
    official: bool = False
    """Whether its labels are answers as they stand."""

    @classmethod
    def of(cls, role: RowRole, columns: Sequence[str]) -> Shown:
        """Take a role as far as a chart shows it."""
        official = role.group is not None and role.group_label in columns
        names = [role.group_label] if official else [name for name in role.label if name in columns]
        return cls(
            table=role.table,
            label=_first(names),
            time=_first([name for name in role.time if name in columns]),
            where=_condition(role.where, columns),
            official=official or role.group is None,
        )

    def rows(self, *more: str, since: str = "") -> str:
        """The table with the conditions on its rows."""
        dated = f"{self.time} >= '{since}'" if since and self.time else ""
        conditions = " AND ".join(filter(None, (self.where, dated, *more)))
        return f"{_quoted(self.table)} WHERE {conditions}" if conditions else _quoted(self.table)


def sql(query: str) -> Ask:
    """A SQL call."""
    return Ask(tool="run_sql_query", arguments={"sql_query": " ".join(query.split())})


def latest(table: str) -> Ask:
    """The latest rows of a table, without SQL."""
    return Ask(tool="get_latest_records", arguments={"table_name": table})


def last_stay(role: SpanRole, columns: Sequence[str]) -> Ask | None:
    """When the latest stay began; None where the chart does not show it."""
    start = _first([name for name in (role.start, *role.time) if name in columns])
    codes = ({role.code: role.starts},) if role.code else ()
    where = _condition(codes, columns)
    if not start:
        return None
    rows = f"{_quoted(role.table)} WHERE {where}" if where else _quoted(role.table)
    return sql(f"SELECT row_id, {start} AS began FROM {rows} ORDER BY began DESC LIMIT 1")


def latest_names(role: RowRole, shown: Shown) -> Ask:
    """The latest labels of a role, the last first: of all its rows, those that no task asks about among them."""
    starts = tuple(f"{form.start}*" for form in role.forms)
    where = _fits(role.code, starts) if role.code and starts else ""
    rows = replace(shown, where=where).rows(f"{shown.label} IS NOT NULL")
    return sql(f"SELECT row_id, {shown.label} AS label, {shown.time} AS time FROM {rows} ORDER BY time DESC LIMIT 8")


def latest_texts(role: RowRole, columns: Sequence[str]) -> Ask | None:
    """The latest texts of a table of notes, as far as a result holds them."""
    if role.text not in columns:
        return None
    order = _first([name for name in role.time if name in columns]) or "row_id"
    text = f"substr({_quoted(str(role.text))}, 1, {_MOST_TEXT})"
    return sql(f"SELECT row_id, {text} AS text FROM {_quoted(role.table)} ORDER BY {order} DESC LIMIT 2")


def counts(shown: Shown, since: str = "") -> Ask:
    """How often each label of a role occurs from a time on."""
    return sql(
        f"""SELECT {shown.label} AS label, COUNT(*) AS n, MAX(row_id) AS row_id
        FROM {shown.rows(f"{shown.label} IS NOT NULL", since=since)} GROUP BY 1 ORDER BY n DESC, 1 LIMIT 60"""
    )


def shares(shown: Shown, since: str, *, hour: float | None = None) -> Ask:
    """In how many of the moments of a role each label occurs; with ``hour``, also among those at that time of day."""
    time, rows = shown.time, shown.rows(since=since)
    near = "0" if hour is None else f"MIN({_apart(time, hour)}, 24 - {_apart(time, hour)}) <= 2"
    near_rows = shown.rows(near, since=since)
    return sql(
        f"""SELECT {shown.label} AS label, COUNT(DISTINCT {time}) AS n,
        COUNT(DISTINCT CASE WHEN {near} THEN {time} END) AS near,
        (SELECT COUNT(DISTINCT {time}) FROM {rows}) AS draws,
        (SELECT COUNT(DISTINCT {time}) FROM {near_rows}) AS near_draws,
        MAX(row_id) AS row_id
        FROM {shown.rows(f"{shown.label} IS NOT NULL", since=since)} GROUP BY 1 ORDER BY n DESC, 1 LIMIT 70"""
    )


def named_rows(role: RowRole, shown: Shown, columns: Sequence[str], word: str) -> Ask:
    """The latest rows of a role whose label holds a word, with their numbers where they have some."""
    number, unit = (_quoted(name) if name in columns and name else "NULL" for name in (role.value, role.unit))
    return sql(
        f"""SELECT row_id, {shown.time or "NULL"} AS time, {shown.label} AS label, {number} AS number, {unit} AS unit
        FROM {shown.rows(f"LOWER({shown.label}) LIKE {_text(f'%{word.lower()}%')}")} ORDER BY 2 DESC LIMIT 12"""
    )


def abnormal(role: RowRole, shown: Shown, columns: Sequence[str], since: str) -> Ask | None:
    """Results beyond the limits of what is normal by test, and to which side; None where the chart shows no limits."""
    if not shown.label or not {role.value, role.low, role.high} <= set(columns):
        return None
    value, low, high = (_quoted(str(name)) for name in (role.value, role.low, role.high))
    beyond = shown.rows(f"({value} > {high} OR {value} < {low})", since=since)
    return sql(
        f"""SELECT {shown.label} AS label, COUNT(*) AS n, SUM({value} > {high}) AS high, SUM({value} < {low}) AS low,
        MAX(row_id) AS row_id FROM {beyond} GROUP BY 1 ORDER BY n DESC, 1 LIMIT 60"""
    )


def organisms(role: RowRole, shown: Shown, columns: Sequence[str], since: str) -> Ask | None:
    """What grew, and in what; None where the chart does not show it."""
    if role.organism not in columns:
        return None
    grew = _quoted(str(role.organism))
    taken = _quoted(role.specimen) if role.specimen in columns and role.specimen else shown.label or "''"
    return sql(
        f"""SELECT {taken} || ' ' || {grew} AS label, MAX(row_id) AS row_id
        FROM {shown.rows(f"{grew} IS NOT NULL", since=since)} GROUP BY 1 LIMIT 20"""
    )


def held_names(space: str, names: Sequence[str]) -> Ask:
    """Which of some names a table of candidates holds, and in any case its first one."""
    listed = ", ".join(map(_text, names))
    table = _quoted(space)
    return sql(
        f"""SELECT candidate FROM {table}
        WHERE candidate IN ({listed}) OR candidate = (SELECT MIN(candidate) FROM {table})"""
    )


def _first(names: Sequence[str | None]) -> str:
    """The first of some columns that is not empty, as an expression."""
    quoted = [_quoted(name) for name in names if name]
    return f"COALESCE({', '.join(quoted)})" if len(quoted) > 1 else "".join(quoted)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _condition(conditions: Conditions, columns: Sequence[str]) -> str:
    """The conditions of a role as far as a chart shows their columns; empty where it shows none of one of them."""
    parts = [
        " AND ".join(_fits(column, patterns) for column, patterns in condition.items() if column in columns)
        for condition in conditions
    ]
    if not parts or not all(parts):
        return ""
    return f"({' OR '.join(f'({part})' for part in parts)})"


def _fits(column: str, patterns: Sequence[str]) -> str:
    text = f"LOWER(COALESCE({_quoted(column)}, ''))"
    refused = [f"NOT {_glob(text, pattern[1:])}" for pattern in patterns if pattern.startswith("!")]
    wanted = [_glob(text, pattern) for pattern in patterns if not pattern.startswith("!")]
    if wanted:
        refused.insert(0, f"({' OR '.join(wanted)})")
    return " AND ".join(refused)


def _glob(text: str, pattern: str) -> str:
    return f"{text} GLOB {_text(pattern.lower())}"


def _apart(time: str, hour: float) -> str:
    return f"ABS(strftime('%H', {time}) - {hour:.1f})"
