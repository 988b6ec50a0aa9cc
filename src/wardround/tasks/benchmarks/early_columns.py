"""Find columns whose value predicts how a stay continues: a sign of a clock that is too early.

No clock is read. At the admission and at each day the value that a chart shows of each column is compared with three
outcomes: death in the stay, a remaining stay longer than the median, a return within 30 days. A cell that leaks an
outcome has an AUC near 1. A high AUC is no proof: sick people have other values.
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
"""Words or numbers; NaN marks a missing number."""
DAYS = tuple(range(8))
"""Days after the admission at which columns are read; 0: one minute after it."""
_FEWEST = 15
"""Minimum number of stays with an outcome, and without it."""
_FEW_WORDS = 12
"""A whole-number column with at most this many values may be categorical."""
_LISTED_ABOVE = 0.6
_TELLS = 0.85
_SURE = 3.29
"""Standard errors of a two-sided 99.9 % interval: many columns are tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlySign:
    """A column that predicts an outcome on one day: the AUC with its 99.9 % interval, over ``stays``."""

    column: str
    outcome: str
    day: int
    auc: float
    low: float
    high: float
    stays: int

    def as_text(self) -> str:
        """Return the sign as one line."""
        when = "at admission" if self.day == 0 else f"after {self.day} days" if self.day > 1 else "after 1 day"
        hint = "   when could it be read?" if self.low >= _TELLS else ""
        interval = f"{self.auc:.3f} ({self.low:.3f} to {self.high:.3f})"
        return f"{self.column:<40} {self.outcome:<12} {when:<13} AUC {interval}, {self.stays:,} stays{hint}"


@dataclass(slots=True, kw_only=True)
class ColumnReport:
    """The predictive columns; ``skipped``: outcomes that were not tested, with reasons."""

    source: str
    stays: int = 0
    columns: int = 0
    signs: list[EarlySign] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def suspects(self) -> tuple[str, ...]:
        """The columns that predict so well that somebody must explain when they could be read."""
        return tuple(dict.fromkeys(sign.column for sign in self.signs if sign.low >= _TELLS))

    def as_text(self) -> str:
        """Return the report as text: for each column and outcome the day with the best prediction."""
        lines = [f"{self.columns} columns of {self.source!r} against how {self.stays:,} stays go on"]
        best: dict[tuple[str, str], EarlySign] = {}
        for sign in sorted(self.signs, key=lambda sign: (-sign.low, sign.day)):
            best.setdefault((sign.column, sign.outcome), sign)
        lines += [sign.as_text() for sign in best.values()]
        lines += [f"    not tested: {what} ({why})" for what, why in sorted(self.skipped.items())]
        names = ", ".join(self.suspects)
        summary = f"{len(self.suspects)} to explain: {names}" if names else "none predicts like a leaked outcome"
        return "\n".join([*lines, summary])


@dataclass(frozen=True, slots=True)
class _Stay:
    subject: int
    start: int
    end: int
    died: bool
    returns: bool
    shown: dict[tuple[str, int], str | None]
    """The chart's value of the stay's latest row, by column and day; None without a row."""


def audit_columns(store: Store, *, stays: int = 600, report: Reporter = silent) -> ColumnReport:
    """Test the columns on a sample of stays, each of another person where there are enough.

    UserError: no table has the admission role.
    """
    role = store.spec.roles.admission
    if role is None or role.table not in store.table_names:
        raise UserError(f"{unplayed('admission')}: nothing says where a stay begins; see docs/roles.md")
    order = sorted(store.subjects.tolist(), key=lambda subject: derive_seed("early columns", subject))
    found_stays: list[_Stay] = []
    for subject in order:
        if len(found_stays) >= stays:
            break
        report(Progress(label="columns", done=len(found_stays), total=stays, unit="stays"))
        found_stays += _stays_of(store, int(subject))
    column_report = ColumnReport(source=store.spec.name, stays=len(found_stays))
    column_report.columns = len({column for stay in found_stays for column, _ in stay.shown})
    for day in DAYS:
        column_report.signs += _signs(
            column_report, [stay for stay in found_stays if stay.end > _moment(stay, day)], day
        )
    return column_report


def _moment(stay: _Stay | Span, day: int) -> int:
    return stay.start + (day * DAY or MINUTE)


def _stays_of(store: Store, subject: int) -> Iterator[_Stay]:
    timeline = Timeline(store, subject, "known_at")
    spans = [span for span in timeline.spans("admission") if span.end != NO_TIME]
    tables = {name: ShownTable.of(store.spec.tables[name], timeline.rows(name)) for name in store.table_names}
    for index, span in enumerate(spans):
        died = any(span.start <= death <= span.end + DAY for death in timeline.deaths.tolist())
        returns = index + 1 < len(spans) and spans[index + 1].start - span.end <= 30 * DAY
        shown: dict[tuple[str, int], str | None] = {}
        for name, table in tables.items():
            shown |= dict(_shown(name, table, span))
        yield _Stay(subject, span.start, span.end, died, returns and not died, shown)


def _shown(name: str, table: ShownTable, span: Span) -> Iterator[tuple[tuple[str, int], str | None]]:
    """Yield the chart's values of the columns of a stay's latest row, day by day."""
    spec = table.spec
    rows = _rows_of(table, span)
    days = [day for day in DAYS if _moment(span, day) < span.end]
    latest: list[int | None] = []
    for day in days:
        visible_rows = rows[table.row[rows] <= _moment(span, day)]
        latest.append(int(visible_rows[np.argmax(table.event[visible_rows])]) if len(visible_rows) else None)
    skipped = {spec.subject, *spec.key, spec.encounter, *spec.hidden}
    for column in (
        column for column in spec.public_columns if column not in skipped and column in table.rows.schema.names
    ):
        cells, is_time = table.rows.column(column), spec.all_columns.get(column) in ("time", "date")
        times = cell_times(cells) if is_time else None
        available_at = table.cell(column)
        for day, row in zip(days, latest, strict=True):
            text = None
            if row is not None and available_at[row] > _moment(span, day):
                text = ""
            elif row is not None:
                text = str(cells[row].as_py()) if times is None else str((times[row] - _moment(span, day)) / DAY)
            yield (f"{name}.{column}", day), text


def _rows_of(table: ShownTable, span: Span) -> npt.NDArray[np.intp]:
    """Return the rows of a stay: those that refer to it, else those since the day before it."""
    stay_id = span.encounter if span.encounter is not None else span.names
    if table.spec.encounter is not None and stay_id is not None:
        return np.flatnonzero([text == str(stay_id) for text in table.texts(table.spec.encounter)])
    return np.flatnonzero((table.event >= span.start - DAY) | table.spec.is_static)


def _signs(column_report: ColumnReport, open_stays: Sequence[_Stay], day: int) -> Iterator[EarlySign]:
    remaining = np.array([stay.end - _moment(stay, day) for stay in open_stays])
    outcomes = {
        "death": np.array([stay.died for stay in open_stays], bool),
        "a long rest": remaining > np.median(remaining) if len(remaining) else np.zeros(0, bool),
        "a return": np.array([stay.returns for stay in open_stays], bool),
    }
    people = np.unique([stay.subject for stay in open_stays], return_inverse=True)[1]
    for outcome, truth in outcomes.items():
        if min(truth.sum(), (~truth).sum()) < _FEWEST:
            if day == 0:
                column_report.skipped[outcome] = (
                    f"{truth.sum()} of {len(truth)} stays; {_FEWEST} with and without are needed"
                )
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
    """Yield the ways to read a column: as words with emptiness as a value, and as numbers where filled."""
    is_present = np.array([cell is not None for cell in cells], bool)
    is_filled = np.array([bool(cell) for cell in cells], bool)
    numbers = np.array([_number(cell) for cell in cells], float)
    distinct = Counter(cell for cell in cells if cell)
    if np.isnan(numbers[is_filled]).any() or len(distinct) <= _FEW_WORDS:
        yield [cell or "" for cell in cells], is_present
    elif not is_filled[is_present].all():
        yield ["filled" if cell else "" for cell in cells], is_present
    if not np.isnan(numbers[is_filled]).any():
        yield numbers, is_filled


def _number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan


def _auc(values: Cells, is_used: Flags, truth: Flags, half: Flags) -> tuple[float, float, float, int]:
    """Return (lower end, AUC, upper end, stays): each half is scored by a fit on the other half."""
    aucs = []
    for own_half in (half, ~half):
        own, others = (np.flatnonzero(is_used & part) for part in (own_half, ~own_half))
        if min(truth[own].sum(), (~truth[own]).sum(), truth[others].sum(), (~truth[others]).sum()) < 3:
            return 0.0, 0.5, 1.0, int(is_used.sum())
        if isinstance(values, np.ndarray):
            sign = 1.0 if _rank_auc(values[others], truth[others]) >= 0.5 else -1.0
            scores = sign * values[own]
        else:
            scores = _rates([values[int(n)] for n in own], [values[int(n)] for n in others], truth[others])
        aucs.append(_rank_auc(scores, truth[own]))
    positive, negative = int(truth[is_used].sum()), int((~truth[is_used]).sum())
    auc = float(np.mean(aucs))
    margin = _SURE * _standard_error(auc, positive, negative)
    return auc - margin, auc, min(1.0, auc + margin), int(is_used.sum())


def _rates(own: Sequence[str], others: Sequence[str], truth: Flags) -> Floats:
    """Return each word's outcome rate among the other half, shrunk towards the overall rate."""
    count, positive_count = Counter(others), Counter(word for word, true in zip(others, truth, strict=True) if true)
    overall_rate = float(truth.mean())
    return np.array([(positive_count[word] + overall_rate) / (count[word] + 1) for word in own])


def _rank_auc(scores: Floats, truth: Flags) -> float:
    """Return the AUC by ranks; ties count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive, negative = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * negative))


def _standard_error(auc: float, positive: int, negative: int) -> float:
    """Return the standard error of an AUC (Hanley and McNeil 1982); above 0.95 that of 0.95."""
    a = min(max(auc, 1 - auc), 0.95)
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    spread = a * (1 - a) + (positive - 1) * (q1 - a * a) + (negative - 1) * (q2 - a * a)
    return math.sqrt(spread / (positive * negative))
