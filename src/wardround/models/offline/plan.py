"""Plans of the offline policy: steps, SQL queries, what a plan remembers of a chart; and the rule file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any

from wardround.core import format_time, parse_time
from wardround.models.offline.conversation import OfflineFinding, OfflineFindings, Result
from wardround.records import RowRole, SpanRole
from wardround.records.specs import Conditions

# The rule file: what a drug, a laboratory value or a word in a note makes one think of.


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule:
    """If a finding matches ``pattern``, ``thought`` holds with ``weight`` (a rough probability)."""

    pattern: re.Pattern[str]
    thought: str
    weight: float


@cache
def load_rules() -> dict[str, Any]:
    """Return the rule file as plain tables."""
    text = resources.files("wardround.models.offline").joinpath("rules.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def rules_for(task: str, kind: str) -> tuple[FindingRule, ...]:
    """Return the rules of one task for one kind of finding."""
    rows = load_rules().get(task, {}).get(kind, [])
    return tuple(
        FindingRule(pattern=re.compile(rf"\b(?:{pattern})", re.IGNORECASE), thought=thought, weight=weight)
        for pattern, thought, weight in rows
    )


def names(task: str, key: str) -> tuple[str, ...]:
    """Return a list of names from the rule file."""
    return tuple(load_rules().get(task, {}).get(key, ()))


# The SQL of the plans, made of roles and of the columns that a chart has. Every statement gives ``row_id``, so that
# what it found can be cited.


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
    """Return the query for the start of the latest stay; None where the chart does not show it."""
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
    """Return the query for the count of each label of a role since a time."""
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
    """Return the query for organisms and specimens; None where the chart does not show them."""
    if role.organism not in columns:
        return None
    grew = _quoted(str(role.organism))
    specimen = _quoted(role.specimen) if role.specimen in columns and role.specimen else shown.label or "''"
    return sql(
        f"""SELECT {specimen} || ' ' || {grew} AS label, MAX(row_id) AS row_id
        FROM {shown.rows(f"{grew} IS NOT NULL", since=since)} GROUP BY 1 LIMIT 20"""
    )


def held_names(space: str, names: Sequence[str]) -> Ask:
    """Return the query for the names that a candidate table has, always with its first name."""
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


# Steps of a plan, how their results are read, and what a plan remembers of a chart: its tables, columns and times.


_LEAST_SHARE = 0.04
QuestionSource = Callable[[OfflineFindings], Sequence[Ask]]
Reading = Callable[[OfflineFindings, Sequence[Result]], list[OfflineFinding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One turn: what to ask (nothing: skip it), how to read the results, and what to ask if that failed."""

    name: str
    ask: QuestionSource
    read: Reading
    otherwise: QuestionSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAnswer:
    """The planned answer with its evidence."""

    labels: tuple[str, ...]
    evidence: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePlan:
    """A task: its steps, and its answer. ``answer`` takes a small shift of its threshold, so that episodes with other
    seeds differ."""

    task: str
    steps: tuple[PlanStep, ...]
    answer: Callable[[OfflineFindings, float], PlannedAnswer]


def since(known: OfflineFindings, *, hours_before: float = 24) -> str:
    """Return the time some hours before the stay began; one year ago if there is none."""
    admitted = known.first("admitted")
    start = _time(admitted, known.now) - timedelta(hours=hours_before if admitted else 24 * 365)
    return format_time(start)


def hour_of(known: OfflineFindings) -> float:
    """Return the hour of the day of the question."""
    now = _time(known.now, "")
    return now.hour + now.minute / 60


def _time(text: str, other: str) -> datetime:
    for candidate in (text, other):
        try:
            return parse_time(candidate)
        except ValueError:
            continue
    return datetime(2150, 1, 1)


def rows_of(results: Sequence[Result], place: int = 0) -> Sequence[Mapping[str, str]]:
    """Return the rows of the n-th result, none if it is missing or failed."""
    return results[place].rows if place < len(results) else ()


def number(row: Mapping[str, str], name: str, default: float = 0.0) -> float:
    """Return a cell as a number."""
    try:
        return float(row.get(name, "").replace(",", ""))
    except ValueError:
        return default


def row_ids(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return a row's id, or nothing."""
    return tuple(filter(None, [row.get("row_id")]))


def tally(kind: str, *, most: int = 60) -> Reading:
    """Read labels: one finding per label, with ``n`` (or how often it occurs) as its amount."""

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        amounts: dict[str, float] = {}
        rows: dict[str, list[str]] = {}
        for row in (row for result in results for row in result.rows):
            value = row.get("label", "").strip()
            if value:
                amounts[value] = amounts.get(value, 0.0) + number(row, "n", 1.0)
                rows.setdefault(value, []).extend(row_ids(row))
        return [
            OfflineFinding(kind=kind, value=value, amount=amount, rows=tuple(rows[value][:3]))
            for value, amount in list(amounts.items())[:most]
        ]

    return read


def share_of(kind: str, prior: Mapping[str, float], moments_before: float) -> Reading:
    """Read ``queries.shares``: a label with its share of moments, those at this time of day counted twice.

    ``prior`` are shares of some labels in so many moments before those of the chart.
    """

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        base = moments_before if prior else 0.0
        seen, moments, rows = {name: base * share for name, share in prior.items()}, base, {}
        for row in rows_of(results):
            value = row.get("label", "")
            moments = base + number(row, "draws", 1) + number(row, "near_draws")
            seen[value] = seen.get(value, 0.0) + number(row, "n", 1) + number(row, "near")
            rows[value] = row_ids(row)
        return [
            OfflineFinding(kind=kind, value=value, amount=round(amount / max(moments, 1), 3), rows=rows.get(value, ()))
            for value, amount in sorted(seen.items(), key=lambda item: (-item[1], item[0]))
            if value and amount >= _LEAST_SHARE * max(moments, 1)
        ]

    return read


def thinking(reading: Reading, task: str) -> Reading:
    """Add to what a reading finds what the rules make of it."""

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        found = reading(known, results)
        return found + [more for note in found for more in thoughts_on(task, note.kind, note.value, note.rows)]

    return read


def thoughts_on(task: str, kind: str, value: str, rows: tuple[str, ...] = ()) -> list[OfflineFinding]:
    """Return what the rules make of one finding."""
    return [
        OfflineFinding(kind="thought", value=rule.thought, amount=rule.weight, rows=rows)
        for rule in rules_for(task, kind)
        if any(_asserted(value, match.start()) for match in rule.pattern.finditer(value))
    ]


_DENIALS = ("no ", "not ", "denies", "denied", "without", "negative for", "family history", "rule out", "r/o")


def _asserted(text: str, position: int) -> bool:
    """Return whether the text at a position is not denied just before."""
    before = text[max(0, position - 30) : position].lower()
    before = before.replace("\n", ". ").rpartition(". ")[2]
    return not any(denial in f" {before}" for denial in _DENIALS)


def _tables(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
    tables = [
        row["table"]
        for row in rows_of(results)
        if row.get("kind", "record") == "record" and row.get("rows", "0") != "0" and "table" in row
    ]
    return [OfflineFinding(kind="tables", value=" ".join(tables))] if tables else []


TABLES = PlanStep(
    name="which tables are there",
    ask=lambda known: [Ask(tool="get_table_names", arguments={})],
    read=_tables,
)


def columns_step(tables: Callable[[OfflineFindings], Sequence[str]]) -> PlanStep:
    """Look which columns some tables have, in one turn."""

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        pairs = zip(tables(known), results, strict=False)
        listed = [(table, [row.get("column", "") for row in result.rows]) for table, result in pairs]
        return [
            OfflineFinding(kind="columns", value=f"{table} {' '.join(columns)}") for table, columns in listed if columns
        ]

    return PlanStep(
        name="which columns these tables have",
        ask=lambda known: [Ask(tool="get_column_names", arguments={"table_name": table}) for table in tables(known)],
        read=read,
    )
