"""Characters as a reader takes them: numerals of any script are digits, look-alikes are Latin, none is unseen."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache

from wardround.core import import_extra
from wardround.knowledge.document import visible

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff\ud800-\udfff]"
)
_TAGS = range(0xE0020, 0xE007F)
"""Unseen copies of ASCII, which a model reads."""
_LIKE_LATIN = dict(
    zip(
        "авеёкмнорстухіјѕԁԛԝһӏАВЕКМНОРСТУХІЈЅοαεικνρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚",
        "abeekmhopctyxijsdqwhlABEKMHOPCTYXIJSoaeiknptuxABEZHIKMNOPTYXabcdefghij",
        strict=True,
    )
)
"""Cyrillic and Greek letters as they are most often read, and the letters of Braille that are its digits."""
_NAMED_LATIN = re.compile(
    r"(?:LATIN (?:(?P<small>SMALL )|CAPITAL )?LETTER (?:SMALL CAPITAL |DOTLESS |LONG |SCRIPT )?"
    r"|REGIONAL INDICATOR SYMBOL LETTER |NEGATIVE (?:CIRCLED|SQUARED) LATIN CAPITAL LETTER )"
    r"(?P<letter>[A-Z])(?: WITH .*)?"
)
"""Characters that Unicode itself names as a Latin letter in another form: small capitals, strokes, flags."""


def plain(text: str) -> str:
    """Return a text with every numeral as digits, compatible forms as their letters, no accent, nothing unseen.

    >>> plain("\\uff11\\u0662\\u00b3 \\u2463 \\u4e94")
    '123 4 5'
    """
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", "".join(map(_plain, text)))
        text = "".join(_like_latin(one) for one in apart if not unicodedata.combining(one))
    return visible(text)


def has_unseen(text: str) -> bool:
    """Whether a text holds characters that no reader sees."""
    return _UNSEEN.search(text) is not None


def _plain(character: str) -> str:
    if ord(character) in _TAGS:
        return chr(ord(character) - 0xE0000)
    number = None if character.isascii() else unicodedata.numeric(character, None)
    return character if number is None or not number.is_integer() else str(int(number))


@lru_cache(maxsize=4096)
def _like_latin(character: str) -> str:
    """The Latin letter that a character is or looks like, by its name or by Unicode's table of confusables (UTS 39)."""
    if character.isascii():
        return character
    return _LIKE_LATIN.get(character) or _named_latin(character) or _confusables().get(character, character)


def _named_latin(character: str) -> str | None:
    named = _NAMED_LATIN.fullmatch(unicodedata.name(character, ""))
    if named is None:
        return None
    return named["letter"].lower() if named["small"] else named["letter"]


@cache
def _confusables() -> Mapping[str, str]:
    """Letters of any script by the ASCII letter or digit that they look like."""
    table = import_extra("confusable_homoglyphs.confusables", "knowledge", what="the guard of what leaves")
    found: dict[str, str] = {}
    for character, alike in table.confusables_data.items():
        single = [one["c"] for one in alike if len(one["c"]) == 1]
        plainer = [one for one in single if one.isascii() and one.isalnum()]
        plainer += [letter for one in single if (letter := _named_latin(one)) is not None]
        if plainer and len(character) == 1 and character.isalpha():
            found[character] = plainer[0]
    return found
