"""What an encoder is to everything else: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""One row per text, each of length 1, or all zero for a text with nothing in it."""


class Encoder(Protocol):
    """Turns texts into vectors whose dot product is their cosine similarity."""

    @property
    def name(self) -> str:
        """As given on the command line, for example ``lexical``."""
        ...

    @property
    def identity(self) -> str:
        """Everything that decides a vector: vectors of one identity may be compared, and are cached under it."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """How much of a text is read, in the encoder's own tokens; None reads all of it."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text. Blocks: call it off the event loop."""
        ...


def unit_rows(rows: npt.ArrayLike) -> Vectors:
    """Scale every row to length 1 in double precision; an all-zero or non-finite row becomes zero."""
    matrix = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    matrix = np.where(np.isfinite(matrix), matrix, 0.0)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
