"""Tables of answers that are classes: one row per agent, model and task, as data and as plain text.

The layout is that of EHR-RAG's tables 1 and 2: accuracy, macro-F1, F1 of every class; scores where there are any. A
repeated epoch is an answer of its own; intervals draw patients, so that repeating adds no certainty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from wardround.core.table import TableColumn, as_text, columns_of, table_of
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring.bootstrap import RESAMPLES, PatientDraws
from wardround.tasks.scoring.classification import ClassMetrics, ScoreMetrics, class_metrics, score_metrics
from wardround.tasks.scoring.episodes import EpisodeScore, EvidenceCut, evidence_cut

PROBABILITY_FIGURES = ("AUROC", "AUPRC", "Brier")
"""Figures that need the probabilities of the classes; the others are made of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationRow:
    """One agent with one model, or one predictor with what it was fitted on, on one task.

    ``class_names`` say what the classes mean, by value. ``scores`` is None unless every answer came with probabilities.
    ``evidence_cut``: where the budget had no room for all evidence, None where there is none to cut.
    """

    agent: str
    model: str
    task: str
    class_names: Mapping[str, str]
    episodes: int
    metrics: ClassMetrics
    scores: ScoreMetrics | None = None
    evidence_cut: EvidenceCut | None = None

    @property
    def name(self) -> str:
        """The contender."""
        return f"{self.agent} · {self.model}" if self.model else self.agent


def class_answer(score: EpisodeScore) -> tuple[str, ...] | None:
    """Return an episode's answer as label values: a class may be answered by its value or by its meaning."""
    if score.answer is None:
        return None
    labels = get_task(score.task).answer.labels(score.task, None)
    return tuple(dict.fromkeys((labels and labels.resolve(text)) or text for text in score.answer))


def classify(
    scores: Iterable[EpisodeScore], *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[ClassificationRow, ...]:
    """Return a row per task, agent and model of the episodes whose task has classes, in order of first appearance."""
    groups: dict[tuple[str, str, str], list[EpisodeScore]] = {}
    for score in scores:
        if score.target and get_task(score.task).answer.label_values:
            groups.setdefault((score.task, score.agent, score.model), []).append(score)
    order = {key: place for place, key in enumerate(groups)}
    keys = sorted(groups, key=lambda key: (key[0], order[key]))
    return tuple(_row(key, groups[key], seed, resamples) for key in keys)


def same_samples(rows: Iterable[ClassificationRow]) -> bool:
    """Whether rows can be of the same samples: of as many patients, as many of every class, if repeated in epochs."""
    kinds = set()
    for row in rows:
        counts = [row.metrics.n, *(row.metrics.support[value] for value in row.class_names)]
        times = gcd(*counts) or 1
        kinds.add((row.metrics.subjects, *(count // times for count in counts)))
    return len(kinds) <= 1


def render_classes(rows: Sequence[ClassificationRow]) -> str:
    """Return the rows as an aligned plain-text table, a block per task with its own classes."""
    blocks = []
    for task in dict.fromkeys(row.task for row in rows):
        members = [row for row in rows if row.task == task]
        columns = columns_of(class_columns(members[0].class_names), "terminal")
        lines = [task, as_text(table_of(members, columns), has_rule=True)]
        if not same_samples(members):
            lines.append("(these rows are not all over the same samples: compare those with one n)")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _row(key: tuple[str, str, str], scores: list[EpisodeScore], seed: int, resamples: int) -> ClassificationRow:
    name, agent, model = key
    task = get_task(name)
    draws = PatientDraws.of([score.subject_id for score in scores], seed=seed, resamples=resamples)
    metrics = class_metrics(
        [score.target for score in scores],
        [class_answer(score) for score in scores],
        draws,
        classes=task.answer.label_values,
        several=task.answer.several,
    )
    return ClassificationRow(
        agent=agent,
        model=model,
        task=name,
        class_names=task.answer.class_names,
        episodes=len(scores),
        metrics=metrics,
        scores=_scores(scores, task.answer.label_values, draws),
        evidence_cut=evidence_cut(score.use.evidence_left_out for score in scores),
    )


def _scores(scores: Sequence[EpisodeScore], classes: Sequence[str], draws: PatientDraws) -> ScoreMetrics | None:
    """Return figures of the episodes' probabilities; None unless every episode has them."""
    if not all(score.probabilities for score in scores):
        return None
    rows = np.array([[score.probabilities[value] for value in classes] for score in scores])
    truth = np.array([classes.index(score.target[0]) for score in scores])
    return score_metrics(truth, rows, draws)


def class_columns(class_names: Mapping[str, str]) -> tuple[TableColumn[ClassificationRow], ...]:
    """Return the columns of a task's table, in a ``terminal`` and on a ``page``; figures are intervals."""
    return (
        TableColumn(name="", value=lambda row: row.name, kind="text", tables="terminal"),
        TableColumn(name="n", value=lambda row: row.metrics.n, format=","),
        TableColumn(name="patients", value=lambda row: row.metrics.subjects, format=",", tables="terminal"),
        TableColumn(name="accuracy", value=lambda row: row.metrics.accuracy, format=".3f"),
        TableColumn(name="macro-F1", value=lambda row: row.metrics.macro_f1, format=".3f"),
        TableColumn(name="95 % interval", value=lambda row: row.metrics.macro_f1.as_text(), tables="terminal"),
        *(_class_column(value, name) for value, name in class_names.items()),
        TableColumn(name="no answer", value=lambda row: row.metrics.missing + row.metrics.outside),
        *map(_score_column, PROBABILITY_FIGURES),
        TableColumn(
            name="evidence cut",
            value=lambda row: row.evidence_cut and row.evidence_cut.short,
            is_shown=lambda rows: any(row.evidence_cut is not None and row.evidence_cut.episodes for row in rows),
        ),
    )


def _class_column(value: str, name: str) -> TableColumn[ClassificationRow]:
    return TableColumn(name=f"F1 {name}", value=lambda row: row.metrics.class_f1[value], format=".3f")


def _score_column(name: str) -> TableColumn[ClassificationRow]:
    return TableColumn(
        name=name,
        value=lambda row: getattr(row.scores, name.lower(), None),
        format=".3f",
        is_shown=lambda rows: any(row.scores is not None for row in rows),
    )
