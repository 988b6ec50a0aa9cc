"""A file's bytes as a radiograph: DICOM, PNG or JPEG, in one shape, whatever they were written in.

Files are untrusted: sizes are looked at before anything is decoded, and what is wrong is one line (ToolFailure).
"""

from __future__ import annotations

from wardround.core import ToolFailure
from wardround.imaging.dicom import read_dicom
from wardround.imaging.radiograph import Radiograph
from wardround.imaging.raster import PNG, read_raster
from wardround.imaging.windows import GreyWindow

_PREAMBLE = 128
_RASTERS = (PNG, b"\xff\xd8\xff")


def read_radiograph(data: bytes, *, window: GreyWindow | None = None, frame: int = 1) -> Radiograph:
    """Return one frame (from 1 on) of an image file. ``window`` is used in place of the file's own."""
    if data[_PREAMBLE : _PREAMBLE + 4] == b"DICM":
        return read_dicom(data, window=window, frame=frame)
    if data.startswith(_RASTERS):
        if frame != 1:
            raise ToolFailure(f"this image has one frame; there is no frame {frame}.")
        return read_raster(data, window=window)
    raise ToolFailure("the file of this image is no DICOM, PNG or JPEG file.")
