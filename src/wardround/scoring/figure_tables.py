"""The other figures of a kind of answers: what its scorer gives of every answer besides the figure the tables show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wardround.scoring.bootstrap import Interval, patient_bootstrap
from wardround.scoring.episodes import EpisodeScore
from wardround.scoring.tables import per_sample


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """The mean of one figure over the samples of a task, repeated epochs averaged first."""

    agent: str
    model: str
    task: str
    figure: str
    mean: Interval


def figure_rows(scores: Iterable[EpisodeScore], *, seed: int = 0) -> tuple[FigureRow, ...]:
    """Return a row per task, contender and figure of the kinds that have figures of their own, the main one first."""
    groups: dict[tuple[str, str, str], list[EpisodeScore]] = {}
    for score in scores:
        if score.figures:
            groups.setdefault((score.task, score.agent, score.model), []).append(score)
    return tuple(
        FigureRow(agent=agent, model=model, task=task, figure=figure, mean=_mean(members, figure, seed))
        for (task, agent, model), members in sorted(groups.items(), key=lambda group: group[0][0])
        for figure in dict.fromkeys(name for member in members for name in member.figures)
    )


def render_figures(rows: Sequence[FigureRow]) -> str:
    """Return the rows as an aligned plain-text table."""
    lines = [("task", "", "figure", "mean", "95 % interval"), *map(_cells, rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _mean(scores: Sequence[EpisodeScore], figure: str, seed: int) -> Interval:
    held = [score for score in scores if figure in score.figures]  # a reasoning without a reference has none
    values = per_sample(held, lambda score: score.figures[figure])
    subject_of = {score.sample: score.subject_id for score in held}
    return patient_bootstrap(list(values.values()), [subject_of[sample] for sample in values], seed=seed)


def _cells(row: FigureRow) -> tuple[str, ...]:
    return row.task, f"{row.agent} · {row.model}", row.figure, f"{row.mean.estimate:.3f}", row.mean.as_text()
