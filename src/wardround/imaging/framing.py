"""The square that networks look at: the middle of a film, made as large as they take it, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wardround.imaging.libraries import needed
from wardround.imaging.rendering import Outline
from wardround.imaging.windows import Grey, as_grey


@dataclass(frozen=True, slots=True, kw_only=True)
class MiddleSquare:
    """The middle square of a film of ``height`` x ``width`` pixels: its upper left corner and its side."""

    height: int
    width: int
    top: int
    left: int
    side: int

    @classmethod
    def of(cls, height: int, width: int) -> MiddleSquare:
        """Return the largest square in the middle."""
        side = min(height, width)
        return cls(height=height, width=width, top=(height - side) // 2, left=(width - side) // 2, side=side)

    @property
    def left_out(self) -> float:
        """The share of the film that no network sees."""
        return 1.0 - self.side * self.side / (self.height * self.width)

    def outline(self, box: Outline) -> Outline:
        """Return a box in shares of the square (left, top, right, bottom) as shares of the film."""
        left, top, right, bottom = box
        return (
            (self.left + left * self.side) / self.width,
            (self.top + top * self.side) / self.height,
            (self.left + right * self.side) / self.width,
            (self.top + bottom * self.side) / self.height,
        )

    def cut(self, pixels: Grey, size: int) -> Grey:
        """Return the square of a film, ``size`` pixels both ways."""
        square = pixels[self.top : self.top + self.side, self.left : self.left + self.side]
        return resized(square, size)


def resized(values: Grey, size: int) -> Grey:
    """Return a square array made larger or smaller, bilinear, without steps where it gets smaller."""
    if values.shape == (size, size):
        return values
    images = needed("PIL.Image")
    image = images.fromarray(np.ascontiguousarray(values, dtype=np.float32))
    return as_grey(image.resize((size, size), resample=images.Resampling.BILINEAR))


def pixels_of(box: Outline, height: int, width: int) -> tuple[int, int, int, int]:
    """Return a box in pixels of a film: left, top, right, bottom."""
    left, top, right, bottom = box
    return round(left * width), round(top * height), round(right * width), round(bottom * height)
