"""Small SVG charts for the report: readable in print, without scripts, and with every number also as text.

Colours come from the page's style sheet through classes, so that a dark page and a printed one both work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

_ROW = 26
_LABEL = 230
_WIDTH = 760


def intervals(rows: Sequence[tuple[str, float, float | None, float | None]], *, title: str) -> Markup:
    """Dot-and-whisker chart of figures in 0..1: (label, estimate, low, high); no whisker where there is no interval."""
    plot = _WIDTH - _LABEL - 60
    body = [_grid(plot, len(rows))]
    for n, (label, estimate, low, high) in enumerate(rows):
        y = 14 + n * _ROW
        body.append(_text(_LABEL - 10, y + 4, label, anchor="end"))
        if low is not None and high is not None:
            body.append(
                f'<line class="whisker" x1="{_LABEL + low * plot:.1f}" x2="{_LABEL + high * plot:.1f}" '
                f'y1="{y}" y2="{y}"/>'
            )
        body.append(f'<circle class="dot" cx="{_LABEL + estimate * plot:.1f}" cy="{y}" r="5"/>')
        body.append(_text(_WIDTH - 48, y + 4, f"{estimate:.3f}", css="value"))
    return _svg(body, height=14 + len(rows) * _ROW + 18, title=title)


def bars(rows: Sequence[tuple[str, float, str]], *, title: str, full: float | None = None) -> Markup:
    """Horizontal bars: (label, size, text beside the bar). ``full`` is the size of a whole bar; default the largest."""
    plot = _WIDTH - _LABEL - 90
    largest = full or max((size for _, size, _ in rows), default=0) or 1
    body = []
    for n, (label, size, text) in enumerate(rows):
        y = n * _ROW
        width = size / largest * plot
        body.append(_text(_LABEL - 10, y + 18, label, anchor="end"))
        body.append(f'<rect class="bar" x="{_LABEL}" y="{y + 5}" width="{width:.1f}" height="{_ROW - 9}" rx="2"/>')
        body.append(_text(_LABEL + width + 6, y + 18, text, css="value"))
    return _svg(body, height=len(rows) * _ROW + 6, title=title)


def heat(rows: Mapping[str, Mapping[str, float]], columns: Sequence[str], *, title: str) -> Markup:
    """Heat map of shares in 0..1: a row per key, a column per name; a cell shows its percentage."""
    cell = max(46, min(96, (_WIDTH - _LABEL) // max(1, len(columns))))
    body = []
    for k, name in enumerate(columns):
        body.append(_text(_LABEL + k * cell + cell / 2, 14, name, anchor="middle"))
    for n, (label, shares) in enumerate(rows.items()):
        y = 22 + n * _ROW
        body.append(_text(_LABEL - 10, y + 17, label, anchor="end"))
        for k, name in enumerate(columns):
            share = shares.get(name, 0.0)
            x = _LABEL + k * cell
            body.append(
                f'<rect class="heat" x="{x + 1}" y="{y + 1}" width="{cell - 2}" height="{_ROW - 2}" '
                f'fill-opacity="{min(1.0, share):.3f}"/>'
            )
            if share > 0:
                css = "on-dark" if share > 0.55 else "value"
                body.append(_text(x + cell / 2, y + 17, f"{share:.0%}", anchor="middle", css=css))
    return _svg(body, height=26 + len(rows) * _ROW, width=_LABEL + len(columns) * cell + 4, title=title)


def _grid(plot: float, rows: int) -> str:
    bottom = 6 + rows * _ROW
    lines = []
    for tenth in range(0, 11, 2):
        x = _LABEL + tenth / 10 * plot
        lines.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>')
        lines.append(_text(x, bottom + 16, f"{tenth / 10:.1f}", anchor="middle", css="axis"))
    return "".join(lines)


def _text(x: float, y: float, text: str, *, anchor: str = "start", css: str = "label") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(body: Sequence[str], *, height: float, title: str, width: float = _WIDTH) -> Markup:
    return Markup(  # every piece of text in it went through escape()
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )
