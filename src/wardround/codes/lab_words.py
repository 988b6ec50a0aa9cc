"""What people call laboratory tests, and which tests an order stands for: two tables of our own in ``data``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from wardround.codes.labels import normalise_label

SAYS_NOTHING = "-"


@cache
def load_lab_words() -> Mapping[str, tuple[str, ...]]:
    """Normalised word or phrase -> names it may stand for, likeliest first; the empty name for words like "level"."""
    found: dict[str, tuple[str, ...]] = {}
    for name, words in _rows("lab_words.tsv"):
        meaning = "" if name == SAYS_NOTHING else name
        for word in _parts(words):
            key = normalise_label(word)
            found[key] = (*found.get(key, ()), meaning)
    return MappingProxyType(found)


@cache
def load_panels() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Normalised name of an order -> its tests, each in the spellings that dictionaries have for it."""
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for words, members in _rows("panels.tsv"):
        tests = tuple(tuple(spelling.strip() for spelling in member.split("|")) for member in _parts(members))
        found |= {normalise_label(word): tests for word in _parts(words)}
    return MappingProxyType(found)


def _rows(name: str) -> Iterator[tuple[str, str]]:
    text = (files("wardround.codes") / "data" / name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            left, _, right = line.partition("\t")
            yield left, right


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]
