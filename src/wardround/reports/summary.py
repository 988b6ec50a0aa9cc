"""The figures of a run: means, intervals, Best@K, pass^k, results by subgroup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from wardround.core import UserError
from wardround.predictors import FitRow
from wardround.records import Chart, ChartTable, Store
from wardround.records.specs import CodedRows
from wardround.reports.arms import CURATED, group_of
from wardround.reports.baseline_card import CardRow, against_trivial, baseline_card, predictor_scores
from wardround.reports.comparing import Comparison, Pair, compare_all
from wardround.reports.predictions import predictor_rows
from wardround.runs.settings import RunSettings
from wardround.tasks.benchmarks import Sample
from wardround.tasks.scoring import (
    AdherenceRow,
    ArmCell,
    ArmRow,
    ClassificationRow,
    EpisodeScore,
    FigureRow,
    RecallRow,
    SummaryRow,
    TrivialScores,
    arm_cells,
    arm_rows,
    best_at_k,
    classify,
    figure_rows,
    pass_hat_k,
    stay_rows,
    summarise,
)

# The figures of a run: the table's rows, Best@K and pass^k if there are epochs, and paired tests against a baseline.


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRow:
    """Best@K F1 of a contender on a task for K = 1, 2, ... up to the epochs that every sample has, and ``passes``:
    pass^k, the chance that K epochs of a sample are all right."""

    contender: str
    task: str
    values: tuple[float, ...]
    passes: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything that the report's tables show.

    ``classes``: the agents' rows on tasks with classes; ``predictors``: those of classical baselines; ``figures``: of
    kinds of answers with figures of their own; ``arms`` and ``arm_cells``: curated input against evidence seeking, if
    both were run; ``card`` and ``against_trivial``: scores of trivial baselines, and who is better; ``subgroups``: rows
    whose ``stratum`` is the patient's group of ``by``; ``sizes``: billions of parameters by model.
    """

    rows: tuple[SummaryRow, ...]
    best: tuple[BestRow, ...]
    comparisons: tuple[Comparison, ...]
    classes: tuple[ClassificationRow, ...] = ()
    predictors: tuple[ClassificationRow, ...] = ()
    figures: tuple[FigureRow, ...] = ()
    recall: tuple[RecallRow, ...] = ()
    adherence: tuple[AdherenceRow, ...] = ()
    card: tuple[CardRow, ...] = ()
    against_trivial: tuple[Comparison, ...] = ()
    arms: tuple[ArmRow, ...] = ()
    arm_cells: tuple[ArmCell, ...] = ()
    by: str | None = None
    subgroups: tuple[SummaryRow, ...] = ()
    sizes: Mapping[str, float] = field(default_factory=dict)


def contender(score: EpisodeScore | SummaryRow) -> str:
    """Return the contender's name: agent and model."""
    return f"{score.agent} · {score.model}"


def summarise_run(
    scores: Sequence[EpisodeScore],
    *,
    seed: int,
    baseline: str | None = None,
    order: Sequence[str] = (),
    predictions: Sequence[FitRow] = (),
    trivial: Sequence[TrivialScores] = (),
    sizes: Mapping[str, float] = MappingProxyType({}),
) -> RunSummary:
    """Aggregate the scores of a run.

    ``baseline`` of the paired tests: a contender, or an agent (then with each contender's own model); by default the
    first contender. ``order``: the order of contenders in all tables; others follow. ``predictions``: fits of
    predictors in the run's folder; ``trivial``: scores of trivial baselines; ``sizes``: how large the models are.
    """
    places = {name: place for place, name in enumerate(order)}
    scores = sorted(scores, key=lambda score: places.get(contender(score), len(places)))
    groups = by_contender(scores)
    ranks = {name: rank for rank, name in enumerate(groups)}
    pairs = [
        Pair(names=(first, name), first=groups[first], second=group)
        for name, group in groups.items()
        if (first := _baseline_of(group[0], groups, baseline)) not in (name, None)
        and _share_samples(groups[first], group)
    ]
    best = [row for name, group in groups.items() for row in _best_rows(name, group)]
    recall, adherence = stay_rows(scores, seed=seed)
    return RunSummary(
        rows=tuple(sorted(summarise(scores, seed=seed), key=lambda row: ranks[contender(row)])),
        best=tuple(best),
        comparisons=tuple(compare_all(pairs, seed=seed)),
        classes=classify(scores, seed=seed),
        predictors=predictor_rows(predictions),
        figures=figure_rows(scores, seed=seed),
        recall=recall,
        adherence=adherence,
        card=baseline_card(trivial, seed=seed),
        against_trivial=against_trivial(groups | predictor_scores(predictions, trivial), trivial, seed=seed),
        arms=arm_rows(scores, group_of, curated=CURATED, seed=seed),
        arm_cells=arm_cells(scores, group_of, curated=CURATED),
        sizes=dict(sizes),
    )


def _baseline_of(one: EpisodeScore, groups: Mapping[str, Sequence[EpisodeScore]], baseline: str | None) -> str | None:
    """Return the baseline of a contender; None if the named agent was not run with its model."""
    agents = {group[0].agent for group in groups.values()}
    named = baseline or next(iter(groups))
    if named in agents:
        same_model = f"{named} · {one.model}"
        return same_model if same_model in groups else None
    if named not in groups:
        raise UserError(f"no contender {named!r}; there are {', '.join(groups)}")
    return named


def named_contenders(settings: RunSettings) -> list[str]:
    """Return the contenders of a run in the order of its settings: by agent, then by model."""
    return [f"{agent} · {model}" for agent in settings.run.agents for model in settings.run.models]


def _share_samples(first: Sequence[EpisodeScore], second: Sequence[EpisodeScore]) -> bool:
    return not {score.sample for score in first}.isdisjoint(score.sample for score in second)


def by_contender(scores: Sequence[EpisodeScore]) -> dict[str, list[EpisodeScore]]:
    """Group scores by contender, in order of first appearance."""
    groups: dict[str, list[EpisodeScore]] = {}
    for score in scores:
        groups.setdefault(contender(score), []).append(score)
    return groups


def _best_rows(name: str, scores: Sequence[EpisodeScore]) -> list[BestRow]:
    rows = []
    for task in sorted({score.task for score in scores}):
        epochs = _epochs([score for score in scores if score.task == task])
        depth = min(map(len, epochs.values()))
        if depth > 1:
            rows.append(_best_row(name, task, list(epochs.values()), depth))
    return rows


def _best_row(name: str, task: str, epochs: Sequence[Sequence[EpisodeScore]], depth: int) -> BestRow:
    values = [[one.value for one in played] for played in epochs]
    right = [[one.right for one in played] for played in epochs]
    return BestRow(
        contender=name,
        task=task,
        values=tuple(fmean(best_at_k(some, k) for some in values) for k in range(1, depth + 1)),
        passes=tuple(fmean(pass_hat_k(some, k) for some in right) for k in range(1, depth + 1)),
    )


def _epochs(scores: Sequence[EpisodeScore]) -> Mapping[str, list[EpisodeScore]]:
    found: dict[str, list[EpisodeScore]] = {}
    for score in scores:
        found.setdefault(score.sample, []).append(score)
    return found


# Results by subgroup of patients, as recorded by the moment of the question.


UNKNOWN = "unknown"
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "sex": ("gender", "birth_sex"),
    "ethnicity": ("race", "ethnicity"),
    "insurance": ("insurance",),
}
"""Column names in sources whose spec has no role ``person``, best first."""
_SEXES = {"f": "female", "m": "male"}
_SAYS_NOTHING = frozenset({"", "unknown", "?", "unable to obtain", "patient declined to answer", "not specified"})
_BANDS = ((18, "under 18"), (45, "18-44"), (65, "45-64"), (80, "65-79"))
_OLDEST = "80 and over"


def by_subgroup(
    scores: Sequence[EpisodeScore], samples: Iterable[Sample], store: Store, by: str, *, seed: int
) -> tuple[SummaryRow, ...]:
    """Return a row per contender, task and subgroup (in ``stratum``), and the rows over all subgroups.

    ``by`` is one of ``GROUPINGS``. Charts are opened as of each sample's prediction time under the policy ``known_at``:
    a group that was not recorded by then is "unknown".
    """
    played = {score.sample for score in scores}
    group_of = {sample.id: GROUPINGS[by](sample.chart(store)) for sample in samples if sample.id in played}
    return summarise([replace(score, stratum=group_of[score.sample]) for score in scores], seed=seed)


def sex_of(chart: Chart) -> str:
    """Return the recorded sex; the letters f and m become "female" and "male"."""
    told = _told(chart, "sex").casefold()
    return _SEXES.get(told, told)


def age_band_of(chart: Chart) -> str:
    """Return the band of the age at the moment; sources limit ages to 90, which is in the oldest band."""
    if chart.age is None:
        return UNKNOWN
    return next((name for end, name in _BANDS if chart.age < end), _OLDEST)


def unit_of(chart: Chart) -> str:
    """Return the patient's last unit, by the role ``transfer`` that tasks use."""
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
    "ethnicity": lambda chart: _told(chart, "ethnicity"),
    "insurance": lambda chart: _told(chart, "insurance"),
    "unit": unit_of,
}
"""Functions from a chart to its subgroup, by the name of the grouping."""


def _told(chart: Chart, what: str) -> str:
    """Return the last value of the first column of the role ``person`` that has one."""
    return next((text for table, column in _columns(chart, what) if (text := _text(chart, table, column))), UNKNOWN)


def _columns(chart: Chart, what: str) -> Iterator[tuple[str, str]]:
    """Yield the columns that describe a person, with their tables, best first."""
    people = chart.spec.roles.person
    for role in people:
        column: str | None = getattr(role, what)
        if column is not None:
            yield role.table, column
    if not people:
        yield from ((table, column) for column in _COLUMNS[what] for table in chart.table_names)


def _text(chart: Chart, table: str, column: str) -> str | None:
    """Return the latest text of a column; None if the chart has no such table or column, or no value."""
    if table not in chart.table_names or column not in chart.layouts[table].columns:
        return None
    rows = chart.table(table)
    return _latest(rows, column, np.ones(rows.num_rows, bool), _SAYS_NOTHING)


def _latest(table: ChartTable, column: str, met: npt.NDArray[np.bool_], nothing: frozenset[str]) -> str | None:
    """Return the last cell with a value, among the rows that are met; rows are ordered by time."""
    cells = table.batch.column(column).to_pylist()
    told = [str(cell) for cell, counts in zip(cells, met, strict=True) if counts and cell is not None]
    return next((text for text in reversed(told) if text.strip().casefold() not in nothing), None)
