"""Read image files as radiographs, crop them for networks, render them for models."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from wardround.core import ConfinedReader, Picture, ToolFailure, UnreadableBytes
from wardround.tools.imaging.dicom import check_size, claimed_size, is_dicom, read_dicom
from wardround.tools.imaging.radiograph import Grey, GreyWindow, Radiograph, as_grey, needed

# Reading PNG and JPEG files: stored values are visible values, 8 or 16 bits, colours as their brightness.


PNG = b"\x89PNG\r\n\x1a\n"
_DEEP = ("I", "I;16", "I;16B", "I;16L")


def read_raster(data: bytes, *, window: GreyWindow | None = None) -> Radiograph:
    """Return a picture file as a radiograph. ToolFailure: it is damaged or too large."""
    if data.startswith(PNG):  # rows and columns by the first chunk of the file
        claimed: tuple[int, int] | None = int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    else:
        claimed = claimed_size(data)
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
    window_text = "as stored" if window is None else window.description
    tags = {"Rows": str(values.shape[0]), "Columns": str(values.shape[1])}
    remarks = ("this is no DICOM file: nothing is known of view, spacing and windows",)
    return Radiograph(pixels=pixels, window=window_text, tags=tags, remarks=remarks)


def _values(image: Any) -> tuple[Grey, float]:
    """Return the values and their possible maximum."""
    if image.mode in _DEEP:
        deep: Grey = np.asarray(image).astype(np.float32)
        return deep, 65535.0
    return np.asarray(image.convert("L")).astype(np.float32), 255.0


# A file's bytes as a radiograph: DICOM, PNG or JPEG, in one shape, whatever they were written in.
#
# Files are untrusted: they are decoded in a process of their own (`core/confined.py`), sizes are looked at before
# anything is decoded, and what is wrong is one line (ToolFailure).


_RASTERS = (PNG, b"\xff\xd8\xff")
_READER = ConfinedReader(
    "wardround.tools.imaging.reading:read_confined", cpu_seconds=15, wall_seconds=60.0, memory_bytes=2 * 2**30
)
_NO_PIXELS = np.zeros((0, 0), np.float32)


def read_radiograph(data: bytes, *, window: GreyWindow | None = None, frame: int = 1) -> Radiograph:
    """Return one frame (from 1 on) of an image file. ``window`` is used in place of the file's own.

    ToolFailure: it is damaged, of another kind, or takes too much.
    """
    try:
        header, (pixels,) = _READER.read(data, window=None if window is None else asdict(window), frame=frame)
    except UnreadableBytes as error:
        raise ToolFailure(f"the file of this image is damaged or made to take too much ({error}).") from None
    shape, spacing = header["shape"], header["spacing_mm"]
    return Radiograph(
        pixels=np.frombuffer(pixels, np.float32).reshape(shape),
        **{**header["facts"], "remarks": tuple(header["facts"]["remarks"])},
        spacing_mm=None if spacing is None else (spacing[0], spacing[1]),
    )


def read_confined(data: bytes, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
    """Decode a file: what the process of its own runs."""
    window = arguments["window"]
    found = decode(data, window=None if window is None else GreyWindow(**window), frame=arguments["frame"])
    facts = asdict(replace(found, pixels=_NO_PIXELS))
    del facts["pixels"]
    header = {"shape": found.pixels.shape, "spacing_mm": facts.pop("spacing_mm"), "facts": facts}
    return header, [np.ascontiguousarray(found.pixels, np.float32).data]


def decode(data: bytes, *, window: GreyWindow | None = None, frame: int = 1) -> Radiograph:
    """Return one frame of an image file, decoded in this process."""
    if is_dicom(data):
        return read_dicom(data, window=window, frame=frame)
    if data.startswith(_RASTERS):
        if frame != 1:
            raise ToolFailure(f"this image has one frame; there is no frame {frame}.")
        return read_raster(data, window=window)
    raise ToolFailure("the file of this image is no DICOM, PNG or JPEG file.")


# From pixels to a picture that a model is shown: made smaller, never larger, and encoded as PNG.


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


# The square that networks look at: the middle of a film, made as large as they take it, and the way back.


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
