"""SVG charts of reports, the few-shot figure, and charts as SVG files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from wardround.core import write_atomically
from wardround.reports.predictions import Curve, CurvePoint

# Small SVG charts for the report: readable in print, without scripts, and with every number also as text.
#
# Colours come from the page's style sheet through classes, so that a dark page and a printed one both work.


_ROW = 26
_LABEL = 230
_WIDTH = 760
LETTER = 7.6
"""The width of a letter in a label: the mean in the widest font of the pages, bold."""
DEEPEST = 0.5
"""How opaque a cell of a map is at most: beyond it ink on a cell has no contrast of 4.5 to 1 on a dark page."""
_NONE = Markup("<p>none</p>")
"""Shown if there is nothing to draw: marks at zero would look like measured values."""


def intervals(rows: Sequence[tuple[str, float, float | None, float | None]], *, title: str) -> Markup:
    """Dot-and-whisker chart of figures in 0..1: (label, estimate, low, high); no whisker if there is no interval."""
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
    """Horizontal bars: (label, size, text beside the bar). ``full``: the size of a whole bar, by default the largest.
    If every size is 0, a text says that there is nothing to draw."""
    if not any(size for _, size, _ in rows):
        return _NONE
    plot, left = _WIDTH - _LABEL - 90, _label_width(label for label, *_ in rows)
    largest = full or max(size for _, size, _ in rows)
    body = []
    for n, (label, size, text) in enumerate(rows):
        y = n * _ROW
        width = size / largest * plot
        body.append(_text(left - 10, y + 18, label, anchor="end"))
        body.append(f'<rect class="bar" x="{left}" y="{y + 5}" width="{width:.1f}" height="{_ROW - 9}" rx="2"/>')
        body.append(_text(left + width + 6, y + 18, text, css="value"))
    return _svg(body, height=len(rows) * _ROW + 6, width=left + plot + 90, title=title)


def heat(rows: Mapping[str, Mapping[str, float]], columns: Sequence[str], *, title: str) -> Markup:
    """Heat map of shares in 0..1: a row per key, a column per name; a cell shows its percentage. If every share is 0, a
    text says that there is nothing to draw."""
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
    """Map of differences in -1..1: a row per key, a column per name. A cell shows percentage points, gains in one
    colour and losses in another; a missing difference is an empty cell."""
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
    """Lines of figures in 0..1 over a setting; each line has its name at its end, so no legend is needed. ``ticks``:
    values on the axis, by default all of the series."""
    every = [point for points in series.values() for point in points]
    plane = _Plane.around(every, ticks=sorted({x for x, _ in every}) if ticks is None else ticks)
    body = [plane.frame(axis)]
    for n, points in enumerate(series.values()):
        path = " ".join(f"{plane.x(x):.1f},{plane.y(y):.1f}" for x, y in points)
        body.append(f'<polyline class="series s{n % 6}" points="{path}"/>')
        body += [f'<circle class="dot s{n % 6}" cx="{plane.x(x):.1f}" cy="{plane.y(y):.1f}" r="4"/>' for x, y in points]
    body += plane.labels([(name, *points[-1]) for name, points in series.items()])
    return _svg(body, height=plane.height + 34, width=plane.whole_width(series), title=title)


def frontier(points: Sequence[tuple[str, float, float]], *, title: str, unit: str) -> Markup:
    """Named points of (spending, figure in 0..1), and the line through those that no other point beats in both. If
    nothing was spent, a text says so."""
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
        return cls(low=low - room, high=high + room, top=top, ticks=tuple(ticks) or tuple(round_ticks(low, high)))

    def x(self, value: float) -> float:
        return self.left + (value - self.low) / (self.high - self.low) * self.width

    def y(self, value: float) -> float:
        return 8 + (1 - value / self.top) * (self.height - 8)

    def frame(self, axis: str) -> str:
        parts = []
        levels = round_ticks(0.0, self.top)
        for value, text in zip(levels, tick_labels(levels), strict=True):
            y, end = self.y(value), self.left + self.width
            parts.append(f'<line class="grid" x1="{self.left}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(self.left - 6, y + 4, text, anchor="end", css="axis"))
        for tick, text in zip(self.ticks, tick_labels(self.ticks), strict=True):
            parts.append(_text(self.x(tick), self.height + 16, text, anchor="middle", css="axis"))
        parts.append(_text(self.left + self.width / 2, self.height + 32, axis, anchor="middle", css="axis"))
        return "".join(parts)

    def whole_width(self, names: Iterable[str]) -> float:
        """The width of the picture, with the longest name to the right of the plot."""
        return max(_WIDTH, math.ceil(self.left + self.width + 22 + LETTER * max(map(len, names), default=0)))

    def labels(self, points: Sequence[tuple[str, float, float]]) -> list[str]:
        """Return the names to the right of the plot, moved apart where they would overlap, each joined to its point."""
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


def _label_width(labels: Iterable[str]) -> float:
    """Return where a chart begins, so that its longest label fits on the left."""
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


def _svg(body: Sequence[str], *, height: float, title: str, width: float = _WIDTH, css: str = "chart") -> Markup:
    return Markup(  # every piece of text in it went through escape()
        f'<svg class="{css}" width="{width:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


# A chart of a page as an SVG file with its own colours. The same chart gives the same bytes.


_NAMESPACE = "http://www.w3.org/2000/svg"
_COLOUR = re.compile(r"--([a-z-]+): (#[0-9a-f]+);")


def figure_name(title: str) -> str:
    """Return the name of a chart's file from its title."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def write_svg(chart: Markup, file: Path) -> Path:
    """Write a chart as an SVG file that opens without the page; return the file."""
    head, rest = str(chart).split(">", 1)
    named = head if "xmlns=" in head else head.replace("<svg", f'<svg xmlns="{_NAMESPACE}"', 1)
    write_atomically(file, f"{named}><style>{_style()}</style>{rest}\n", durable=False)
    return file


@cache
def _style() -> str:
    """Return the chart rules of the pages' style sheet with the colours of a light page: programs that draw SVG do not
    know CSS variables."""
    sheet = (Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    colours = dict(_COLOUR.findall(sheet.partition("@media")[0]))
    lines = "\n".join(line for line in sheet.splitlines() if line.startswith("svg"))
    coloured = re.sub(r"var\(--([a-z-]+)\)", lambda found: colours[found[1]], lines)
    return f"\nsvg {{ background: #ffffff; }}\n{coloured}\n"


# The few-shot figure (EHR-RAG, figure 2): a figure in 0..1 against samples per class, ``all`` at the end.
#
# A line per predictor with the spread of its replicates; level lines for agents, which saw no labelled sample. Without
# scripts, readable in print and in black and white: dashes and end labels distinguish the lines, not colour alone.


_SHOTS_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 42.0, 168.0, 12.0, 44.0
_LABEL_GAP = 15.0
_ALL_GAP = 0.9
"""The distance of ``all`` from the largest number, in doublings: it must not look like the next number."""


def few_shot(curves: Sequence[Curve], levels: Mapping[str, float], *, title: str, axis: str) -> Markup:
    """Draw the curves of one task and the level lines of agents (name: figure)."""
    plane = _ShotsPlane.around(curves, levels)
    body = [plane.frame(axis)]
    labels: list[tuple[str, float, str]] = []
    for n, (name, value) in enumerate(levels.items()):
        y = plane.y(value)
        body.append(f'<line class="level l{n % 4}" x1="{_LEFT}" x2="{plane.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        labels.append((f"{name} {value:.2f}", y, "label"))
    for n, curve in enumerate(curves):
        body += _curve(plane, curve.points, n)
        last = curve.points[-1]
        labels.append((f"{curve.predictor} {last.mean:.2f}", plane.y(last.mean), "label strong"))
    width = max(_SHOTS_WIDTH, plane.right + _LABEL_GAP + LETTER * max((len(text) for text, *_ in labels), default=0))
    return _svg(
        body + _spread_labels(labels, plane.right), height=_HEIGHT, width=width, title=title, css="chart few-shot"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShotsPlane:
    """Maps shots and figures to the picture; the horizontal axis counts doublings."""

    shots: tuple[int, ...]
    with_all: bool
    low: float
    high: float

    @classmethod
    def around(cls, curves: Sequence[Curve], levels: Mapping[str, float]) -> _ShotsPlane:
        points = [point for curve in curves for point in curve.points]
        figures = [value for point in points for value in (point.low, point.high)] + list(levels.values())
        low, high = min(figures, default=0.0), max(figures, default=1.0)
        return cls(
            shots=tuple(sorted({point.k for point in points if point.k is not None})),
            with_all=any(point.k is None for point in points),
            low=max(0.0, math.floor((low - 0.02) * 10) / 10),
            high=min(1.0, math.ceil((high + 0.02) * 10) / 10),
        )

    @property
    def right(self) -> float:
        return _SHOTS_WIDTH - _RIGHT

    def x(self, k: int | None) -> float:
        first = math.log2(self.shots[0]) if self.shots else 0.0
        last = math.log2(self.shots[-1]) if self.shots else 0.0
        span = (last - first) + (_ALL_GAP if self.with_all and self.shots else 0.0)
        place = span if k is None else math.log2(k) - first
        return _LEFT + 14 + (place / span if span else 0.5) * (self.right - _LEFT - 24)

    def y(self, value: float) -> float:
        bottom = _HEIGHT - _BOTTOM
        return bottom - (value - self.low) / (self.high - self.low) * (bottom - _TOP)

    def frame(self, axis: str) -> str:
        parts = []
        steps = round((self.high - self.low) * 10)
        stride = 1 if steps <= 6 else 2
        for step in range(0, steps + 1, stride):
            value = self.low + step / 10
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(_LEFT - 6, y + 4, f"{value:.1f}", anchor="end", css="axis"))
        bottom = _HEIGHT - _BOTTOM
        ticks = (*self.shots, *((None,) if self.with_all else ()))
        parts += [
            f'<line class="tick" x1="{self.x(k):.1f}" x2="{self.x(k):.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            for k in ticks
        ]
        named: list[tuple[float, str]] = []
        for k in sorted(ticks, key=lambda k: k is not None and k & (k - 1) != 0):  # doublings first, others with room
            x, text = self.x(k), "all" if k is None else str(k)
            if all(abs(x - other) > 3.5 * (len(text) + len(said)) + 5 for other, said in named):
                named.append((x, text))
        parts += [_text(x, bottom + 17, text, anchor="middle", css="axis") for x, text in sorted(named)]
        parts.append(_text((_LEFT + self.right) / 2, _HEIGHT - 8, axis, anchor="middle", css="axis"))
        return "".join(parts)


def _curve(plane: _ShotsPlane, points: Sequence[CurvePoint], n: int) -> list[str]:
    """Draw the spread as a band, the mean as a line, a mark per number of shots; ``all`` is joined by a fainter
    line."""
    numbered = [point for point in points if point.k is not None]
    whole = [point for point in points if point.k is None]
    style = f"c{n % 3}"
    parts = []
    if len(numbered) > 1:
        edge = [f"{plane.x(p.k):.1f},{plane.y(p.high):.1f}" for p in numbered]
        edge += [f"{plane.x(p.k):.1f},{plane.y(p.low):.1f}" for p in reversed(numbered)]
        parts.append(f'<polygon class="band {style}" points="{" ".join(edge)}"/>')
        path = " ".join(f"{plane.x(p.k):.1f},{plane.y(p.mean):.1f}" for p in numbered)
        parts.append(f'<polyline class="curve {style}" points="{path}"/>')
    if numbered and whole:
        a, b = numbered[-1], whole[0]
        parts.append(
            f'<line class="curve to-all {style}" x1="{plane.x(a.k):.1f}" y1="{plane.y(a.mean):.1f}" '
            f'x2="{plane.x(None):.1f}" y2="{plane.y(b.mean):.1f}"/>'
        )
    parts += [_mark(plane.x(point.k), plane.y(point.mean), n) for point in points]
    return parts


def _mark(x: float, y: float, n: int) -> str:
    if n % 3 == 1:
        return f'<rect class="mark c1" x="{x - 3.4:.1f}" y="{y - 3.4:.1f}" width="6.8" height="6.8"/>'
    if n % 3 == 2:
        return f'<path class="mark c2" d="M{x:.1f} {y - 4.4:.1f} l4.4 7.6 h-8.8 z"/>'
    return f'<circle class="mark c0" cx="{x:.1f}" cy="{y:.1f}" r="3.8"/>'


def _spread_labels(labels: Sequence[tuple[str, float, str]], right: float) -> list[str]:
    """Return names to the right of the plot, moved apart where they would overlap, within the picture."""
    ordered = sorted(labels, key=lambda label: label[1])
    places: list[float] = []
    for _, y, _ in ordered:
        places.append(max(y, places[-1] + _LABEL_GAP) if places else y)
    over = max(0.0, (places[-1] if places else 0.0) - (_HEIGHT - _BOTTOM + 8))
    for n in range(len(places) - 1, -1, -1):
        limit = places[n + 1] - _LABEL_GAP if n + 1 < len(places) else places[n] - over
        places[n] = min(places[n], limit)
    parts = []
    for (text, y, css), place in zip(ordered, places, strict=True):
        leader = f'x1="{right:.1f}" y1="{y:.1f}" x2="{right + 12:.1f}" y2="{place:.1f}"'
        parts.append(f'<line class="leader" {leader}/>')
        parts.append(_text(right + 15, place + 4, text, css=css))
    return parts


# Round numbers for the axes: each label is exactly the value of its line.


def round_ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Return at most ``most`` multiples of 1, 2 or 5 times a power of ten between two ends, the ends included where
    they are such multiples; as many as that allows."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (power * factor for factor in (1, 2, 5, 10, 20)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [round(place * step, digits) + 0.0 for place in range(first, last + 1)]


def tick_labels(ticks: Sequence[float], *, signed: bool = False) -> list[str]:
    """Write ticks with as few decimals as are needed for exact values; ``signed``: with a plus above 0."""
    digits = next((n for n in range(12) if all(abs(round(tick, n) - tick) < 1e-9 for tick in ticks)), 12)
    return [f"{tick:+,.{digits}f}" if signed and tick else f"{tick:,.{digits}f}" for tick in ticks]
