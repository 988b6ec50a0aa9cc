"""The two arms of ClinSeek-Bench in a run, curated input and evidence seeking, as a table and as a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from wardround.core.table import Kind, Table
from wardround.reports import charts
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import ArmCell, ArmFigure, ArmRow, PairedTest

CURATED = "curated"
"""The agent that answers from the evidence package; every other agent seeks evidence."""
GROUPS: Mapping[str, str] = {
    "decision": "Decision making",
    "risk": "Risk prediction",
    "presence": "CXR finding presence",
    "enumeration": "CXR finding enumeration",
    "change": "CXR change comparison",
    "death-24h": "Mortality (24 h)",
    "death": "Inpatient mortality",
    "phenotypes": "Phenotype (CCS groups)",
}
"""The groups of the paper's tables 2 and 3, by the subject of a task."""
_FAMILIES = ("clinseek", "clinseek-mm")


def group_of(task: str) -> str | None:
    """Return the group of a task of ClinSeek-Bench, None for another task."""
    found = get_task(task)
    return GROUPS.get(found.about) if found.family in _FAMILIES else None


def win_map(cells: Sequence[ArmCell]) -> Markup | None:
    """Return the paper's figure 3: a row per task, risks first, and a column per model (per agent too, of several)."""
    if not cells:
        return None
    several = len({cell.agent for cell in cells}) > 1
    rows: dict[str, dict[str, float]] = {}
    for cell in sorted(cells, key=lambda cell: (get_task(cell.task).about != "risk", cell.task)):
        column = f"{cell.agent} · {cell.model}" if several else cell.model
        rows.setdefault(cell.task.partition(".")[2], {})[column] = cell.difference
    columns = sorted({column for row in rows.values() for column in row})
    return charts.differences(rows, columns, title="Evidence seeking less curated input, by task")


def arm_table(rows: Sequence[ArmRow]) -> Table:
    """Return both arms of every model and group, in per cent: their difference, the tokens of each, how often the
    package was cut, and the ceilings of both arms."""
    numbers: list[Kind] = ["number"] * (len(_HEADINGS) - 3)
    return Table(header=_HEADINGS, rows=list(map(_texts, rows)), kinds=("text", "text", "text", *numbers))


def _texts(row: ArmRow) -> tuple[str, ...]:
    seeking = row.seeking
    gain = row.difference
    return (
        row.model,
        seeking.agent if seeking else "–",
        row.group,
        str(row.curated.n),
        _in_points(row.curated),
        _in_points(seeking) if seeking else "–",
        f"{100 * gain.difference.estimate:+.1f}" if gain else "–",
        _interval(gain.difference.low, gain.difference.high, gain.difference.missing) if gain else "–",
        _p(gain),
        _tokens(row.curated),
        _tokens(seeking) if seeking else "–",
        _package(row.curated),
        f"{100 * row.curated.ceiling:.0f} / " + (f"{100 * seeking.ceiling:.0f}" if seeking else "–"),
    )


_HEADINGS = (
    "model",
    "seeking",
    "group",
    "n",
    "curated ± t",
    "seeking ± t",
    "difference",
    "95 % over patients",
    "p",
    "tokens curated",
    "tokens seeking",
    "package cut; hours shown",
    "ceilings",
)


def _in_points(figure: ArmFigure) -> str:
    radius = "" if figure.radius is None else f" ± {100 * figure.radius:.1f}"
    return f"{100 * figure.mean:.1f}{radius}"


def _interval(low: float | None, high: float | None, missing: str | None) -> str:
    return missing or f"{100 * (low or 0):+.1f} to {100 * (high or 0):+.1f}"


def _tokens(figure: ArmFigure) -> str:
    """Return tokens in and out, a mean per episode."""
    if figure.input_tokens is None or figure.output_tokens is None:
        return "–"
    return f"{figure.input_tokens:,.0f} + {figure.output_tokens:,.0f}"


def _package(figure: ArmFigure) -> str:
    """Return how many packages left events out (and how many each), and the hours that they show of the whole span."""
    hours = f"; {figure.hours[0]:.1f} of {figure.hours[1]:.1f} h" if figure.hours else ""
    return "–" if figure.cut is None else f"{figure.cut.short}{hours}"


def _p(gain: PairedTest | None) -> str:
    if gain is None or gain.p_value is None:
        return "–"
    return "< 0.0001" if gain.p_value < 0.0001 else f"{gain.p_value:.4f}"
