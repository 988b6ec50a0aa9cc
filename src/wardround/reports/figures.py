"""Figures for a paper, drawn by matplotlib (the extra [figures]): PDF and SVG, a colour and a mark for each contender.

Sizes are a journal's: 89 or 183 mm wide, text of 7 points, fonts embedded in the PDF. The same figures give the same
bytes: files contain no time. The report's own charts are ``charts.py`` and ``forest.py`` and need no package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wardround.core import UserError, import_extra, missing_extra, private_folder
from wardround.predictors import ALL_SHOTS, FitRow, read_predictions
from wardround.reports.analyses import Point
from wardround.reports.answer import p_text
from wardround.reports.comparing import Comparison
from wardround.reports.predictions import CLASSES_VIEW, Curve, ReliabilityBin, curves, reliability_bins
from wardround.reports.summary import RunSummary, contender
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import Interval, SafetyPoint, SummaryRow
from wardround.tasks.scoring.tables import ALL, over_strata

Draw = Callable[[], Any]
"""Draws a figure when it is called; matplotlib is loaded then."""
ONE_COLUMN, TWO_COLUMNS = 89 / 25.4, 183 / 25.4
"""Widths of a figure in inches: of one and of two columns of a journal."""
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
_STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.0,
    "lines.markersize": 4,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "wardround",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a contender looks in every figure of a run."""

    colour: str
    mark: str


def write_figures(drawn: Mapping[str, Draw], folder: Path) -> list[Path]:
    """Draw each figure and write it as ``NAME.pdf`` and ``NAME.svg``; return the files. UserError: no extra."""
    matplotlib = import_extra("matplotlib", "figures", what="figures")
    private_folder(folder)
    written = []
    with matplotlib.rc_context(_STYLE):
        for name, draw in drawn.items():
            figure = draw()
            for suffix, dated in (("pdf", "CreationDate"), ("svg", "Date")):
                file = folder / f"{name}.{suffix}"
                figure.savefig(file, metadata={dated: None})
                written.append(file)
    return written


def without_figures() -> UserError | None:
    """Return why figures cannot be drawn; None if they can."""
    return (
        None if find_spec("matplotlib") else missing_extra("figures", what="figures", why="matplotlib is not installed")
    )


def run_figures(summary: RunSummary, points: Sequence[Point] = ()) -> dict[str, Draw]:
    """Return the figures that a run's tables allow, by file name. ``points``: from runs that differ in a setting."""
    looks = _looks(contender(row) for row in summary.rows)
    found: dict[str, Draw] = {}
    if summary.against_trivial:
        found["forest-trivial"] = partial(forest_figure, summary.against_trivial, looks)
    if summary.comparisons:
        found["forest"] = partial(forest_figure, summary.comparisons, looks)
    rows = over_strata(summary.rows)
    if rows:
        best = {row.task: row.means[row.best] for row in summary.card}
        found["scores"] = partial(
            scores_figure, rows, looks, {task: one for task, one in best.items() if one is not None}
        )
    whole = list({contender(row): row for row in rows}.values())  # the row over all tasks comes last
    unit = "mean cost of an episode (US$)" if all(row.cost for row in whole) else "mean input tokens of an episode"
    spent = [(row, row.cost if all(one.cost for one in whole) else row.input_tokens) for row in whole]
    known = [(row, value) for row, value in spent if value]
    if len(known) > 1:
        found["score-against-cost"] = partial(cost_figure, known, looks, unit)
    if summary.subgroups:
        found[f"by-{summary.by}"] = partial(subgroup_figure, summary.subgroups, looks, summary.by or "subgroup")
    return found | setting_figures(points, looks)


def setting_figures(points: Sequence[Point], looks: Mapping[str, Look] | None = None) -> dict[str, Draw]:
    """Return a figure for each setting in which runs differ."""
    looks = looks or _looks(point.contender for point in points)
    found: dict[str, Draw] = {}
    for setting in sorted({point.setting for point in points}):
        some = [point for point in points if point.setting == setting]
        found[f"score-against-{setting.replace('_', '-')}"] = partial(setting_figure, some, looks, setting)
    return found


def forest_figure(comparisons: Sequence[Comparison], looks: Mapping[str, Look] | None = None) -> Any:
    """Draw differences with their intervals, one row each, with numbers beside them."""
    rows = [row for row in comparisons if row.stratum == ALL]
    rows = [row for row in rows if row.metric == rows[0].metric]
    rows.sort(key=lambda row: (row.task == ALL, row.task))
    shown = list(dict.fromkeys(row.contender for row in rows))
    looks = {**_looks(shown), **(looks or {})}
    figure, axes = _new(TWO_COLUMNS, 0.7 + 0.19 * len(rows))
    for place, row in enumerate(rows):
        _whisker(axes, row.test.difference, len(rows) - 1 - place, looks[row.contender])
        text = f"{row.test.difference.estimate:+.3f} ({row.test.difference.as_text('+.3f')}); {p_text(row.adjusted_p)}"
        axes.text(1.02, len(rows) - 1 - place, text, transform=axes.get_yaxis_transform(), va="center")
    axes.axvline(0, color="0.4", linewidth=0.8, zorder=0)
    names = [f"{_task(row.task)}, {row.contender}" if len(shown) > 1 else _task(row.task) for row in rows]
    axes.set_yticks(range(len(rows)), names[::-1])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    baselines = " or ".join(dict.fromkeys(row.baseline for row in rows))
    axes.set_xlabel(f"difference in {rows[0].metric} from {baselines} (95 % interval over patients)")
    return figure


def scores_figure(rows: Sequence[SummaryRow], looks: Mapping[str, Look], trivial: Mapping[str, float]) -> Any:
    """Draw the scores of every contender on every task; a line marks the best trivial baseline of a task."""
    tasks = sorted({row.task for row in rows}, key=lambda task: (task == ALL, task))
    figure, axes = _new(TWO_COLUMNS, 0.9 + (0.16 * len(looks) + 0.12) * len(tasks))
    gap = 0.7 / max(len(looks), 1)
    for row in rows:
        place = (
            len(tasks)
            - 1
            - tasks.index(row.task)
            + (len(looks) - 1) * gap / 2
            - list(looks).index(contender(row)) * gap
        )
        _whisker(axes, row.f1, place, looks[contender(row)])
    for task, value in trivial.items():
        place = len(tasks) - 1 - tasks.index(task)
        axes.plot([value, value], [place - 0.42, place + 0.42], color="0.35", linestyle=":", linewidth=1.2)
    axes.set_yticks(range(len(tasks)), [_task(task) for task in tasks[::-1]])
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(f"{' or '.join(sorted({row.metric for row in rows}))} (95 % interval over patients)")
    _legend(figure, axes, looks, {"best trivial baseline": {"color": "0.35", "linestyle": ":"}} if trivial else {})
    return figure


def cost_figure(spent: Sequence[tuple[SummaryRow, float]], looks: Mapping[str, Look], unit: str) -> Any:
    """Draw the score of each contender against the cost of an episode."""
    figure, axes = _new(ONE_COLUMN, 2.6)
    for row, value in spent:
        low, high = row.f1.ends
        bars = None if low is None or high is None else [[row.f1.estimate - low], [high - row.f1.estimate]]
        look = looks[contender(row)]
        axes.errorbar([value], [row.f1.estimate], yerr=bars, fmt=look.mark, color=look.colour, clip_on=False)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel(unit)
    axes.set_ylabel(f"{spent[0][0].metric}{', mean of tasks' if spent[0][0].task == ALL else ''}")
    _legend(figure, axes, {contender(row): looks[contender(row)] for row, _ in spent})
    return figure


def subgroup_figure(rows: Sequence[SummaryRow], looks: Mapping[str, Look], by: str) -> Any:
    """Draw the score in each subgroup (over all tasks, if there are several), with the number of patients."""
    tasks = {row.task for row in rows}
    some = [row for row in rows if row.task == (ALL if ALL in tasks else min(tasks)) and row.stratum != ALL]
    groups = sorted({row.stratum for row in some})
    figure, axes = _new(ONE_COLUMN, 0.8 + 0.3 * len(groups))
    for row in some:
        names = list(looks)
        place = len(groups) - 1 - groups.index(row.stratum) - (names.index(contender(row)) - (len(names) - 1) / 2) * 0.2
        _whisker(axes, row.f1, place, looks[contender(row)])
    patients = {row.stratum: max(one.subjects for one in some if one.stratum == row.stratum) for row in some}
    sizes = (f"{patients[name]} patient{'s' * (patients[name] != 1)}" for name in groups[::-1])
    axes.set_yticks(range(len(groups)), [f"{name} ({size})" for name, size in zip(groups[::-1], sizes, strict=True)])
    axes.set_ylim(-0.5, len(groups) - 0.5)
    axes.set_ylabel(by)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(f"{some[0].metric if some else 'score'} (95 % interval over patients)")
    _legend(figure, axes, looks)
    return figure


def setting_figure(points: Sequence[Point], looks: Mapping[str, Look], setting: str) -> Any:
    """Draw the scores of runs against the setting in which they differ."""
    figure, axes = _new(ONE_COLUMN, 2.6)
    names = list(dict.fromkeys(point.contender for point in points))
    shown = {name: looks.get(name) or Look(colour=_COLOURS[-1], mark=_MARKS[-1]) for name in names}
    for name, look in shown.items():
        some = sorted((point.value, point.f1) for point in points if point.contender == name)
        axes.plot(*zip(*some, strict=True), marker=look.mark, color=look.colour)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel(setting.replace("_", " "))
    axes.set_ylabel("mean of the tasks' scores")
    _legend(figure, axes, shown)
    return figure


_APART = 1.9
"""How many times the number before a labelled number of samples is: closer ones would run into each other."""


def learning_figure(curves: Sequence[Curve], metric: str) -> Any:
    """Draw predictors of one task against the labelled samples per class; bands are the lowest and highest draw."""
    looks = _looks(curve.predictor for curve in curves)
    figure, axes = _new(ONE_COLUMN, 2.6)
    numbers = sorted({point.k for curve in curves for point in curve.points if point.k is not None})
    end = 2 * numbers[-1] if numbers else 1
    for curve in curves:
        look = looks[curve.predictor]
        places = [end if point.k is None else point.k for point in curve.points]
        axes.plot(places, [point.mean for point in curve.points], marker=look.mark, color=look.colour)
        lows, highs = [point.low for point in curve.points], [point.high for point in curve.points]
        axes.fill_between(places, lows, highs, color=look.colour, alpha=0.15, linewidth=0)
    with_all = any(point.k is None for curve in curves for point in curve.points)
    axes.set_xscale("log", base=2)
    apart: list[int] = []
    for number in numbers:
        apart += [number] if not apart or number >= _APART * apart[-1] else []
    axes.set_xticks([*apart, *([end] if with_all else [])], [*map(str, apart), *(["all"] if with_all else [])])
    axes.minorticks_off()
    axes.set_xlabel(f"labelled samples of each class, {curves[0].task}")
    axes.set_ylabel(metric)
    _legend(figure, axes, looks)
    return figure


def calibration_figure(bins: Mapping[str, Sequence[ReliabilityBin]], task: str) -> Any:
    """Draw the observed frequency of an outcome against the predicted probability, by tenths of the samples."""
    looks = _looks(bins)
    figure, axes = _new(ONE_COLUMN, 2.8)
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":", zorder=0)
    for name, some in bins.items():
        look = looks[name]
        lows = [one.observed - one.low for one in some]
        highs = [one.high - one.observed for one in some]
        places, shares = [one.predicted for one in some], [one.observed for one in some]
        axes.errorbar(places, shares, yerr=[lows, highs], marker=look.mark, color=look.colour, elinewidth=0.6)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(f"predicted probability of {task}")
    axes.set_ylabel("observed share (95 % Wilson interval)")
    _legend(figure, axes, looks, {"perfect calibration": {"color": "0.6", "linestyle": ":"}})
    return figure


def safety_figure(curves: Mapping[str, Sequence[SafetyPoint]]) -> Any:
    """Draw Recall@5 against the share of predicted actions that a planted rule forbids, over how much is audited."""
    looks = _looks(curves)
    figure, axes = _new(ONE_COLUMN, 2.6)
    for name, points in curves.items():
        some = sorted((100 * point.red_flags / point.predicted, point.recall) for point in points if point.predicted)
        if some:
            axes.plot(*zip(*some, strict=True), marker=looks[name].mark, color=looks[name].colour)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("forbidden actions (% of those predicted)")
    axes.set_ylabel("Recall@5")
    _legend(figure, axes, looks)
    return figure


def _looks(names: Iterable[str]) -> dict[str, Look]:
    return {
        name: Look(colour=_COLOURS[place % len(_COLOURS)], mark=_MARKS[place % len(_MARKS)])
        for place, name in enumerate(dict.fromkeys(names))
    }


def _new(width: float, height: float) -> tuple[Any, Any]:
    figure = import_extra("matplotlib.figure", "figures", what="figures").Figure(
        figsize=(width, height), layout="constrained"
    )
    return figure, figure.subplots()


def _whisker(axes: Any, shown: Interval, place: float, look: Look) -> None:
    low, high = shown.ends
    if low is not None and high is not None:
        axes.plot([low, high], [place, place], color=look.colour)
    axes.plot([shown.estimate], [place], marker=look.mark, color=look.colour, linestyle="none")


def _legend(
    figure: Any, axes: Any, looks: Mapping[str, Look], lines: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Add a legend of marks and lines below the axes, if there is more than one."""
    if len(looks) + len(lines or {}) < 2:
        return
    handles = [
        axes.plot([], [], marker=look.mark, color=look.colour, linestyle="none", label=name)[0]
        for name, look in looks.items()
    ]
    handles += [axes.plot([], [], label=name, **style)[0] for name, style in (lines or {}).items()]
    columns = 1 if figure.get_figwidth() < 4 and max(len(handle.get_label()) for handle in handles) > 20 else 2
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _task(name: str) -> str:
    return "mean of tasks" if name == ALL else name


# Figures of classical predictors: learning curves over labelled samples, and calibration, one of each per task.


def prediction_figures(path: Path, benchmark: Callable[[], Benchmark]) -> dict[str, Draw]:
    """Return the figures of the predictors in a folder, by file name; empty if none were fitted. ``benchmark`` opens
    the one on which they were fitted."""
    rows = [row for row in read_predictions(path) if row.view == CLASSES_VIEW]
    if not rows:
        return {}
    found: dict[str, Draw] = {}
    learnt = curves(rows, lambda row: row.metrics.macro_f1.estimate)
    for task in dict.fromkeys(curve.task for curve in learnt):
        some = [curve for curve in learnt if curve.task == task and len(curve.points) > 1]
        if some:
            found[f"learning-curve-{task.replace('.', '-')}"] = partial(learning_figure, some, "macro-F1")
    targets = {sample.id: tuple(sample.target) for sample in benchmark().all_samples}
    whole = [row for row in rows if row.k == ALL_SHOTS and row.probabilities]
    for task in dict.fromkeys(row.task for row in whole):
        bins = {row.predictor: reliability_bins(row, _truth(row, targets)) for row in whole if row.task == task}
        found[f"calibration-{task.replace('.', '-')}"] = partial(calibration_figure, bins, task)
    return found


def _truth(row: FitRow, targets: Mapping[str, tuple[str, ...]]) -> dict[str, bool]:
    """Return whether a sample's class is not the first, as EHRSHOT treats several classes as two."""
    return {sample: bool(set(targets[sample]) & set(row.classes[1:])) for sample in row.samples}
