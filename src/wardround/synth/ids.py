"""Numbers of the synthetic hospital: unique, a function of (subject index, running number) alone, none of them real.

Every kind owns a block of numbers per subject. Kinds whose real numbers look random are scrambled by a bijection, so
that a number says nothing about order in time; labevent_id and microevent_id run up within a subject, as in MIMIC.
"""

from __future__ import annotations

from functools import cache

SUBJECT_BASE = 90_000_000
MOST_PATIENTS = 1 << 22
"""More would run out of blocks."""
_SUBJECT_BITS = 22
_ODD = 0x9E3779B97F4A7C15
_PROVIDERS = 2400
_CAREGIVERS = 900
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def scramble(number: int, bits: int) -> int:
    """Map ``0 .. 2**bits - 1`` onto itself, one to one."""
    mask = (1 << bits) - 1
    number = number * _ODD & mask
    number ^= number >> (bits // 2)
    return number * _ODD & mask


class NumberBlock:
    """The numbers of one kind for one subject."""

    __slots__ = ("_base", "_bits", "_block_bits", "_next", "_start")

    def __init__(self, index: int, base: int, block_bits: int) -> None:
        self._base = base
        self._block_bits = block_bits
        self._bits = _SUBJECT_BITS + block_bits
        self._start = index << block_bits
        self._next = 0

    def take(self) -> int:
        """Return the next number; raises OverflowError when the block is used up."""
        number = self._next
        if number >> self._block_bits:
            raise OverflowError("a subject needs more numbers than its block holds")
        self._next = number + 1
        return self._base + scramble(self._start + number, self._bits)


class Numbers:
    """All blocks of one subject."""

    __slots__ = ("encounter", "infusion", "micro_specimen", "pharmacy", "place", "row_base", "specimen")

    def __init__(self, index: int) -> None:
        self.encounter = NumberBlock(index, 200_000_000, 4)
        self.place = NumberBlock(index, 300_000_000, 8)
        self.pharmacy = NumberBlock(index, 40_000_000_000, 13)
        self.specimen = NumberBlock(index, 10_000_000_000, 13)
        self.micro_specimen = NumberBlock(index, 3_000_000_000, 10)
        self.infusion = NumberBlock(index, 1_000_000_000_000, 17)
        self.row_base = index << 17


@cache
def provider(number: int) -> str:
    """Return the code of one of the hospital's clinicians."""
    number = scramble(number % _PROVIDERS, 25) + 36**4
    letters = []
    for _ in range(5):
        number, digit = divmod(number, 36)
        letters.append(_DIGITS[digit])
    return "P" + "".join(reversed(letters))


def providers() -> list[str]:
    """Return every clinician's code, sorted."""
    return sorted(provider(number) for number in range(_PROVIDERS))


@cache
def caregiver(number: int) -> int:
    """Return the number of one of the hospital's ICU nurses and therapists."""
    return 900_000 + scramble(number % _CAREGIVERS, 16)


def caregivers() -> list[int]:
    """Return every caregiver number, sorted."""
    return sorted(caregiver(number) for number in range(_CAREGIVERS))
