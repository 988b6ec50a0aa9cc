"""Define a radiograph: one frame of grey values as it is meant to be seen, with the headers that may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardround.tools.imaging.windows import Grey


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
