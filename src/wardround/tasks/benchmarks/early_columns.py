"""Columns whose value predicts how a stay goes on, while it goes on: what a clock that is too early leaves behind.

No clock is read and nobody is asked. At the admission and at each day the value that a chart shows of each column is
held against three outcomes: the person dies in the stay, the rest of it is longer than the median, the person comes
back within 30 days. A cell that tells an outcome early has an AUC near 1. A high one is no proof: sick people have
other values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wardround.audits.leaks import ShownTable
from wardround.core import Progress, Reporter, UserError, derive_seed, silent
from wardround.records import Store, unplayed
from wardround.tasks.benchmarks.clinseek.timeline import Span, Timeline
from wardround.tasks.benchmarks.encounters import DAY, MINUTE, NO_TIME, Flags, cell_times

Floats = npt.NDArray[np.float64]
Cells = Sequence[str] | Floats
"""Words, or numbers, NaN where there is none."""
DAYS = tuple(range(8))
"""Days after the admission at which is looked; 0: a minute after it."""
_FEWEST = 15
"""So many stays must have an outcome, and as many not."""
_FEW_WORDS = 12
"""A whole number of so few values may stand for words."""
_LISTED_ABOVE = 0.6
_TELLS = 0.85
_SURE = 3.29
"""Standard errors of a two-sided 99.9 % interval: many columns are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlySign:
    """A column that predicts an outcome on one day: the AUC with the ends of its 99.9 % interval, over ``stays``."""

    column: str
    outcome: str
    day: int
    auc: float
    low: float
    high: float
    stays: int

    def as_text(self) -> str:
        """Return it in a line."""
        when = "at admission" if self.day == 0 else f"after {self.day} days" if self.day > 1 else "after 1 day"
        hint = "   when could it be read?" if self.low >= _TELLS else ""
        sure = f"{self.auc:.3f} ({self.low:.3f} to {self.high:.3f})"
        return f"{self.column:<40} {self.outcome:<12} {when:<13} AUC {sure}, {self.stays:,} stays{hint}"


@dataclass(slots=True, kw_only=True)
class ColumnReport:
    """What was looked at and which columns predict; ``skipped``: outcomes that could not be looked at, and why."""

    source: str
    stays: int = 0
    columns: int = 0
    signs: list[EarlySign] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def suspects(self) -> tuple[str, ...]:
        """The columns that predict so well that somebody has to say when they could be read."""
        return tuple(dict.fromkeys(sign.column for sign in self.signs if sign.low >= _TELLS))

    def as_text(self) -> str:
        """Return the report for people: of each column and outcome the day on which it predicts best."""
        lines = [f"{self.columns} columns of {self.source!r} against how {self.stays:,} stays go on"]
        best: dict[tuple[str, str], EarlySign] = {}
        for sign in sorted(self.signs, key=lambda one: (-one.low, one.day)):
            best.setdefault((sign.column, sign.outcome), sign)
        lines += [sign.as_text() for sign in best.values()]
        lines += [f"    not looked at: {what} ({why})" for what, why in sorted(self.skipped.items())]
        names = ", ".join(self.suspects)
        found = f"{len(self.suspects)} to explain: {names}" if names else "none predicts like an outcome told early"
        return "\n".join([*lines, found])


@dataclass(frozen=True, slots=True)
class _Stay:
    subject: int
    start: int
    end: int
    died: bool
    returns: bool
    shown: dict[tuple[str, int], str | None]
    """By column and day what the chart shows of the stay's latest row; None where no row is there."""


def audit_columns(store: Store, *, stays: int = 600, report: Reporter = silent) -> ColumnReport:
    """Look at some stays, each of another person where there are enough. UserError: no table plays the admission."""
    role = store.spec.roles.admission
    if role is None or role.table not in store.table_names:
        raise UserError(f"{unplayed('admission')}: nothing says where a stay begins; see docs/roles.md")
    order = sorted(store.subjects.tolist(), key=lambda subject: derive_seed("early columns", subject))
    found: list[_Stay] = []
    for subject in order:
        if len(found) >= stays:
            break
        report(Progress(label="columns", done=len(found), total=stays, unit="stays"))
        found += _stays_of(store, int(subject))
    said = ColumnReport(source=store.spec.name, stays=len(found))
    said.columns = len({column for stay in found for column, _ in stay.shown})
    for day in DAYS:
        said.signs += _signs(said, [stay for stay in found if stay.end > _moment(stay, day)], day)
    return said


def _moment(stay: _Stay | Span, day: int) -> int:
    return stay.start + (day * DAY or MINUTE)


def _stays_of(store: Store, subject: int) -> Iterator[_Stay]:
    timeline = Timeline(store, subject, "known_at")
    spans = [span for span in timeline.spans("admission") if span.end != NO_TIME]
    tables = {name: ShownTable.of(store.spec.tables[name], timeline.rows(name)) for name in store.table_names}
    for place, span in enumerate(spans):
        died = any(span.start <= death <= span.end + DAY for death in timeline.deaths.tolist())
        back = place + 1 < len(spans) and spans[place + 1].start - span.end <= 30 * DAY
        shown: dict[tuple[str, int], str | None] = {}
        for name, table in tables.items():
            shown |= dict(_shown(name, table, span))
        yield _Stay(subject, span.start, span.end, died, back and not died, shown)


def _shown(name: str, table: ShownTable, span: Span) -> Iterator[tuple[tuple[str, int], str | None]]:
    """Yield what a chart shows of the columns of a stay's latest row, day by day."""
    spec = table.spec
    rows = _rows_of(table, span)
    days = [day for day in DAYS if _moment(span, day) < span.end]
    latest: list[int | None] = []
    for day in days:
        there = rows[table.row[rows] <= _moment(span, day)]
        latest.append(int(there[np.argmax(table.event[there])]) if len(there) else None)
    skipped = {spec.subject, *spec.key, spec.encounter, *spec.hidden}
    for column in (one for one in spec.public_columns if one not in skipped and one in table.rows.schema.names):
        cells, is_time = table.rows.column(column), spec.all_columns.get(column) in ("time", "date")
        times = cell_times(cells) if is_time else None
        when = table.cell(column)
        for day, row in zip(days, latest, strict=True):
            text = None
            if row is not None and when[row] > _moment(span, day):
                text = ""
            elif row is not None:
                text = str(cells[row].as_py()) if times is None else str((times[row] - _moment(span, day)) / DAY)
            yield (f"{name}.{column}", day), text


def _rows_of(table: ShownTable, span: Span) -> npt.NDArray[np.intp]:
    """Return the rows of a stay: those that name it; where none can, those since the day before it."""
    named = span.encounter if span.encounter is not None else span.names
    if table.spec.encounter is not None and named is not None:
        return np.flatnonzero([text == str(named) for text in table.texts(table.spec.encounter)])
    return np.flatnonzero((table.event >= span.start - DAY) | table.spec.is_static)


def _signs(said: ColumnReport, open_stays: Sequence[_Stay], day: int) -> Iterator[EarlySign]:
    left = np.array([stay.end - _moment(stay, day) for stay in open_stays])
    outcomes = {
        "death": np.array([stay.died for stay in open_stays], bool),
        "a long rest": left > np.median(left) if len(left) else np.zeros(0, bool),
        "a return": np.array([stay.returns for stay in open_stays], bool),
    }
    people = np.unique([stay.subject for stay in open_stays], return_inverse=True)[1]
    for outcome, truth in outcomes.items():
        if min(truth.sum(), (~truth).sum()) < _FEWEST:
            if day == 0:
                said.skipped[outcome] = f"{truth.sum()} of {len(truth)} stays; {_FEWEST} with and without are needed"
            continue
        for column in sorted({name for stay in open_stays for name, at in stay.shown if at == day}):
            cells = [stay.shown.get((column, day)) for stay in open_stays]
            best = max((_auc(scores, kept, truth, people % 2 == 0) for scores, kept in _readings(cells)), default=None)
            if best is not None and best[0] > _LISTED_ABOVE:
                low, auc, high, stays = best
                yield EarlySign(column=column, outcome=outcome, day=day, auc=auc, low=low, high=high, stays=stays)


def _readings(
    cells: Sequence[str | None],
) -> Iterator[tuple[Cells, Flags]]:
    """Yield how a column may be read: as words, its emptiness among them, and as a number where it is filled."""
    there = np.array([cell is not None for cell in cells], bool)
    filled = np.array([bool(cell) for cell in cells], bool)
    numbers = np.array([_number(cell) for cell in cells], float)
    distinct = Counter(cell for cell in cells if cell)
    if np.isnan(numbers[filled]).any() or len(distinct) <= _FEW_WORDS:
        yield [cell or "" for cell in cells], there
    elif not filled[there].all():
        yield ["filled" if cell else "" for cell in cells], there
    if not np.isnan(numbers[filled]).any():
        yield numbers, filled


def _number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan


def _auc(values: Cells, kept: Flags, truth: Flags, half: Flags) -> tuple[float, float, float, int]:
    """Return (lower end, AUC, upper end, stays): each half is scored by what the other half says of a value."""
    aucs = []
    for mine in (half, ~half):
        ours, theirs = (np.flatnonzero(kept & part) for part in (mine, ~mine))
        if min(truth[ours].sum(), (~truth[ours]).sum(), truth[theirs].sum(), (~truth[theirs]).sum()) < 3:
            return 0.0, 0.5, 1.0, int(kept.sum())
        if isinstance(values, np.ndarray):
            sign = 1.0 if _rank_auc(values[theirs], truth[theirs]) >= 0.5 else -1.0
            scores = sign * values[ours]
        else:
            scores = _rates([values[int(n)] for n in ours], [values[int(n)] for n in theirs], truth[theirs])
        aucs.append(_rank_auc(scores, truth[ours]))
    positive, negative = int(truth[kept].sum()), int((~truth[kept]).sum())
    auc = float(np.mean(aucs))
    wide = _SURE * _standard_error(auc, positive, negative)
    return auc - wide, auc, min(1.0, auc + wide), int(kept.sum())


def _rates(ours: Sequence[str], theirs: Sequence[str], truth: Flags) -> Floats:
    """Return the share of outcomes among the others with the same word, drawn to the share of all."""
    count, hit = Counter(theirs), Counter(word for word, true in zip(theirs, truth, strict=True) if true)
    share = float(truth.mean())
    return np.array([(hit[word] + share) / (count[word] + 1) for word in ours])


def _rank_auc(scores: Floats, truth: Flags) -> float:
    """Return the probability that one with the outcome scores above one without, ties counting half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive, negative = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _standard_error(auc: float, positive: int, negative: int) -> float:
    """Return the standard error of an AUC (Hanley and McNeil 1982), of one above 0.95 as of 0.95."""
    a = min(max(auc, 1 - auc), 0.95)
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    spread = a * (1 - a) + (positive - 1) * (q1 - a * a) + (negative - 1) * (q2 - a * a)
    return math.sqrt(spread / (positive * negative))
