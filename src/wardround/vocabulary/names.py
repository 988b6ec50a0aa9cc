"""One name for what charts, rules and replies call by many ("MAP", "ART BP mean"), and how names are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Literal

from wardround.codes import load_lab_words, load_panels, normalise_label
from wardround.vocabulary.tables import cell_parts, table_rows

ConceptKind = Literal["lab", "vital", "drug", "drug_class", "problem", "procedure", "device"]


@dataclass(frozen=True, slots=True, order=True)
class Concept:
    """What a name stands for: a kind and the one name of it (``Concept("vital", "mean arterial pressure")``)."""

    kind: ConceptKind
    name: str


@lru_cache(maxsize=65_536)
def clinical_name(text: str) -> str:
    """Return the one name of a measurement, procedure or laboratory test, in the form in which names are compared.

    >>> clinical_name("Arterial Blood Pressure mean"), clinical_name("MAP"), clinical_name("serum K")
    ('mean arterial pressure', 'mean arterial pressure', 'serum k')
    """
    name = normalise_label(text)
    found = _spellings().get(name)
    if found is not None:
        return found
    words = load_lab_words()
    likeliest = next(iter(words.get(name) or words.get(_CHARGE.sub("", name), ())), "")
    return normalise_label(likeliest) if likeliest else name


@lru_cache(maxsize=65_536)
def lab_panel(test: str) -> str | None:
    """The order that a laboratory test usually comes with, from our own table; None where the table has it not."""
    return _panel_of().get(clinical_name(test))


@lru_cache(maxsize=65_536)
def words_of(text: str) -> tuple[str, ...]:
    """Return a text's words as names are looked up by them: lower case, no marks, no plural ending.

    >>> words_of("Blood Cultures"), words_of("D-dimer"), words_of("biopsies")
    (('blood', 'culture'), ('d', 'dimer'), ('biopsy',))
    """
    return tuple(singular(word) for word in _WORD.findall(normalise_label(text)))


def singular(word: str) -> str:
    """A word without its plural ending; the same rule on both sides of a comparison, so that it may be crude."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_CHARGE = re.compile(r"(?<=^[a-z])\d?[+-]+$|(?<=^[a-z]{2})\d?[+-]+$")
"""The charge of an ion: K+, Cl-, Mg2+."""
_WORD = re.compile(r"[^\W_]+")
_PANELS = ("CBC", "diff", "chem 10", "LFT", "coags", "ABG", "cardiac enzymes", "iron studies")
"""The panels that tests are put together by, the first that holds one."""


@cache
def _panel_of() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for panel in _PANELS:
        for spellings in load_panels()[normalise_label(panel)]:
            for spelling in spellings:
                found.setdefault(clinical_name(spelling), panel)
    return MappingProxyType(found)


@cache
def _spellings() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for kind, name, spellings, _ in table_rows("concepts", 4):
        if kind in ("vital", "lab", "procedure"):
            found |= {normalise_label(word): name for word in (name, *cell_parts(spellings))}
    return MappingProxyType(found)
