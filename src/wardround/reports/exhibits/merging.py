"""The runs of one exhibit as one table or one picture, with the paper's own figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup

from wardround.reports import charts
from wardround.reports.analyses import sections
from wardround.reports.arms import win_map
from wardround.reports.exhibits.exhibit import Exhibit, Point
from wardround.reports.summary import RunSummary, contender
from wardround.tasks.scoring import ACCURACY, ArmRow, ClassificationRow, EpisodeScore, Interval, SummaryRow
from wardround.tasks.scoring.stays import ALL_TYPES, RECALL

IN_PER_CENT = "f1 in per cent"
"""What the figures of two arms are called."""
Played = tuple[Point, Sequence[EpisodeScore], RunSummary]
"""One run of a sweep: its point, its scored episodes, its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRow:
    """One figure of one contender. ``point``: the value of the varied setting, or K; figures of classes are in per
    cent. ``interval`` is as in tables; ``published``: the paper's figure as printed, empty if there is none."""

    point: Point
    agent: str
    model: str
    task: str
    metric: str
    n: int
    value: float
    interval: str
    published: str = ""


def merged_rows(
    exhibit: Exhibit, played: Sequence[Played], published: Mapping[tuple[str, str, str], str]
) -> list[MergedRow]:
    """Return every figure of the exhibit's metrics, point by point."""
    if exhibit.kind == "arms":
        return [row for _, _, summary in played for arm in summary.arms for row in _arm_rows(arm, published)]
    return [
        row
        for point, _, summary in played
        for row in chain(
            _set_rows(point, summary, published),
            _class_rows(point, summary, published),
            _figure_rows(point, summary, published),
            _stay_rows(point, summary, published),
        )
        if row.metric in exhibit.metrics or row.metric.partition(" of ")[0] in exhibit.metrics
    ]


def _arm_rows(row: ArmRow, published: Mapping[tuple[str, str, str], str]) -> Iterable[MergedRow]:
    """Yield both arms of a model on a group of tasks, and their difference."""
    for figure in filter(None, (row.curated, row.seeking)):
        yield _arm_row(row, figure.agent, figure.n, figure.interval, published)
    if row.difference is not None:
        yield _arm_row(row, "difference", row.curated.n, row.difference.difference, published)


def _arm_row(
    row: ArmRow, agent: str, n: int, interval: Interval, published: Mapping[tuple[str, str, str], str]
) -> MergedRow:
    return MergedRow(
        point=None,
        agent=agent,
        model=row.model,
        task=row.group,
        metric=IN_PER_CENT,
        n=n,
        value=100 * interval.estimate,
        interval=_in_per_cent(interval),
        published=published.get((agent, row.group, IN_PER_CENT), ""),
    )


def _set_rows(point: Point, summary: RunSummary, published: Mapping[tuple[str, str, str], str]) -> Iterable[MergedRow]:
    if summary.classes:  # the figures of classes are the paper's for these tasks
        return
    whole = {(contender(row), row.task): row for row in summary.rows}  # the row over all strata comes last
    for row in whole.values():
        if row.metric == ACCURACY:
            yield from _right_rows(point, row, published)
            continue
        yield MergedRow(
            point=point,
            agent=row.agent,
            model=row.model,
            task=row.task,
            metric="f1",
            n=row.n,
            value=row.f1.estimate,
            interval=row.f1.as_text(),
            published=published.get((row.agent, row.task, "f1"), ""),
        )


def _right_rows(point: Point, row: SummaryRow, published: Mapping[tuple[str, str, str], str]) -> Iterable[MergedRow]:
    """Yield the share of right answers, in per cent: of several tasks over all samples, as papers average, and the mean
    of the tasks. ``point`` chooses the paper's figure, if it prints several."""
    shown = {"accuracy": row.over_samples or row.f1}
    if row.over_samples is not None:
        shown["mean of tasks"] = row.f1
    for metric, interval in shown.items():
        yield MergedRow(
            point=point,
            agent=row.agent,
            model=row.model,
            task=row.task,
            metric=metric,
            n=row.n,
            value=100 * interval.estimate,
            interval=_in_per_cent(interval),
            published=_printed(published, point, (row.agent, row.task, metric)),
        )


def _figure_rows(
    point: Point, summary: RunSummary, published: Mapping[tuple[str, str, str], str]
) -> Iterable[MergedRow]:
    """Yield other figures of answers: those of the reasoning, if a judge scored it."""
    for row in summary.figures:
        yield MergedRow(
            point=point,
            agent=row.agent,
            model=row.model,
            task=row.task,
            metric=row.figure,
            n=row.mean.n,
            value=row.mean.estimate,
            interval=row.mean.as_text(),
            published=_printed(published, point, (row.agent, row.task, row.figure)),
        )


def _printed(published: Mapping[tuple[str, str, str], str], point: Point, key: tuple[str, str, str]) -> str:
    """Return the paper's figure; if it prints one for every case, by its agent and the case's name."""
    agent, task, metric = key
    return published.get((f"{agent} {point}", task, metric), published.get(key, "") if point is None else "")


def _class_rows(
    point: Point, summary: RunSummary, published: Mapping[tuple[str, str, str], str]
) -> Iterable[MergedRow]:
    for row in summary.classes:
        for metric, interval in _class_figures(row):
            yield MergedRow(
                point=point,
                agent=row.agent,
                model=row.model,
                task=row.task,
                metric=metric,
                n=row.metrics.n,
                value=100 * interval.estimate,
                interval=_in_per_cent(interval),
                published=published.get((row.agent, row.task, metric), ""),
            )


def _stay_rows(point: Point, summary: RunSummary, published: Mapping[tuple[str, str, str], str]) -> Iterable[MergedRow]:
    """Yield Recall@5 of each type, micro and by name, and the shares of steps that adhere and are audited."""
    for who, kind, metric, n, interval in _stay_figures(summary):
        agent, _, model = who.partition(" · ")
        yield MergedRow(
            point=point,
            agent=agent,
            model=model,
            task=kind,
            metric=metric,
            n=n,
            value=interval.estimate,
            interval=interval.as_text(),
            published=_printed(published, point, (agent, kind, metric)),
        )


def _stay_figures(summary: RunSummary) -> Iterable[tuple[str, str, str, int, Interval]]:
    """Yield contender, type, metric, steps and figure."""
    for row in summary.recall:
        if row.matching == "name":
            yield row.contender, row.kind.lower(), RECALL, row.steps, row.micro
    for said in summary.adherence:
        yield said.contender, ALL_TYPES, "adherence", said.steps, said.adherence
        yield said.contender, ALL_TYPES, "audited", said.steps, said.audited


def _class_figures(row: ClassificationRow) -> list[tuple[str, Interval]]:
    by_class = [(f"f1 of {name}", interval) for name, interval in row.metrics.class_f1.items()]
    return [("accuracy", row.metrics.accuracy), ("macro_f1", row.metrics.macro_f1), *by_class]


def _in_per_cent(interval: Interval) -> str:
    if interval.missing or interval.low is None or interval.high is None:
        return interval.as_text()
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def best_rows(summary: RunSummary) -> list[MergedRow]:
    """Return Best@K of every contender and task (eq. 15), a row per K; without intervals."""
    whole = {(contender(row), row.task): row for row in summary.rows}
    return [
        MergedRow(
            point=k,
            agent=whole[best.contender, best.task].agent,
            model=whole[best.contender, best.task].model,
            task=best.task,
            metric="best",
            n=whole[best.contender, best.task].n,
            value=value,
            interval="–",
        )
        for best in summary.best
        for k, value in enumerate(best.values, start=1)
    ]


def drawn(exhibit: Exhibit, rows: Sequence[MergedRow], played: Sequence[Played]) -> Markup | None:
    """Return the figure; None for a table, and if the report has no such section for these runs."""
    if exhibit.kind == "analysis":
        _, scores, summary = played[0]
        return next(
            (section.chart for section in sections(scores, summary) if section.title.startswith(exhibit.section)), None
        )
    if exhibit.kind == "arms" and exhibit.section == "map":
        return win_map([cell for _, _, summary in played for cell in summary.arm_cells])
    if exhibit.kind == "table" and exhibit.section == "intervals":
        return _intervals(exhibit, played)
    if exhibit.kind not in ("curve", "best"):
        return None
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if isinstance(row.point, int) and row.task != "all":
            lines.setdefault(f"{row.agent} · {row.task}", []).append((row.point, row.value))
    axis = "K" if exhibit.kind == "best" else ", ".join(exhibit.sweep)
    return charts.lines(lines, title=exhibit.title, axis=axis) if lines else None


def _intervals(exhibit: Exhibit, played: Sequence[Played]) -> Markup:
    """Draw the figures of a table as dots with their intervals."""
    rows = [row for _, _, summary in played for row in summary.figures if row.figure in exhibit.metrics]
    means = [(f"{row.agent} · {row.task} · {row.figure}", row.mean) for row in rows]
    shown = [(name, mean.estimate, mean.low, mean.high) for name, mean in means]
    return charts.intervals(shown, title=exhibit.title)
