"""Contrast of the style sheets' own colours after WCAG 2.2: 4.5 to 1 for text, 3 to 1 for what is drawn."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from wardround.reports.charts import DEEPEST

STYLE = files("wardround.reports").joinpath("templates/style.css").read_text(encoding="utf-8")
TEXT = ("ink", "soft", "accent", "bad")
GROUNDS = ("paper", "wash")


def colours(after: str) -> dict[str, str]:
    """The colours of a ``:root`` block: those of the light page, and over them those behind a media query."""
    blocks = [re.search(r":root \{(.*?)\}", STYLE[STYLE.index(one) :], re.DOTALL) for one in (":root", after)]
    return {name: value for block in blocks if block for name, value in re.findall(r"--([\w-]+): (#\w+)", block[1])}


def luminance(colour: str) -> float:
    parts = [part / 255 for part in rgb(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    lower, higher = sorted((luminance(first), luminance(second)))
    return (higher + 0.05) / (lower + 0.05)


def test_contrast_by_hand() -> None:
    assert contrast("#fff", "#000000") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("medium", [":root", "(prefers-color-scheme: dark)", "@media print"])
def test_colours_can_be_told_apart(medium: str) -> None:
    found = colours(medium)
    pairs = [(text, ground) for text in TEXT for ground in GROUNDS] + [("ink", "warn-wash"), ("accent", "warn-wash")]
    faint = {pair: contrast(*(found[name] for name in pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in faint.items() if ratio < 4.5} == {}
    drawn = {name: contrast(found[name], found["paper"]) for name in ("ink", "soft", "accent", "warn", "bad")}
    assert {name: ratio for name, ratio in drawn.items() if ratio < 3} == {}


@pytest.mark.parametrize("medium", [":root", "(prefers-color-scheme: dark)", "@media print"])
@pytest.mark.parametrize("fill", ["accent", "bad"])
def test_figures_in_maps_are_read_on_every_shade(medium: str, fill: str) -> None:
    found = colours(medium)
    shades = [mixed(found[fill], found["paper"], DEEPEST * share / 20) for share in range(21)]
    assert min(contrast(found["ink"], shade) for shade in shades) >= 4.5


def mixed(fill: str, ground: str, share: float) -> str:
    """The colour of a fill that is in part seen through."""
    over, under = (rgb(colour) for colour in (fill, ground))
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in zip(over, under, strict=True))


def rgb(colour: str) -> list[int]:
    digits = colour.removeprefix("#")
    whole = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    return [int(whole[place : place + 2], 16) for place in (0, 2, 4)]
