"""The forest plot of a report: a row per difference with its interval and numbers, without scripts.

It is a table whose middle column is drawn in shares of its width, so that words keep their size on a narrow screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from markupsafe import Markup, escape

from wardround.reports.answer import p_text
from wardround.reports.baseline_card import BEST
from wardround.reports.charts import round_ticks, tick_labels
from wardround.reports.comparing import Comparison

_HEIGHT = 42
_MIDDLE = _HEIGHT // 2
_MARGIN = 0.06
"""Of the plot's width, left free on both sides for the labels of the outermost ticks."""
_MARKS = (
    '<circle r="5"/>',
    '<rect x="-4.5" y="-4.5" width="9" height="9"/>',
    '<path d="M0 -5.5 L5.5 4.5 H-5.5 Z"/>',
    '<path d="M0 -6 L6 0 L0 6 L-6 0 Z"/>',
    '<path d="M0 5.5 L5.5 -4.5 H-5.5 Z"/>',
    '<path d="M-5 -1.6 h3.4 v-3.4 h3.2 v3.4 h3.4 v3.2 h-3.4 v3.4 h-3.2 v-3.4 h-3.4 z"/>',
)


def forest_groups(rows: Iterable[Comparison]) -> dict[str, list[Comparison]]:
    """Return the differences of a forest plot by their baseline, the best trivial one first."""
    ordered = sorted(rows, key=lambda row: (row.baseline != BEST, row.baseline))
    groups = groupby(ordered, lambda row: row.baseline)
    return {baseline: sorted(some, key=lambda row: row.task) for baseline, some in groups}


def forest(groups: dict[str, list[Comparison]]) -> Markup | None:
    """Draw the differences; None without any."""
    rows = [row for some in groups.values() for row in some]
    if not rows:
        return None
    names = list(dict.fromkeys(row.contender for row in rows))
    axis = _Axis.around(rows)
    metrics = " or ".join(sorted({row.metric for row in rows}))
    body = [f'<tr><th>task</th><th class="plot">difference in {escape(metrics)}</th><th class="number"></th></tr>']
    for baseline, some in groups.items():
        body.append(f'<tr class="divider"><th colspan="3">less {escape(_the(baseline))}</th></tr>')
        body += [_row(row, axis, names) for row in some]
    body.append(f'<tr><td></td><td class="plot">{axis.labels()}</td><td></td></tr>')
    return Markup(f'<table class="forest">{"".join(body)}</table>\n')  # every text in it went through escape()


def _the(baseline: str) -> str:
    return f"the {baseline} baseline of the task" if baseline == BEST else baseline


def _row(row: Comparison, axis: _Axis, names: Sequence[str]) -> str:
    place = names.index(row.contender)
    who = f'<br><span class="soft">{escape(row.contender)}</span>' if len(names) > 1 else ""
    difference = row.test.difference
    low, high = difference.ends
    drawn = [axis.grid()]
    style = f"c{place % len(_MARKS)}"
    if low is not None and high is not None:
        ends = f'x1="{axis.x(low)}" x2="{axis.x(high)}" y1="{_MIDDLE}" y2="{_MIDDLE}"'
        drawn.append(f'<line class="whisker {style}" {ends}/>')
    mark = f'<g class="mark {style}">{_MARKS[place % len(_MARKS)]}</g>'
    drawn.append(f'<svg x="{axis.x(difference.estimate)}" y="{_MIDDLE}" overflow="visible">{mark}</svg>')
    told = f"{difference.as_text('+.3f')}; {p_text(row.adjusted_p)}"
    return (
        f'<tr><td>{escape(row.task)}{who}</td><td class="plot">{_svg("".join(drawn))}</td>'
        f'<td class="number">{difference.estimate:+.3f}<br><span class="soft">{escape(told)}</span></td></tr>'
    )


def _svg(body: str) -> str:
    return f'<svg class="strip" width="100%" height="{_HEIGHT}" aria-hidden="true">{body}</svg>'


class _Axis:
    """Maps differences to shares of the plot's width; 0 is always on it."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.ticks = round_ticks(low, high, most=6)

    @classmethod
    def around(cls, rows: Sequence[Comparison]) -> _Axis:
        """Return the axis that holds every interval of some rows."""
        ends = [0.0, *(end for row in rows for end in _ends(row))]
        low, high = min(ends), max(ends)
        return cls(low, high) if high > low else cls(-0.1, 0.1)

    def x(self, value: float) -> str:
        share = _MARGIN + (1 - 2 * _MARGIN) * (value - self.low) / (self.high - self.low)
        return f"{100 * share:.2f}%"

    def grid(self) -> str:
        lines = ((tick, "zero" if tick == 0 else "grid") for tick in self.ticks)
        return "".join(
            f'<line class="{css}" x1="{self.x(tick)}" x2="{self.x(tick)}" y1="0" y2="{_HEIGHT}"/>'
            for tick, css in lines
        )

    def labels(self) -> str:
        texts = zip(self.ticks, tick_labels(self.ticks, signed=True), strict=True)
        zero = self.ticks.index(0) if 0 in self.ticks else 0
        named = (
            f'<text class="axis{" spare" if (place - zero) % 2 else ""}" x="{self.x(tick)}" y="14" '
            f'text-anchor="middle">{text}</text>'
            for place, (tick, text) in enumerate(texts)
        )
        return _svg("".join(named))  # a narrow screen has no room for the spare ones


def _ends(row: Comparison) -> Iterator[float]:
    yield row.test.difference.estimate
    yield from (end for end in row.test.difference.ends if end is not None)
