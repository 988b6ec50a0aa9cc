"""Words for who somebody is: man, pregnant woman, infant, elderly patients; alone or before more ("women over 50")."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from wardround.memory.findings import Findings
from wardround.vocabulary import Truth, all_of, any_of

_Check = Callable[[Findings], Truth]
_LATEST_PREGNANCY = 60


def _age_from(low: float, below: float = 999) -> _Check:
    """Years from one up to below another."""

    def check(found: Findings) -> Truth:
        years = found.age if found.days is None else found.days / 365.25
        if years is None:
            return None
        if found.days is None and found.age == 0 and 0 < below < 1:
            return None
        return low <= years < below

    return check


def _sex(wanted: str) -> _Check:
    return lambda found: None if found.sex is None else found.sex == wanted


def _pregnant(found: Findings) -> Truth:
    if found.sex == "male" or (found.age is not None and not 9 <= found.age <= _LATEST_PREGNANCY):
        return False
    statuses = found.statuses("pregnancy")
    return True if "present" in statuses else False if statuses == {"absent"} else None


def _all(*checks: _Check) -> _Check:
    return lambda found: all_of([check(found) for check in checks])


_CHILD, _MALE, _FEMALE = _age_from(0, 18), _sex("male"), _sex("female")
_FERTILE = _all(_FEMALE, _age_from(15, 50))
_STAGES: Final[Mapping[str, _Check]] = {
    "adult": _age_from(18), "grown-up": _age_from(18), "elderly": _age_from(65), "geriatric": _age_from(65),
    "older adult": _age_from(65), "child": _CHILD, "children": _CHILD, "pediatric": _CHILD, "paediatric": _CHILD,
    "minor": _CHILD, "adolescent": _age_from(10, 20), "teenager": _age_from(13, 20), "octogenarian": _age_from(80, 90),
    "septuagenarian": _age_from(70, 80),
    "nonagenarian": _age_from(90, 100), "infant": _age_from(0, 1),
    "neonate": _age_from(0, 29 / 365.25), "newborn": _age_from(0, 29 / 365.25), "toddler": _age_from(1, 3),
    "male": _MALE, "man": _MALE, "men": _MALE, "boy": _all(_MALE, _CHILD), "female": _FEMALE, "woman": _FEMALE,
    "women": _FEMALE, "girl": _all(_FEMALE, _CHILD), "pregnant": _pregnant, "pregnancy": _pregnant, "gravid": _pregnant,
    "women of childbearing age": _FERTILE, "woman of childbearing age": _FERTILE,
    "women of childbearing potential": _FERTILE, "women of reproductive age": _FERTILE,
}  # fmt: skip
_NAMES = "|".join(sorted(_STAGES, key=len, reverse=True))
_AGES = re.compile(
    r"(?:adult|elderly|child|children|adolescent|teenager|infant|neonate|newborn|toddler)s?(?: patients)?"
)
"""Stages of life: of two with "and" between them one is enough."""
_WORD = re.compile(
    rf"^(?:(?:sex|aged|currently|known|a|an|the|patients?|persons?|people|is|are|in|on)\s+)*({_NAMES})s?\b(?!-)\s*"
)
_FILLED = re.compile(
    r"^(?:patients?|persons?|people|sex|population|subjects?|individuals?)?\s*"
    r"(?:who are|who is|who have|with|that are|aged)?\s*"
)


def read_person_words(text: str, read_rest: Callable[[str], _Check | None]) -> _Check | None:
    """How to check a phrase that begins with words for who somebody is; what follows them is read by ``read_rest``."""
    checks: list[_Check] = []
    rest = text
    while found := _WORD.match(rest):
        checks.append(_STAGES[found[1]])
        rest = rest[found.end() :]
    if not checks:
        return None
    rest = _FILLED.sub("", rest, count=1).removeprefix("and ")
    if rest.startswith(("or ", ",", "/")):
        return None
    if text.count(" and ") == 1 and all(_AGES.fullmatch(part) for part in text.split(" and ")):
        stages = [_STAGES[found[1]] for part in text.split(" and ") if (found := _WORD.match(part))]
        return lambda found: any_of([stage(found) for stage in stages])
    if rest:
        further = read_rest(rest)
        if further is None:
            return None
        checks.append(further)
    return _all(*checks)
