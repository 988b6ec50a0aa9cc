"""Read measurements, age and sex from text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from wardround.clinical.codes import load_lab_words
from wardround.clinical.vocabulary.cues import WordToken, tokens_of
from wardround.clinical.vocabulary.measurements import (
    UsualUnit,
    clinical_name,
    find_measurement,
    load_measurements,
    singular,
)
from wardround.clinical.vocabulary.quantities import Quantity
from wardround.clinical.vocabulary.tables import cell_parts, named_words, table_rows
from wardround.clinical.vocabulary.time import Relation
from wardround.clinical.vocabulary.units import convert_unit, plain_unit, read_unit

# A number counts only where nothing but linking words stand between it and the name, its unit fits the measurement, and
# it can be that measurement's. Goals, doses, ranges of reference and other fluids (urine, CSF) are no values.


_LINKS = named_words("links")
_ONLY_BETWEEN = frozenset(("serum", "plasma", "blood", "total", "with", "the", "a", "an", "on", ",", "normal"))
"""Links that do not join a number to the name if they come right before the number."""
_SALTS = named_words("salts")
_NO_VALUE_AFTER = named_words("no_value_after")
_OTHER_FLUIDS = named_words("other_fluids")
_NOT_THE_PATIENTS = named_words("not_the_patients")
_NO_NAMES = named_words("no_names")
_AS_WRITTEN = {named_word.casefold(): named_word for named_word in named_words("as_written")}
"""Short names that count in one spelling only: ``K``, ``Na``, ``Mg``."""
_ALSO = {"fever": "temperature", "febrile": "temperature"}
"""Words that name a measurement only before a number."""
_TENS = re.compile(
    r"^\s*(?:[x×*·∙]\s*)?10\s*\^?\s*(\(?[0-9⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2}\)?)\s*/?\s*(?P<per>l|ul|µl|μl|mm3|mm³|mcl|ml|cumm)\b",
    re.IGNORECASE,
)
_UNIT = re.compile(r"^\s*([%°]|/?\s?[A-Za-zµμ²³^0-9.%\[\]]+(?:\s?/\s?[A-Za-zµμ0-9.²³^]+){0,3})")
_COMMA = re.compile(r",\d{1,2}(?!\d)|,\d{4}")
"""A decimal comma after a number; its whole part alone would be wrong ("K 5,9")."""
_TO_NOW = re.compile(r"(?:\s*(?:-+>|=>|→)\s*(\d+(?:\.\d+)?)(?![\d,]))+")
"""A chain of numbers, the last of which holds now ("Na 128 -> 132")."""
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_PRESSURE = re.compile(
    r"\b(?:(?:blood pressures?|bp)(?:\s*\(bp\))?)\s*(?:\(?(?:was|is|of|at|measured|reading|found to be|=|:|,|"
    r"on arrival|recorded|elevated|low|high|today|initially)\)?\s*){0,4}"
    r"(\d{2,3})\s*(?:/|over)\s*(\d{2,3})(?!\s*/|\d)\s*(mm\s?hg)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TextValue:
    """A measurement's name as the table has it, the number with its unit, and its place in the text."""

    name: str
    quantity: Quantity
    start: int
    end: int


def find_values(text: str, start: int = 0, end: int | None = None) -> Iterator[TextValue]:
    """Return the measurements in one sentence of a text."""
    end = len(text) if end is None else end
    for found in _PRESSURE.finditer(text, start, end):
        unit = "mmHg" if found[3] else None
        for pressure, value in (("systolic blood pressure", found[1]), ("diastolic blood pressure", found[2])):
            yield TextValue(pressure, Quantity(value=float(value), unit=unit), found.start(), found.end())
    tokens = tokens_of(text, start, end)
    names, longest = _names()
    place, is_fluid = 0, False
    while place < len(tokens):
        word = tokens[place].text
        is_fluid = (is_fluid or word in _OTHER_FLUIDS) and word not in ("serum", "blood", "plasma")
        name, after = _name_at(text, tokens, place, names, longest)
        if name is None:
            place += 1
            continue
        if not is_fluid or name == "urine output":
            value = _value_after(text, tokens, after, name, end)
            if value is not None:
                quantity, value_end = value
                yield TextValue(name, quantity, tokens[place].start, value_end)
                after = next(
                    (later for later in range(after, len(tokens)) if tokens[later].start >= value_end), len(tokens)
                )
        place = after


def _name_at(
    text: str, tokens: Sequence[WordToken], place: int, names: Mapping[tuple[str, ...], str], longest: Mapping[str, int]
) -> tuple[str | None, int]:
    """Return the measurement whose name begins at a token, and the position after the name."""
    reach = longest.get(singular(tokens[place].text), 0)
    words: list[str] = []
    found: tuple[str | None, int] = (None, place + 1)
    for after in range(place, min(len(tokens), place + 2 * reach)):
        token = tokens[after].text
        if token in ("-", "/", "(", ")", ",") and words:
            continue
        if not tokens[after].is_word:
            break
        words.append(singular(token))
        name = names.get(tuple(words))
        if name is not None:
            found = (name, after + 1)
        if len(words) >= reach:
            break
    if found[0] is None:
        return found
    first_token = tokens[place]
    if found[1] == place + 1 and (
        first_token.text in _NO_NAMES
        or _AS_WRITTEN.get(first_token.text, text[first_token.start : first_token.end])
        != text[first_token.start : first_token.end]
    ):
        return None, place + 1
    if place and tokens[place - 1].text in _NOT_THE_PATIENTS:
        return None, found[1]
    return found


def _value_after(
    text: str, tokens: Sequence[WordToken], place: int, name: str, end: int
) -> tuple[Quantity, int] | None:
    names, longest = _names()
    skipped: list[str] = []
    sign: Relation | None = None
    while place < len(tokens) and len(skipped) < 10:
        token = tokens[place].text
        if token[0].isdigit():
            break
        if token in ("<", ">", "≤", "≥"):
            sign = {"<": "<", ">": ">", "≤": "<=", "≥": ">="}[token]  # type: ignore[assignment]
        elif (
            token in ("by", "below", "above", "under")
            or token in _SALTS
            or (token == "-" and tokens[place].end == tokens[place + 1].start if place + 1 < len(tokens) else False)
        ):
            return None
        elif token not in _LINKS:
            other, after = _name_at(text, tokens, place, names, longest)
            if other != name:
                return None
            skipped += [one.text for one in tokens[place:after]]
            place = after
            continue
        skipped.append(token)
        place += 1
    if place >= len(tokens) or not tokens[place].text[0].isdigit():
        return None
    if "normal" in skipped and skipped[-1] != "at" and "(" in skipped[skipped.index("normal") - 1 :]:
        return None
    if skipped and skipped[-1] in _ONLY_BETWEEN and not (skipped[-1] == "," and len(skipped) == 1):
        return None
    moved = _second_of(tokens, place) if "from" in skipped else None
    if moved is not None:
        place = moved
    return _quantity(text, tokens, place, name, sign, end)


def _second_of(tokens: Sequence[WordToken], place: int) -> int | None:
    """Return the number at the end of a change: "from 11 to 7.5"."""
    for later in range(place + 1, min(place + 8, len(tokens) - 1)):
        if tokens[later].text == "to" and tokens[later + 1].text[0].isdigit():
            return later + 1
    return None


def _quantity(
    text: str, tokens: Sequence[WordToken], place: int, name: str, sign: Relation | None, end: int
) -> tuple[Quantity, int] | None:
    try:
        value = float(tokens[place].text.replace(",", ""))
    except ValueError:
        return _glued(tokens[place], name, sign)
    stop, high = tokens[place].end, None
    if _COMMA.match(text[stop:end]):
        return None
    moved = _TO_NOW.match(text[stop:end])
    if moved:
        value, stop = float(moved[1]), stop + moved.end()
    range_of = re.match(r"\s?%?\s?(?:-|–|to)\s?(\d+(?:\.\d+)?)", text[stop:end])
    if range_of and float(range_of[1]) > value and not text[stop:end].lstrip().startswith("-1"):
        high, stop = float(range_of[1]), stop + range_of.end()
    unit, unit_end, scale = _unit_after(text, stop, end, name)
    rest = text[unit_end:end].lstrip(" -")[:12].casefold()
    if unit is None and re.match(r"(?:" + "|".join(sorted(_NO_VALUE_AFTER, key=len, reverse=True)) + r")\b", rest):
        return None
    if unit is None and re.match(r"/\s?\d", rest) and not name.startswith("oxygen"):
        return None
    if unit is None and not _may_be_without_unit(rest):
        return None
    quantity = Quantity(value=value * scale, unit=unit, high=high, comparator=sign)
    return (quantity, unit_end) if _is_plausible(quantity, name) else None


def _may_be_without_unit(rest: str) -> bool:
    """Return whether what follows a bare number is no unit that was not understood ("25 g infused", "20 meq")."""
    if rest.startswith("%"):
        return False
    word = re.match(r"[a-zµμ]+(?:/[a-z]+)?", rest)
    return word is None or read_unit(word[0]) is None or word[0] in ("in", "m", "u", "l", "d", "h", "s", "b")


def _glued(token: WordToken, name: str, sign: Relation | None) -> tuple[Quantity, int] | None:
    """Return a number with its unit in one word: "12.3K", "38C"."""
    found = re.match(r"^(\d+(?:\.\d+)?)(k|mg|g|mmol|mmhg|c|f|kg|cm|s|ms|iu|u)$", token.text)
    if found is None:
        return None
    unit = {"k": "K/uL", "c": "degC", "f": "degF"}.get(found[2], found[2])
    quantity = Quantity(value=float(found[1]), unit=unit, comparator=sign)
    return (quantity, token.end) if _is_plausible(quantity, name) else None


def _unit_after(text: str, place: int, end: int, name: str) -> tuple[str | None, int, float]:
    """Return the unit after a number, where it ends, and the factor of the number; None without a unit."""
    rest = text[place : min(end, place + 48)]
    tens = _TENS.match(rest)
    if tens:
        power = int(tens[1].strip("()").translate(_SUPERSCRIPTS))
        per, usual = ("L", 9) if tens["per"].casefold() == "l" else ("uL", 3)
        return f"10^{usual}/{per}", place + tens.end(), 10.0 ** (power - usual)
    lower = rest.casefold().replace("\u03bc", "µ")
    lead = len(lower) - len(lower.lstrip(" -"))
    for words, unit in _unit_words():
        if lower[lead:].startswith(words) and not lower[lead + len(words) : lead + len(words) + 1].isalnum():
            if unit in ("degF", "degC") and name != "temperature":
                continue
            return unit, place + lead + len(words), 1.0
    if re.match(r"\s?[kK](?![a-zA-Z/])", rest) and any(one.unit == "K/uL" for one in _units(name)):
        return "K/uL", place + rest.casefold().index("k") + 1, 1.0
    found = _UNIT.match(rest)
    if found is None:
        return None, place, 1.0
    parts = found[1].replace("μ", "u").replace("µ", "u").replace("²", "2").replace("³", "3")
    for spelt in (parts, re.sub(r"^cells?\s*/", "/", parts), parts.split(" ")[0].rstrip(".")):
        plain = spelt.strip(" .").replace(" ", "")
        if plain and plain_unit(plain) and read_unit(plain) is not None and _fits(plain, name):
            return plain, place + found.start(1) + len(spelt.rstrip(" .")), 1.0
    return None, place, 1.0


def _fits(unit: str, name: str) -> bool:
    return any(_converts(1.0, unit, usual) is not None for usual in _units(name))


def _converts(value: float, unit: str, usual: UsualUnit) -> float | None:
    return convert_unit(value, unit, usual.unit or "1") if plain_unit(unit) != plain_unit(usual.unit) else value


def _is_plausible(quantity: Quantity, name: str) -> bool:
    """Return whether a number can be that measurement's, in its unit or, bare, in one of the usual ones."""
    for usual in _units(name):
        value = quantity.value if quantity.unit is None else _converts(quantity.value, quantity.unit, usual)
        if value is not None and usual.low <= value <= usual.high:
            return True
    return False


@cache
def _unit_words() -> tuple[tuple[str, str], ...]:
    """Units in words and in spellings of prose, the longest first, with the unit each is."""
    found = [(words, unit) for unit, cell in table_rows("unit_words", 2) for words in cell_parts(cell)]
    return tuple(sorted(found, key=lambda one: -len(one[0])))


@cache
def _units(name: str) -> tuple[UsualUnit, ...]:
    found = find_measurement(name)
    return () if found is None else found.units


@cache
def _names() -> tuple[Mapping[tuple[str, ...], str], Mapping[str, int]]:
    """Words of a name -> the measurement, and first word -> how many words its longest name has."""
    spellings = [measurement.name for measurement in load_measurements()]
    spellings += list(load_lab_words())
    for kind, name, texts, _ in table_rows("concepts", 4):
        if kind in ("lab", "vital"):
            spellings += [name, *cell_parts(texts)]
    names: dict[tuple[str, ...], str] = {}
    longest: dict[str, int] = {}
    for text in spellings:
        name = clinical_name(text)
        words = tuple(singular(token.text) for token in tokens_of(text) if token.is_word)
        if not words or find_measurement(name) is None:
            continue
        names.setdefault(words, name)
        longest[words[0]] = max(longest.get(words[0], 0), len(words))
    for word, name in _ALSO.items():
        names[(word,)] = name
        longest.setdefault(word, 1)
    return names, longest


# The age and sex of the patient that a text is about, where it tells them.


Sex = Literal["male", "female"]
_UNITS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_AGE_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDED = {word: number for number, word in enumerate(_UNITS, start=1)} | {
    word: 10 * number for number, word in enumerate(_AGE_TENS, start=2)
}
_NUMBER = (
    r"(?P<{0}>\d{{1,3}}(?:\.\d)?|(?:(?:"
    + "|".join(_AGE_TENS)
    + r")[- ]?(?:"
    + "|".join(_UNITS[:9])
    + r")|"
    + "|".join([*_AGE_TENS, *reversed(_UNITS)])
    + r"))"
)
_AGE = re.compile(
    r"\b"
    + _NUMBER.format("first")
    + r"(?:[\s-]*)(?P<unit>years?|yrs?|y|months?|mos?|mo|weeks?|wks?|days?|hours?)"
    + r"(?:[\s/-]*)(?:old\b|o\b|of age\b|/o\b)"
    r"|\bage[ds]?\s*(?:\*\*)?(?:is|was|:|of|=)?\s*(?:\*\*)?\s*"
    + _NUMBER.format("second")
    + r"\b(?!\s*(?:days?|weeks?|months?|%|to|and))"
    r"|\b(?:man|woman|boy|girl|male|female|lady|gentleman|patient) of (?:age )?(?P<fourth>\d{1,3})\b"
    r"|(?:^|[\s:(])(?P<third>\d{2})\s?(?:y/?o\s?)?(?P<letter>[MF])\b(?![/'])",
    re.IGNORECASE,
)
_RELATIVE = "|".join(sorted(named_words("near_kin")))
_KIN = re.compile(rf"\b(?:{_RELATIVE}|parent|relative|partner|child)s?\b", re.IGNORECASE)
_WHO = re.compile(rf"^(?:[\s,-]*\w+){{0,3}}?[\s,-]*(?:{_RELATIVE})\b(?! of)", re.IGNORECASE)
_OF_KIN = re.compile(
    rf"\b(?:whose|his|her|their|with an?|{_RELATIVE})\s*(?:,|is|was|\()?\s*(?:an?\s*)?$", re.IGNORECASE
)
_SEX = re.compile(
    r"\b(?:gender|sex)\W{1,6}(?:is\W)?(?P<told>male|female|man|woman|m|f)\b"
    r"|\b(?P<female>woman|girl|female|lady|schoolgirl|gravida|g\d\s?p\d\w*|mrs|ms|pregnant|primigravida|multigravida)\b"
    r"|\b(?P<male>man|boy|male|gentleman|schoolboy|mr)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:(?P<female>she|herself)|(?P<male>he|himself))\b", re.IGNORECASE)
_LETTER = re.compile(r"\b\d{1,3}\s?(?:y/?o|yo|y\.o\.|yrs?|years? old|-year-old)?\s?-?(?P<letter>[MF])\b(?!\w)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Age in whole years and sex, None if a text does not state them. An infant's age is 0."""

    age: int | None = None
    days: float | None = None
    sex: Sex | None = None


def read_person(text: str) -> Person:
    """Read age and sex of a text's patient: the first age and the first word for a sex that are no relative's."""
    age = days = None
    for found in _AGE.finditer(text):
        if _OF_KIN.search(text[max(0, found.start() - 24) : found.start()]) and found["first"]:
            continue
        after = re.split(r"[.;:\n]", text[found.end() : found.end() + 40])[0]
        if found["first"] and _WHO.match(after.split(" with ")[0].split(" who ")[0].split(" is ")[0]):
            continue
        if found["third"] and found["letter"] not in "MF":
            continue
        number = _number(found["first"] or found["second"] or found["third"] or found["fourth"])
        unit = (found["unit"] or "y")[:2].casefold()
        days = number * {"mo": 30.44, "we": 7.0, "wk": 7.0, "da": 1.0, "ho": 1 / 24}.get(unit, 365.25)
        if number <= 120 or unit != "ye":
            age = int(days / 365.25 + 1e-9)
            break
    return Person(age=age, days=days, sex=_sex(text))


def _sex(text: str) -> Sex | None:
    letter = _LETTER.search(text)
    for found in _SEX.finditer(text):
        word = (found["told"] or "").casefold()
        if letter is not None and letter.start() < found.start():
            break
        before = text[max(0, found.start() - 30) : found.start()]
        if _KIN.search(before.rsplit(".", 1)[-1]) and not word:
            continue
        return "female" if found["female"] or word[:1] in ("f", "w") else "male"
    if letter is not None:
        return "male" if letter["letter"] == "M" else "female"
    pronouns = {
        "female" if pronoun["female"] else "male"
        for pronoun in _PRONOUN.finditer(text)
        if not _KIN.search(text[: pronoun.start()])
    }
    return pronouns.pop() if len(pronouns) == 1 else None  # type: ignore[return-value]


def _number(text: str) -> float:
    if text[0].isdigit():
        return float(text)
    return float(sum(_WORDED[word] for word in re.findall(r"[a-z]+", _split(text.casefold()))))


def _split(text: str) -> str:
    for ten in _AGE_TENS:
        if text.startswith(ten):
            return f"{ten} {text[len(ten) :]}"
    return text
