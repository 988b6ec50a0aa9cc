"""Cue words and headed sections of clinical text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from wardround.clinical.vocabulary.tables import cell_parts, table_rows

# The words of a clinical sentence, and the cues among them: words that change the assertion of others.


_TOKEN = re.compile(
    r"\(\+\)|\([-\u2212\u2013]\)|[rR]/[oO]\b|[sShH]/[pPoO]\b|[wW]/(?=\s|o?\b)|\b[pP]\.[rR]\.[nN]\.|\bvs\.|\d+(?:,\d{3})+(?!\d)(?:\.\d+)?"
    r"|\d+\.\d+|[^\W_]+(?:['\u2019][a-z]{1,2}\b)?|[^\w\s]"
)


@dataclass(frozen=True, slots=True)
class WordToken:
    """A word or mark in lower case, and its place in the text."""

    text: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        """Return whether it is a word or a number."""
        return self.text[0].isalnum()


@dataclass(frozen=True, slots=True)
class Cue:
    """A cue among the tokens of a sentence: its assertion, its direction, its first token and the one after its
    last."""

    standing: str
    direction: str
    start: int
    end: int


def tokens_of(text: str, start: int = 0, end: int | None = None) -> list[WordToken]:
    """Return the words and marks of a text."""
    found = _TOKEN.finditer(text, start, len(text) if end is None else end)
    return [WordToken(_plain(match[0]), match.start(), match.end()) for match in found]


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    return text.casefold().replace("\u2019", "'").replace("\u2212", "-").replace("(\u2013)", "(-)")


def cues_in(tokens: Sequence[WordToken]) -> Iterator[Cue]:
    """Return the cues of a sentence from left to right, the longest first if several begin at one token."""
    table, longest = _table()
    place = 0
    words = [token.text for token in tokens]
    while place < len(words):
        for length in range(min(longest.get(words[place], 0), len(words) - place), 0, -1):
            meanings = table.get(tuple(words[place : place + length]))
            if meanings is None:
                continue
            if _is_cue(words, place, length):
                for standing, direction in _chosen(meanings, words, place, length):
                    yield Cue(standing, direction, place, place + length)
                place += length - 1
                break
        place += 1


def _is_cue(words: Sequence[str], place: int, length: int) -> bool:
    """Return whether words that may be a cue are one here."""
    word = words[place]
    previous = words[place - 1] if place else ""
    if word in ("old", "now", "active") and previous in ("-", "year", "years", "month", "months", "week", "day", "yo"):
        return False
    if word == "?" and place == len(words) - 1:
        return False
    return not (length == 1 and word == "known" and previous == "no")


def _chosen(
    meanings: Sequence[tuple[str, str]], words: Sequence[str], place: int, length: int
) -> list[tuple[str, str]]:
    """Return the meanings of a cue that apply. A meaning that acts on preceding words needs preceding words."""
    phrase = " ".join(words[place : place + length])
    if phrase == "do not" and place == 0:
        return [("other", "after")]
    directions = {direction for _, direction in meanings}
    if directions == {"after", "before"} and len({standing for standing, _ in meanings}) <= 2:
        if phrase in ("versus", "vs", "vs."):
            return list(meanings)
        at_start = place == 0 or words[place - 1] in (
            ",",
            ";",
            "and",
            "or",
            "-",
            "(",
            ":",
            "a",
            "an",
            "the",
            "with",
            "of",
        )
        at_end = place + length == len(words) or words[place + length] in (
            ",",
            ".",
            ";",
            "and",
            "on",
            "by",
            "in",
            ")",
            "after",
            "because",
            "but",
            "at",
            "since",
            "during",
        )
        wanted = "after" if at_start or not at_end else "before"
        return [meaning for meaning in meanings if meaning[1] == wanted]
    return list(dict.fromkeys(meanings))


@cache
def _table() -> tuple[Mapping[tuple[str, ...], tuple[tuple[str, str], ...]], Mapping[str, int]]:
    """Cue -> its meanings, and first word -> the length of its longest cue."""
    table: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {}
    longest: dict[str, int] = {}
    for standing, direction, phrases in table_rows("assertion_cues", 3):
        for phrase in cell_parts(phrases):
            key = tuple(token.text for token in tokens_of(phrase))
            table[key] = (*table.get(key, ()), (standing, direction))
            longest[key[0]] = max(longest.get(key[0], 0), len(key))
    return table, longest


# The headed sections of a clinical text: whose statements they are (the family's), and of what (allergies).


SectionKind = Literal["", "family", "allergies", "history", "medications"]

_NAMES: dict[SectionKind, str] = {
    "family": "family history|family medical history|family hx|fhx?|fam hx|fam/sochx|family|genetic history",
    "allergies": "allergies|allergy|drug allergies|medication allergies|known allergies|adverse reactions|"
    "allergies and adverse reactions|allergy history|allergies/intolerances|drug intolerances",
    "history": "past medical history|pmhx?|past history|medical history|past surgical history|pshx?|surgical history|"
    "past medical/surgical history|past medical and surgical history|pastmedicalhx|pastsurgical|comorbidities|"
    "previous history|prior history|past hx|medical hx|pertinent medical history",
    "medications": "medications|current medications|home medications|meds|medications on admission|medication|"
    "discharge medications|drug history|medication history|current meds|admission medications|outpatient medications",
    "": "chief complaint|complaint|cc|reason for visit|history of present illness|present illness|hpi|genhx|social "
    "history|shx?|social hx|personal history|personal and social history|review of systems|ros|system review|physical "
    "exam|physical examination|exam|examination|vital signs|vitals|assessment|assessment and plan|a/p|plan|impression|"
    "labs|laboratory|laboratory data|laboratory results|laboratory tests|laboratory findings|results|pertinent results|"
    "imaging|studies|ancillary tests|diagnosis|diagnoses|hospital course|brief hospital course|patient information|"
    "patient|procedures|procedure|recommendations|instructions|discharge instructions|disposition|follow up|follow-up|"
    "medical decision making|emergency department course|code status|diet|immunizations|developmental history|"
    "obstetric history|gynecologic history|gynaecological history|obstetrical history|birth history|treatment|course|"
    "clinical course|radiology|ecg|ekg|echocardiogram|pathology|subjective|objective|subjective:|question|options|"
    "differential diagnosis|age|sex|gender|occupation|travel history|exposure history|occupational history|mental "
    "status|general|gynhx|edcourse|assessment & plan",
}
_KIND_OF: dict[str, SectionKind] = {name: kind for kind, names in _NAMES.items() for name in names.split("|")}
_ANY_NAME = "|".join(re.escape(name).replace(r"\ ", " +") for name in sorted(_KIND_OF, key=len, reverse=True))
_HEADING = re.compile(
    rf"^[ \t]*(?:[-*•+]|\d+[.)])?[ \t]*(?:\*\*|__)[ \t]*(?P<bold>[^*\n:]{{2,60}}?)[ \t]*:?[ \t]*(?:\*\*|__)[ \t]*:?"
    r"|^[ \t]*#{1,6}[ \t]*(?P<hash>[^\n:]{2,60}?)[ \t]*:?[ \t]*$"
    rf"|^[ \t]*(?:[-*•+]|\d+[.)])?[ \t]*(?P<known>(?i:{_ANY_NAME}))[ \t]*(?::|[ \t][-–—][ \t])"
    rf"|(?<=[.;!?,])[ \t]*(?P<inline>(?i:{_ANY_NAME}))[ \t]*:"
    rf"|^[ \t]*(?P<bare>(?i:{_ANY_NAME}))[ \t]*$"
    r"|^[ \t]*(?P<loud>[A-Z][A-Z /&()'-]{3,50}):"
    r"(?![ \t]*(?i:none|no|denie[sd]|negative|yes|positive|absent|present)\b\W*$)"
    r"|(?<=[.,;])[ \t]?(?P<shout>[A-Z][A-Z /&()'-]{3,50}):",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class NoteSection:
    """One section: its kind and the place of its text, the heading left out."""

    kind: SectionKind
    start: int
    end: int


def section_kind(name: str) -> SectionKind:
    """Return what kind of section a heading opens; "" for every one without a meaning of its own."""
    plain = " ".join(name.casefold().replace("_", " ").strip(" :*#-").split())
    return _KIND_OF.get(plain, "family" if plain.startswith("family") else "")


def sections_of(text: str, kind: SectionKind = "") -> Iterator[NoteSection]:
    """Cut a text at its headings: markdown's, upper case ones, and known names before a colon or on a line alone.

    ``kind`` is that of the text before the first heading.
    """
    start = 0
    for found in _HEADING.finditer(text):
        if found.start() > start:
            yield NoteSection(kind, start, found.start())
        name = next(part for part in found.groups() if part is not None)
        kind, start = section_kind(name), found.end()
    if start < len(text):
        yield NoteSection(kind, start, len(text))
