"""Which split a person belongs to: decided by the number and the seed alone, so that nobody is ever in two."""

from __future__ import annotations

from wardround.benchmarks.sample import SPLITS, Split
from wardround.core import UserError, derive_seed
from wardround.records import Store

Fractions = tuple[float, float, float]
"""Shares of subjects in train, dev and test."""

DEFAULT_FRACTIONS: Fractions = (0.7, 0.1, 0.2)
TRAINING_GROUPS = 10
"""What is counted over training people is also counted without each of these groups of them."""
_SEED_RANGE = 2**63


def unit_draw(*parts: object) -> float:
    """Return a number in (0, 1) that depends on the parts and nothing else."""
    return (derive_seed(*parts) + 0.5) / _SEED_RANGE


def check_fractions(fractions: Fractions) -> None:
    """Raise UserError unless the shares are none negative and add up to 1."""
    if len(fractions) != 3 or not min(fractions) >= 0 or not abs(sum(fractions) - 1) <= 1e-9:  # not a number is neither
        raise UserError(f"the shares of train, dev and test must be three that add up to 1, not {fractions!r}")


def person_id(store: Store, subject_id: int) -> int | None:
    """Return the person of a sample, for its record; None where subjects are people."""
    return None if store.spec.person is None else store.person_of(subject_id)


def split_of(person: int, seed: int, fractions: Fractions) -> Split:
    """Return the split of a person. The same in every task and every benchmark of one seed."""
    draw = unit_draw(seed, "split", person)
    train, dev, _ = fractions
    return SPLITS[0] if draw < train else SPLITS[1] if draw < train + dev else SPLITS[2]


def group_of(person: int, seed: int) -> int:
    """Return the group of a training person: questions about it are asked with what the other groups had."""
    return derive_seed(seed, "group", person) % TRAINING_GROUPS
