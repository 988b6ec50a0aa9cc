"""What is known of one patient, as far as the scope of an experience can be checked against it: age, sex, the latest
value of each measurement, and which names are said to be there or not to be there.

Not being named is no evidence of absence: only what is denied is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Literal, Protocol

from wardround.memory.words import stem

Sex = Literal["male", "female"]
Standing = Literal["present", "absent"]
_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_SENTENCE = re.compile(r"[.;!?]\s|\n|\bbut\b|\bexcept\b|\bhowever\b|\balthough\b", re.IGNORECASE)
_HEADING = re.compile(r"^\s*([A-Z][A-Za-z /]{2,40}):\s*(.*)$")
_WRAPPED = re.compile(r"\s*\n\s*(?=[a-z])")
"""A line that goes on in lower case is part of the one before it."""
_SEX = re.compile(r"\b(?:gender|sex)\W+(male|female|m|f)\b", re.IGNORECASE)
_SEX_IN_WORDS = re.compile(r"\b(?:(man|boy|male)|(woman|girl|female))\b", re.IGNORECASE)
_AGE_IN_WORDS = re.compile(r"\b(\d{1,3})[- ]?(?:years?|yrs?|y)(?:[- /]?(?:old|o))\b", re.IGNORECASE)
_BEFORE = re.compile(
    r"\b(?:no|not|denie|denied|deny|denying|without|negative for|absence of|free of|ruled out|never|nor)\b"
)
_AFTER = re.compile(r"^(?: \w+){0,2} (?:absent|negative|ruled out|excluded|not (?:seen|found|present))\b")
_OTHERS = ("family history", "social history")
"""Sections that speak of somebody else, or of habits."""
_NOT_OF_A_NAME = frozenset({"serum", "plasma", "blood", "total", "level", "value", "latest", "current"})
_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The latest value of a measurement."""

    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One patient as of a moment. ``statements`` are short pieces of text in plain words, each about this patient;
    ``measured`` maps the name of a measurement, in plain words, to its latest value."""

    age: int | None = None
    sex: Sex | None = None
    statements: str = ""
    allergies: str = ""
    measured: dict[str, Measured] = field(default_factory=dict)

    def standing(self, name: str) -> Standing | None:
        """Whether something is named as there (which outweighs) or as not there; None where it is not named."""
        words = plain_words(name)
        return _standing(self.statements, words) if words else None

    def is_allergic(self, name: str) -> bool:
        """Whether an allergy to something is recorded."""
        return _standing(self.allergies, plain_words(name)) == "present"

    def latest(self, name: str) -> Measured | None:
        """The latest value of what is measured under a name."""
        return self.measured.get(measurement_name(name))


class FindingsChart(Protocol):
    """A chart as it is needed here; ``records.Chart`` is one."""

    @property
    def age(self) -> int | None: ...
    def events(self) -> Iterator[Any]: ...


def findings_of_chart(chart: FindingsChart) -> Findings:
    """Read a chart: nothing that it does not show is in it."""
    measured: dict[str, Measured] = {}
    allergies: list[str] = []
    statements: dict[str, None] = {}
    sex: Sex | None = None
    for event in chart.events():
        if event.numeric_value is not None and not isnan(event.numeric_value):
            measured[measurement_name(event.description)] = Measured(
                value=float(event.numeric_value), unit=event.unit or ""
            )
        text = event.text_value or ""
        if event.kind == "person":
            sex = sex or _sex_of(text)
        elif len(text) > _LONGEST_VALUE or "\n" in text:
            said, known = _note(text)
            statements |= dict.fromkeys(said)
            allergies += known
        else:
            statements[plain_words(f"{event.description} {text}")] = None
    return Findings(
        age=chart.age,
        sex=sex,
        statements=_joined(statements),
        allergies=_joined(allergies),
        measured=measured,
    )


def findings_of_text(text: str) -> Findings:
    """Read a case that is told in words, as a question stem or a report is."""
    said, allergies = _note(text)
    age, sex = _AGE_IN_WORDS.search(text), _SEX_IN_WORDS.search(text)
    return Findings(
        age=int(age[1]) if age else None,
        sex=None if sex is None else "male" if sex[1] else "female",
        statements=_joined(said),
        allergies=_joined(allergies),
    )


def plain_words(text: str) -> str:
    """A text as words in lower case without plural endings, one space between."""
    return " ".join(stem(word) for word in _WORD.findall(text.casefold()))


def measurement_name(text: str) -> str:
    """The name of a measurement without the words that laboratories add."""
    words = plain_words(text).split()
    return " ".join(word for word in words if word not in _NOT_OF_A_NAME) or " ".join(words)


def _joined(statements: Iterable[str]) -> str:
    return "".join(f"\n {one} " for one in statements if one)


def _standing(statements: str, words: str) -> Standing | None:
    """How a name stands over all statements that hold it."""
    found: Standing | None = None
    wanted = f" {words} "
    place = statements.find(wanted)
    while place >= 0:
        line = statements[statements.rfind("\n", 0, place) + 1 : place]
        end = statements.find("\n", place)
        rest = statements[place + len(wanted) - 1 : end if end >= 0 else len(statements)]
        if not (_BEFORE.search(line) or _AFTER.match(rest)):
            return "present"
        found = "absent"
        place = statements.find(wanted, place + 1)
    return found


def _note(text: str) -> tuple[list[str], list[str]]:
    """The statements of a text about the patient, and those under its heading of allergies."""
    said: list[str] = []
    allergies: list[str] = []
    section = ""
    for line in _WRAPPED.sub(" ", text).splitlines():
        heading = _HEADING.match(line)
        if heading:
            section, line = heading[1].casefold(), heading[2]
        into = allergies if section.startswith("allerg") else said
        if not section.startswith(_OTHERS):
            into += [words for part in _SENTENCE.split(line) if (words := plain_words(part))]
    return said, allergies


def _sex_of(text: str) -> Sex | None:
    found = _SEX.search(text)
    if found is None:
        return None
    return "male" if found[1].casefold().startswith("m") else "female"
