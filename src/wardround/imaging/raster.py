"""Reading PNG and JPEG files: what is stored is what is seen, 8 or 16 bits, colours as their brightness."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from wardround.core import ToolFailure
from wardround.imaging.codestream import claimed_size
from wardround.imaging.libraries import needed
from wardround.imaging.limits import check_size
from wardround.imaging.radiograph import Radiograph
from wardround.imaging.windows import Grey, GreyWindow

PNG = b"\x89PNG\r\n\x1a\n"
_DEEP = ("I", "I;16", "I;16B", "I;16L")


def read_raster(data: bytes, *, window: GreyWindow | None = None) -> Radiograph:
    """Return a picture file as a radiograph. ToolFailure: it is damaged or too large."""
    claimed = _png_size(data) if data.startswith(PNG) else claimed_size(data)
    if claimed is None:
        raise ToolFailure("the file of this image is damaged: it does not say how large it is.")
    check_size(*claimed)  # before Pillow sees it, whose own limit is another
    images = needed("PIL.Image")
    try:
        with images.open(io.BytesIO(data), formats=("PNG", "JPEG")) as image:
            values, most = _values(image)
    except Exception as error:  # a foreign file can fail in any way
        raise ToolFailure(f"the file of this image is damaged ({type(error).__name__}).") from error
    pixels = np.clip(values / most, 0.0, 1.0).astype(np.float32) if window is None else window.apply(values)
    said = "as stored" if window is None else window.said
    tags = {"Rows": str(values.shape[0]), "Columns": str(values.shape[1])}
    remarks = ("this is no DICOM file: nothing is known of view, spacing and windows",)
    return Radiograph(pixels=pixels, window=said, tags=tags, remarks=remarks)


def _png_size(data: bytes) -> tuple[int, int]:
    """Rows and columns by the first chunk of the file."""
    return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")


def _values(image: Any) -> tuple[Grey, float]:
    """Return the values and the largest one there can be."""
    if image.mode in _DEEP:
        deep: Grey = np.asarray(image).astype(np.float32)
        return deep, 65535.0
    return np.asarray(image.convert("L")).astype(np.float32), 255.0
