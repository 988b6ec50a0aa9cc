"""The few-shot figure (EHR-RAG, figure 2): a figure in 0..1 against samples per class, ``all`` at the end.

A line per predictor with the spread of its replicates; level lines for who saw no labelled sample at all. Without
scripts, readable in print and in black and white: dashes and end labels tell the lines apart, not colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from wardround.runs.charts import LETTER
from wardround.runs.predictions import Curve, CurvePoint

_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 42.0, 168.0, 12.0, 44.0
_LABEL_GAP = 15.0
_ALL_GAP = 0.9
"""How far ``all`` stands from the largest number, in doublings: it is no number and must not look like the next."""


def few_shot(curves: Sequence[Curve], levels: Mapping[str, float], *, title: str, axis: str) -> Markup:
    """Draw the curves of one task and the level lines of agents (name: figure)."""
    plane = _Plane.around(curves, levels)
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
    body += _spread_labels(labels, plane.right)
    width = max(_WIDTH, plane.right + _LABEL_GAP + LETTER * max((len(text) for text, *_ in labels), default=0))
    return Markup(  # every piece of text in it went through escape()
        f'<svg class="chart few-shot" width="{width:.0f}" viewBox="0 0 {width:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(body)}</svg>'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plane:
    """Maps shots and figures to the picture; the horizontal axis counts doublings."""

    shots: tuple[int, ...]
    with_all: bool
    low: float
    high: float

    @classmethod
    def around(cls, curves: Sequence[Curve], levels: Mapping[str, float]) -> _Plane:
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
        return _WIDTH - _RIGHT

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


def _curve(plane: _Plane, points: Sequence[CurvePoint], n: int) -> list[str]:
    """The spread as a band, the mean as a line, a mark per number of shots; ``all`` is joined by a fainter line."""
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
    """Names to the right of the plane, pushed apart where they would overlap, within the picture."""
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


def _text(x: float, y: float, text: str, *, anchor: str = "start", css: str = "label") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
