"""Read allergies from texts: "allergic to", "X allergy", a section of allergies, anaphylaxis after a substance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from wardround.clinical.vocabulary.assertions import sentences_of
from wardround.clinical.vocabulary.concepts import find_concept, is_a
from wardround.clinical.vocabulary.cues import SectionKind, sections_of
from wardround.clinical.vocabulary.drugs import (
    allergy_code_title,
    conflicts,
    is_drug,
    is_known_drug,
    names_some_agent,
    read_allergens,
)
from wardround.clinical.vocabulary.measurements import words_of
from wardround.clinical.vocabulary.tables import named_words
from wardround.clinical.vocabulary.time import Truth

_NONE_KNOWN = re.compile(
    r"\b(?:nkda|nka|nkma|nkfa)\b|\bno (?:known )?(?:\w+ (?:or \w+ )?)?(?:allerg(?:y|ies)|intolerances)(?! to)\b"
    r"|\bdenies (?:any )?(?:\w+ )?allergies(?! to)\b|\bwithout (?:known )?(?:drug )?allergies(?! to)"
    r"|\bnot allergic to any|\bno allergies to (?:any )?(?:medications?|drugs)",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"^\W*(?:none|no|nil|denies|denied|negative|unknown|none known|none reported|not known|n/a)\b(?! to)", re.IGNORECASE
)
_TO = re.compile(
    r"\b(?:allerg(?:y|ies|ic)(?: reactions?| status)?|hypersensitiv\w+|intoleran\w+|anaphyla\w+(?: reactions?)?|"
    r"angioedema|hives|adverse reactions?)"
    r" (?:to|of|from|after|following|with|due to) (?P<list>[^.;\n]+)",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"(?P<what>(?:[A-Za-z][\w-]*[ -]){1,3})(?:allerg(?:y|ies|ic)|hypersensitivity|anaphylaxis|intolerance)\b",
    re.IGNORECASE,
)
_RECORD = re.compile(
    r"\ballerg(?:y|ies)\b|\ballergic (?:to|reactions?)\b|\banaphyla(?:xis|ctic)\b|\b(?:drug )?hypersensitivity to\b",
    re.IGNORECASE,
)
_INTOLERANCE = re.compile(r"\b(?:intoleran|adverse reaction|hypersensitiv|angioedema due to)", re.IGNORECASE)
_NO_RECORD = re.compile(
    r"\bfamily history\b|\b(?:poisoning|underdosing)\b|\banti-?allerg|\b(?:encounter|need|screening|test(?:ing)?) for\b"
    r"|\bglucose intoleran|\bbecause of\b|\ballergy (?:test|specialist|clinic)|\bdesensiti[sz]ation"
    r"|\b(?:no|not|denies|without|rule out|ruled out|suspected|possible)\b.{0,30}\b(?:allerg|anaphyla)",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:no|not|denies|denied|without|never|negative for)\b[^,;]{0,40}$", re.IGNORECASE)
_KIN = re.compile(
    r"\b(?:mother|father|sister|brother|son|daughter|aunt|uncle|wife|husband|sibling|cousin|parent|relative|family)s?\b"
    r"(?![^.;]*\b(?:she|he|patient)\b)",
    re.IGNORECASE,
)
_LIST_END = re.compile(
    r"\s+(?:and|but|who|which|as|in|presents?|with|presenting|because|is|was|has|had|causing|years?|since|several)\b.*$",
    re.IGNORECASE,
)
_SPLIT = re.compile(r",|;|/|\n|\band\b|\bor\b|\bas well as\b|•|\*")
_REACTION = re.compile(
    r"\([^()]*\)|\[[^\[\]]*\]|\b(?:causes?|caused|gives?|leads? to|results? in|which|produces?)\b.*$|[-–:=>]+\s.*$",
    re.IGNORECASE,
)
_EMPTY = named_words("empty")


@dataclass(frozen=True, slots=True)
class Allergy:
    """An allergy that is stated or denied. An empty ``allergen`` that is denied: no allergy is known."""

    allergen: str
    is_denied: bool = False


def allergies_of(text: str, section: SectionKind = "") -> Iterator[Allergy]:
    """Return the allergies that a text states or denies."""
    for part in sections_of(text, section):
        body = text[part.start : part.end]
        if part.kind == "allergies":
            yield from _listed(body)
        elif part.kind != "family":
            for start, end in sentences_of(body):
                yield from _stated(body[start:end])


def charted_allergies(name: str) -> tuple[Allergy, ...]:
    """Return the allergies of a chart's row ("Allergy to penicillin (finding)", "No known allergies")."""
    if _NONE_KNOWN.search(name) or _NOTHING.match(name):
        return (Allergy("", is_denied=True),)
    if names_some_agent(name):
        return (Allergy(name),)
    return tuple(Allergy(allergen) for allergen in read_allergens(name))


@lru_cache(maxsize=65_536)
def records_allergy(diagnosis: str) -> bool:
    """Return whether a diagnosis, by its title or ICD code, records an allergy to a substance.

    An illness by an allergy (allergic rhinitis) records none. A denied or suspected allergy or one of the family does
    not count either.

    >>> [records_allergy(one) for one in ("Allergy status to penicillin", "Z88.0", "Allergic rhinitis")]
    [True, True, False]
    """
    if allergy_code_title(diagnosis) is not None:
        return True
    if _NO_RECORD.search(diagnosis):
        return False
    if _RECORD.search(diagnosis):
        return True
    return bool(_INTOLERANCE.search(diagnosis)) and all(map(is_known_drug, read_allergens(diagnosis)))


def allergy_truth(allergies: Iterable[Allergy], substance: str) -> Truth:
    """Return whether one of some allergies is to a substance or class; false only if it, or every allergy, is denied.

        "No other allergies" does not deny a substance that may cross-react with a stated allergy.

    >>> stated = (Allergy("codeine"), Allergy("", is_denied=True))
        >>> [allergy_truth(stated, one) for one in ("codeine", "hydromorphone", "ondansetron")]
        [True, None, False]
    """
    truth: Truth = None
    may_react = False
    for allergy in allergies:
        if allergy.is_denied:
            if not allergy.allergen or _covers(substance, allergy.allergen):
                truth = False
        elif _covers(allergy.allergen, substance):
            return True
        else:
            may_react = may_react or conflicts(substance, allergy.allergen) is None
    return None if may_react else truth


def _covers(allergen: str, substance: str) -> bool:
    if words_of(allergen) == words_of(substance) or is_drug(allergen, substance):
        return True
    given, wanted = find_concept(allergen), find_concept(substance)
    if given is not None and wanted is not None and is_a(given, wanted):
        return True
    return conflicts(substance, allergen) is True


def _listed(body: str) -> Iterator[Allergy]:
    if _NONE_KNOWN.search(body) or _NOTHING.match(body):
        yield Allergy("", is_denied=True)
        return
    allergies = list(_stated(body))
    yield from allergies
    if allergies:
        return
    while (plain := re.sub(r"\([^()]*\)|\[[^\[\]]*\]", " ", body)) != body:
        body = plain
    for piece in _SPLIT.split(body.replace(". ", "\n")):
        yield from _allergen(piece)


def _stated(sentence: str) -> Iterator[Allergy]:
    if _NONE_KNOWN.search(sentence):
        yield Allergy("", is_denied=True)
        return
    for found in _TO.finditer(sentence):
        before = sentence[: found.start()]
        if _KIN.search(before):
            continue
        denied = bool(_DENIED.search(before))
        for piece in _SPLIT.split(found["list"]):
            yield from _allergen(_LIST_END.sub("", piece), is_denied=denied)
            if _LIST_END.search(piece):
                break
    for found in _BEFORE.finditer(sentence):
        before = sentence[: found.start("what")]
        words = found["what"].replace("-", " ").split()
        denied = bool(_DENIED.search(sentence[: found.end("what")]))
        while words and (
            words[0].casefold() in _EMPTY or words[0].casefold() in ("no", "denies", "not", "without", "is", "to")
        ):
            words = words[1:]
        if words and not _KIN.search(before):
            yield from _allergen(" ".join(words), is_denied=denied, must_be_known=True)


def _allergen(piece: str, *, is_denied: bool = False, must_be_known: bool = False) -> Iterator[Allergy]:
    plain = _REACTION.sub(" ", piece).strip(" .,:-\t*")
    words = [word for word in plain.split() if word.casefold() not in _EMPTY]
    while words and must_be_known and find_concept(" ".join(words)) is None and len(words) > 1:
        words = words[1:]
    if 0 < len(words) <= 5:
        yield Allergy(" ".join(words), is_denied=is_denied)
