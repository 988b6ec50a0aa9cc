"""Which values of a style hide an element from a person: not shown, without size, elsewhere, without colour."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

_LENGTH = re.compile(
    r"(?<![\w.#-])([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(px|pt|pc|r?em|ex|ch|cm|mm|in|q|v[wh]|vmin|vmax|%)?"
)
_PIXELS = {"pt": 1.3, "pc": 16, "em": 16, "rem": 16, "ex": 8, "ch": 8, "cm": 38, "mm": 3.8, "in": 96} | dict.fromkeys(
    ("vw", "vh", "vmin", "vmax", "%"), 10
)
"""Of each unit, in letters and a window of usual size."""
_FAINT = 0.05
"""Share of full opacity, size or difference of colours at which nothing is seen."""
_SMALLEST_TEXT, _SMALLEST_BOX = 2.0, 1.0
_AWAY, _AWAY_TO_THE_RIGHT = -100.0, 3000.0
"""Pixels from the window's edge."""
_SCALED = re.compile(r"scale\w*\(([^)]*)\)")
_FLAT = re.compile(r"rotate[xy]\([-+]?90deg|matrix\(\s*0?\.?0+\s*,")
_CLIPPED = re.compile(
    r"inset\(\s*(?:[5-9]\d|\d{3,})(?:\.\d+)?%|(?:circle|ellipse)\(\s*0(?![.\d])|path\(|polygon\(\s*(?:0(?:px|%)?[\s,]*)+\)"
)


def lengths(value: str) -> list[float]:
    """The lengths in a value, in pixels.

    >>> lengths("0 -10em auto 2px")
    [0.0, -160.0, 2.0]
    """
    return [float(number) * _PIXELS.get(unit, 1) for number, unit in _LENGTH.findall(value)]


def hides(values: Mapping[str, str]) -> bool:
    """Whether values by property hide an element, whatever is around it."""
    return any(name in values and is_hidden(values[name]) for name, is_hidden in _HIDING.items())


def colour(value: str) -> tuple[float, float, float, float] | None:
    """The channels of a colour, 0 to 1, the last how opaque it is. None: it is no colour of its own."""
    from tinycss2.color4 import parse_color

    try:
        read = parse_color(value).to("srgb")
    except (AttributeError, NotImplementedError):
        return None
    red, green, blue = (float(channel or 0) for channel in read.coordinates)
    return red, green, blue, float(read.alpha)


def is_transparent(value: str) -> bool:
    """Whether a colour is not seen on any other."""
    read = colour(value)
    return read is not None and read[3] <= _FAINT


def are_alike(one: str, other: str) -> bool:
    """Whether a colour is not seen on another."""
    first, second = colour(one), colour(other)
    return first is not None and second is not None and math.dist(first[:3], second[:3]) <= _FAINT


def _share(value: str) -> float:
    """A number or a share of 100, 1 where there is none."""
    found = _LENGTH.search(value)
    return 1.0 if found is None else float(found[1]) / (100 if found[2] == "%" else 1)


def _is_faint(value: str) -> bool:
    return _share(value) <= _FAINT


def _is_tiny_text(value: str) -> bool:
    return any(length <= _SMALLEST_TEXT for length in lengths(value)[:1])


def _is_tiny_font(value: str) -> bool:
    """The size of a ``font`` is its only length before the line height; weights have no unit and are large."""
    sizes = [length for length in lengths(value.partition("/")[0]) if length < 100]
    return any(length <= _SMALLEST_TEXT for length in sizes[-1:])


def _is_no_box(value: str) -> bool:
    return any(length <= _SMALLEST_BOX for length in lengths(value)[:1])


def _is_away(value: str) -> bool:
    return any(length <= _AWAY or length >= _AWAY_TO_THE_RIGHT for length in lengths(value))


def _is_transformed_away(value: str) -> bool:
    moved = " ".join(re.findall(r"(?:translate\w*|matrix\w*)\(([^)]*)\)", value))
    scales = ",".join(_SCALED.findall(value)).split(",")
    return any(map(_is_faint, scales)) or _FLAT.search(value) is not None or _is_away(moved)


def _is_filtered_away(value: str) -> bool:
    return any(_is_faint(share) for share in re.findall(r"opacity\(([^)]*)\)", value))


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


_HIDING: Mapping[str, Callable[[str], bool]] = {
    "display": _one_of("none"),
    "visibility": _one_of("hidden", "collapse"),
    "content-visibility": _one_of("hidden"),
    "opacity": _is_faint,
    "zoom": _is_faint,
    "scale": _is_faint,
    "filter": _is_filtered_away,
    "transform": _is_transformed_away,
    "translate": _is_away,
    "font-size": _is_tiny_text,
    "font": _is_tiny_font,
    "color": is_transparent,
    "-webkit-text-fill-color": is_transparent,
    "clip": lambda value: all(length <= 1 for length in lengths(value)) and value.startswith("rect("),
    "clip-path": lambda value: _CLIPPED.search(value) is not None,
    "letter-spacing": lambda value: any(length <= -8 for length in lengths(value)),
    **dict.fromkeys(("width", "height", "max-width", "max-height", "block-size", "inline-size"), _is_no_box),
    **dict.fromkeys(("left", "top", "right", "bottom", "inset", "text-indent"), _is_away),
    **dict.fromkeys(("margin", "margin-left", "margin-top", "margin-inline-start", "inset-inline-start"), _is_away),
}
