"""A file's bytes as a radiograph: DICOM, PNG or JPEG, in one shape, whatever they were written in.

Files are untrusted: they are decoded in a process of their own (`core/confined.py`), sizes are looked at before
anything is decoded, and what is wrong is one line (ToolFailure).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from wardround.core import ConfinedReader, ToolFailure, UnreadableBytes
from wardround.imaging.dicom import is_dicom, read_dicom
from wardround.imaging.radiograph import Radiograph
from wardround.imaging.raster import PNG, read_raster
from wardround.imaging.windows import GreyWindow

_RASTERS = (PNG, b"\xff\xd8\xff")
_READER = ConfinedReader(
    "wardround.imaging.reading:read_confined", cpu_seconds=15, wall_seconds=60.0, memory_bytes=2 * 2**30
)
_NO_PIXELS = np.zeros((0, 0), np.float32)


def read_radiograph(data: bytes, *, window: GreyWindow | None = None, frame: int = 1) -> Radiograph:
    """Return one frame (from 1 on) of an image file. ``window`` is used in place of the file's own.

    ToolFailure: it is damaged, of another kind, or takes too much.
    """
    try:
        told, (pixels,) = _READER.read(data, window=None if window is None else asdict(window), frame=frame)
    except UnreadableBytes as error:
        raise ToolFailure(f"the file of this image is damaged or made to take too much ({error}).") from None
    shape, spacing = told["shape"], told["spacing_mm"]
    return Radiograph(
        pixels=np.frombuffer(pixels, np.float32).reshape(shape),
        **{**told["facts"], "remarks": tuple(told["facts"]["remarks"])},
        spacing_mm=None if spacing is None else (spacing[0], spacing[1]),
    )


def read_confined(data: bytes, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
    """Decode a file: what the process of its own runs."""
    window = arguments["window"]
    found = decode(data, window=None if window is None else GreyWindow(**window), frame=arguments["frame"])
    facts = asdict(replace(found, pixels=_NO_PIXELS))
    del facts["pixels"]
    told = {"shape": found.pixels.shape, "spacing_mm": facts.pop("spacing_mm"), "facts": facts}
    return told, [np.ascontiguousarray(found.pixels, np.float32).data]


def decode(data: bytes, *, window: GreyWindow | None = None, frame: int = 1) -> Radiograph:
    """Return one frame of an image file, decoded in this process."""
    if is_dicom(data):
        return read_dicom(data, window=window, frame=frame)
    if data.startswith(_RASTERS):
        if frame != 1:
            raise ToolFailure(f"this image has one frame; there is no frame {frame}.")
        return read_raster(data, window=window)
    raise ToolFailure("the file of this image is no DICOM, PNG or JPEG file.")
