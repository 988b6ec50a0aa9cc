"""A radiograph: one frame of grey values as it is meant to be seen, its windows, and the libraries that open images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wardround.core import import_extra

# The libraries that open images, imported when first needed: importing wardround must not pay for them.


def needed(module: str) -> Any:
    """Import a module of the extra [imaging]. UserError says how to get it."""
    return import_extra(module, "imaging", what="work with images")


@cache
def pydicom() -> Any:
    """Return pydicom, configured not to validate the headers of files: the headers we use are checked here."""
    module = needed("pydicom")
    module.config.settings.reading_validation_mode = module.config.IGNORE
    return module


# Windows: which values of an image are shown between black and white (DICOM PS3.3, C.11.2).


Grey = npt.NDArray[np.float32]
"""Values of a frame, rows by columns."""
WindowFunction = Literal["LINEAR", "LINEAR_EXACT", "SIGMOID"]


def as_grey(values: Any) -> Grey:
    """Return numbers as grey values."""
    return np.asarray(values, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class GreyWindow:
    """A window: its middle and width in the image's own values, and the curve between black and white."""

    center: float
    width: float
    function: WindowFunction = "LINEAR"
    name: str = ""

    def apply(self, values: Grey) -> Grey:
        """Return the values as shares of white, 0 to 1."""
        if self.function == "SIGMOID":
            return as_grey(1.0 / (1.0 + np.exp(-4.0 * (values - self.center) / self.width)))
        if self.function == "LINEAR_EXACT":
            return as_grey(np.clip((values - self.center) / self.width + 0.5, 0.0, 1.0))
        if self.width <= 1.0:
            return as_grey(values > self.center - 0.5)
        share = (values - (self.center - 0.5)) / (self.width - 1.0) + 0.5
        return as_grey(np.clip(share, 0.0, 1.0))

    @property
    def description(self) -> str:
        """The window in words."""
        curve = "" if self.function == "LINEAR" else f", {self.function}"
        named = f"{self.name}: " if self.name else ""
        return f"{named}center {self.center:g}, width {self.width:g}{curve}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Radiograph:
    """One frame as it is meant to be seen: ``pixels`` from 0 (black) to 1 (white), float32, rows by columns.

    ``spacing_mm`` (down, across) is the size of a pixel in the body, None if the file does not state it.
    ``tags`` are the headers that may be shown; ``window`` is the applied window, ``remarks`` are warnings.
    """

    pixels: Grey = field(repr=False)
    window: str = ""
    spacing_mm: tuple[float, float] | None = None
    view: str = ""
    frame: int = 1
    frames: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.pixels.shape[1])
