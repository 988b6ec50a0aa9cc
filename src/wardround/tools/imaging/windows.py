"""Windows: which values of an image are shown between black and white (DICOM PS3.3, C.11.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

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
