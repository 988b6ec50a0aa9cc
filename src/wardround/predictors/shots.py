"""EHRSHOT's few-shot samples: k of each class, k for fitting and k for choosing, nested in one another.

A class is shuffled once per replicate and read from the front, so that the sample of k is the start of the sample of
any larger k. A class with fewer members than asked for goes on with members drawn again, and these are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wardround.core import derive_seed

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shots:
    """Places of the drawn samples; ``repeated`` counts, per class, those that came up before."""

    places: Places
    repeated: tuple[int, ...]


def draw_shots(truth: Places, classes: int, k: int, *, most: int, seed: int, name: str) -> Shots:
    """Draw ``k`` samples of each of ``classes`` that ``truth`` (the class of every sample) has any of.

    ``most`` is the largest k of the protocol; with the same seed and name, the sample of k is the start of the sample
    of any other k up to it.
    """
    parts: list[Places] = []
    repeated = []
    for one in range(classes):
        members = np.flatnonzero(truth == one)
        parts.append(_ordered(members, most, derive_seed(seed, "shots", name, one))[:k] if len(members) else members)
        repeated.append(max(0, k - len(members)) if len(members) else 0)
    return Shots(places=np.concatenate(parts), repeated=tuple(repeated))


def _ordered(members: Places, most: int, seed: int) -> Places:
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(members)
    short = max(0, most - len(members))
    return np.concatenate([shuffled, generator.choice(members, size=short)])
