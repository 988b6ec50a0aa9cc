"""Running sums that samples added to, replayed without one of them: trials of experiences, phi of edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class SumStep:
    """What some sums were from a revision on, and the sample that added to them; none where they were set."""

    number: int
    sums: tuple[float, ...]
    sample: str


def sums_without(steps: Iterable[SumStep], sample: str) -> list[SumStep]:
    """Replay running sums without what a sample added. Sums that were set (by going back to an earlier revision) are
    those of the last time they were so, without the sample; those that never were so stay."""
    kept: list[SumStep] = []
    replayed: dict[tuple[float, ...], tuple[float, ...]] = {}
    before: tuple[float, ...] = ()
    value: tuple[float, ...] = ()
    for step in steps:
        before, value = before or (0.0,) * len(step.sums), value or (0.0,) * len(step.sums)
        if step.sample != sample:
            value = _moved(value, before, step) if step.sample else replayed.get(step.sums, step.sums)
            kept.append(replace(step, sums=value))
        replayed[step.sums] = value
        before = step.sums
    return kept or [SumStep(number=0, sums=(0.0,) * len(before), sample="")]


def _moved(value: tuple[float, ...], before: tuple[float, ...], step: SumStep) -> tuple[float, ...]:
    return tuple(held + now - then for held, now, then in zip(value, step.sums, before, strict=True))
