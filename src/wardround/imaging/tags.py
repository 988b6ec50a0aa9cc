"""What may be told of a DICOM file's headers: a list of what is allowed, never of what is not.

No name, number, date or free text of a header leaves this room (PS3.15, annex E says which they are: hundreds). When an
image was taken, and whose it is, stands on the chart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
"""Keyword -> what its value must look like to be told: words of a code list and numbers, nothing that was typed."""
_CHEST = frozenset({"CHEST", "THORAX", "LUNG", "RIB", "RIBS", "HEART"})
_LONGEST_SPACING_MM = 10.0
_OVERLAYS, _OVERLAY_ROWS = 0x6000, 0x0010


def allowed_tags(dataset: Any) -> dict[str, str]:
    """Return the headers that may be told, by keyword."""
    told = {name: _as_text(dataset.get(name)) for name in ALLOWED}
    return {name: text for name, text in told.items() if re.fullmatch(ALLOWED[name], text)}


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, str | int | float):
        return "" if value is None else str(value)
    return ", ".join(str(part) for part in value)


def spacing_of(dataset: Any) -> tuple[float, float] | None:
    """Return the size of a pixel in the body, (down, across) in mm; None where only the detector's is known."""
    try:
        down, across = (float(part) for part in dataset.PixelSpacing)
    except (AttributeError, TypeError, ValueError):
        return None
    sound = all(0.0 < part <= _LONGEST_SPACING_MM for part in (down, across))
    return (down, across) if sound else None


def _has_overlay(dataset: Any) -> bool:
    """Whether there are rows of an overlay plane (PS3.3 C.9.2): repeating groups, 6000 to 60FE."""
    return any(tag.group & 0xFF01 == _OVERLAYS and tag.element == _OVERLAY_ROWS for tag in dataset.keys())  # noqa: SIM118 - a data set gives its elements


def remarks_of(dataset: Any, frames: int) -> tuple[str, ...]:
    """Return what to mind before anything is read out of an image."""
    burned = str(dataset.get("BurnedInAnnotation", "") or "").upper()
    part = str(dataset.get("BodyPartExamined", "") or "").upper()
    said = {
        "text may be burned into this picture": burned == "YES",
        "whether text is burned into this picture is not said": burned not in ("YES", "NO"),
        "this is no picture of a chest, by its header": bool(part) and part not in _CHEST,
        "no size of a pixel in the body is known (only the detector's)": spacing_of(dataset) is None
        and "ImagerPixelSpacing" in dataset,
        "this is a picture in colour, shown by its brightness": int(dataset.get("SamplesPerPixel", 1) or 1) > 1,
        f"this file has {frames} frames": frames > 1,
        "this file has an overlay (marks or text drawn over the picture), which is not shown": _has_overlay(dataset),
    }
    return tuple(text for text, holds in said.items() if holds)
