"""Reading one phrase of a condition or an exclusion as something that can be checked: an age, a sex, a limit on the
latest value of a measurement, something that is there or not there. What cannot be read so stays unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from wardround.memory.findings import Findings, plain_words

Check = Callable[[Findings], bool | None]
"""True: it holds; False: it does not; None: the findings do not say."""
_LONGEST_NAME = 6
_OLDEST_TOLD = 90
"""An age of 90 stands for 90 and more."""
_BELOW = r"<=|≤|<|less than|lower than|below|under|younger than|at most"
_ABOVE = r">=|≥|>|greater than|more than|higher than|above|over|older than|at least"
_YEARS = r"(?:\s*(?:years?|y|yrs?)(?:\s*(?:old|of age))?)?"
_AGE = re.compile(rf"^(?:age[d]?\s*(?:is\s*)?)?({_BELOW}|{_ABOVE})\s*(\d{{1,3}}){_YEARS}$")
_AGE_SPAN = re.compile(rf"^age[d]?\s*(?:between\s*)?(\d{{1,3}})\s*(?:-|–|to|and)\s*(\d{{1,3}}){_YEARS}$")
_AGE_OR_OLDER = re.compile(rf"^(?:age[d]?\s*)?(\d{{1,3}}){_YEARS}\s*(?:or|and)\s*(older|over|above|younger|under)$")
_LIMIT = re.compile(
    rf"^(?:latest |last |current )?(?P<name>[a-z][\w ,/()%-]*?)\s*(?:is\s+)?(?P<side>{_BELOW}|{_ABOVE})"
    r"\s*(?P<value>-?\d+(?:\.\d+)?)\s*(?P<unit>\S{0,20})$"
)
_DENIED = re.compile(
    r"^(?:no|not|without|absence of|absent|negative for|free of)\s+(?:any\s+|known\s+|history of\s+)*(.+)$"
)
_ALLERGY = re.compile(r"^(?:known\s+)?(?:allergy|allergic|hypersensitivity)\s+to\s+(.+)$|^(.+?)\s+allergy$")
_LEADING = re.compile(
    r"^(?:in\s+)?(?:(?:a|an|the|any|all|adult|patients?|persons?|people|those|cases?|known|current|active|concurrent|"
    r"concomitant|coexisting|documented|established|confirmed|presence of|history of|prior|previous|with|who have|"
    r"receiving|taking|on|has|have|having|is|are)\s+)+"
)
_WORDS: Final[Mapping[str, Check]] = {
    "adult": lambda found: None if found.age is None else found.age >= 18,
    "elderly": lambda found: None if found.age is None else found.age >= 65,
    "child": lambda found: None if found.age is None else found.age < 18,
    "children": lambda found: None if found.age is None else found.age < 18,
    "pediatric": lambda found: None if found.age is None else found.age < 18,
    "paediatric": lambda found: None if found.age is None else found.age < 18,
    "male": lambda found: None if found.sex is None else found.sex == "male",
    "man": lambda found: None if found.sex is None else found.sex == "male",
    "men": lambda found: None if found.sex is None else found.sex == "male",
    "female": lambda found: None if found.sex is None else found.sex == "female",
    "woman": lambda found: None if found.sex is None else found.sex == "female",
    "women": lambda found: None if found.sex is None else found.sex == "female",
}
_FILLERS = frozenset(("patient", "patients", "a", "an", "sex", "aged"))


def split_phrases(text: str) -> tuple[str, ...]:
    """The phrases of a condition: they are written between semicolons."""
    return tuple(phrase for part in text.split(";") if (phrase := part.strip(" .,\n\t")))


def read_phrase(phrase: str) -> Check | None:
    """How to check a phrase; None where nothing in it can be checked."""
    text = " ".join(phrase.casefold().split()).strip(" .,;")
    return _age(text) or _person(text) or _limit(text) or _either(text) or _allergy(text) or _named(text)


def _age(text: str) -> Check | None:
    if found := _AGE.match(text):
        return _age_beside(found[1], int(found[2]))
    if found := _AGE_OR_OLDER.match(text):
        return _age_beside(">=" if found[2] in ("older", "over", "above") else "<=", int(found[1]))
    if found := _AGE_SPAN.match(text):
        least, most = int(found[1]), int(found[2])
        return lambda patient: None if patient.age is None else least <= patient.age <= most
    return None


def _age_beside(side: str, bound: int) -> Check:
    def check(found: Findings) -> bool | None:
        if found.age is None or (found.age >= _OLDEST_TOLD and bound >= _OLDEST_TOLD):
            return None
        return _beside(found.age, side, bound)

    return check


def _person(text: str) -> Check | None:
    """A phrase made of nothing but words for who somebody is, such as ``adult female patients``."""
    words = [word for word in text.split() if word not in _FILLERS]
    if not words or not all(word in _WORDS for word in words):
        return None
    checks = [_WORDS[word] for word in words]
    return lambda found: _all([check(found) for check in checks])


def _limit(text: str) -> Check | None:
    read = _LIMIT.match(text)
    if read is None:
        return None
    name, side, bound, unit = read["name"], read["side"], float(read["value"]), _unit(read["unit"])

    def check(found: Findings) -> bool | None:
        latest = found.latest(name)
        if latest is None or (unit and latest.unit and unit != _unit(latest.unit)):
            return None
        return _beside(latest.value, side, bound)

    return check


def _either(text: str) -> Check | None:
    parts = [part.strip() for part in re.split(r",?\s+or\s+", text)]
    checks = [read_phrase(part) for part in parts] if len(parts) > 1 else []
    if not checks or any(check is None for check in checks):
        return None
    known = [check for check in checks if check is not None]
    return lambda found: _any([check(found) for check in known])


def _allergy(text: str) -> Check | None:
    read = _ALLERGY.match(text)
    if read is None:
        return None
    name = read[1] or read[2]
    return lambda found: True if found.is_allergic(name) else None


def _named(text: str) -> Check | None:
    denied = _DENIED.match(text)
    name = _LEADING.sub("", denied[1] if denied else text)
    if not 0 < len(plain_words(name).split()) <= _LONGEST_NAME:
        return None

    def check(found: Findings) -> bool | None:
        standing = found.standing(name)
        return None if standing is None else (standing == "absent") == bool(denied)

    return check


def _beside(value: float, side: str, bound: float) -> bool:
    if side in ("<=", "≤", "at most"):
        return value <= bound
    if side in (">=", "≥", "at least"):
        return value >= bound
    return value < bound if re.fullmatch(_BELOW, side) else value > bound


def _unit(text: str) -> str:
    return text.casefold().strip(" .,()").replace("µ", "u")


def _all(values: list[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True


def _any(values: list[bool | None]) -> bool | None:
    if True in values:
        return True
    return None if None in values else False
