"""Which split a subject belongs to: decided by its number and the seed alone, so that no patient is ever in two."""

from __future__ import annotations

from wardround.benchmarks.sample import SPLITS, Split
from wardround.core import UserError, derive_seed

Fractions = tuple[float, float, float]
"""Shares of subjects in train, dev and test."""

DEFAULT_FRACTIONS: Fractions = (0.7, 0.1, 0.2)
_SEED_RANGE = 2**63


def unit_draw(*parts: object) -> float:
    """Return a number in (0, 1) that depends on the parts and nothing else."""
    return (derive_seed(*parts) + 0.5) / _SEED_RANGE


def check_fractions(fractions: Fractions) -> None:
    """Raise UserError unless the shares are none negative and add up to 1."""
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise UserError(f"the shares of train, dev and test must be three that add up to 1, not {fractions!r}")


def split_of(subject_id: int, seed: int, fractions: Fractions) -> Split:
    """Return the split of a subject. The same in every task and every benchmark of one seed."""
    draw = unit_draw(seed, "split", subject_id)
    train, dev, _ = fractions
    return SPLITS[0] if draw < train else SPLITS[1] if draw < train + dev else SPLITS[2]
