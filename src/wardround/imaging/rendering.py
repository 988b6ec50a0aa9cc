"""From pixels to a picture that a model is shown: made smaller, never larger, and encoded as PNG."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from wardround.core import Picture
from wardround.imaging.libraries import needed
from wardround.imaging.windows import Grey

LONGEST_EDGE = 1568
"""The longer side of a shown picture in pixels (ClinSeekAgent, table 8)."""
Outline = tuple[float, float, float, float]
"""Left, top, right, bottom as shares of the picture."""


def picture_of(
    pixels: Grey, title: str, *, longest_edge: int = LONGEST_EDGE, outlines: Iterable[Outline] = ()
) -> Picture:
    """Return a picture of grey values from 0 to 1. ``outlines`` are drawn as white frames with a black edge."""
    image = needed("PIL.Image").fromarray(np.rint(pixels * 255.0).astype(np.uint8))
    image.thumbnail((longest_edge, longest_edge), resample=needed("PIL.Image").Resampling.LANCZOS, reducing_gap=None)
    _draw(image, outlines)
    encoded = io.BytesIO()
    image.save(encoded, format="PNG", compress_level=6)
    return Picture.of(encoded.getvalue(), media_type="image/png", width=image.width, height=image.height, title=title)


def _draw(image: Any, outlines: Iterable[Outline]) -> None:
    pen = needed("PIL.ImageDraw").Draw(image)
    for left, top, right, bottom in outlines:
        corners = (left * image.width, top * image.height, right * image.width, bottom * image.height)
        pen.rectangle(corners, outline=0, width=3)
        pen.rectangle(corners, outline=255, width=1)
