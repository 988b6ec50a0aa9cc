"""What a segmentation says of a film: which pixels are which organ, how large, and what follows from that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.core import ToolFailure
from wardround.imaging.framing import MiddleSquare, resized
from wardround.imaging.radiograph import Radiograph
from wardround.imaging.rendering import Outline
from wardround.imaging.weights.known import KnownModel
from wardround.imaging.weights.network import NeuralNetwork, sigmoid
from wardround.imaging.weights.pspnet import MASKS
from wardround.imaging.windows import Grey, as_grey

OrganMask = npt.NDArray[np.bool_]
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pictures that the network's first layers were trained on."""
_LUNGS = ("Left Lung", "Right Lung")
_HEART = "Heart"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedOrgan:
    """One organ. ``area`` is in pixels of the film, ``area_cm2`` None where the size of a pixel in the body is unknown.

    ``certainty`` is the network's mean sigmoid inside the mask; ``box`` is in shares of the film, None without a pixel.
    """

    name: str
    mask: OrganMask
    area: int
    area_cm2: float | None
    certainty: float
    box: Outline | None
    touches_border: bool


def segment(
    film: Radiograph, network: NeuralNetwork, known: KnownModel, organs: Collection[str] = ()
) -> tuple[SegmentedOrgan, ...]:
    """Return the organs, all or those named, in the network's order; the patient's left is on the picture's right."""
    frame = MiddleSquare.of(film.height, film.width)
    found = network.run(_prepared(frame.cut(film.pixels, network.size), network.channels)).get(MASKS)
    if found is None or found.shape[1] != len(known.labels):
        raise ToolFailure(f"the weights of {known.name} do not give its {len(known.labels)} organs; add them again.")
    shares = sigmoid(found[0])
    return tuple(
        _organ(name, as_grey(shares[number]), frame, film)
        for number, name in enumerate(known.labels)
        if not organs or name in organs
    )


def _prepared(square: Grey, channels: int) -> Grey:
    if channels == 1:
        return square[None, None]
    colours = [(square - mean) / deviation for mean, deviation in zip(_MEAN, _DEVIATION, strict=True)]
    return as_grey(np.stack(colours)[None])


def _organ(name: str, shares: Grey, frame: MiddleSquare, film: Radiograph) -> SegmentedOrgan:
    inside = resized(shares, frame.side)
    whole = np.zeros((film.height, film.width), bool)
    whole[frame.top : frame.top + frame.side, frame.left : frame.left + frame.side] = inside > 0.5
    area = int(whole.sum())
    edges = (whole[0], whole[-1], whole[:, 0], whole[:, -1], *_square_edges(whole, frame))
    return SegmentedOrgan(
        name=name,
        mask=whole,
        area=area,
        area_cm2=None if film.spacing_mm is None else area * film.spacing_mm[0] * film.spacing_mm[1] / 100.0,
        certainty=float(inside[inside > 0.5].mean()) if area else 0.0,
        box=_box(whole) if area else None,
        touches_border=any(bool(edge.any()) for edge in edges),
    )


def _square_edges(mask: OrganMask, frame: MiddleSquare) -> tuple[Any, ...]:
    """The sides of the square that the network saw: an organ that touches them may go on beyond."""
    last_row, last_column = frame.top + frame.side - 1, frame.left + frame.side - 1
    return mask[frame.top], mask[last_row], mask[:, frame.left], mask[:, last_column]


def _box(mask: OrganMask) -> Outline:
    rows, columns = np.nonzero(mask)
    high, wide = mask.shape
    return (
        float(columns.min() / wide),
        float(rows.min() / high),
        float((columns.max() + 1) / wide),
        float((rows.max() + 1) / high),
    )


def cardiothoracic_ratio(organs: Collection[SegmentedOrgan]) -> float | None:
    """The heart's greatest width over the chest's, inside the ribs; None where heart or a lung is not seen."""
    boxes: Mapping[str, Outline] = {organ.name: organ.box for organ in organs if organ.box is not None}
    if _HEART not in boxes or not all(name in boxes for name in _LUNGS):
        return None
    chest = [boxes[name] for name in (*_LUNGS, _HEART)]
    width = max(box[2] for box in chest) - min(box[0] for box in chest)
    heart = boxes[_HEART]
    return (heart[2] - heart[0]) / width


def with_edges(pixels: Grey, organs: Collection[SegmentedOrgan]) -> Grey:
    """Return a film with the edge of every organ drawn in white."""
    drawn = pixels.copy()
    for organ in organs:
        mask = organ.mask
        inner = mask[1:-1, 1:-1] & mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
        drawn[1:-1, 1:-1][mask[1:-1, 1:-1] & ~inner] = 1.0
    return drawn
