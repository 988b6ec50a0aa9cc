"""Steps of a plan, how their results are read, and what a plan remembers of a chart: its tables, columns and times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from wardround.core import format_time, parse_time
from wardround.models.offline.conversation import Result
from wardround.models.offline.notes import OfflineFinding, OfflineFindings
from wardround.models.offline.queries import Ask
from wardround.models.offline.rules import rules_for

_LEAST_SHARE = 0.04
Asking = Callable[[OfflineFindings], Sequence[Ask]]
Reading = Callable[[OfflineFindings, Sequence[Result]], list[OfflineFinding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One turn: what to ask (nothing: skip it), how to read the results, and what to ask if that failed."""

    name: str
    ask: Asking
    read: Reading
    otherwise: Asking | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAnswer:
    """What to finish with."""

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


def _asserted(text: str, place: int) -> bool:
    """Return whether what stands at a place is not denied just before."""
    before = text[max(0, place - 30) : place].lower()
    before = before.replace("\n", ". ").rpartition(". ")[2]
    return not any(denial in f" {before}" for denial in _DENIALS)


def _tables(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
    held = [
        row["table"]
        for row in rows_of(results)
        if row.get("kind", "record") == "record" and row.get("rows", "0") != "0" and "table" in row
    ]
    return [OfflineFinding(kind="tables", value=" ".join(held))] if held else []


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
