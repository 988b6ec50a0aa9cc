"""Results by subgroup: who the patient was, as far as the chart told when the question was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wardround.benchmarks import Sample
from wardround.records import Chart, ChartTable, Store
from wardround.records.specs.coded_rows import CodedRows
from wardround.scoring import EpisodeScore, SummaryRow, summarise

UNKNOWN = "unknown"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "sex": ("gender", "birth_sex"),
    "ethnicity": ("race", "ethnicity"),
    "insurance": ("insurance",),
}
"""What the columns are called in sources whose spec has no role ``person``, best first."""
_SEXES = {"f": "female", "m": "male"}
_SAYS_NOTHING = frozenset({"", "unknown", "?", "unable to obtain", "patient declined to answer", "not specified"})
_BANDS = ((18, "under 18"), (45, "18-44"), (65, "45-64"), (80, "65-79"))
_OLDEST = "80 and over"


def by_subgroup(
    scores: Sequence[EpisodeScore], samples: Iterable[Sample], store: Store, by: str, *, seed: int
) -> tuple[SummaryRow, ...]:
    """Return a row per contender, task and subgroup, which stands in ``stratum``, and those over all subgroups.

    ``by`` is one of ``GROUPINGS``. Charts are opened as of each sample's prediction time under the policy ``known_at``:
    a group that was not told by then is "unknown".
    """
    played = {score.sample for score in scores}
    group_of = {sample.id: GROUPINGS[by](sample.chart(store)) for sample in samples if sample.id in played}
    return summarise([replace(score, stratum=group_of[score.sample]) for score in scores], seed=seed)


def sex_of(chart: Chart) -> str:
    """Return the sex as registered, "female" and "male" where a letter stands for it."""
    told = _told(chart, "sex").casefold()
    return _SEXES.get(told, told)


def age_band_of(chart: Chart) -> str:
    """Return the band in which the age at the moment lies; sources cap ages at 90, which the oldest band holds."""
    if chart.age is None:
        return UNKNOWN
    return next((name for end, name in _BANDS if chart.age < end), _OLDEST)


def ethnicity_of(chart: Chart) -> str:
    """Return race or ethnicity in the source's own words."""
    return _told(chart, "ethnicity")


def insurance_of(chart: Chart) -> str:
    """Return who paid, as last recorded."""
    return _told(chart, "insurance")


def unit_of(chart: Chart) -> str:
    """Return the unit that the patient last came to, by the role ``transfer`` that tasks ask about."""
    role = chart.spec.roles.first("transfer")
    if role is None or role.table not in chart.table_names:
        return UNKNOWN
    table = chart.table(role.table)
    met = CodedRows(batch=table.batch).meet(role.where)
    nothing = _SAYS_NOTHING | {name.casefold() for name in role.not_labels}
    found = (_latest(table, name, met, nothing) for name in role.label if name in table.columns)
    return next((text for text in found if text is not None), UNKNOWN)


GROUPINGS: Mapping[str, Callable[[Chart], str]] = {
    "sex": sex_of,
    "age": age_band_of,
    "ethnicity": ethnicity_of,
    "insurance": insurance_of,
    "unit": unit_of,
}
"""How a chart tells its subgroup, by what results may be split by."""


def _told(chart: Chart, what: str) -> str:
    """Return what the first column of the role ``person`` that says anything says last."""
    return next((text for table, column in _columns(chart, what) if (text := _text(chart, table, column))), UNKNOWN)


def _columns(chart: Chart, what: str) -> Iterator[tuple[str, str]]:
    """Yield the columns that tell something of a person, with their tables, best first."""
    people = chart.spec.roles.person
    for role in people:
        column: str | None = getattr(role, what)
        if column is not None:
            yield role.table, column
    if not people:
        yield from ((table, column) for column in _COLUMNS[what] for table in chart.table_names)


def _text(chart: Chart, table: str, column: str) -> str | None:
    """Return the latest text of a column; None where the chart has no such table or column, or it says nothing."""
    if table not in chart.table_names or column not in chart.layouts[table].columns:
        return None
    rows = chart.table(table)
    return _latest(rows, column, np.ones(rows.num_rows, bool), _SAYS_NOTHING)


def _latest(table: ChartTable, column: str, met: npt.NDArray[np.bool_], nothing: frozenset[str]) -> str | None:
    """Return the last cell that says something, of the rows that are met; rows are in the order of their time."""
    cells = table.batch.column(column).to_pylist()
    told = [str(cell) for cell, counts in zip(cells, met, strict=True) if counts and cell is not None]
    return next((text for text in reversed(told) if text.strip().casefold() not in nothing), None)
