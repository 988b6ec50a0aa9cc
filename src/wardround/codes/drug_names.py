"""Drug names as a pharmacy system prints them, brought to the substance: doses, salts, routes, forms and brands go.

Rules and short tables of our own (`data/drug_words.tsv`, `drug_synonyms.tsv`); no licensed vocabulary. Combinations
keep all their substances, sorted. Containers alone ("Bag", "Syringe") are no drug.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

from wardround.codes.labels import normalise_label

_MARKS = re.compile(r"\*[^*]*\*|<-+|_+")
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
    """The substance in a prescription's name, None if nothing but a container or a dose is left.

    >>> normalise_drug_name("HYDROmorphone (Dilaudid)"), normalise_drug_name("Metoprolol Succinate XL 25 mg Tab")
    ('hydromorphone', 'metoprolol')
    """
    text = _plain(name)
    found = _known(text)
    if found:
        return found
    text = _COMBINED.sub(" + ", _CARRIER.sub(" ", _REMARK.sub(" ", text)))
    text = _LOOSE_MARKS.sub(" ", _DOSE.sub(" ", _ISO_OSMOTIC.sub(" ", text)))
    parts = [part for part in map(_substance, text.split("+")) if part]
    return "-".join(sorted(set(parts))) or None


def _plain(name: str) -> str:
    """Case, marks, brackets (the innermost first, so that nested ones go too)."""
    text = _MARKS.sub(" ", normalise_label(name))
    while _BRACKETS.search(text):
        text = _BRACKETS.sub(" ", text)
    return " ".join(text.replace("(", " ").split())


def _substance(text: str) -> str:
    """One substance of a name: forms and routes off; salts off unless the name is that of a mineral."""
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
    """The first word stays whatever it is; "acid" stays where it is the name (folic acid)."""
    salts, acids = _kinds()["salt"], _kinds()["free acid"]
    return [
        word
        for place, word in enumerate(words)
        if place == 0 or word not in salts or (word == "acid" and words[place - 1] in acids)
    ]


def _known(text: str) -> str | None:
    """The synonym table's substance, followed once more (Depakote: divalproex: valproic acid)."""
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
    text = (files("wardround.codes") / "data" / f"{name}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
