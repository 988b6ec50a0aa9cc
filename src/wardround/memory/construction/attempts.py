"""The material of construction: several attempts at one training sample, some of them successes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wardround.memory.entities import SeenIn
from wardround.memory.experience import Provenance
from wardround.memory.material import Material, reduced_trajectory
from wardround.memory.words import plain_words

_COMPARED_TOKENS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One trajectory: its episode, what it left behind, the rows that each of its steps showed."""

    episode: str
    material: Material
    success: bool
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One training sample with its attempts. ``setting``: phrases that say which patient this was, without identity;
    ``description``: what the record looked like then; ``provenance`` is that of the sample, without an episode."""

    provenance: Provenance
    attempts: tuple[Attempt, ...]
    setting: tuple[str, ...] = ()
    description: str = ""

    @property
    def successes(self) -> tuple[Attempt, ...]:
        """The attempts that succeeded."""
        return tuple(one for one in self.attempts if one.success)

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """The attempts that failed."""
        return tuple(one for one in self.attempts if not one.success)


def evidence_of(attempts: Sequence[Attempt]) -> tuple[SeenIn, ...]:
    """Every row that some attempts showed, once each, at the step that showed it first: what a lesson drawn from them
    may rest on, whichever steps it cites."""
    seen: set[str] = set()
    found: list[SeenIn] = []
    for attempt in attempts:
        for step, rows in enumerate(attempt.rows, start=1):
            fresh = tuple(row for row in dict.fromkeys(rows) if row not in seen)
            seen.update(fresh)
            if fresh:
                found.append(SeenIn(step=step, rows=fresh))
    return tuple(found)


def nearest_success(failure: Attempt, successes: Sequence[Attempt]) -> Attempt | None:
    """The success whose trajectory shares most words with a failure's; the earliest of equals, None without one."""
    own = _words(failure)
    return max(successes, key=lambda one: (_overlap(own, _words(one)), -successes.index(one)), default=None)


def _words(attempt: Attempt) -> frozenset[str]:
    text = reduced_trajectory(attempt.material.messages, _COMPARED_TOKENS).text
    return frozenset(plain_words(text).split())


def _overlap(first: frozenset[str], second: frozenset[str]) -> float:
    union = first | second
    return len(first & second) / len(union) if union else 0.0
