"""The age and sex of the patient that a text is about, where it tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from wardround.vocabulary.tables import named_words

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
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDED = {word: number for number, word in enumerate(_UNITS, start=1)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
_NUMBER = (
    r"(?P<{0}>\d{{1,3}}(?:\.\d)?|(?:(?:"
    + "|".join(_TENS)
    + r")[- ]?(?:"
    + "|".join(_UNITS[:9])
    + r")|"
    + "|".join([*_TENS, *reversed(_UNITS)])
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
    """Age in whole years and sex, None where a text does not tell them. An infant's age is 0."""

    age: int | None = None
    days: float | None = None
    sex: Sex | None = None


def read_person(text: str) -> Person:
    """Read who a text is about: the first age and the first word for a sex that are no relative's."""
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
        "female" if one["female"] else "male" for one in _PRONOUN.finditer(text) if not _KIN.search(text[: one.start()])
    }
    return pronouns.pop() if len(pronouns) == 1 else None  # type: ignore[return-value]


def _number(text: str) -> float:
    if text[0].isdigit():
        return float(text)
    return float(sum(_WORDED[word] for word in re.findall(r"[a-z]+", _split(text.casefold()))))


def _split(text: str) -> str:
    for ten in _TENS:
        if text.startswith(ten):
            return f"{ten} {text[len(ten) :]}"
    return text
