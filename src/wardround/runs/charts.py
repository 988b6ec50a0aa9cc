"""Small SVG charts for the report: readable in print, without scripts, and with every number also as text.

Colours come from the page's style sheet through classes, so that a dark page and a printed one both work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_ROW = 26
_LABEL = 230
_WIDTH = 760
LETTER = 7.6
"""The width of a letter of a label, a bold one too: the mean in the widest of the fonts that pages are seen in."""
DEEPEST = 0.5
"""How opaque a cell of a map is at most: beyond it ink on a cell has no contrast of 4.5 to 1 on a dark page."""
_NONE = Markup("<p>none</p>")
"""What stands where there is nothing to draw: marks at zero would look like something that was measured."""


def intervals(rows: Sequence[tuple[str, float, float | None, float | None]], *, title: str) -> Markup:
    """Dot-and-whisker chart of figures in 0..1: (label, estimate, low, high); no whisker where there is no interval."""
    plot, left = _WIDTH - _LABEL - 60, _label_width(label for label, *_ in rows)
    body = [_grid(left, plot, len(rows))]
    for n, (label, estimate, low, high) in enumerate(rows):
        y = 14 + n * _ROW
        body.append(_text(left - 10, y + 4, label, anchor="end"))
        if low is not None and high is not None:
            body.append(
                f'<line class="whisker" x1="{left + low * plot:.1f}" x2="{left + high * plot:.1f}" y1="{y}" y2="{y}"/>'
            )
        body.append(f'<circle class="dot" cx="{left + estimate * plot:.1f}" cy="{y}" r="5"/>')
        body.append(_text(left + plot + 12, y + 4, f"{estimate:.3f}", css="value"))
    return _svg(body, height=14 + len(rows) * _ROW + 18, width=left + plot + 60, title=title)


def bars(rows: Sequence[tuple[str, float, str]], *, title: str, full: float | None = None) -> Markup:
    """Horizontal bars: (label, size, text beside the bar). ``full`` is the size of a whole bar; default the largest.
    Where every size is 0 it says none."""
    if not any(size for _, size, _ in rows):
        return _NONE
    plot, left = _WIDTH - _LABEL - 90, _label_width(label for label, *_ in rows)
    largest = full or max((size for _, size, _ in rows), default=0) or 1
    body = []
    for n, (label, size, text) in enumerate(rows):
        y = n * _ROW
        width = size / largest * plot
        body.append(_text(left - 10, y + 18, label, anchor="end"))
        body.append(f'<rect class="bar" x="{left}" y="{y + 5}" width="{width:.1f}" height="{_ROW - 9}" rx="2"/>')
        body.append(_text(left + width + 6, y + 18, text, css="value"))
    return _svg(body, height=len(rows) * _ROW + 6, width=left + plot + 90, title=title)


def heat(rows: Mapping[str, Mapping[str, float]], columns: Sequence[str], *, title: str) -> Markup:
    """Heat map of shares in 0..1: a row per key, a column per name; a cell shows its percentage. Where every share is
    0 there is nothing to draw, and it says none."""
    if not any(share for shares in rows.values() for share in shares.values()):
        return _NONE
    left = _label_width(rows)
    cell = min(130, max(46, *(8 + 7 * len(name) for name in columns)))
    body = []
    for k, name in enumerate(columns):
        body.append(_text(left + k * cell + cell / 2, 14, name, anchor="middle"))
    for n, (label, shares) in enumerate(rows.items()):
        y = 22 + n * _ROW
        body.append(_text(left - 10, y + 17, label, anchor="end"))
        for k, name in enumerate(columns):
            share = shares.get(name, 0.0)
            x = left + k * cell
            body.append(
                f'<rect class="heat" x="{x + 1}" y="{y + 1}" width="{cell - 2}" height="{_ROW - 2}" '
                f'fill-opacity="{DEEPEST * min(1.0, share):.3f}"/>'
            )
            css = "label" if share else "value"
            body.append(_text(x + cell / 2, y + 17, f"{share:.0%}" if share else "·", anchor="middle", css=css))
    return _svg(body, height=26 + len(rows) * _ROW, width=left + len(columns) * cell + 4, title=title)


def differences(rows: Mapping[str, Mapping[str, float]], columns: Sequence[str], *, title: str) -> Markup:
    """Map of differences in -1..1: a row per key, a column per name. A cell shows its percentage points, gains in one
    colour and losses in another; nothing where there is none."""
    left = _label_width(rows)
    cell = min(190, max(58, *(8 + 7 * len(name) for name in columns)))
    largest = max((abs(value) for row in rows.values() for value in row.values()), default=0.0) or 1.0
    body = [_text(left + k * cell + cell / 2, 14, name, anchor="middle") for k, name in enumerate(columns)]
    for n, (label, gains) in enumerate(rows.items()):
        y = 22 + n * _ROW
        body.append(_text(left - 10, y + 17, label, anchor="end"))
        for k, name in enumerate(columns):
            if name in gains:
                body.append(_difference_cell(left + k * cell, y, cell, gains[name], largest))
    return _svg(body, height=26 + len(rows) * _ROW, width=left + len(columns) * cell + 4, title=title)


def _difference_cell(x: float, y: float, width: float, gain: float, largest: float) -> str:
    share = abs(gain) / largest
    css = "gain" if gain >= 0 else "loss"
    box = (
        f'<rect class="{css}" x="{x + 1}" y="{y + 1}" width="{width - 2}" height="{_ROW - 2}" '
        f'fill-opacity="{DEEPEST * share:.3f}"/>'
    )
    return box + _text(x + width / 2, y + 17, f"{100 * gain:+.1f}", anchor="middle")


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], *, title: str, axis: str, ticks: Sequence[float] | None = None
) -> Markup:
    """Lines of figures in 0..1 over a setting; each line carries its name at its end, so no colour key is needed.

    ``ticks`` are the values that the axis names; without them all of the series'.
    """
    every = [point for points in series.values() for point in points]
    plane = _Plane.around(every, ticks=_values(series) if ticks is None else ticks)
    body = [plane.frame(axis)]
    for n, points in enumerate(series.values()):
        path = " ".join(f"{plane.x(x):.1f},{plane.y(y):.1f}" for x, y in points)
        body.append(f'<polyline class="series s{n % 6}" points="{path}"/>')
        body += [f'<circle class="dot s{n % 6}" cx="{plane.x(x):.1f}" cy="{plane.y(y):.1f}" r="4"/>' for x, y in points]
    body += plane.labels([(name, *points[-1]) for name, points in series.items()])
    return _svg(body, height=plane.height + 34, width=plane.whole_width(series), title=title)


def frontier(points: Sequence[tuple[str, float, float]], *, title: str, unit: str) -> Markup:
    """Named points of (spending, figure in 0..1), and the line through those that none beats in both. Where nothing was
    spent it says none."""
    if not any(x for _, x, _ in points):
        return _NONE
    plane = _Plane.around([(x, y) for _, x, y in points], ticks=())
    best: list[tuple[float, float]] = []
    for _, x, y in sorted(points, key=lambda point: (point[1], -point[2])):
        if not best or y > best[-1][1]:
            best.append((x, y))
    path = " ".join(f"{plane.x(x):.1f},{plane.y(y):.1f}" for x, y in best)
    body = [plane.frame(unit), f'<polyline class="series" points="{path}"/>']
    body += [f'<circle class="dot" cx="{plane.x(x):.1f}" cy="{plane.y(y):.1f}" r="5"/>' for _, x, y in points]
    named = [(f"{name} ({_short(x)})", x, y) for name, x, y in points]
    body += plane.labels(named)
    return _svg(body, height=plane.height + 34, width=plane.whole_width(name for name, *_ in named), title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plane:
    """Maps data to the picture: the horizontal axis over the data's range, the vertical one from 0 up."""

    low: float
    high: float
    top: float
    ticks: tuple[float, ...]
    left: float = 40.0
    width: float = 480.0
    height: float = 240.0

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]], *, ticks: Sequence[float]) -> _Plane:
        values = [x for x, _ in points]
        low, high = min(values), max(values)
        room = (high - low) * 0.06 or 1.0
        top = min(1.0, max(0.1, max(y for _, y in points) * 1.15))
        return cls(low=low - room, high=high + room, top=top, ticks=tuple(ticks) or (low, high))

    def x(self, value: float) -> float:
        return self.left + (value - self.low) / (self.high - self.low) * self.width

    def y(self, value: float) -> float:
        return 8 + (1 - value / self.top) * (self.height - 8)

    def frame(self, axis: str) -> str:
        parts = []
        for quarter in range(5):
            value = self.top * quarter / 4
            y, end = self.y(value), self.left + self.width
            parts.append(f'<line class="grid" x1="{self.left}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(self.left - 6, y + 4, f"{value:.2f}", anchor="end", css="axis"))
        for tick in self.ticks:
            parts.append(_text(self.x(tick), self.height + 16, f"{tick:,.0f}", anchor="middle", css="axis"))
        parts.append(_text(self.left + self.width / 2, self.height + 32, axis, anchor="middle", css="axis"))
        return "".join(parts)

    def whole_width(self, names: Iterable[str]) -> float:
        """The width of the picture with its longest name to the right of the plane."""
        return max(_WIDTH, math.ceil(self.left + self.width + 22 + LETTER * max(map(len, names), default=0)))

    def labels(self, points: Sequence[tuple[str, float, float]]) -> list[str]:
        """Names to the right of the plane, pushed apart where they would overlap, each joined to its point."""
        parts: list[str] = []
        lowest = 4.0
        for name, x, y in sorted(points, key=lambda point: -point[2]):
            lowest = max(lowest + 15, self.y(y))
            edge = self.left + self.width + 14
            line = f'x1="{self.x(x) + 6:.1f}" y1="{self.y(y):.1f}" x2="{edge:.1f}" y2="{lowest:.1f}"'
            parts.append(f'<line class="leader" {line}/>')
            parts.append(_text(edge + 4, lowest + 4, name))
        return parts


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _values(series: Mapping[str, Sequence[tuple[float, float]]]) -> list[float]:
    return sorted({x for points in series.values() for x, _ in points})


def _label_width(labels: Iterable[str]) -> float:
    """How far from the left edge a chart begins, so that its longest label is whole."""
    return max(_LABEL, math.ceil(14 + LETTER * max(map(len, labels), default=0)))


def _grid(left: float, plot: float, rows: int) -> str:
    bottom = 6 + rows * _ROW
    lines = []
    for tenth in range(0, 11, 2):
        x = left + tenth / 10 * plot
        lines.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>')
        lines.append(_text(x, bottom + 16, f"{tenth / 10:.1f}", anchor="middle", css="axis"))
    return "".join(lines)


def _text(x: float, y: float, text: str, *, anchor: str = "start", css: str = "label") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(body: Sequence[str], *, height: float, title: str, width: float = _WIDTH) -> Markup:
    return Markup(  # every piece of text in it went through escape()
        f'<svg class="chart" width="{width:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )
