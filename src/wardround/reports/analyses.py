"""The analyses of a report, from scored episodes alone: how contenders behave, not only how well they score.

They follow section 5 and appendix F of the AgentEHR paper. Rows are contenders if there are several, else tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from markupsafe import Markup

from wardround.core.settings import flat
from wardround.reports import charts
from wardround.reports.summary import RunSummary, contender
from wardround.runs.settings import RunSettings
from wardround.tasks.scoring import EpisodeScore, ErrorClass, Interval, mean_of_task_means
from wardround.tools import TOOLS

_TURN_EDGES = (5, 10, 20, 40, 60, 80, 100)
_MOST_TABLES = 14
_COMPARED = ("budget.context_tokens", "agent.retrosum.window", "budget.turns", "budget.result_tokens")
"""Settings against which a chart is drawn, if runs differ in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A chart with its heading and an explanation."""

    title: str
    text: str
    chart: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A contender's mean F1 in a run with one value of a setting in which runs differ."""

    contender: str
    setting: str
    value: float
    f1: float


def points_of(runs: Sequence[tuple[RunSettings, Sequence[EpisodeScore]]]) -> list[Point]:
    """Return every contender's mean F1 against each numeric setting in which these runs differ."""
    points = []
    for name in _COMPARED:
        values: list[Any] = [flat(settings.to_json()).get(name) for settings, _ in runs]
        if len(set(values)) < 2 or None in values:
            continue
        for value, (_, scores) in zip(values, runs, strict=True):
            for who, group in _grouped(scores, contender).items():
                mean = _mean_f1(group)
                points.append(Point(contender=who, setting=name.rpartition(".")[2], value=float(value), f1=mean))
    return points


def sections(scores: Sequence[EpisodeScore], summary: RunSummary, points: Sequence[Point] = ()) -> Iterable[Section]:
    """Yield every analysis that these scores allow. ``points`` come from runs that differ in one setting."""
    if not scores:
        return
    groups = _groups(scores)
    yield _by_task(summary)
    yield _errors(groups)
    yield _turns(groups)
    yield from _tool_mix(groups)
    yield from _tables(scores)
    yield from _spending(groups)
    yield from _frontier(scores)
    yield from _sizes(scores, summary.sizes)
    yield from _best_at(summary)
    for setting in sorted({point.setting for point in points}):
        yield _against(setting, [point for point in points if point.setting == setting])


def _groups(scores: Sequence[EpisodeScore]) -> dict[str, list[EpisodeScore]]:
    several = len({contender(score) for score in scores}) > 1
    return _grouped(scores, contender if several else _task)


def _grouped(scores: Iterable[EpisodeScore], key: Callable[[EpisodeScore], str]) -> dict[str, list[EpisodeScore]]:
    groups: dict[str, list[EpisodeScore]] = {}
    for score in scores:
        groups.setdefault(key(score), []).append(score)
    return groups


def _task(score: EpisodeScore) -> str:
    return score.task


def _by_task(summary: RunSummary) -> Section:
    """Return the chart of scores by task: one contender has a line per task; several have a line each over all
    tasks."""
    several = len({contender(row) for row in summary.rows}) > 1
    whole = {(row.task, contender(row)): row for row in summary.rows}  # the row over all strata comes last
    task = summary.rows[-1].task
    shown = (
        {name: row for (of, name), row in whole.items() if of == task}
        if several
        else {of: row for (of, _), row in whole.items()}
    )
    points = [(with_reason(label, row.f1), row.f1.estimate, *row.f1.ends) for label, row in shown.items()]
    return Section(
        title=f"Score over {task} tasks" if task == "all" and several else "Score by task",
        text="Mean set F1 over samples (of all tasks: of their means); the line is the 95 % interval over patients.",
        chart=charts.intervals(points, title="F1 with 95 % intervals"),
    )


def with_reason(label: str, interval: Interval) -> str:
    """Add to a chart's label why no interval is drawn, if there is none."""
    return label if interval.missing is None else f"{label} ({interval.missing.partition(':')[0]})"


def _errors(groups: Mapping[str, Sequence[EpisodeScore]]) -> Section:
    columns = [name.replace("_", " ") for name in ErrorClass]
    rows = {
        label: {name.replace("_", " "): sum(name in s.errors for s in group) / len(group) for name in ErrorClass}
        for label, group in groups.items()
    }
    return Section(
        title="Errors",
        text="Share of episodes in which each error class of AgentEHR (appendix E) holds; several may hold at once.",
        chart=charts.heat(rows, columns, title="Error classes"),
    )


def _turns(groups: Mapping[str, Sequence[EpisodeScore]]) -> Section:
    columns = [f"≤ {edge}" for edge in _TURN_EDGES] + [f"> {_TURN_EDGES[-1]}"]
    rows = {}
    for label, group in groups.items():
        trials = [turns for score in group for turns in score.use.trial_turns or (score.use.turns,)]
        bins = Counter(map(_turn_bin, trials))
        rows[label] = {column: bins[n] / len(trials) for n, column in enumerate(columns)}
    return Section(
        title="Turns per episode",
        text="Share of episodes by number of turns (Reflexion: of trials; each trial has the turn limit).",
        chart=charts.heat(rows, columns, title="Turns per episode"),
    )


def _turn_bin(turns: int) -> int:
    return next((n for n, edge in enumerate(_TURN_EDGES) if turns <= edge), len(_TURN_EDGES))


def _tool_mix(groups: Mapping[str, Sequence[EpisodeScore]]) -> Iterable[Section]:
    category = {tool.name: tool.category for tool in TOOLS.registered}
    rows = {}
    for label, group in groups.items():
        counts: Counter[str] = Counter()
        for score in group:
            for name, count in score.use.tool_calls.items():
                counts[category.get(name, "unknown")] += count
        total = counts.total() or 1
        rows[label] = {name: count / total for name, count in counts.items()}
    columns = sorted({name for shares in rows.values() for name in shares})
    if columns:  # methods without tools call none
        yield Section(
            title="Tools called",
            text="Share of tool calls by category; unknown: tools that do not exist.",
            chart=charts.heat(rows, columns, title="Tool calls by category"),
        )


def _tables(scores: Sequence[EpisodeScore]) -> Iterable[Section]:
    for name, group in _grouped(scores, contender).items():
        tasks = _grouped(group, _task)
        most = Counter(table for score in group for table in score.use.tables).most_common(_MOST_TABLES)
        if not most:
            continue
        rows = {
            table: {task: sum(table in s.use.tables for s in part) / len(part) for task, part in tasks.items()}
            for table, _ in most
        }
        yield Section(
            title=f"Tables read: {name}",
            text="Share of a task's episodes that read each table at least once.",
            chart=charts.heat(rows, sorted(tasks), title=f"Tables read by task, {name}"),
        )


def _spending(groups: Mapping[str, Sequence[EpisodeScore]]) -> Iterable[Section]:
    tokens = [(label, value) for label, group in groups.items() if (value := _mean_input(group)) is not None]
    if tokens:
        yield Section(
            title="Input tokens per episode",
            text="Mean over episodes in which every call reported its tokens.",
            chart=charts.bars([(label, value, f"{value:,.0f}") for label, value in tokens], title="Input tokens"),
        )
    seconds = [
        (label, fmean(s.use.model_seconds + s.use.tool_seconds for s in group)) for label, group in groups.items()
    ]
    yield Section(
        title="Time per episode",
        text="Mean wall time of model and tools; with many episodes at once it includes waiting.",
        chart=charts.bars([(label, value, f"{value:.2f} s") for label, value in seconds], title="Seconds per episode"),
    )
    shares = [(label, value) for label, group in groups.items() if (value := _mean_prefix(group)) is not None]
    if shares:
        yield Section(
            title="Prompt re-used as prefix",
            text="Share of prompt bytes that repeat the start of the previous prompt: a prefix cache can save these.",
            chart=charts.bars([(n, v, f"{v:.0%}") for n, v in shares], title="Prefix share", full=1.0),
        )


def _mean_input(scores: Sequence[EpisodeScore]) -> float | None:
    usages = [score.use.usage for score in scores]
    known = [usage.input_tokens for usage in usages if usage is not None]
    return fmean(known) if len(known) == len(usages) else None


def _mean_prefix(scores: Sequence[EpisodeScore]) -> float | None:
    shares = [score.use.prefix_share for score in scores if score.use.prefix_share is not None]
    return fmean(shares) if shares else None


def _frontier(scores: Sequence[EpisodeScore]) -> Iterable[Section]:
    groups = _grouped(scores, contender)
    spent = {name: _mean_input(group) for name, group in groups.items()}
    if len(groups) < 2 or None in spent.values():
        return
    points = [(name, spent[name] or 0.0, _mean_f1(group)) for name, group in groups.items()]
    yield Section(
        title="Score against spending",
        text="Mean of the tasks' F1 against mean input tokens per episode; the line joins those unbeaten in both.",
        chart=charts.frontier(points, title="F1 against input tokens", unit="input tokens"),
    )


def _sizes(scores: Sequence[EpisodeScore], sizes: Mapping[str, float]) -> Iterable[Section]:
    """Return figure 2 of the ClinSeekAgent paper, for models whose size is given."""
    groups = _grouped([score for score in scores if score.model in sizes], contender)
    if len({sizes[group[0].model] for group in groups.values()}) < 2:
        return
    points = [(name, sizes[group[0].model], _mean_f1(group)) for name, group in groups.items()]
    unit = "billions of parameters"
    yield Section(
        title="Score against model size",
        text="Mean of the tasks' F1 against how large the model is; the line joins those unbeaten in both.",
        chart=charts.frontier(points, title="F1 against model size", unit=unit),
    )


def _mean_f1(scores: Sequence[EpisodeScore]) -> float:
    """Return the mean of task means, as in the table's row over all tasks."""
    return mean_of_task_means([score.value for score in scores], [score.task for score in scores])


def _best_at(summary: RunSummary) -> Iterable[Section]:
    lines = {f"{row.task} · {row.contender}": list(enumerate(row.values, start=1)) for row in summary.best}
    if lines:
        yield Section(
            title="Best@K",
            text="Expected best F1 of K episodes drawn from those of a sample (eq. 15).",
            chart=charts.lines(lines, title="Best@K F1", axis="K"),
        )


def _against(setting: str, points: Sequence[Point]) -> Section:
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in sorted(points, key=lambda point: point.value):
        lines.setdefault(point.contender, []).append((point.value, point.f1))
    name = setting.replace("_", " ")
    return Section(
        title=f"Score against {name}",
        text=f"Mean of the tasks' mean F1 in runs that differ in {name}.",
        chart=charts.lines(lines, title=f"F1 against {name}", axis=name),
    )
