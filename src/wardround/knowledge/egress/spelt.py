"""Numbers in English words, read as digits: digit by digit, in pairs, as years are said, or as one large number."""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_RANKS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {
    **{word: value for value, word in enumerate(_UNITS.split())},
    **{word: value for value, word in enumerate(_RANKS.split())},
    **{word: 10 * tens for tens, word in enumerate(_TENS.split(), start=2)},
    **{f"{word[:-1]}ieth": 10 * tens for tens, word in enumerate(_TENS.split(), start=2)},
    **dict.fromkeys(("oh", "nought", "naught", "nil", "null"), 0),
    "niner": 9,
}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_TIMES = {"double": 2, "triple": 3, "treble": 3}
_WORD = "|".join(sorted((*_VALUES, *_SCALES, *_TIMES), key=len, reverse=True))
_FILLER = r"(?:and|then|next|comma|slash|dash|hyphen|dot|point|space|underscore|followed by)"
_GAP = rf"(?:[\W_]{{0,3}}{_FILLER}(?![A-Za-z]))*[\W_]{{0,3}}"
_RUN = re.compile(
    rf"(?<![A-Za-z])(?:(?<!\d)\d{{1,3}}{_GAP})?(?:{_WORD})(?:{_GAP}(?:{_WORD}|\d{{1,3}}(?!\d)))*(?![A-Za-z])",
    re.IGNORECASE,
)
_PART = re.compile(rf"{_WORD}|\d+")


def spelt_numbers(text: str) -> str:
    """Return a text with its numbers in words as digits, parted by single spaces.

    >>> spelt_numbers("id one and zero/two, aged ninety-three or twelve hundred and five, not double four")
    'id 1 0 2, aged 93 or 1205, not 4 4'
    """
    return _RUN.sub(lambda run: _read(_PART.findall(run[0].lower())), text)


def _read(parts: Sequence[str]) -> str:
    return str(_sum(parts)) if not _SCALES.keys().isdisjoint(parts) else " ".join(_said(parts))


def _sum(parts: Sequence[str]) -> int:
    """The one number that parts with hundreds and thousands make."""
    total = below = 0
    for part in parts:
        scale = _SCALES.get(part, 0)
        if scale == 100:
            below = max(below, 1) * scale
        elif scale:
            total, below = total + max(below, 1) * scale, 0
        else:
            below += _value(part)
    return total + below


def _said(parts: Sequence[str]) -> list[str]:
    """The numbers that parts say one after the other: a ten and a unit after it are one."""
    said: list[str] = []
    open_tens, times = False, 1
    for part in parts:
        value = _value(part)
        if part in _TIMES:
            times = _TIMES[part]
        elif open_tens and 0 < value < 10:
            said[-1], open_tens = str(int(said[-1]) + value), False
        else:
            said += [str(value) if part in _VALUES else part] * times
            open_tens, times = part in _VALUES and value >= 20, 1
    return said


def _value(part: str) -> int:
    return int(part) if part.isdigit() else _VALUES.get(part, 0)
