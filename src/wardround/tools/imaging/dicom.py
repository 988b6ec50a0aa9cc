"""Read DICOM: limits, compressed frames, permitted headers, from stored values to visible ones."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wardround.core import ToolFailure
from wardround.tools.imaging.radiograph import Grey, GreyWindow, Radiograph, WindowFunction, as_grey, needed, pydicom

# The size that a compressed frame itself claims: decoders believe it and not the headers, so it must be theirs.
#
# JPEG and JPEG-LS say it in a start-of-frame segment, JPEG 2000 in its SIZ segment.


_START_OF_FRAME = frozenset({*range(0xC0, 0xD0), 0xF7}) - {0xC4, 0xC8, 0xCC}
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_SIZ = b"\xff\x4f\xff\x51"
_MOST_SEGMENTS = 256


def claimed_size(frame: bytes) -> tuple[int, int] | None:
    """Return (rows, columns) of a compressed frame; None if it begins like no format that says them."""
    if frame.startswith(b"\xff\xd8"):
        return _jpeg_size(frame)
    place = frame.find(_SIZ, 0, 4096)  # raw, or inside the boxes of a .jp2 file
    return _jpeg2000_size(frame, place) if place >= 0 else None


def _jpeg_size(frame: bytes) -> tuple[int, int] | None:
    place = 2
    for _ in range(_MOST_SEGMENTS):
        if place + 9 > len(frame) or frame[place] != 0xFF:
            return None
        marker = frame[place + 1]
        if marker in _STANDALONE or marker == 0xFF:
            place += 1 if marker == 0xFF else 2
            continue
        if marker in _START_OF_FRAME:
            rows, columns = struct.unpack(">HH", frame[place + 5 : place + 9])
            return rows, columns
        place += 2 + struct.unpack(">H", frame[place + 2 : place + 4])[0]
    return None


def _jpeg2000_size(frame: bytes, place: int) -> tuple[int, int] | None:
    head = frame[place + 8 : place + 24]
    if len(head) < 16:
        return None
    right, bottom, left, top = struct.unpack(">IIII", head)
    return bottom - top, right - left


# The headers of a DICOM file that may be shown: a list of allowed ones, never of forbidden ones.
#
# No name, number, date or free text of a header leaves this room (PS3.15, annex E says which they are: hundreds). When
# an image was taken, and whose it is, stands on the chart.


ALLOWED: Mapping[str, str] = {
    "Modality": r"[A-Z]{2,4}",
    "BodyPartExamined": r"[A-Z ]{2,16}",
    "ViewPosition": r"[A-Z]{1,10}",
    "Rows": r"\d{1,6}",
    "Columns": r"\d{1,6}",
    "NumberOfFrames": r"\d{1,6}",
    "BitsStored": r"\d{1,2}",
    "PhotometricInterpretation": r"[A-Z0-9_ ]{3,16}",
    "PresentationLUTShape": r"IDENTITY|INVERSE",
    "PixelSpacing": r"[\d.]{1,12}, [\d.]{1,12}",
    "ImagerPixelSpacing": r"[\d.]{1,12}, [\d.]{1,12}",
    "KVP": r"[\d.]{1,8}",
    "BurnedInAnnotation": r"YES|NO",
}
"""Keyword -> the required form of a value that may be shown: words of a code list and numbers, no free text."""
_CHEST = frozenset({"CHEST", "THORAX", "LUNG", "RIB", "RIBS", "HEART"})
_LONGEST_SPACING_MM = 10.0
_OVERLAYS, _OVERLAY_ROWS = 0x6000, 0x0010


def allowed_tags(dataset: Any) -> dict[str, str]:
    """Return the headers that may be shown, by keyword."""
    tags = {name: _as_text(dataset.get(name)) for name in ALLOWED}
    return {name: text for name, text in tags.items() if re.fullmatch(ALLOWED[name], text)}


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):
        return "" if value is None else str(value)
    return ", ".join(str(part) for part in value)


def spacing_of(dataset: Any) -> tuple[float, float] | None:
    """Return the size of a pixel in the body, (down, across) in mm; None if only the detector's is known."""
    try:
        down, across = (float(part) for part in dataset.PixelSpacing)
    except (AttributeError, TypeError, ValueError):
        return None
    sound = all(0.0 < part <= _LONGEST_SPACING_MM for part in (down, across))
    return (down, across) if sound else None


def _has_overlay(dataset: Any) -> bool:
    """Return whether the file has rows of an overlay plane (PS3.3 C.9.2): repeating groups, 6000 to 60FE."""
    return any(tag.group & 0xFF01 == _OVERLAYS and tag.element == _OVERLAY_ROWS for tag in dataset.keys())  # noqa: SIM118 - a data set gives its elements


def remarks_of(dataset: Any, frames: int) -> tuple[str, ...]:
    """Return what to mind before anything is read out of an image."""
    burned = str(dataset.get("BurnedInAnnotation", "") or "").upper()
    part = str(dataset.get("BodyPartExamined", "") or "").upper()
    remarks = {
        "text may be burned into this picture": burned == "YES",
        "whether text is burned into this picture is not said": burned not in ("YES", "NO"),
        "this is no picture of a chest, by its header": bool(part) and part not in _CHEST,
        "no size of a pixel in the body is known (only the detector's)": spacing_of(dataset) is None
        and "ImagerPixelSpacing" in dataset,
        "this is a picture in colour, shown by its brightness": int(dataset.get("SamplesPerPixel", 1) or 1) > 1,
        f"this file has {frames} frames": frames > 1,
        "this file has an overlay (marks or text drawn over the picture), which is not shown": _has_overlay(dataset),
    }
    return tuple(text for text, holds in remarks.items() if holds)


# From stored values to visible ones: rescaling, windows and tables of a DICOM file's own headers.


_FUNCTIONS: dict[str, WindowFunction] = {"LINEAR": "LINEAR", "LINEAR_EXACT": "LINEAR_EXACT", "SIGMOID": "SIGMOID"}


def shown_values(dataset: Any, stored: Grey, frame: int, window: GreyWindow | None) -> tuple[Grey, str]:
    """Return a frame's values from 0 (black) to 1 (white), and in words how they were chosen."""
    padding = _padding(dataset, stored)
    try:
        values = _rescaled(dataset, stored, frame)
        shares, window_text = _windowed(dataset, values, frame, window, padding)
        shares = _presented(dataset, shares)
    except ToolFailure:
        raise
    except Exception as error:  # tables of foreign files can be wrong in any way
        raise ToolFailure(f"the look-up tables of this file cannot be applied ({type(error).__name__}).") from error
    inverse = str(dataset.get("PresentationLUTShape", "") or "").upper() == "INVERSE"
    if inverse or str(dataset.PhotometricInterpretation) == "MONOCHROME1":  # low values are white; both mean it once
        shares = 1.0 - shares
    if padding is not None:
        shares = np.where(padding, np.float32(0.0), shares)
    return shares.astype(np.float32), window_text


def _rescaled(dataset: Any, stored: Grey, frame: int) -> Grey:
    """Modality: a table, or slope and intercept; of an enhanced file those of the frame."""
    if "ModalityLUTSequence" in dataset:
        whole = stored.astype(np.int64)
        table: Grey = needed("pydicom.pixels").apply_modality_lut(whole, dataset).astype(np.float32)
        return table
    for holder in _holders(dataset, frame, "PixelValueTransformationSequence"):
        if "RescaleSlope" in holder:
            return stored * np.float32(holder.RescaleSlope) + np.float32(holder.get("RescaleIntercept", 0) or 0)
    return stored


def _windowed(dataset: Any, values: Grey, frame: int, window: GreyWindow | None, padding: Any) -> tuple[Grey, str]:
    """Apply the VOI: the requested window, else the file's table, else its first window, else its whole range."""
    if window is not None:
        return window.apply(values), window.description
    if "VOILUTSequence" in dataset and dataset.VOILUTSequence:
        return _by_table(dataset.VOILUTSequence[0], values), "the file's VOI table"
    found = windows_of(dataset, frame)
    if found:
        more = f" (the first of {len(found)})" if len(found) > 1 else ""
        return found[0].apply(values), found[0].description + more
    inside = values if padding is None or padding.all() else values[~padding]
    low, high = float(inside.min()), float(inside.max())
    span = high - low or 1.0
    return np.clip((values - low) / span, 0.0, 1.0).astype(np.float32), "the whole range (the file names no window)"


def windows_of(dataset: Any, frame: int = 0) -> tuple[GreyWindow, ...]:
    """Return the windows that a file names for a frame; its headers hold one or several of each number."""
    for holder in _holders(dataset, frame, "FrameVOILUTSequence"):
        if "WindowCenter" in holder and "WindowWidth" in holder:
            return tuple(_windows(holder))
    return ()


def _windows(holder: Any) -> Iterator[GreyWindow]:
    function = _FUNCTIONS.get(str(holder.get("VOILUTFunction", "LINEAR") or "LINEAR").upper(), "LINEAR")
    names = _several(holder.get("WindowCenterWidthExplanation", ""))
    centers, widths = _several(holder.WindowCenter), _several(holder.WindowWidth)
    for number, (center, width) in enumerate(zip(centers, widths, strict=False)):
        if float(width) > 0:
            name = str(names[number]) if number < len(names) else ""
            yield GreyWindow(center=float(center), width=float(width), function=function, name=name[:40])


def _several(value: Any) -> list[Any]:
    """Return one number or several. pydicom's own list of values is neither a list nor a tuple."""
    if value is None or isinstance(value, str | int | float):
        return [value] if value not in (None, "") else []
    return list(value)


def _holders(dataset: Any, frame: int, sequence: str) -> Iterator[Any]:
    """Return the places of a value: the frame's own group, the group of all frames, the file itself."""
    frames = dataset.get("PerFrameFunctionalGroupsSequence") or ()
    groups = (frames[frame] if frame < len(frames) else None, *(dataset.get("SharedFunctionalGroupsSequence") or ()))
    for group in groups:
        inside = None if group is None else group.get(sequence)
        if inside:
            yield inside[0]
    yield dataset


def _by_table(item: Any, values: Grey) -> Grey:
    """Look values up in a table of DICOM, and return shares of its largest possible entry."""
    count, first, bits = (int(part) for part in item.LUTDescriptor)
    table = _entries(item.LUTData, bits)[: count or 65536]
    places = np.clip(values - first, 0, len(table) - 1).astype(np.int64)
    return as_grey(table[places] / (2.0**bits - 1))


def _entries(data: Any, bits: int) -> Any:
    if isinstance(data, bytes):
        kind = "<u1" if bits <= 8 and len(data) % 2 else "<u2"
        return np.frombuffer(data, kind).astype(np.float64)
    return np.asarray(data, dtype=np.float64)


def _presented(dataset: Any, shares: Grey) -> Grey:
    """Apply the presentation: a table over the whole range, if there is one."""
    if "PresentationLUTSequence" not in dataset or not dataset.PresentationLUTSequence:
        return shares
    item = dataset.PresentationLUTSequence[0]
    count = int(item.LUTDescriptor[0]) or 65536
    first = int(item.LUTDescriptor[1])
    return _by_table(item, np.rint(shares * (count - 1)).astype(np.float32) + first)


def _padding(dataset: Any, stored: Grey) -> Any:
    """Return which pixels are padding; None if the file declares no padding value."""
    value = dataset.get("PixelPaddingValue")
    if value is None:
        return None
    limit = dataset.get("PixelPaddingRangeLimit")
    low, high = sorted((int(value), int(value if limit is None else limit)))
    return (stored >= low) & (stored <= high)


# How large an image may be. What a header claims is looked at before a decoder sees the file.


MOST_PIXELS = 40_000_000
"""Of one frame. The largest mammograms have about 28 million."""
MOST_FRAMES = 4_096


def check_size(height: int, width: int, frames: int = 1) -> None:
    """Raise ToolFailure if the file has no pixels, or too many to open."""
    if height < 1 or width < 1:
        raise ToolFailure(f"the file of this image says that it has {height} x {width} pixels; it is damaged.")
    if height * width > MOST_PIXELS:
        raise ToolFailure(f"this image has {height:,} x {width:,} pixels, more than {MOST_PIXELS:,}; it is not opened.")
    if frames > MOST_FRAMES:
        raise ToolFailure(f"this image has {frames:,} frames, more than {MOST_FRAMES:,}; it is not opened.")


# Reading a DICOM file: bounded, one frame, with the look-up tables that its own headers ask for, in their order.
#
# Stored values -> modality (rescale or table) -> VOI (table or window) -> presentation table -> black on white turned
# round. See PS3.3 C.11.1, C.11.2, C.11.6 and C.7.6.3.1.2. What is wrong with a file is one line (ToolFailure).


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
    pixels, window_text = shown_values(dataset, values, frame - 1, window)
    return Radiograph(
        pixels=pixels,
        window=window_text,
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
    """Return the element (0002,0010) of the head, read element by element from the head's beginning.

    The same bytes in the preamble, or inside another element, do not count. Types in the head are always explicit. A
    data set without a head is little endian, with explicit or implicit types. None: the element is missing.
    """
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
    """Return the encoding of a data set without a preamble, as it is sent between machines.

    Its first element is of group 8, with its type (two capitals) or without. None: it is no such data set.
    """
    if data[:2] != _IDENTIFYING_GROUP or len(data) < _LEAST_BYTES:
        return None
    if data[4:6].isalpha() and data[4:6].isupper():
        return _EXPLICIT_LITTLE
    return _IMPLICIT_LITTLE if int.from_bytes(data[4:8], "little") <= _FIRST_VALUE_BYTES else None


def _head(data: bytes) -> int:
    """Return where the head of a file begins: after the preamble and its mark, or at 0 if the file has neither."""
    return _PREAMBLE + len(_MARK) if data[_PREAMBLE : _PREAMBLE + len(_MARK)] == _MARK else 0


def is_dicom(data: bytes) -> bool:
    """Return whether bytes are a DICOM file: by its mark, by a head without preamble that names how it is written, or
    by its first element."""
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
    """ToolFailure if a compressed frame is of another size than the headers say."""
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
