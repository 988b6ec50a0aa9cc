"""One name for what charts, rules and replies call by many ("MAP", "ART BP mean"): small tables of our own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

from wardround.codes.drug_names import normalise_drug_name
from wardround.codes.lab_words import load_lab_words, load_panels
from wardround.codes.labels import normalise_label


@lru_cache(maxsize=65_536)
def clinical_name(text: str) -> str:
    """The one name of a measurement, procedure or laboratory test, in the form in which names are compared.

    >>> clinical_name("Arterial Blood Pressure mean"), clinical_name("MAP"), clinical_name("serum K")
    ('mean arterial pressure', 'mean arterial pressure', 'serum k')
    """
    name = normalise_label(text)
    found = _spellings().get(name)
    if found is not None:
        return found
    likeliest = next(iter(load_lab_words().get(name, ())), "")
    return normalise_label(likeliest) if likeliest else name


@lru_cache(maxsize=65_536)
def drug_name(text: str) -> str:
    """The one name of a drug: its substance where one is left, else the name itself."""
    return normalise_drug_name(text) or normalise_label(text)


@lru_cache(maxsize=65_536)
def drug_classes(substance: str) -> tuple[str, ...]:
    """The classes a drug belongs to, from our own small table, narrowest first; none where the table has it not."""
    name = drug_name(substance)
    held = [(len(members), one) for one, members in load_drug_classes().items() if name in members]
    return tuple(one for _, one in sorted(held))


@cache
def load_drug_classes() -> Mapping[str, frozenset[str]]:
    """Class -> its substances, those of the classes within it too."""
    rows = {name: _parts(members) for name, members in _rows("drug_classes.tsv")}
    return MappingProxyType({name: frozenset(_members(name, rows)) for name in rows})


@lru_cache(maxsize=65_536)
def drug_class(text: str) -> str | None:
    """The class that a text names (``broad spectrum antibiotic``), None where it names none."""
    return _class_spellings().get(_plain_class(text))


@lru_cache(maxsize=65_536)
def lab_panel(test: str) -> str | None:
    """The order that a laboratory test usually comes with, from our own table; None where the table has it not."""
    return _panel_of().get(clinical_name(test))


@cache
def _panel_of() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for panel in _PANELS:
        for spellings in load_panels()[normalise_label(panel)]:
            for spelling in spellings:
                found.setdefault(clinical_name(spelling), panel)
    return MappingProxyType(found)


_PANELS = ("CBC", "diff", "chem 10", "LFT", "coags", "ABG", "cardiac enzymes", "iron studies")
"""The panels that tests are put together by, the first that holds one."""


@cache
def _class_spellings() -> Mapping[str, str]:
    own = {_plain_class(name): name for name in load_drug_classes()}
    others = {_plain_class(text): name for text, name in _spellings().items() if name in load_drug_classes()}
    return MappingProxyType(others | own)


def _plain_class(text: str) -> str:
    words = normalise_label(text).replace("-", " ").split()
    return " ".join(word.removesuffix("s") for word in words)


def _members(name: str, rows: Mapping[str, list[str]]) -> set[str]:
    found: set[str] = set()
    for member in rows[name]:
        if member.startswith("["):
            found |= _members(member.strip("[]"), rows)
        else:
            found.add(drug_name(member))
    return found


@cache
def _spellings() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, words in _rows("clinical_names.tsv"):
        found |= {normalise_label(word): name for word in (name, *_parts(words))}
    return MappingProxyType(found)


def _rows(name: str) -> list[tuple[str, str]]:
    text = (files("wardround.codes") / "data" / name).read_text(encoding="utf-8")
    lines = [line.partition("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return [(left, right) for left, _, right in lines]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]
