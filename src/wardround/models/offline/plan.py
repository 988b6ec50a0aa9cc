"""Steps of a plan, and the ones every task shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from wardround.core import format_time, parse_time
from wardround.models.offline import queries
from wardround.models.offline.conversation import Result
from wardround.models.offline.dialect import dialect_of, with_aliases
from wardround.models.offline.notes import Known, Note
from wardround.models.offline.rules import load_rules, rules_for

_PHRASES_PER_SEARCH = 12
_MOST_SEARCHES = 3
_LEAST_SIMILARITY = 0.3
_LEAST_SHARE = 0.04


Asking = Callable[[Known], Sequence[queries.Ask]]
Reading = Callable[[Known, Sequence[Result]], list[Note]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn: what to ask (nothing: skip it), how to read the results, and what to ask if that failed."""

    name: str
    ask: Asking
    read: Reading
    otherwise: Asking | None = None

    def reading(self, read: Reading) -> Step:
        """Return the same step with another way to read its results."""
        return replace(self, read=read)


def since(known: Known, *, hours_before: float = 24) -> str:
    """Return the time some hours before the admission; one year ago if there is none."""
    admitted = known.first("admitted")
    start = _time(admitted, known.now) - timedelta(hours=hours_before if admitted else 24 * 365)
    return format_time(start)


def hour_of(known: Known) -> float:
    """Return the hour of the day of the question."""
    now = _time(known.now, "")
    return now.hour + now.minute / 60


def stay_hours(known: Known) -> float:
    """Return the hours since admission; 0 if unknown."""
    admitted = known.first("admitted")
    return (_time(known.now, admitted) - _time(admitted, known.now)).total_seconds() / 3600 if admitted else 0.0


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


def tally(kind: str, column: str, *, place: int = 0, most: int = 40) -> Reading:
    """Read a column of a result: one finding per value, with ``n`` (or how often it occurs) as its amount."""

    def read(known: Known, results: Sequence[Result]) -> list[Note]:
        amounts: dict[str, float] = {}
        rows: dict[str, list[str]] = {}
        for row in rows_of(results, place):
            value = row.get(column, "").strip()
            if value:
                amounts[value] = amounts.get(value, 0.0) + number(row, "n", 1.0)
                rows.setdefault(value, []).extend(row_ids(row))
        return [
            Note(kind=kind, value=value, amount=amount, rows=tuple(rows[value][:3]))
            for value, amount in list(amounts.items())[:most]
        ]

    return read


def thoughts_on(task: str, kind: str, value: str, rows: tuple[str, ...] = ()) -> list[Note]:
    """Return what the rules make of one finding."""
    return [
        Note(kind="thought", value=rule.thought, amount=rule.weight, rows=rows)
        for rule in rules_for(task, kind)
        if any(_asserted(value, match.start()) for match in rule.pattern.finditer(value))
    ]


_DENIALS = ("no ", "not ", "denies", "denied", "without", "negative for", "family history", "rule out", "r/o")


def _asserted(text: str, place: int) -> bool:
    """Return whether what stands at a place is not denied just before."""
    before = text[max(0, place - 30) : place].lower()
    before = before.replace("\n", ". ").rpartition(". ")[2]
    return not any(denial in f" {before}" for denial in _DENIALS)


def thinking(reading: Reading, task: str) -> Reading:
    """Add to what a reading finds what the rules make of it."""

    def read(known: Known, results: Sequence[Result]) -> list[Note]:
        found = reading(known, results)
        return found + [more for note in found for more in thoughts_on(task, note.kind, note.value, note.rows)]

    return read


def together(*readings: Reading) -> Reading:
    """Apply several readings to the same results."""
    return lambda known, results: [note for reading in readings for note in reading(known, results)]


def _tables(known: Known, results: Sequence[Result]) -> list[Note]:
    listed = {row["table"]: row.get("rows", "0") for row in rows_of(results) if row.get("kind", "record") == "record"}
    held = with_aliases([table for table, rows in listed.items() if rows != "0"])
    dialect = dialect_of({*listed, *_empty_tables(results)})
    found = [Note(kind="dialect", value=dialect)] if dialect else []
    return [*found, Note(kind="tables", value=" ".join(held))] if held else found


def _empty_tables(results: Sequence[Result]) -> list[str]:
    """Tables without rows are named in one line, not listed."""
    lines = (line for result in results for line in result.text.splitlines() if line.startswith("empty: "))
    return [name for line in lines for name in line.removeprefix("empty: ").split(", ")]


TABLES = Step(
    name="which tables are there",
    ask=lambda known: [queries.Ask(tool="get_table_names", arguments={})],
    read=_tables,
)


def _stay(known: Known, results: Sequence[Result]) -> list[Note]:
    found = []
    for row in list(rows_of(results))[-1:]:
        kind = " / ".join(filter(None, [row.get("admission_type"), row.get("admission_location")]))
        found += [
            Note(kind="admitted", value=row.get("admittime", ""), rows=row_ids(row)),
            Note(kind="admission", value=kind or "unknown"),
        ]
    for row in rows_of(results, 1):
        found += [Note(kind=kind, value=row[kind]) for kind in ("age", "gender") if row.get(kind)]
    return [note for note in found if note.value]


STAY = Step(
    name="the current stay",
    ask=lambda known: [queries.last_admission(), queries.latest("patients")],
    read=_stay,
    otherwise=lambda known: [queries.latest("admissions"), queries.latest("patients")],
)


def _places(known: Known, results: Sequence[Result]) -> list[Note]:
    """Units and services since two days before the admission, the latest first."""
    start = since(known, hours_before=48)
    return [
        Note(kind="service" if row.get("eventtype") == "service" else "unit", value=row["careunit"], rows=row_ids(row))
        for result in results
        for row in result.rows
        if row.get("careunit") and row.get("intime", start) >= start
    ]


PLACE = Step(
    name="where the patient is, and under which service",
    ask=lambda known: [
        *([queries.last_units()] if known.table("transfers") else []),
        *([queries.last_services()] if known.table("services") else []),
    ],
    read=_places,
    otherwise=lambda known: [queries.by_time("transfers", since(known, hours_before=48))],
)


def habits(task: str, known: Known) -> list[Note]:
    """Return what is thought of always, at the patient's age, and with this kind of admission."""
    rules = load_rules()[task]
    age = float(known.first("age", "60").rstrip("+"))
    likely = [(thought, weight) for least, thought, weight in rules.get("age", ()) if age >= least]
    likely += [(thought, weight) for thought, weight in rules.get("always", ())]
    thoughts = [Note(kind="thought", value=thought, amount=weight) for thought, weight in likely]
    return thoughts + thoughts_on(task, "admission", known.first("admission"))


def search_step(task: str, *, also: Callable[[Known], Sequence[str]] = lambda known: ()) -> Step:
    """Look the phrases thought of up among the candidates, likeliest first, several searches in one turn."""

    def phrases(known: Known) -> list[str]:
        weights: dict[str, float] = dict.fromkeys(also(known), 1.0)
        for note in known.of("thought") + habits(task, known):
            weights[note.value] = weights.get(note.value, 0.0) + note.amount
        ranked = sorted(weights, key=lambda phrase: (-weights[phrase], phrase))
        return ranked[: _PHRASES_PER_SEARCH * _MOST_SEARCHES]

    def ask(known: Known, tool: str, argument: str) -> list[queries.Ask]:
        wanted = phrases(known)
        chunks = [wanted[at : at + _PHRASES_PER_SEARCH] for at in range(0, len(wanted), _PHRASES_PER_SEARCH)]
        return [queries.Ask(tool=tool, arguments={"table_name": known.space, argument: chunk}) for chunk in chunks]

    return Step(
        name="the official names",
        ask=lambda known: ask(known, "get_candidates_by_semantic_similarity", "query"),
        read=_hits,
        otherwise=lambda known: ask(known, "get_candidates_by_fuzzy_matching", "query"),
    )


def _hits(known: Known, results: Sequence[Result]) -> list[Note]:
    """The best candidate of every query that has a near one."""
    best: dict[str, str] = {}
    for result in results:
        for row in result.rows:
            query = row.get("query") or _only_query(result)
            if number(row, "similarity") >= _LEAST_SIMILARITY and row.get("candidate"):
                best.setdefault(query, row["candidate"])
    return [Note(kind="name", value=f"{query} => {label}") for query, label in best.items()]


def _only_query(result: Result) -> str:
    return result.call.arguments


def names_found(known: Known) -> dict[str, str]:
    """Return phrase -> official name for every search that succeeded."""
    pairs = (note.value.partition(" => ") for note in known.of("name"))
    return {phrase: label for phrase, _, label in pairs if label}


def share_of(kind: str, column: str, *, prior: Callable[[], Mapping[str, float]] = dict, base: float = 0.0) -> Reading:
    """Read ``queries.shares``: a value with its share of moments, those at this time of day counted twice.

    ``prior`` are moments added for some values, out of ``base`` moments added for all.
    """

    def read(known: Known, results: Sequence[Result]) -> list[Note]:
        seen, moments, rows = dict(prior()), base, {}
        for row in rows_of(results):
            value = row.get(column, "")
            moments = base + number(row, "draws", 1) + number(row, "near_draws")
            seen[value] = seen.get(value, 0.0) + number(row, "n", 1) + number(row, "near")
            rows[value] = row_ids(row)
        return [
            Note(kind=kind, value=value, amount=round(amount / max(moments, 1), 3), rows=rows.get(value, ()))
            for value, amount in sorted(seen.items(), key=lambda item: (-item[1], item[0]))
            if value and amount >= _LEAST_SHARE * max(moments, 1)
        ]

    return read
