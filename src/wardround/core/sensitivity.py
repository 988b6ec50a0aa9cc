"""How sensitive records are: three words, and which of them is stricter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Sensitivity = Literal["synthetic", "open", "credentialed"]
SENSITIVITIES: tuple[Sensitivity, ...] = ("synthetic", "open", "credentialed")
"""From the freest to the strictest: invented records, openly licensed ones, those under a data-use agreement."""


def strictest(words: Iterable[Sensitivity]) -> Sensitivity:
    """Return the strictest of some words; ``credentialed`` of none."""
    return max(words, key=SENSITIVITIES.index, default="credentialed")
