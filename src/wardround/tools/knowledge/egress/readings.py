"""All ways to read a text: escapes undone, look-alikes, packed text, numbers in words."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache, partial
from html import unescape
from itertools import groupby
from typing import Self
from urllib.parse import unquote_plus

from wardround.core import import_extra
from wardround.tools.knowledge.egress.written_days import months_as_numbers
from wardround.tools.knowledge.index import visible

# Characters as a reader takes them: numerals of any script are digits, look-alikes are Latin, none is unseen.


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
        text = "".join(_like_latin(character) for character in apart if not unicodedata.combining(character))
    return visible(text)


def has_unseen(text: str) -> bool:
    """Return whether a text holds characters that no reader sees."""
    return _UNSEEN.search(text) is not None


def _plain(character: str) -> str:
    if ord(character) in _TAGS:
        return chr(ord(character) - 0xE0000)
    number = None if character.isascii() else unicodedata.numeric(character, None)
    return character if number is None or not number.is_integer() else str(int(number))


@lru_cache(maxsize=4096)
def _like_latin(character: str) -> str:
    """Return the Latin letter that a character is or looks like, by its name or by Unicode's table of confusables (UTS
    39)."""
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
        single = [look_alike["c"] for look_alike in alike if len(look_alike["c"]) == 1]
        plainer = [look_alike for look_alike in single if look_alike.isascii() and look_alike.isalnum()]
        plainer += [letter for look_alike in single if (letter := _named_latin(look_alike)) is not None]
        if plainer and len(character) == 1 and character.isalpha():
            found[character] = plainer[0]
    return found


# Escapes of addresses, pages and programs: ``%31 &#49; \u0031 \x31 U+0031 %u0031`` and hosts in punycode.


_CODE_POINT = re.compile(
    r"(?:\\u|%u|\\U0000|\bU\+)([0-9a-f]{4})(?![0-9a-f])|(?:\\u|%u)([0-9a-f]{4})|\\[xu]\{([0-9a-f]{1,6})\}"
    r"|\\x([0-9a-f]{2})|\\([0-7]{3})",
    re.IGNORECASE,
)
_OCTAL = 5
"""The group of the pattern that is in octal; the others are in hexadecimal."""
_PUNYCODE = re.compile(r"\bxn--([a-z0-9-]+)", re.IGNORECASE)


def unescaped(text: str) -> str:
    """Return a text with one layer of every escape undone.

    >>> unescaped("a%31&#50;\\\\u0033\\\\x34")
    'a1234'
    """
    undone = unescape(unquote_plus(_CODE_POINT.sub(_character, text)))
    return _PUNYCODE.sub(_of_punycode, undone)


def _character(found: re.Match[str]) -> str:
    group = found.lastindex or 1
    return _as_character(int(found[group], 8 if group == _OCTAL else 16)) or found[0]


def _as_character(code: int) -> str:
    return chr(code) if code < 0x110000 else ""


def _of_punycode(found: re.Match[str]) -> str:
    try:
        return found[1].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError):
        return found[0]


# Text packed in base 64, 32 and 16, or written as the codes of its characters.


_MOST_RUNS = 40
_SHORTEST = 4
"""The minimum characters of a text that counts as one."""
_SHORTEST_INSIDE = 6
"""The same where it begins within a run, or is written as numbers."""
_LINE_END = 10
_PIECE = re.compile(rb"[ -~]{%d,}" % _SHORTEST)
_SEPARATED = re.compile(r"[^A-Za-z0-9]+")
_PREFIX = re.compile(r"0[xob]|\\?[xu]|[u]?\+|#x?", re.IGNORECASE)
_UNLIKE_A_WORD = r"(?=[A-Za-z+/_-]{0,20}[0-9A-Z])"
"""Within what follows there is a digit or a capital."""
_CODES = {16: 2, 10: 3, 8: 3, 2: 8}
"""Digits of a character's code at most, by the base that it is written in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packing:
    """``run`` finds what may be packed so; ``block`` characters hold whole bytes."""

    run: re.Pattern[str]
    block: int
    decode: Callable[[str], bytes]


def _base64(run: str) -> bytes:
    return base64.b64decode(run.translate(str.maketrans("-_", "+/")), validate=True)


def _base32(run: str) -> bytes:
    return base64.b32decode(run, casefold=True)


_PACKINGS = (
    _Packing(run=re.compile(rf"{_UNLIKE_A_WORD}[A-Za-z0-9+/_-]{{6,}}"), block=4, decode=_base64),
    _Packing(run=re.compile(rf"{_UNLIKE_A_WORD}[A-Za-z0-9]{{6,}}"), block=4, decode=_base64),
    _Packing(run=re.compile(r"(?<![A-Za-z])[A-Za-z2-7]{10,}"), block=8, decode=_base32),
    _Packing(run=re.compile(r"(?:[0-9a-fA-F]{2}){4,}"), block=2, decode=bytes.fromhex),
)


def unpacked(text: str) -> str:
    """Return what the runs of a text say where all of a run is packed text, a line each.

    >>> unpacked("see SGVsbG8sIHdvcmxk")
    'Hello, world'
    """
    found = [_as_text(data, shortest) for data, shortest in _every_data(text)]
    found += (one for one in _coded(text) if len(one) >= _SHORTEST_INSIDE)
    return "\n".join(dict.fromkeys(filter(None, found)))


def pieces_unpacked(text: str) -> str:
    """Return every piece of text that can be unpacked, wherever a packing may begin, a line each."""
    squeezed = _SEPARATED.sub("", text)
    everything = [*_every_data(text), *(one for packing in _PACKINGS for one in _data(packing, squeezed))]
    found = [piece.decode("ascii") for data, _ in everything for piece in _PIECE.findall(data.replace(b"\0", b""))]
    return "\n".join(dict.fromkeys((*found, *_coded(text))))


def _every_data(text: str) -> Iterator[tuple[bytes, int]]:
    """Return the decoded data of the runs of a text, with the characters that a text with data must have."""
    for packing in _PACKINGS:
        for run in packing.run.findall(text)[:_MOST_RUNS]:
            yield from _data(packing, run)


def _data(packing: _Packing, run: str) -> Iterator[tuple[bytes, int]]:
    """Return the decoded data of a run, from each position where a block may begin."""
    for offset in range(packing.block):
        yield _decoded(packing, run[offset:]), _SHORTEST_INSIDE if offset else _SHORTEST


def _decoded(packing: _Packing, run: str) -> bytes:
    """Return the bytes of a run, or of all but its last character if that is one too many; none if it is not encoded
    so."""
    for some in (run, run[:-1]):
        padding = "=" * (-len(some) % packing.block) if packing.block in (4, 8) else ""
        try:
            return packing.decode(some + padding)
        except (binascii.Error, ValueError):
            continue
    return b""


def _as_text(data: bytes, shortest: int) -> str:
    """Return the text of some bytes; empty if they are no text."""
    try:
        text = plain(data.decode("utf-8"))
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() and len(text) >= shortest else ""


def _coded(text: str) -> Iterator[str]:
    """Texts whose bytes are written as numbers, one after the other, in any base."""
    groups = _SEPARATED.sub(" ", _PREFIX.sub(" ", text)).split()
    for base, longest in _CODES.items():
        data = bytes(_of_code(group, base, longest) for group in groups)
        found = (plain(piece.decode("utf-8", "ignore")) for piece in data.split(b"\n"))
        yield from (piece for piece in found if len(piece) >= _SHORTEST)


def _of_code(group: str, base: int, longest: int) -> int:
    """Return the byte of a number; a line's end for a number that is no byte."""
    try:
        code = int(group, base) if 2 <= len(group) <= longest else 0
    except ValueError:
        return _LINE_END
    return code if 32 <= code < 256 else _LINE_END


# Numbers in English words, read as digits: digit by digit, in pairs as in years, or as one large number.


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
    return str(_sum(parts)) if not _SCALES.keys().isdisjoint(parts) else " ".join(_spelt_digits(parts))


def _sum(parts: Sequence[str]) -> int:
    """Return the one number that parts with hundreds and thousands spell."""
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


def _spelt_digits(parts: Sequence[str]) -> list[str]:
    """Return the numbers that parts spell one after the other: a ten and a unit after it are one number."""
    digits: list[str] = []
    open_tens, times = False, 1
    for part in parts:
        value = _value(part)
        if part in _TIMES:
            times = _TIMES[part]
        elif open_tens and 0 < value < 10:
            digits[-1], open_tens = str(int(digits[-1]) + value), False
        else:
            digits += [str(value) if part in _VALUES else part] * times
            open_tens, times = part in _VALUES and value >= 20, 1
    return digits


def _value(part: str) -> int:
    return int(part) if part.isdigit() else _VALUES.get(part, 0)


# Many strings looked for in one text at once, and the rows of characters of a text in which they are looked for.


_DIGITS = re.compile(r"[0-9]+")
_CLOSE = re.compile(r"[0-9](?:(?:[^0-9\s]{0,3}|[\W_]{1,3})[0-9])*")
_NO_LETTER_OR_DIGIT = re.compile(r"[^a-z0-9\n]+")
_HEXADECIMAL = re.compile(r"\b0x|\\x")
_MOST_JOINED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class StringSearch:
    """Strings to find anywhere within a sequence of characters, by their lengths; their number does not affect the
    cost."""

    by_length: Mapping[int, frozenset[str]]

    @classmethod
    def of(cls, strings: Iterable[str], *, shortest: int = 1) -> Self:
        """Prepare strings to be looked for, without those that are too short."""
        by_length: defaultdict[int, set[str]] = defaultdict(set)
        for string in strings:
            by_length[len(string)].add(string)
        return cls(by_length={length: frozenset(these) for length, these in by_length.items() if length >= shortest})

    def has_one_in(self, row: str) -> bool:
        """Return whether one of the strings is within a row of characters."""
        return any(
            row[start : start + length] in these
            for length, these in self.by_length.items()
            for start in range(len(row) - length + 1)
        )


def digit_rows(text: str) -> Iterator[str]:
    """Yield the digits of each line as one sequence, with any gaps: its numbers in both orders, and each backwards; and
    every second digit, in case the others only count or fill."""
    for line in text.split("\n"):
        groups = _DIGITS.findall(line)
        forwards, others = "".join(groups), "".join(reversed(groups))
        yield from {forwards, others, forwards[::-1], others[::-1], forwards[::2], forwards[1::2]}


def close_digits(text: str) -> Iterator[list[str]]:
    """Yield the numbers of each stretch with short gaps between digits: three marks, or letters without a space."""
    yield from (_DIGITS.findall(stretch) for stretch in _CLOSE.findall(text))


def letters_and_digits(text: str) -> str:
    """Return the letters and digits of each line in a row, in small letters.

    >>> letters_and_digits("0x9F-3e, A")
    '9f3ea'
    """
    return _NO_LETTER_OR_DIGIT.sub("", _HEXADECIMAL.sub("", text.lower()))


def joined(words: Sequence[str]) -> Iterator[str]:
    """Yield each word, and adjacent words as one.

    >>> sorted(joined(["a", "b", "c"]))
    ['a', 'ab', 'abc', 'b', 'bc', 'c']
    """
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MOST_JOINED, len(words)) + 1):
            yield "".join(words[start:end])


# Letters that look like digits: each way reads the letters of a text by one table, and drops what is no digit.


_DIGIT_WORDS = "zero one two three four five six seven eight nine"
_NUMERALS = "i ii iii iv v vi vii viii ix"
_WORDS = {word: str(digit) for digit, word in enumerate(_DIGIT_WORDS.split())}
_BURIED = re.compile("|".join((*_WORDS, r"\d")))
_ROMAN = {word: str(digit) for digit, word in enumerate(_NUMERALS.split(), start=1)}
_LIKE_NUMBERS = re.compile(r"\d|^[oil|!]+$|^[oqdil!|zeas$gbt]{5,}$")
_FOREIGN_DIGITS = (
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
_DIGIT_OF_WORD = _WORDS | {word: str(digit) for words in _FOREIGN_DIGITS for digit, word in enumerate(words.split())}
_TOKEN = re.compile(r"[a-z0-9!|$]+")
_LIKE_DIGITS = str.maketrans("oqdil!|zeas$gbt", "000111123455687")
_LIKE_OTHERS = _LIKE_DIGITS | str.maketrans("gbq", "989")
"""The same with the letters that look like two digits as the other one."""
_FROM_ZERO = str.maketrans("abcdefghij", "0123456789")
_FROM_ONE = str.maketrans("abcdefghij", "1234567890")


def _lines(tokens: Iterable[str]) -> str:
    """Return adjacent tokens on one line; an empty token ends the line."""
    return "\n".join(" ".join(line) for is_read, line in groupby(tokens, key=bool) if is_read)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def _buried(text: str) -> str:
    """Return the digits and the words of digits, wherever they occur within other words.

    >>> _buried("onexzero hormone 4")
    '10 1 4'
    """
    return _lines("".join(_WORDS.get(found, found) for found in _BURIED.findall(token)) for token in _tokens(text))


def _split(text: str) -> str:
    """Return the same words when anything stands between their letters.

    >>> _split("o.n.e z-e-r-o")
    '10'
    """
    return "".join(_WORDS.get(found, found) for found in _BURIED.findall(letters_and_digits(text)))


def _foreign_digits(text: str) -> str:
    """Return digits in words of other languages, or as they sound."""
    return _lines(_DIGIT_OF_WORD.get(token, token if token.isdigit() else "") for token in _tokens(text))


def _roman(text: str) -> str:
    """Roman numerals and digits.

    >>> _roman("IV and IX, III")
    '4\\n9 3'
    """
    return _lines(_ROMAN.get(token, token if token.isdigit() else "") for token in _tokens(text))


def _alike(text: str, digits: Mapping[int, int]) -> str:
    """Words with digits in them, of rings and strokes only, or long ones of letters that all look like digits."""
    return _lines(token.translate(digits) if _LIKE_NUMBERS.search(token) else "" for token in _tokens(text))


def _lettered(text: str, digits: Mapping[int, int]) -> str:
    """Words of the letters of an alphabet of digits only."""
    read = (token.translate(digits) for token in _tokens(text))
    return _lines(token if token.isdigit() else "" for token in read)


DIGIT_LETTERS: tuple[Callable[[str], str], ...] = (
    _buried,
    _split,
    _foreign_digits,
    _roman,
    partial(_alike, digits=_LIKE_DIGITS),
    partial(_alike, digits=_LIKE_OTHERS),
    partial(_lettered, digits=_FROM_ZERO),
    partial(_lettered, digits=_FROM_ONE),
)
"""Each function takes a text and returns digits; adjacent digits are on one line."""


# The ways in which a text can be read: as it is, and with its encodings undone, in any composition.
#
# Each undoing makes one text of one text; those that a reader would do are *sure* (escapes, packed text, spelt
# numbers), the others are guesses (backwards, letters for digits) in which only what the record holds is looked for. An
# undoing that this table does not know (a cipher, compression, a code agreed on) is not undone.


MOST_READINGS = 60
"""Texts of people have about ten."""
_DEEPEST = 5


class Trust(IntEnum):
    """How much of a reading is guessed."""

    FOUND = 0
    """Pieces and digits that may occur by chance."""
    GUESSED = 1
    """Another way to read the whole text."""
    SURE = 2
    """The text as it is, or with the encodings undone that every reader would undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of a text; adjacent parts are on one line."""

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
    """Return whether a text has invisible or escaped characters."""
    layers = [text]
    while len(layers) < _DEEPEST and (deeper := unescaped(layers[-1])) != layers[-1]:
        layers.append(deeper)
    return any(map(has_unseen, layers))


def _composed(text: str) -> Iterator[Reading]:
    """Return the results of all compositions of the decodings, the shortest compositions first."""
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
    """Return the text and trust of each decoding. Text that was decoded is not guessed at again."""
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
