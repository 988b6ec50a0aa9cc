"""The ways in which a text can be read: as it stands, and with what hides things in it undone, in any composition.

Each undoing makes one text of one text; those that a reader would do are *sure* (escapes, packed text, spelt numbers),
the others are guesses (backwards, letters for digits) in which only what the record holds is looked for. An undoing
that this table does not know (a cipher, compression, a code agreed on) is not undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from wardround.knowledge.egress.characters import has_unseen, plain
from wardround.knowledge.egress.digit_letters import DIGIT_LETTERS
from wardround.knowledge.egress.escapes import unescaped
from wardround.knowledge.egress.packed import pieces_unpacked, unpacked
from wardround.knowledge.egress.spelt import spelt_numbers
from wardround.knowledge.egress.written_days import months_as_numbers

MOST_READINGS = 60
"""Texts of people have about ten."""
_DEEPEST = 5


class Trust(IntEnum):
    """How much of a reading is guessed."""

    FOUND = 0
    """Pieces and digits that may be there by chance."""
    GUESSED = 1
    """Another way to read the whole text."""
    SURE = 2
    """As it stands, or with undone what every reader would undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One way to read a text; on one line is what stands side by side."""

    text: str
    trust: Trust


class TooManyReadings(ValueError):
    """A text that can be read in more ways than texts of people can."""


def readings(text: str) -> Iterator[Reading]:
    """Yield a text in each way that it can be read, itself first. Raises TooManyReadings."""
    seen: set[str] = set()
    for one in _composed(text):
        yield one
        for letters in () if one.trust is Trust.FOUND else DIGIT_LETTERS:
            digits = letters(one.text)
            if digits not in seen:
                seen.add(digits)
                yield Reading(text=digits, trust=Trust.FOUND)


def holds_unseen(text: str) -> bool:
    """Whether there are characters that no reader sees in a text, or escaped in it."""
    layers = [text]
    while len(layers) < _DEEPEST and (deeper := unescaped(layers[-1])) != layers[-1]:
        layers.append(deeper)
    return any(map(has_unseen, layers))


def _composed(text: str) -> Iterator[Reading]:
    """What any composition of the undoings makes of a text, the shortest compositions first."""
    seen: set[str] = set()
    waiting = [(text.replace("\n", " "), Trust.SURE, 0)]
    for written, trust, depth in waiting:
        read = plain(written)
        if read in seen:
            continue
        if len(seen) == MOST_READINGS:
            raise TooManyReadings
        seen.add(read)
        yield Reading(text=read, trust=trust)
        if depth < _DEEPEST:
            waiting += ((other, min(trust, its), depth + 1) for other, its in _undone(read, trust))


def _undone(text: str, trust: Trust) -> Iterator[tuple[str, Trust]]:
    """Each undoing's text and trust. What was found is not guessed at again."""
    for undo, its in _UNDOINGS:
        other = undo(text) if its is Trust.SURE or trust is not Trust.FOUND else ""
        if other and other != text:
            yield other, its


def _backwards(text: str) -> str:
    return text[::-1]


_UNDOINGS: tuple[tuple[Callable[[str], str], Trust], ...] = (
    (unescaped, Trust.SURE),
    (unpacked, Trust.SURE),
    (spelt_numbers, Trust.SURE),
    (months_as_numbers, Trust.GUESSED),
    (_backwards, Trust.GUESSED),
    (pieces_unpacked, Trust.FOUND),
)
