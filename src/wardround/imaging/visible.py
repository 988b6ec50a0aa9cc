"""From stored values to what is seen: rescaling, windows and tables of a DICOM file's own headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wardround.core import ToolFailure
from wardround.imaging.libraries import needed
from wardround.imaging.windows import Grey, GreyWindow, WindowFunction, as_grey

_FUNCTIONS: dict[str, WindowFunction] = {"LINEAR": "LINEAR", "LINEAR_EXACT": "LINEAR_EXACT", "SIGMOID": "SIGMOID"}


def shown_values(dataset: Any, stored: Grey, frame: int, window: GreyWindow | None) -> tuple[Grey, str]:
    """Return a frame's values from 0 (black) to 1 (white), and in words how they were chosen."""
    padding = _padding(dataset, stored)
    try:
        values = _rescaled(dataset, stored, frame)
        shares, said = _windowed(dataset, values, frame, window, padding)
        shares = _presented(dataset, shares)
    except ToolFailure:
        raise
    except Exception as error:  # tables of foreign files can be wrong in any way
        raise ToolFailure(f"the look-up tables of this file cannot be applied ({type(error).__name__}).") from error
    if _is_inverted(dataset):
        shares = 1.0 - shares
    if padding is not None:
        shares = np.where(padding, np.float32(0.0), shares)
    return shares.astype(np.float32), said


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
    """VOI: the window that was asked for, else the file's table, else its first window, else its whole range."""
    if window is not None:
        return window.apply(values), window.said
    if "VOILUTSequence" in dataset and dataset.VOILUTSequence:
        return _by_table(dataset.VOILUTSequence[0], values), "the file's VOI table"
    found = windows_of(dataset, frame)
    if found:
        more = f" (the first of {len(found)})" if len(found) > 1 else ""
        return found[0].apply(values), found[0].said + more
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
    """One number or several: pydicom's own list of values is neither a list nor a tuple."""
    if value is None or isinstance(value, str | int | float):
        return [value] if value not in (None, "") else []
    return list(value)


def _holders(dataset: Any, frame: int, sequence: str) -> Iterator[Any]:
    """Where a value may stand: in the frame's own group, in the group of all frames, in the file itself."""
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
    """Presentation: a table over the whole range, where there is one."""
    if "PresentationLUTSequence" not in dataset or not dataset.PresentationLUTSequence:
        return shares
    item = dataset.PresentationLUTSequence[0]
    count = int(item.LUTDescriptor[0]) or 65536
    first = int(item.LUTDescriptor[1])
    return _by_table(item, np.rint(shares * (count - 1)).astype(np.float32) + first)


def _is_inverted(dataset: Any) -> bool:
    """Whether low values are white: MONOCHROME1 says so, and so does an inverse presentation; both mean it once."""
    inverse = str(dataset.get("PresentationLUTShape", "") or "").upper() == "INVERSE"
    return str(dataset.PhotometricInterpretation) == "MONOCHROME1" or inverse


def _padding(dataset: Any, stored: Grey) -> Any:
    """Which pixels are no image but filling, None where the file names no value for it."""
    value = dataset.get("PixelPaddingValue")
    if value is None:
        return None
    limit = dataset.get("PixelPaddingRangeLimit")
    low, high = sorted((int(value), int(value if limit is None else limit)))
    return (stored >= low) & (stored <= high)
