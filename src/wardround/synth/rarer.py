"""Courses that a small hospital is without: long stays in intensive care, returns to it, returns to the emergency
department within days. They are drawn on demand and with dice of their own: without them, a seed makes what it made.
"""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import derive_seed
from wardround.synth.person import DAY, Dice


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCourse:
    """The additions to a stay in intensive care: more hours, or hours on a ward and a return."""

    more_hours: float = 0.0
    ward_hours: float = 0.0
    again_hours: float = 0.0


USUAL_COURSE = UnitCourse()


def rarer_dice(seed: int, index: int) -> Dice:
    """Return the dice of a subject's rarer courses."""
    return Dice(derive_seed("wardround.synth.rarer", seed, index))


def draw_course(dice: Dice) -> UnitCourse:
    """Draw the course of a stay: one in eight goes on for two weeks more, one in four leaves and returns."""
    point = dice.unit()
    if point < 0.125:
        return UnitCourse(more_hours=dice.between(14, 22) * 24)
    if point < 0.375:
        return UnitCourse(ward_hours=dice.between(10, 40), again_hours=dice.between(16, 60))
    return USUAL_COURSE


def quick_return(dice: Dice) -> int | None:
    """Return the time until a discharged person returns within three days, as three in five do; None: no return."""
    comes = dice.chance(0.6)
    after = int(dice.between(1, 2) * DAY)
    return after if comes else None
