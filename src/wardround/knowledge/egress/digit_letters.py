"""Letters that stand for digits: each way reads the letters of a text by one table, and leaves out what is no digit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby

from wardround.knowledge.egress.searched import letters_and_digits

_DIGIT_WORDS = "zero one two three four five six seven eight nine"
_NUMERALS = "i ii iii iv v vi vii viii ix"
_WORDS = {word: str(digit) for digit, word in enumerate(_DIGIT_WORDS.split())}
_BURIED = re.compile("|".join((*_WORDS, r"\d")))
_ROMAN = {word: str(digit) for digit, word in enumerate(_NUMERALS.split(), start=1)}
_LIKE_NUMBERS = re.compile(r"\d|^[oil|!]+$")
_SAID = (
    "zero un deux trois quatre cinq six sept huit neuf",
    "null eins zwei drei vier funf sechs sieben acht neun",
    "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "zero uno due tre quattro cinque sei sette otto nove",
    "nul een twee drie vier vijf zes zeven acht negen",
    "zero um dois tres quatro cinco seis sete oito nove",
    "oh won too tree for fife sicks sven ate niner",
    "owe wun to free fower five six seven ait nein",
)
"""Digits in French, German, Spanish, Italian, Dutch and Portuguese, and as English ones sound."""
_OF_SAID = _WORDS | {word: str(digit) for words in _SAID for digit, word in enumerate(words.split())}
_TOKEN = re.compile(r"[a-z0-9!|$]+")
_LIKE_DIGITS = str.maketrans("oqdil!|zeas$gbt", "000111123455687")
_LIKE_OTHERS = _LIKE_DIGITS | str.maketrans("gbq", "989")
"""The same with the letters that look like two digits as the other one."""
_FROM_ZERO = str.maketrans("abcdefghij", "0123456789")
_FROM_ONE = str.maketrans("abcdefghij", "1234567890")


def _lines(tokens: Iterable[str]) -> str:
    """Tokens that stand side by side on a line, where an empty one ends it."""
    return "\n".join(" ".join(line) for is_read, line in groupby(tokens, key=bool) if is_read)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def _buried(text: str) -> str:
    """The digits and the words of digits, wherever they stand within other words.

    >>> _buried("onexzero hormone 4")
    '10 1 4'
    """
    return _lines("".join(_WORDS.get(found, found) for found in _BURIED.findall(token)) for token in _tokens(text))


def _split(text: str) -> str:
    """The same where anything stands between the letters of the words.

    >>> _split("o.n.e z-e-r-o")
    '10'
    """
    return "".join(_WORDS.get(found, found) for found in _BURIED.findall(letters_and_digits(text)))


def _said(text: str) -> str:
    """Digits in words of other languages, or as they sound."""
    return _lines(_OF_SAID.get(token, token if token.isdigit() else "") for token in _tokens(text))


def _roman(text: str) -> str:
    """Roman numerals and digits.

    >>> _roman("IV and IX, III")
    '4\\n9 3'
    """
    return _lines(_ROMAN.get(token, token if token.isdigit() else "") for token in _tokens(text))


def _alike(text: str, digits: Mapping[int, int]) -> str:
    """Words with digits in them, or of rings and strokes only, their letters that look like digits as those."""
    return _lines(token.translate(digits) if _LIKE_NUMBERS.search(token) else "" for token in _tokens(text))


def _lettered(text: str, digits: Mapping[int, int]) -> str:
    """Words of the letters of an alphabet of digits only."""
    read = (token.translate(digits) for token in _tokens(text))
    return _lines(token if token.isdigit() else "" for token in read)


DIGIT_LETTERS: tuple[Callable[[str], str], ...] = (
    _buried,
    _split,
    _said,
    _roman,
    partial(_alike, digits=_LIKE_DIGITS),
    partial(_alike, digits=_LIKE_OTHERS),
    partial(_lettered, digits=_FROM_ZERO),
    partial(_lettered, digits=_FROM_ONE),
)
"""Each takes a text and returns digits; on one line are those that stand side by side in it."""
