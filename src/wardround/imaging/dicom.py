"""Reading a DICOM file: bounded, one frame, with the look-up tables that its own headers ask for, in their order.

Stored values -> modality (rescale or table) -> VOI (table or window) -> presentation table -> black on white turned
round. See PS3.3 C.11.1, C.11.2, C.11.6 and C.7.6.3.1.2. What is wrong with a file is one line (ToolFailure).
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from wardround.core import ToolFailure
from wardround.imaging.codestream import claimed_size
from wardround.imaging.libraries import needed, pydicom
from wardround.imaging.limits import check_size
from wardround.imaging.radiograph import Radiograph
from wardround.imaging.tags import allowed_tags, remarks_of, spacing_of
from wardround.imaging.visible import shown_values
from wardround.imaging.windows import Grey, GreyWindow, as_grey

_NATIVE = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_COMPRESSED = {
    "1.2.840.10008.1.2.5": "RLE",
    "1.2.840.10008.1.2.4.50": "JPEG",
    "1.2.840.10008.1.2.4.51": "JPEG, 12 bits",
    "1.2.840.10008.1.2.4.57": "lossless JPEG",
    "1.2.840.10008.1.2.4.70": "lossless JPEG",
    "1.2.840.10008.1.2.4.80": "JPEG-LS",
    "1.2.840.10008.1.2.4.81": "JPEG-LS",
    "1.2.840.10008.1.2.4.90": "JPEG 2000",
    "1.2.840.10008.1.2.4.91": "JPEG 2000",
    "1.2.840.10008.1.2.4.201": "HTJ2K",
    "1.2.840.10008.1.2.4.202": "HTJ2K",
    "1.2.840.10008.1.2.4.203": "HTJ2K",
}
"""Transfer syntaxes that are read. Deflated ones are not: they are unpacked whole before any size can be seen."""
_BRIGHTNESS = (0.299, 0.587, 0.114)
"""What red, green and blue add to it."""
_PREAMBLE = 128
_MARK = b"DICM"
_META_BYTES = 64 * 1024
_IMPLICIT_LITTLE, _EXPLICIT_LITTLE = _NATIVE[0], _NATIVE[1]
_IDENTIFYING_GROUP = b"\x08\x00"
_LEAST_BYTES, _FIRST_VALUE_BYTES = 64, 1024
"""Of a data set without a head, and of its first value, which is a length, a code or a unique name."""
_META_GROUP = b"\x02\x00"
_SYNTAX_ELEMENT = b"\x02\x00\x10\x00"
_LONG_LENGTHS = (b"OB", b"OW", b"UN", b"UT", b"SQ", b"OF", b"OD", b"OL", b"UC", b"UR")
"""Types whose length takes four bytes, behind two that are kept free."""


def read_dicom(data: bytes, *, window: GreyWindow | None = None, frame: int = 1) -> Radiograph:
    """Return one frame of a DICOM file; frames count from 1. ``window`` is used in place of the file's own."""
    dataset = _headers(data)
    frames = _frames(dataset)
    if not 1 <= frame <= frames:
        raise ToolFailure(f"this image has {frames} frame{'s' if frames > 1 else ''}; there is no frame {frame}.")
    values = _stored_values(dataset, frame - 1)
    pixels, said = shown_values(dataset, values, frame - 1, window)
    return Radiograph(
        pixels=pixels,
        window=said,
        spacing_mm=spacing_of(dataset),
        view=str(dataset.get("ViewPosition", "") or ""),
        frame=frame,
        frames=frames,
        tags=allowed_tags(dataset),
        remarks=remarks_of(dataset, frames),
    )


def _headers(data: bytes) -> Any:
    _check_syntax(data)
    try:
        dataset = pydicom().dcmread(io.BytesIO(data), force=not _head(data))
        if "TransferSyntaxUID" not in dataset.file_meta:
            dataset.file_meta.TransferSyntaxUID = _syntax(data)
        size = int(dataset.Rows), int(dataset.Columns), _frames(dataset)
        has_pixels = "PixelData" in dataset
    except Exception as error:  # a foreign file can fail in any way
        raise _damaged(error) from error
    check_size(*size)
    if not has_pixels:
        raise ToolFailure("this DICOM file holds no pixels.")
    return dataset


def _check_syntax(data: bytes) -> None:
    """Look at the file's head alone: a deflated file must not even be parsed."""
    syntax = _syntax(data)
    if syntax is None:
        raise ToolFailure("the file of this image is damaged: it does not say how it is written.")
    if syntax not in _NATIVE and syntax not in _COMPRESSED:
        name = str(pydicom().uid.UID(syntax).name)
        raise ToolFailure(f"this DICOM file is written as {name[:80]!r}, which is not read here.")


def _syntax(data: bytes) -> str | None:
    """The element (0002,0010) of the head, read element by element from where the head begins: what stands in the
    preamble, or inside another element, is none. Its types are always written out. A data set without any head is
    little endian, its types written out or not. None: there is no such element."""
    place = _head(data)
    while data[place : place + 2] == _META_GROUP and place < _META_BYTES:
        kind = data[place + 4 : place + 6]
        wide = kind in _LONG_LENGTHS
        begins = place + (12 if wide else 8)
        length = int.from_bytes(data[begins - (4 if wide else 2) : begins], "little")
        if data[place : place + 4] == _SYNTAX_ELEMENT:
            return data[begins : begins + length].rstrip(b"\0 ").decode("ascii", "replace")
        place = begins + length
    return _bare_syntax(data) if not _head(data) else None


def _bare_syntax(data: bytes) -> str | None:
    """How a data set is written that begins at once, as it travels between machines: its first element is of group 8,
    with its type (two capitals) or without. None: it is no such data set."""
    if data[:2] != _IDENTIFYING_GROUP or len(data) < _LEAST_BYTES:
        return None
    if data[4:6].isalpha() and data[4:6].isupper():
        return _EXPLICIT_LITTLE
    return _IMPLICIT_LITTLE if int.from_bytes(data[4:8], "little") <= _FIRST_VALUE_BYTES else None


def _head(data: bytes) -> int:
    """Where the head of a file begins: behind the preamble and its mark, or at once where a file has neither."""
    return _PREAMBLE + len(_MARK) if data[_PREAMBLE : _PREAMBLE + len(_MARK)] == _MARK else 0


def is_dicom(data: bytes) -> bool:
    """Whether bytes are a DICOM file: by its mark, by a head without preamble that names how it is written, or by
    its first element."""
    return _head(data) > 0 or _syntax(data) is not None


def _frames(dataset: Any) -> int:
    return max(1, int(dataset.get("NumberOfFrames", 1) or 1))


def _stored_values(dataset: Any, frame: int) -> Grey:
    """Return a frame's values, colours as their brightness."""
    syntax = str(dataset.file_meta.TransferSyntaxUID)
    if syntax in _COMPRESSED:
        _check_claim(dataset, frame)
    try:
        array = needed("pydicom.pixels").pixel_array(dataset, index=frame)
        if str(dataset.PhotometricInterpretation) == "PALETTE COLOR":
            array = needed("pydicom.pixels").apply_color_lut(array, dataset)
    except Exception as error:  # a decoder's own errors have no common kind
        raise _not_decoded(syntax, error) from error
    if array.ndim == 3:
        return as_grey(array[..., :3] @ np.array(_BRIGHTNESS, np.float32))
    return as_grey(array)


def _check_claim(dataset: Any, frame: int) -> None:
    """ToolFailure where a compressed frame is of another size than the headers say."""
    try:
        part = needed("pydicom.encaps").get_frame(dataset.PixelData, frame, number_of_frames=_frames(dataset))
        claimed = claimed_size(part)
    except Exception as error:  # as above
        raise _damaged(error) from error
    if claimed is not None and claimed != (int(dataset.Rows), int(dataset.Columns)):
        raise ToolFailure(
            f"the compressed pixels of this file say {claimed[0]:,} x {claimed[1]:,}, its headers {dataset.Rows} x "
            f"{dataset.Columns}; it is damaged or hostile and is not opened."
        )


def _not_decoded(syntax: str, error: Exception) -> ToolFailure:
    text = " ".join(str(error).split())
    if "missing" in text and "dependenc" in text:
        name = _COMPRESSED.get(syntax, syntax)
        return ToolFailure(f"this DICOM file is compressed ({name}) and no decoder for it is installed here.")
    return _damaged(error)


def _damaged(error: Exception) -> ToolFailure:
    return ToolFailure(f"the file of this image is damaged or no DICOM file ({type(error).__name__}).")
