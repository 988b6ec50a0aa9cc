"""What a classifier says of a film: a score for each finding, and where in the film it comes from.

A score is no probability. It is the network's own number, stretched so that 0.5 is the point at which the network's
authors call the finding (its operating point on their data): 0.6 says "a little above it", not "60 in 100".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wardround.core import ToolFailure
from wardround.tools.imaging.radiograph import Radiograph
from wardround.tools.imaging.reading import MiddleSquare, Outline
from wardround.tools.imaging.weights import LOGITS, MAPS, KnownModel, NeuralNetwork, Numbers, sigmoid

_SCALE = 1024.0
"""The network takes pixels from -1024 to 1024."""
_SHARE_OF_PEAK = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedFinding:
    """One finding. ``score`` is 0.5 at the operating point; ``raw`` is the network's sigmoid. ``box`` (shares of the
    film) is where the score comes from, None below the operating point."""

    name: str
    score: float
    raw: float
    operating_point: float
    box: Outline | None

    @property
    def is_above(self) -> bool:
        """Return whether the network's authors would call it."""
        return self.score >= 0.5


def classify(film: Radiograph, network: NeuralNetwork, known: KnownModel) -> tuple[ClassifiedFinding, ...]:
    """Return every finding that the network was trained on, highest score first."""
    frame = MiddleSquare.of(film.height, film.width)
    square = frame.cut(film.pixels, network.size)
    found = network.run(((2.0 * square - 1.0) * _SCALE).astype(np.float32)[None, None])
    if LOGITS not in found or found[LOGITS].shape[-1] != len(known.labels):
        raise ToolFailure(f"the weights of {known.name} do not give its {len(known.labels)} findings; add them again.")
    raw = sigmoid(found[LOGITS][0])
    maps = found.get(MAPS)
    findings = (
        _finding(number, known, float(raw[number]), None if maps is None else maps[0, number], frame)
        for number, label in enumerate(known.labels)
        if label
    )
    return tuple(sorted(findings, key=lambda finding: (-finding.score, finding.name)))


def _finding(
    number: int, known: KnownModel, raw: float, places: Numbers | None, frame: MiddleSquare
) -> ClassifiedFinding:
    point = known.operating_points[number] if known.operating_points else 0.5
    score = stretched(raw, point)
    box = frame.outline(peak_box(places)) if places is not None and score >= 0.5 else None
    return ClassifiedFinding(
        name=known.labels[number].replace("_", " "), score=score, raw=raw, operating_point=point, box=box
    )


def stretched(raw: float, point: float) -> float:
    """Return a sigmoid stretched so that its operating point is 0.5 (torchxrayvision's ``op_norm``).

    >>> stretched(0.1, 0.2), stretched(0.6, 0.2)
    (0.25, 0.75)
    """
    return raw / (2.0 * point) if raw < point else 1.0 - (1.0 - raw) / (2.0 * (1.0 - point))


def peak_box(places: Numbers) -> Outline:
    """Return the box round the highest point and the area joined to it at half its height, in shares of the map."""
    rows, columns = places.shape
    row, column = (int(part) for part in np.unravel_index(int(places.argmax()), places.shape))
    low = float(places.min())
    high = places >= low + _SHARE_OF_PEAK * (float(places.max()) - low)
    joined, waiting = {(row, column)}, [(row, column)]
    while waiting:
        row, column = waiting.pop()
        for neighbour in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            inside = 0 <= neighbour[0] < rows and 0 <= neighbour[1] < columns
            if inside and neighbour not in joined and high[neighbour]:
                joined.add(neighbour)
                waiting.append(neighbour)
    down, across = [place[0] for place in joined], [place[1] for place in joined]
    return min(across) / columns, min(down) / rows, (max(across) + 1) / columns, (max(down) + 1) / rows
