"""A run in figures: the table's rows, Best@K and pass^k where there are epochs, and paired tests against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from types import MappingProxyType

from wardround.core import UserError
from wardround.predictors import FitRow
from wardround.runs.arms import CURATED, group_of
from wardround.runs.comparing import Comparison, Pair, compare_all
from wardround.runs.honesty import CardRow, against_trivial, honesty_card, predictor_scores
from wardround.runs.predictions import predictor_rows
from wardround.scoring import (
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

_PAPERS_BASELINE = "resum"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRow:
    """Best@K F1 of a contender on a task for K = 1, 2, ... up to the epochs that every sample has, and ``passes``,
    their pass^k: how likely K epochs of a sample are all right."""

    contender: str
    task: str
    values: tuple[float, ...]
    passes: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything the report's tables show. ``classes`` are the agents' rows on tasks with classes, ``predictors`` those
    of the classical baselines, ``figures`` those of kinds of answers that have figures of their own;
    ``arms`` and ``arm_cells`` set curated input against seeking the evidence, where both were played;
    ``card`` and ``against_trivial`` say what no reading at all scores, and who beats it. ``subgroups`` are rows
    whose ``stratum`` is the group of ``by`` that a patient was known to be of; ``sizes`` are billions of parameters by
    model."""

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
    """Who answered: agent and model."""
    return f"{score.agent} · {score.model}"


def summarise_run(
    scores: Sequence[EpisodeScore],
    *,
    seed: int,
    baseline: str | None = None,
    predictions: Sequence[FitRow] = (),
    trivial: Sequence[TrivialScores] = (),
    sizes: Mapping[str, float] = MappingProxyType({}),
) -> RunSummary:
    """Aggregate. ``baseline`` of the paired tests: a contender, or an agent, then of everybody's own model; by default
    ReSum, which the RetroSum paper tests against, where it plays, else the first contender.

    ``predictions`` are the fits of predictors that lie in the run's folder, ``trivial`` the scores of the contenders
    that read nothing, ``sizes`` how large the models are.
    """
    groups = by_contender(scores)
    pairs = [
        Pair(names=(first, name), first=groups[first], second=group)
        for name, group in groups.items()
        if (first := _baseline_of(group[0], groups, baseline)) not in (name, None)
        and _share_samples(groups[first], group)
    ]
    best = [row for name, group in groups.items() for row in _best_rows(name, group)]
    recall, adherence = stay_rows(scores, seed=seed)
    return RunSummary(
        rows=summarise(scores, seed=seed),
        best=tuple(best),
        comparisons=tuple(compare_all(pairs, seed=seed)),
        classes=classify(scores, seed=seed),
        predictors=predictor_rows(predictions),
        figures=figure_rows(scores, seed=seed),
        recall=recall,
        adherence=adherence,
        card=honesty_card(trivial, seed=seed),
        against_trivial=against_trivial(groups | predictor_scores(predictions, trivial), trivial, seed=seed),
        arms=arm_rows(scores, group_of, curated=CURATED, seed=seed),
        arm_cells=arm_cells(scores, group_of, curated=CURATED),
        sizes=dict(sizes),
    )


def _baseline_of(one: EpisodeScore, groups: Mapping[str, Sequence[EpisodeScore]], baseline: str | None) -> str | None:
    """Return whom a contender is compared with; None where the named agent has not played with its model."""
    agents = {group[0].agent for group in groups.values()}
    named = baseline or (_PAPERS_BASELINE if _PAPERS_BASELINE in agents else next(iter(groups)))
    if named in agents:
        same_model = f"{named} · {one.model}"
        return same_model if same_model in groups else None
    if named not in groups:
        raise UserError(f"no contender {named!r}; there are {', '.join(groups)}")
    return named


def _share_samples(first: Sequence[EpisodeScore], second: Sequence[EpisodeScore]) -> bool:
    return not {score.sample for score in first}.isdisjoint(score.sample for score in second)


def by_contender(scores: Sequence[EpisodeScore]) -> dict[str, list[EpisodeScore]]:
    """Group scores by who answered, in order of first appearance."""
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
