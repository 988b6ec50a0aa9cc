"""Physiology: what a laboratory value or vital sign is at a moment, given the problems at work.

value = (person's baseline x all factors + all offsets), each effect scaled by severity and by its shape in time.
In a fatal stay the acute problems stop resolving.
"""

from __future__ import annotations

from math import exp

from wardround.synth.catalog import Analyte
from wardround.synth.dice import Dice
from wardround.synth.encounter import ClinicalProblem
from wardround.synth.person import SyntheticSubject

_Effect = tuple[bool, float, str, float, int, bool]


class Signals:
    """Values of one subject over one stretch of time."""

    __slots__ = ("_dice", "_effects", "_end", "_fatal", "_start", "_subject")

    def __init__(
        self,
        dice: Dice,
        subject: SyntheticSubject,
        problems: tuple[ClinicalProblem, ...],
        start: int,
        end: int,
        *,
        fatal: bool,
    ) -> None:
        self._dice, self._subject = dice, subject
        self._start, self._end, self._fatal = start, end, fatal
        effects: dict[str, list[_Effect]] = {}
        for problem in problems:
            acute = problem.role in ("principal", "complication")
            for table in (problem.condition.labs, problem.condition.vitals):
                for key, (op, amount, shape, hours) in table.items():
                    scaled = (amount - 1) * problem.severity if op == "x" else amount * problem.severity
                    effect = (op == "x", scaled, shape, hours, problem.onset, acute)
                    effects.setdefault(key, []).append(effect)
        self._effects = effects

    def _shape(self, shape: str, hours: float, onset: int, moment: int, acute: bool) -> float:
        if shape == "steady":
            return 1.0
        passed = (moment - onset) / 3600
        if passed < 0:
            return 0.0
        if shape == "resolve":
            value = exp(-passed / hours)
        elif shape == "hump":
            ratio = passed / hours
            value = ratio * exp(1 - ratio)
        else:
            value = 1 - exp(-passed / hours)
        if self._fatal and acute:
            progress = (moment - self._start) / max(1, self._end - self._start)
            value = max(value, 0.25 + 0.7 * progress)
        return value

    def level(self, analyte: Analyte, moment: int) -> float:
        """The true value at a moment, unbounded and without noise."""
        value = self._subject.baseline[analyte.key]
        offset = 0.0
        for factor, amount, shape, hours, onset, acute in self._effects.get(analyte.key, ()):
            strength = amount * self._shape(shape, hours, onset, moment, acute)
            if factor:
                value *= max(0.05, 1 + strength)
            else:
                offset += strength
        return value + offset

    def measure(self, analyte: Analyte, moment: int) -> float:
        """One measurement: the level, noise, and the limits of what a living, treated person shows."""
        value = self.level(analyte, moment)
        value += self._dice.normal(0, abs(value) * analyte.cv)
        if value < analyte.soft:
            value = analyte.soft - 0.35 * (analyte.soft - value)
        return min(analyte.ceiling, max(analyte.floor, value))
