"""Find the concept of a name: laboratory test, vital, drug, class of drugs, problem, procedure or device.

The names come from our own tables, the laboratory words and drug names of ``codes``, and a table that a user adds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import cast, get_args

from wardround.clinical.codes import load_drug_synonyms, load_lab_words, normalise_label
from wardround.clinical.vocabulary.drugs import drug_class, drug_name, is_drug, is_known_drug, load_drug_classes
from wardround.clinical.vocabulary.measurements import (
    Concept,
    ConceptKind,
    clinical_name,
    find_measurement,
    load_measurements,
    singular,
    words_of,
)
from wardround.clinical.vocabulary.tables import cell_parts, named_words, table_rows
from wardround.core import UserError

_LONGEST = 7
"""Words of the longest name that is looked for in a text."""
_MEASURED_FIRST = frozenset(
    {"potassium", "sodium", "chloride", "calcium", "magnesium", "phosphate", "phosphorus", "iron", "glucose",
     "albumin", "bicarbonate"}
)  # fmt: skip
"""Names that are a laboratory test before they are a drug."""
_WORDS_TOO = frozenset(
    {"all", "as", "he", "ms", "pe", "it", "hit", "cap", "aids", "ra", "had", "burn", "ad", "icd", "af", "mi", "ct",
     "lp", "t", "k", "p", "na", "cl", "cr", "ca", "pt", "mg", "ag", "hd", "fe", "be", "tt", "la", "le", "sg", "li",
     "rr", "hr", "avr", "si", "gas", "gap", "ap", "ld", "hp", "ig", "fk", "ha"}
)  # fmt: skip
"""Short names that are words too, or units: in a running text they count only as written in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A concept named in a text, and the characters that name it."""

    concept: Concept
    start: int
    end: int
    text: str


def find_concept(text: str, kind: ConceptKind | None = None) -> Concept | None:
    """Return the concept of a name, of one kind if it is given; None if no table has it.

    >>> find_concept("CHF"), find_concept("MAP"), find_concept("Unasyn")
    (Concept(kind='problem', name='heart failure'), Concept(kind='vital', name='mean arterial pressure'), \
Concept(kind='drug', name='ampicillin-sulbactam'))
    """
    return next((candidate for candidate in _candidates(text) if kind in (None, candidate.kind)), None)


@lru_cache(maxsize=65_536)
def names_a_drug(text: str) -> bool | None:
    """Return whether a name means a drug first, or something else; None where no table has it.

    A user's table decides. A test in the laboratory's own words, or of a fluid, is no drug.

    >>> names_a_drug("Calcium Gluconate"), names_a_drug("Free Calcium"), names_a_drug("Glucose (Urine)")
    (True, False, False)
    """
    first, plain = find_concept(text), normalise_label(text)
    drug, test = find_concept(text, "drug") or find_concept(text, "drug_class"), find_concept(text, "lab")
    if words_of(text) in _of_user():
        return first is not None and first.kind in ("drug", "drug_class")
    fluid = _IN_BRACKETS.search(plain)
    if fluid is not None and not named_words("other_fluids").isdisjoint(fluid[1].split()):
        return False
    if drug is not None and test is not None and test.name == plain != drug.name:
        return False
    return None if first is None else first.kind in ("drug", "drug_class")


@lru_cache(maxsize=65_536)
def is_test_and_drug(text: str) -> bool:
    """Return whether one word means a laboratory test first and a drug, too.

    >>> is_test_and_drug("albumin"), is_test_and_drug("glucose"), is_test_and_drug("heparin")
    (True, False, False)
    """
    drug = find_concept(text, "drug")
    if drug is None or words_of(text) in _of_user():
        return False
    return names_a_drug(text) is False and drug.name == normalise_label(text)


def meanings_of(text: str, kind: str) -> tuple[str, ...]:
    """Return the meanings of an ambiguous short name, for a problem, a ``done`` action or a drug ``on``; nothing if it
    has one meaning, or if a user's table decides.

    >>> meanings_of("AS", "problem")
    ('aortic stenosis', 'ankylosing spondylitis')
    """
    return () if words_of(text) in _of_user() else _short_names().get((kind, text.strip().lower()), ())


def concepts_in(text: str, start: int = 0, end: int | None = None) -> tuple[Mention, ...]:
    """Return every concept that a text, or a part of it, names, in its order, the longest where names overlap."""
    found: list[Mention] = []
    found_words = _WORD.finditer(text, start, len(text) if end is None else end)
    words = [(match.start(), match.end(), singular(normalise_label(match[0]))) for match in found_words]
    place = 0
    while place < len(words):
        mention = _mention_at(text, words, place)
        if mention is None:
            place += 1
            continue
        found.append(mention)
        place += sum(1 for first, _, _ in words[place:] if first < mention.end)
    return tuple(found)


def known_names() -> Mapping[str, Concept]:
    """Return every name that a text may use for a concept, as its words, with the concept."""
    return MappingProxyType({" ".join(words): concept for words, concept in _spoken().items()})


@lru_cache(maxsize=65_536)
def is_a(given: Concept, wanted: Concept) -> bool:
    """Return whether one concept is the other or one of its kind (septic shock is a sepsis, warfarin an
    anticoagulant)."""
    if given == wanted:
        return True
    if given.kind in ("drug", "drug_class") and wanted.kind in ("drug", "drug_class"):
        return is_drug(given.name, wanted.name)
    return wanted.name in _above(given.name)


def add_concepts(table: Path | str) -> int:
    """Add a user's table of names, a file or its text, and return how many rows it has.

    A row: kind <tab> name <tab> spellings, split by ";" <tab> parent concept. If a plug-in contains the text, its hash
    is recorded in all results. Raises UserError for an unreadable row, an unknown kind, or a missing name.
    """
    where = table if isinstance(table, Path) else "table of concepts"
    try:
        text = table.read_text(encoding="utf-8") if isinstance(table, Path) else table
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: cannot be read as UTF-8 text: {error}") from error
    added = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, name, spellings, above = (*line.split("\t"), "", "", "")[:4]
        if kind not in get_args(ConceptKind) or not name.strip():
            raise UserError(
                f"{where}, line {number}: write kind, name, spellings; kinds: {', '.join(get_args(ConceptKind))}"
            )
        added.append((kind, name.strip(), spellings, above))
    _USER_ROWS.extend(added)
    forget_tables()
    return len(added)


def forget_tables() -> None:
    """Read the tables again on their next use."""
    for one in (_own, _of_user, _spoken, _parents, _above, _candidates, is_a, names_a_drug, is_test_and_drug):
        one.cache_clear()


_USER_ROWS: list[tuple[str, str, str, str]] = []
_BESIDE, _AROUND = 24, 60
_OF_ANOTHER = re.compile(r"[ -](?:induced|resistan(?:t|ce)|exacerbated|susceptible|eluting|naive|free)\b", re.I)
NOT_GIVEN = re.compile(rf"(\w+){_OF_ANOTHER.pattern}", re.I)
"""A drug's name that is a part of another ("vancomycin-resistant")."""
_NEVER = r"(?!)"
_OTHERWISE: Mapping[str, tuple[str, str]] = {
    "hit": (r"\b(?:he|she|and|was|who|pt|patient)\s+$", r"\s+(?:his|her|the|head|by|on)\b"),
    "ra": (r"%\s*(?:on\s+)?$|\b(?:on|dilated|enlarged|in the|to the|of the)\s+$|weaned to\s+$",
           r"\s*(?:\d+%|sats?\b|o2|spo2|pressure|\(|is\b|and rv\b|dilat|enlarg|thromb|size|lead|mass)"),
    "hd": (_NEVER, r"\s*#?\s*\d|\s+(?:stable|day|unstable)\b"),
    "pe": (r"\b(?:distress|normal|findings?|noted|seen|abnormalit\w+) on\s+$|\b(?:today's|admission|initial)\s+$",
           (r"\s*:|\s+(?:show|notable|not remarkable|reveal|significant|remarkable|unremarkable|exam|normal|findings?"
           r"|as (?:above|below)|today|benign|tube|with (?:crackles|rales|wheez|edema))")),
    "ms": (r"\b(?:severe|moderate|mild|rheumatic|given|iv|po)\s+$|\b(?:ar|as|mr|ai|and|or)/$",
           (r"\s*:|\s+(?:\d|contin|intact|change|sulfate|by (?:echo|tte|tee)|on (?:echo|tte|tee)|with (?:valve|mva)"
           r"|[a-z]+\s+is\b)|/(?:mr|as|ar)\b")),
    "pd": (r"\b(?:idiopathic|advanced|dementia of|lewy body or)\s+$",
           (r"\s*:|\s+(?:on|with|w/|treated with)\s+(?:carbidopa|sinemet|levodopa)"
           r"|\s+(?:with (?:tremor|rigidity|dyskin)|dementia)")),
    "sbp": (r"\b(?:for|of|with|h/o|hx|history of|developed|prevent|ppx|prophylaxis)\s+$",
            r"\s+(?:ppx|prophyl|treated|on (?:ceftriaxone|cefotaxime|cipro)|with (?:ascit|pmn))"),
    "bs": (_NEVER, (r"\s*(?:\+|x\s?4|clear|equal|diminish|decreas|coarse|present|absent|active|normo"
                   r"|hypoact|hyperact|bilat|in all)")),
    "pt": (r"\b(?:the|this|that|male|female|old|yo|our|per|by|with|and|ot)\s+$|/$",
           (r"\s*/?\s*ot\b|\s+(?:consult|eval|work|recommend|session|screen|states?|is|was|were|has|had|reports?|denies"
           r"|seen|treat|clear|in bed|to\b|and\b|who|with|will|did|does|doing|on\b|not\b)|'s\b")),
    "ca": (_NEVER, r"\s+of\b|\s*-?(?:19|125|15|27)[- .]?(?:9|3|29)?\b"),
    "af": (_NEVER, r"\s*,?\s*(?:is\s+)?(?:flat|soft|open|sunken|bulging|full|osf)\b"),
    "rf": (r"\b(?:cardiac|cad|vascular|stroke|cv)\s+$", r"\s*:|\s+for\b"),
    "vt": (_NEVER, r"\s*[:=]?\s*\d"),
    "ttp": (r"\b(?:soft|tender|abd|abdomen|mild|mildly|diffuse|diffusely|r[lu]q|l[lu]q|no|not|non|is|are|,)\W*$",
            r"\s+(?:in|at|over|along|of|throughout)\b"),
    "icd": (_NEVER, r"\s*-?(?:9|10)"),
    "als": (_NEVER, r"\s+(?:crew|unit|provider|ambulance|team)"),
}  # fmt: skip
"""Ambiguous short names with the context, before or after, of their other meaning (room air, hospital day)."""
_WORD = re.compile(r"[^\W_]+")
_IN_BRACKETS = re.compile(r"\(([^()]+)\)$")


@lru_cache(maxsize=65_536)
def _candidates(text: str) -> tuple[Concept, ...]:
    """Return all concepts of a name, likeliest first."""
    words = words_of(text)
    found = list(_own().get(words, ()))
    measured = _lab(text)
    drug = _drug(text)
    first = measured is not None and (drug is None or normalise_label(text) in _MEASURED_FIRST)
    ordered = (measured, drug) if first else (drug, measured)
    return tuple(dict.fromkeys([*found, *(concept for concept in ordered if concept is not None)]))


def _lab(text: str) -> Concept | None:
    known = find_measurement(text)
    if known is not None:
        return Concept(known.kind, clinical_name(known.name))
    plain = normalise_label(text)
    words = load_lab_words()
    return Concept("lab", clinical_name(text)) if plain in words or clinical_name(text) in _lab_names() else None


def _drug(text: str) -> Concept | None:
    if not words_of(text):
        return None
    own = drug_class(text)
    if own is not None:
        return Concept("drug_class", own)
    return Concept("drug", drug_name(text)) if is_known_drug(text) else None


def _mention_at(text: str, words: list[tuple[int, int, str]], place: int) -> Mention | None:
    for length in range(min(_LONGEST, len(words) - place), 0, -1):
        key = tuple(word for _, _, word in words[place : place + length])
        concept = _spoken().get(key)
        if concept is None:
            continue
        start, end = words[place][0], words[place + length - 1][1]
        spelling = text[start:end]
        if " ".join(key) in _WORDS_TOO and (not spelling.isupper() or _is_shouted(text, start, end)):
            continue
        if _means_otherwise(concept, " ".join(key), text[max(0, start - _BESIDE) : start], text[end : end + _BESIDE]):
            continue
        return Mention(concept=concept, start=start, end=end, text=spelling)
    return None


def _is_shouted(text: str, start: int, end: int) -> bool:
    """Return whether all words around are in capitals, so that capitals say nothing ("HE WAS ADMITTED")."""
    words = re.findall(r"[^\W\d_]{4,}", text[max(0, start - _AROUND) : end + _AROUND])
    plain = [word for word in words if words_of(word) not in _spoken()]
    return len(plain) > 1 and all(map(str.isupper, words))


def _means_otherwise(concept: Concept, name: str, before: str, after: str) -> bool:
    """Return whether its context gives a short name another meaning ("95% RA", "HD 3", "vancomycin-resistant")."""
    if concept.kind in ("drug", "drug_class") and _OF_ANOTHER.match(after):
        return True
    beside = _OTHERWISE.get(name)
    return beside is not None and bool(re.search(beside[0], before, re.I) or re.match(beside[1], after, re.I))


@cache
def _own() -> Mapping[tuple[str, ...], tuple[Concept, ...]]:
    """By words the concepts of our table and of the user's, the user's first."""
    found: dict[tuple[str, ...], tuple[Concept, ...]] = {}
    for kind, name, spellings, _ in (*_USER_ROWS, *table_rows("concepts", 4)):
        concept = Concept(cast(ConceptKind, kind), name)
        for text in (name, *cell_parts(spellings)):
            key = words_of(text)
            found[key] = (*found.get(key, ()), concept)
    return MappingProxyType(found)


@cache
def _of_user() -> frozenset[tuple[str, ...]]:
    """Return the names of the user's table, as words."""
    return frozenset(words_of(text) for _, name, spellings, _ in _USER_ROWS for text in (name, *cell_parts(spellings)))


@cache
def _short_names() -> Mapping[tuple[str, str], tuple[str, ...]]:
    return MappingProxyType(
        {
            (kind, name.lower()): cell_parts(meanings)
            for several, name, meanings in table_rows("short_names", 3)
            for kind in cell_parts(several)
        }
    )


@cache
def _spoken() -> Mapping[tuple[str, ...], Concept]:
    """By words what a running text may name: no word that says nothing, no lay word of a laboratory test."""
    found: dict[tuple[str, ...], Concept] = {}
    for text in (*load_lab_words(), *(measurement.name for measurement in load_measurements())):
        concept = _lab(text)
        if concept is not None and words_of(text):
            found.setdefault(words_of(text), concept)
    drugs = {part for members in load_drug_classes().values() for part in members}
    spelt = {*drugs, *load_drug_synonyms(), *load_drug_classes()}
    for key in [key for _, spellings, _ in table_rows("drug_classes", 3) for key in cell_parts(spellings)] + sorted(
        spelt
    ):
        concept = find_concept(key)
        if concept is not None:
            found[words_of(key)] = concept
    found |= {words: concepts[0] for words, concepts in _own().items()}
    return MappingProxyType({words: concept for words, concept in found.items() if words})


@cache
def _lab_names() -> frozenset[str]:
    return frozenset(clinical_name(name) for names in load_lab_words().values() for name in names if name)


@cache
def _parents() -> Mapping[str, tuple[str, ...]]:
    rows = (*table_rows("concepts", 4), *_USER_ROWS)
    return MappingProxyType({name: cell_parts(above) for _, name, _, above in rows if above})


@cache
def _above(name: str) -> frozenset[str]:
    parents = _parents().get(name, ())
    return frozenset(parents).union(*map(_above, parents))
