"""Tables of answers that are classes: one row per agent, model and task, as data and as plain text.

The layout is that of EHR-RAG's tables 1 and 2: accuracy, macro-F1, F1 of every class; scores where there are any. A
repeated epoch is an answer of its own; intervals draw patients, so that repeating adds no certainty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring.bootstrap import RESAMPLES, Interval, PatientDraws
from wardround.tasks.scoring.classification import ClassMetrics, ScoreMetrics, class_metrics, score_metrics
from wardround.tasks.scoring.episodes import EpisodeScore
from wardround.tasks.scoring.task_means import EvidenceCut, evidence_cut


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
        """Who answered."""
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
    return len({_kind_of_samples(row) for row in rows}) <= 1


def render_classes(rows: Sequence[ClassificationRow]) -> str:
    """Return the rows as an aligned plain-text table, a block per task with its own classes."""
    blocks = []
    for task in dict.fromkeys(row.task for row in rows):
        members = [row for row in rows if row.task == task]
        blocks.append(_block(task, members))
    return "\n\n".join(blocks)


def _kind_of_samples(row: ClassificationRow) -> tuple[int, ...]:
    counts = [row.metrics.n, *(row.metrics.support[value] for value in row.class_names)]
    times = gcd(*counts) or 1
    return row.metrics.subjects, *(count // times for count in counts)


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
    """Figures of the episodes' probabilities; None unless every episode has them, for the others may differ in kind."""
    if not all(score.probabilities for score in scores):
        return None
    rows = np.array([[score.probabilities[value] for value in classes] for score in scores])
    truth = np.array([classes.index(score.target[0]) for score in scores])
    return score_metrics(truth, rows, draws)


def _block(task: str, rows: Sequence[ClassificationRow]) -> str:
    names = rows[0].class_names
    with_scores = any(row.scores is not None for row in rows)
    with_cuts = any(row.evidence_cut is not None and row.evidence_cut.episodes for row in rows)
    header = ["", "n", "patients", "accuracy", "macro-F1", "95 % interval"]
    header += [f"F1 {name}" for name in names.values()] + ["no answer"]
    header += ["AUROC", "AUPRC", "Brier"] if with_scores else []
    header += ["evidence cut"] if with_cuts else []
    lines = [header, *(_cells(row, with_scores=with_scores, with_cuts=with_cuts) for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(header))]
    text = [
        "  ".join(_put(cell, width, n) for n, (cell, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]
    below = [] if same_samples(rows) else ["(these rows are not all over the same samples: compare those with one n)"]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([task, *(line.rstrip() for line in (text[0], rule, *text[1:])), *below])


def _put(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def _cells(row: ClassificationRow, *, with_scores: bool, with_cuts: bool) -> list[str]:
    found, scores = row.metrics, row.scores
    cells = [
        row.name,
        f"{found.n:,}",
        f"{found.subjects:,}",
        f"{found.accuracy.estimate:.3f}",
        f"{found.macro_f1.estimate:.3f}",
        _edges(found.macro_f1),
        *(f"{found.class_f1[value].estimate:.3f}" for value in row.class_names),
        f"{found.missing + found.outside}",
    ]
    if with_scores:
        three = (None, None, None) if scores is None else (scores.auroc, scores.auprc, scores.brier)
        cells += ["" if one is None else f"{one.estimate:.3f}" for one in three]
    if with_cuts:
        cells.append("" if row.evidence_cut is None else row.evidence_cut.short)
    return cells


def _edges(interval: Interval) -> str:
    return interval.as_text()
