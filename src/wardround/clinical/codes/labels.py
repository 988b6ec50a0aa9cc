"""Labels of answer spaces, matching of spellings, drug names reduced to substances; words that lead to labels."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from wardround.clinical.codes.user_codes import read_user_codes
from wardround.core import UserError

# Labels: the closed set of names an answer may take, and how a spelling is matched to one.


SCHEMA = 1
_MARKS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", None),
    }
)


@lru_cache(maxsize=16_384)
def normalise_label(text: str) -> str:
    """Return the form in which labels are compared: NFKC, case folded, plain quotes and dashes, single inner spaces.

    >>> normalise_label("  Parkinson\u2019s   Disease \u2013 late ")
    "parkinson's disease - late"
    """
    if text.isascii():
        return " ".join(text.replace("`", "'").lower().split())
    folded = unicodedata.normalize("NFKC", text.translate(_MARKS)).casefold().translate(_MARKS)
    return " ".join(unicodedata.normalize("NFKC", folded).split())


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSet:
    """The labels of one answer space. ``aliases`` maps further spellings to labels.

    A spelling that two labels could claim resolves to neither, except that a label always resolves to itself.
    """

    name: str
    labels: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    _index: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", _index(self.labels, self.aliases))

    def resolve(self, text: str) -> str | None:
        """Return the label that ``text`` names, or None."""
        return self._index.get(normalise_label(text))

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.resolve(text) is not None

    def to_json(self) -> dict[str, object]:
        """Plain data, with its schema version."""
        return {"schema": SCHEMA, "name": self.name, "labels": list(self.labels), "aliases": dict(self.aliases)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> LabelSet:
        """Return the label set that ``to_json`` wrote. Raises UserError for another schema."""
        labels, aliases = data.get("labels"), data.get("aliases")
        if data.get("schema") != SCHEMA or not isinstance(labels, list) or not isinstance(aliases, dict):
            raise UserError(f"not a label set of schema {SCHEMA}: {str(data)[:80]!r}; build it again")
        return cls(name=str(data["name"]), labels=tuple(labels), aliases=aliases)

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(self.to_json(), ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> LabelSet:
        """Read what ``save`` wrote."""
        return cls.from_json(json.loads(path.read_text(encoding="utf-8")))


def distinct_labels(texts: Iterable[str]) -> tuple[str, ...]:
    """Sorted labels, one per normalised form (the first spelling in sort order represents all), without blanks."""
    first: dict[str, str] = {}
    for text in sorted({" ".join(text.split()) for text in texts}):
        if text:
            first.setdefault(normalise_label(text), text)
    return tuple(sorted(first.values()))


def _index(labels: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
    index = {normalise_label(label): label for label in labels}
    claims: dict[str, set[str]] = {}
    for alias, label in aliases.items():
        claims.setdefault(normalise_label(alias), set()).add(label)
    for alias, claimed in claims.items():
        if len(claimed) == 1:
            index.setdefault(alias, next(iter(claimed)))
    return index


# Drug names as a pharmacy system prints them, brought to the substance: doses, salts, routes, forms and brands go.
#
# Rules and short tables of our own (`data/drug_words.tsv`, `drug_synonyms.tsv`); no licensed vocabulary. Combinations
# keep all their substances, sorted. Containers alone ("Bag", "Syringe") are no drug.


_DRUG_MARKS = re.compile(r"\*[^*]*\*|<-+|_+")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_REMARK = re.compile(
    r"^click change.*|\s-\s.*|\sfor\s.*|-hp$|-heart failure$|\b(alcohol withdrawal|replacement|sliding scale)\b.*"
    r"|\b(antibiotic lock|desens|desensitization|graded challenge)\b"
)
_CARRIER = re.compile(r"\d+\s*meq\s*/\s*\d+\s*ml\b.*$|\sin\s(ns|d5w|sodium chloride|dextrose)\b.*$")
_DOSE = re.compile(
    r"(?<![a-z0-9])\d[\d,.]*\s*(%|(mg|mcg|g|gm|kg|ml|l|meq|mmol|units?|iu|hrs?|h|hours?|days?|billion)\b)?"
    r"(\s*/\s*(\d[\d,.]*\s*)?(mg|mcg|g|ml|l|hr|h|day|actuation|dose)\b)?(?![a-z])"
)
_COMBINED = re.compile(r"(?<=[a-z]{5})\s*[-/]+\s*(?=[a-z]{5})|(?<=%)\s*/\s*(?=[a-z]{5})|\sw/(?!min)")
_ISO_OSMOTIC = re.compile(r"\b(iso-osmotic|isotonic|hypertonic|bacteriostatic)\b")
_LOOSE_MARKS = re.compile(r"(?<![a-z])[-/&,.:%]+|[-/&,.:%]+(?![a-z])")
_BIOSIMILAR = re.compile(r"(?<=stim|uzab|imab|umab|etin|mula)-[a-z]{4}$")


@lru_cache(maxsize=65_536)
def normalise_drug_name(name: str) -> str | None:
    """Return the substance in a prescription's name; None if only a container or a dose is left.

    >>> normalise_drug_name("HYDROmorphone (Dilaudid)"), normalise_drug_name("Metoprolol Succinate XL 25 mg Tab")
    ('hydromorphone', 'metoprolol')
    """
    # Case, marks, brackets (the innermost first, so that nested ones go too)
    text = _DRUG_MARKS.sub(" ", normalise_label(name))
    while _BRACKETS.search(text):
        text = _BRACKETS.sub(" ", text)
    text = " ".join(text.replace("(", " ").split())
    found = _known(text)
    if found:
        return found
    text = _COMBINED.sub(" + ", _CARRIER.sub(" ", _REMARK.sub(" ", text)))
    text = _LOOSE_MARKS.sub(" ", _DOSE.sub(" ", _ISO_OSMOTIC.sub(" ", text)))
    parts = [part for part in map(_substance, text.split("+")) if part]
    return "-".join(sorted(set(parts))) or None


def _substance(text: str) -> str:
    """Return one substance of a name, without forms and routes, and without salts unless it is a mineral."""
    kinds = _kinds()
    named = text.split()
    words = [
        word
        for place, word in enumerate(named)
        if (word not in kinds["form"] and word not in kinds["route"])
        or (word == "blue" and place and named[place - 1] in kinds["dye"])
    ]
    kept = words if words and words[0] in kinds["mineral"] else _without_salts(words)
    plain = _BIOSIMILAR.sub("", " ".join("chloride" if word == "chl" else word for word in kept))
    return _known(plain) or plain


def _without_salts(words: list[str]) -> list[str]:
    """Return a name without salts. The first word always stays; "acid" stays if it is part of the name (folic acid)."""
    salts, acids = _kinds()["salt"], _kinds()["free acid"]
    return [
        word
        for place, word in enumerate(words)
        if place == 0 or word not in salts or (word == "acid" and words[place - 1] in acids)
    ]


def _known(text: str) -> str | None:
    """Return the synonym table's substance, followed once more (Depakote: divalproex: valproic acid)."""
    synonyms = load_drug_synonyms()
    first = synonyms.get(text)
    return synonyms.get(first, first) if first else None


@cache
def load_drug_synonyms() -> Mapping[str, str]:
    """Return brand or short form -> substance, several joined by a hyphen."""
    return MappingProxyType({row[0]: row[1] for row in _rows("drug_synonyms")})


@cache
def _kinds() -> Mapping[str, frozenset[str]]:
    return MappingProxyType({row[0]: frozenset(row[1].split()) for row in _rows("drug_words")})


def _rows(name: str) -> list[list[str]]:
    text = (files("wardround.clinical.codes") / "data" / f"{name}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]


# Drugs to labels: ATC names where the user has added an ATC map, else a normalised drug name.


@dataclass(frozen=True, slots=True, kw_only=True)
class DrugGrouper:
    """Drug names to labels. Empty maps mean kind "drug_name"."""

    by_name: Mapping[str, str]
    by_stem: Mapping[str, str]
    by_ndc: Mapping[str, str]

    @property
    def kind(self) -> Literal["atc", "drug_name"]:
        """Which labels `label` gives."""
        return "atc" if self.by_name or self.by_ndc else "drug_name"

    def label(self, drug_name: str | None, ndc: str | None = None) -> str | None:
        """Return the ATC name of a prescription, by exact name, then NDC, then normalised name; or the normalised
        name."""
        name = drug_name or ""
        stem = normalise_drug_name(name)
        if self.kind == "drug_name":
            return stem
        found = self.by_name.get(normalise_label(name)) or self.by_ndc.get(_plain_ndc(ndc) or "")
        return found or (self.by_stem.get(stem) if stem else None)


def load_drugs(user_codes: Path | None) -> DrugGrouper:
    """Return the grouper that the tables under ``user_codes`` support."""
    names = {row[0]: row[1] for row in read_user_codes("atc-names", user_codes) or []}
    drugs = read_user_codes("drug-atc", user_codes) or []
    ndcs = read_user_codes("ndc-atc", user_codes) or []
    by_name = {normalise_label(drug): names.get(code, code) for drug, code in drugs}
    by_ndc = {plain: names.get(code, code) for ndc, code in ndcs if (plain := _plain_ndc(ndc))}
    stems: dict[str, set[str]] = {}
    for drug, code in drugs:
        stem = normalise_drug_name(drug)
        if stem:
            stems.setdefault(stem, set()).add(names.get(code, code))
    by_stem = {stem: next(iter(found)) for stem, found in stems.items() if len(found) == 1}
    return DrugGrouper(by_name=by_name, by_stem=by_stem, by_ndc=by_ndc)


def _plain_ndc(ndc: str | None) -> str | None:
    """Return an NDC as 11 digits; None for an empty one and for the zeros that MIMIC writes for an unknown one."""
    digits = "".join(character for character in ndc or "" if character.isdigit())
    return digits.zfill(11) if digits.strip("0") else None


# What clinicians and lay people write for what the dictionaries say: a table of our own (`data/abbreviations.tsv`).


@cache
def load_abbreviations() -> Mapping[str, tuple[str, ...]]:
    """Return normalised phrase -> its meanings, likeliest first. Lines: phrase, tab, expansions split by `;`."""
    table: dict[str, tuple[str, ...]] = {}
    for phrase, expansions in _rows("abbreviations"):
        known = table.get(normalise_label(phrase), ())
        table[normalise_label(phrase)] = tuple(dict.fromkeys((*known, *_parts(expansions))))
    return MappingProxyType(table)


# Names of laboratory tests in use, and the tests of an order: two tables of our own in ``data``.


SAYS_NOTHING = "-"


@cache
def load_lab_words() -> Mapping[str, tuple[str, ...]]:
    """Return normalised word or phrase -> its names, likeliest first; the empty name for words like "level"."""
    found: dict[str, tuple[str, ...]] = {}
    for name, words in _rows("lab_words"):
        meaning = "" if name == SAYS_NOTHING else name
        for word in _parts(words):
            key = normalise_label(word)
            found[key] = (*found.get(key, ()), meaning)
    return MappingProxyType(found)


@cache
def load_panels() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Normalised name of an order -> its tests, each in the spellings that dictionaries have for it."""
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for words, members in _rows("panels"):
        tests = tuple(tuple(spelling.strip() for spelling in member.split("|")) for member in _parts(members))
        found |= {normalise_label(word): tests for word in _parts(words)}
    return MappingProxyType(found)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


# What the Greek and Latin parts of a medical word say: "colpopexy" is vagina, repair and fixation.


LINKS = ("", "o", "i", "a")
SHORTEST = 6


def plain_words(word: str) -> str:
    """Return the plain words of a lower-case word: a procedure as ICD-10-PCS names it, or roots and one ending; "" if
    neither.

    >>> plain_words("nephropexy")
    'kidney repair fixation reposition'
    >>> plain_words("biopsy")
    'biopsy diagnostic excision'
    >>> plain_words("bicycle")
    ''
    """
    roots, endings, acts = _root_parts()
    if word in acts or len(word) < SHORTEST:
        return acts.get(word, "")
    for length in range(len(word) - 2, 2, -1):
        ending = endings.get(word[-length:])
        found = _split(word[:-length]) if ending else None
        if ending and found:
            return " ".join([*(roots[root] for root in found), ending])
    return ""


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...] | None:
    """Return the roots of ``text``, longest first, joined by linking vowels; None if something is left over."""
    roots = _root_parts()[0]
    for length in range(len(text), 1, -1):
        if text[:length] in roots:
            for link in LINKS:
                rest = text[length:]
                if rest == link:
                    return (text[:length],)
                further = _split(rest[len(link) :]) if rest.startswith(link) and rest != link else None
                if further:
                    return (text[:length], *further)
    return None


@cache
def _root_parts() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Roots, endings and whole words, each without its mark, to plain words."""
    rows = _rows("word_roots")
    roots = {part: words for part, words in rows if part[0] not in "-="}
    endings, acts = ({part[1:]: words for part, words in rows if part[0] == mark} for mark in "-=")
    return roots, endings, acts
