"""The parts of a report about tasks with classes: EHR-RAG's tables 1, 2 and 4 and its figure 2, as data.

Figures are in per cent in the tables, as in the paper. The best agent and the best predictor are marked separately,
because predictors learnt from labelled samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from wardround.core.table import TableColumn, columns_of
from wardround.predictors import FitRow
from wardround.reports.charts import few_shot
from wardround.reports.predictions import CLASSES_VIEW, Curve, Value, auroc_of, curves, macro_f1_of
from wardround.reports.summary import RunSummary
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import ClassificationRow, Interval, same_samples
from wardround.tasks.scoring.class_tables import PROBABILITY_FIGURES, class_columns

ABLATIONS: Mapping[str, str] = {
    "ehr-rag": "EHR-RAG",
    "ehr-rag-no-ether": "w/o ETHER",
    "ehr-rag-no-air": "w/o AIR",
    "ehr-rag-no-der": "w/o DER",
    "rag": "Vanilla RAG",
}
"""The rows of table 4, by agent."""
_WHOLE = ("ehr-rag", "rag")
"""Those of them that are methods in their own right, and so level lines of figure 2."""
_MOST_LEVELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A figure (of answers in per cent), the text below it, and whether it is the best of its group. ``ahead``: by how
    much the best leads, or by how much an ablation is behind the whole method."""

    value: float
    digits: int = 2
    below: str = ""
    is_best: bool = False
    ahead: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of a table: by column, a figure or a text."""

    name: str
    cells: Mapping[str, Cell | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTable:
    """One task: agents, then predictors, with the same columns. ``notes``: figures that must not be compared."""

    title: str
    columns: tuple[str, ...]
    support: str
    notes: tuple[str, ...]
    agents: tuple[Line, ...]
    predictors: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationTable:
    """Table 4 of one model: a line per ablation, accuracy and macro-F1 of every task."""

    model: str
    tasks: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Cell | None, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel of the few-shot figure."""

    title: str
    chart: Markup


def class_tables(summary: RunSummary) -> tuple[ClassTable, ...]:
    """Return a table per task, and per view of a task that only predictors have."""
    rows = (*summary.classes, *summary.predictors)
    tables = []
    for task in sorted({row.task for row in rows}):
        agents = [row for row in summary.classes if row.task == task]
        predictors = [row for row in summary.predictors if row.task == task]
        first = (agents or predictors)[0]
        every = columns_of(class_columns(first.class_names), "page", missing="–")
        columns = [column for column in every if column.is_shown([*agents, *predictors])]
        tables.append(
            ClassTable(
                title=_title(task),
                columns=tuple(column.name for column in columns),
                support=_support(first),
                notes=_notes(agents, predictors),
                agents=_lines(agents, columns, with_model=len({row.model for row in summary.classes}) > 1),
                predictors=_lines(predictors, columns),
            )
        )
    return tuple(tables)


def ablation_tables(summary: RunSummary) -> tuple[AblationTable, ...]:
    """Return table 4 for every model with EHR-RAG and one of its ablations."""
    tables = []
    for model in dict.fromkeys(row.model for row in summary.classes):
        found = {(row.agent, row.task): row for row in summary.classes if row.model == model}
        agents = [agent for agent in ABLATIONS if any(name == agent for name, _ in found)]
        tasks = tuple(sorted({task for agent, task in found if agent == "ehr-rag"}))
        if "ehr-rag" in agents and len(agents) > 1:
            whole = {task: found["ehr-rag", task] for task in tasks}
            lines = tuple((ABLATIONS[agent], _ablation_cells(agent, tasks, found, whole)) for agent in agents)
            tables.append(AblationTable(model=model, tasks=tuple(map(_title, tasks)), lines=lines))
    return tuple(tables)


def few_shot_panels(predictions: Sequence[FitRow], summary: RunSummary) -> tuple[Panel, ...]:
    """Return figure 2: macro-F1 of the task's own classes, with agents as level lines."""
    levels: dict[str, dict[str, float]] = {}
    several = len({row.model for row in summary.classes}) > 1
    for row in summary.classes:
        if row.agent in ABLATIONS and row.agent not in _WHOLE:
            continue
        name = row.name if several else row.agent
        levels.setdefault(row.task, {})[name] = row.metrics.macro_f1.estimate
    shown = {
        task: dict(sorted(found.items(), key=lambda item: -item[1])[:_MOST_LEVELS]) for task, found in levels.items()
    }
    count = {task: len(found) for task, found in levels.items()}
    return _panels(
        predictions,
        macro_f1_of,
        shown,
        metric="macro-F1",
        is_shown=lambda curve: curve.view == CLASSES_VIEW,
        all_levels=count,
        apart=_apart(summary),
    )


def _apart(summary: RunSummary) -> dict[str, str]:
    """Return a remark for a panel's caption if its level lines and curves are from different samples."""
    found = {}
    for predictor in summary.predictors:
        others = [row for row in summary.classes if row.task == predictor.task and not same_samples((row, predictor))]
        if others:
            n = others[0].metrics.n
            found[predictor.task] = f" · not the same samples: agents {n:,}, predictors {predictor.metrics.n:,}"
    return found


def auroc_panels(predictions: Sequence[FitRow]) -> tuple[Panel, ...]:
    """Return EHRSHOT's own figure: AUROC, with several classes as normal against the rest."""
    binary = {(row.task, row.view) for row in predictions if len(row.classes) == 2}
    return _panels(
        predictions,
        auroc_of,
        {},
        metric="AUROC",
        is_shown=lambda curve: (curve.task, curve.view) in binary,
        all_levels={},
        apart={},
    )


def has_curve(predictions: Iterable[FitRow]) -> bool:
    """Return whether there are at least two shots to join by a line."""
    return len({row.k for row in predictions}) > 1


def _panels(
    predictions: Sequence[FitRow],
    value: Value,
    levels: Mapping[str, Mapping[str, float]],
    *,
    metric: str,
    is_shown: Callable[[Curve], bool],
    all_levels: Mapping[str, int],
    apart: Mapping[str, str],
) -> tuple[Panel, ...]:
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves(predictions, value):
        if is_shown(curve):
            groups.setdefault((curve.task, curve.view), []).append(curve)
    panels = []
    for (task, view), members in sorted(groups.items()):
        title = _title(task) if view == CLASSES_VIEW else f"{_title(task)}, {_view(view)}"
        chart = few_shot(
            members,
            levels.get(task, {}),
            title=f"{title}: {metric} against samples per class",
            axis="samples per class",
        )
        left_out = all_levels.get(task, 0) - len(levels.get(task, {}))
        more = f" ({len(levels[task])} best of {all_levels[task]} agents)" if left_out > 0 else ""
        panels.append(Panel(title=f"{title}{more}{apart.get(task, '')}", chart=chart))
    return tuple(panels)


def _support(row: ClassificationRow) -> str:
    return ", ".join(f"{row.metrics.support[value]:,} × {name}" for value, name in row.class_names.items())


def _notes(agents: Sequence[ClassificationRow], predictors: Sequence[ClassificationRow]) -> tuple[str, ...]:
    notes = []
    groups = {"agents": agents, "predictors": predictors}
    for who, rows in groups.items():
        if not same_samples(rows):
            notes.append(f"The {who} were not scored on the same samples (see n), so none is marked as the best.")
    if agents and predictors and not same_samples((agents[0], predictors[0])):
        notes.append(
            "Agents and predictors were not scored on the same samples: those of the predictors are "
            f"{_support(predictors[0])}. Their figures cannot be compared."
        )
    first = (*agents, *predictors)[0]
    lacking = [name for value, name in first.class_names.items() if not first.metrics.support[value]]
    if lacking:
        most = 100 * (1 - len(lacking) / len(first.class_names))
        notes.append(
            f"No sample is {' or '.join(lacking)}: that F1 is 0 for every answer, and macro-F1 is at most {most:.2f}."
        )
    return tuple(notes)


def _lines(
    rows: Sequence[ClassificationRow], columns: Sequence[TableColumn[ClassificationRow]], *, with_model: bool = True
) -> tuple[Line, ...]:
    cells = {column.name: _column_cells(rows, column) for column in columns}
    return tuple(
        Line(
            name=row.name if with_model else row.agent,
            cells={name: column_cells[place] for name, column_cells in cells.items()},
        )
        for place, row in enumerate(rows)
    )


def _column_cells(rows: Sequence[ClassificationRow], column: TableColumn[ClassificationRow]) -> Sequence[Cell | str]:
    """Return a column's cells; of answers' figures the best is marked, unless all are alike or not comparable."""
    figures = [value for row in rows if isinstance(value := column.value(row), Interval)]
    if len(figures) < len(rows) or column.name in PROBABILITY_FIGURES:
        return [
            Cell(value=value.estimate, digits=3, below=_edges(value, 1, ".2f"))
            if isinstance(value := column.value(row), Interval)
            else column.cell(row)
            for row in rows
        ]
    ordered = sorted((one.estimate for one in figures), reverse=True)
    cells = []
    for one in figures:
        is_best = one.estimate == ordered[0] > ordered[-1] and same_samples(rows)
        ahead = 100 * (ordered[0] - ordered[1]) if is_best else None
        cells.append(Cell(value=100 * one.estimate, below=_edges(one), is_best=is_best, ahead=ahead or None))
    return cells


def _edges(interval: Interval, factor: int = 100, form: str = ".1f") -> str:
    if interval.low is None or interval.high is None or not interval.is_telling:
        return ""
    return f"{factor * interval.low:{form}} – {factor * interval.high:{form}}"


def _ablation_cells(
    agent: str,
    tasks: Sequence[str],
    found: Mapping[tuple[str, str], ClassificationRow],
    whole: Mapping[str, ClassificationRow],
) -> tuple[Cell | None, ...]:
    cells: list[Cell | None] = []
    for task in tasks:
        row = found.get((agent, task))
        for name in ("accuracy", "macro_f1"):
            if row is None:
                cells.append(None)
                continue
            value, full = (100 * getattr(one.metrics, name).estimate for one in (row, whole[task]))
            apart = agent == "ehr-rag" or not same_samples((row, whole[task]))
            cells.append(Cell(value=value, ahead=None if apart else value - full))
    return tuple(cells)


def _title(task: str) -> str:
    """Return a task's title; for a view of it, ``lab_anemia (binary)``, with an explanation of the view."""
    name, _, view = task.partition(" (")
    title = get_task(name).title
    return f"{title}, {_view(view.rstrip(')'))}" if view else title


def _view(view: str) -> str:
    return "normal against the rest" if view == "binary" else view.removeprefix("label ")
