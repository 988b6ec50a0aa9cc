"""Characters as a reader takes them: numerals of any script are digits, look-alikes are Latin, none is unseen."""

from __future__ import annotations

import re
import unicodedata

from wardround.knowledge.document import visible

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff\ud800-\udfff]"
)
_TAGS = range(0xE0020, 0xE007F)
"""Unseen copies of ASCII, which a model reads."""
_LIKE_LATIN = str.maketrans(
    "авеёкмнорстухіјѕԁԛԝһӏАВЕКМНОРСТУХІЈЅοαεικνρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚",
    "abeekmhopctyxijsdqwhlABEKMHOPCTYXIJSoaeiknptuxABEZHIKMNOPTYXabcdefghij",
)
"""Cyrillic and Greek letters that look like Latin ones, and the letters of Braille that are its digits."""


def plain(text: str) -> str:
    """Return a text with every numeral as digits, compatible forms as their letters, no accent, nothing unseen.

    >>> plain("\\uff11\\u0662\\u00b3 \\u2463 \\u4e94")
    '123 4 5'
    """
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", "".join(map(_plain, text)).translate(_LIKE_LATIN))
        text = "".join(one for one in apart if not unicodedata.combining(one))
    return visible(text)


def has_unseen(text: str) -> bool:
    """Whether a text holds characters that no reader sees."""
    return _UNSEEN.search(text) is not None


def _plain(character: str) -> str:
    if ord(character) in _TAGS:
        return chr(ord(character) - 0xE0000)
    number = None if character.isascii() else unicodedata.numeric(character, None)
    return character if number is None or not number.is_integer() else str(int(number))
