"""Word tables: abbreviations, lay words for laboratory tests, Greek and Latin roots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

from wardround.clinical.codes.labels import normalise_label

# What clinicians and lay people write for what the dictionaries say: a table of our own (`data/abbreviations.tsv`).


@cache
def load_abbreviations() -> Mapping[str, tuple[str, ...]]:
    """Return normalised phrase -> its meanings, likeliest first. Lines: phrase, tab, expansions split by `;`."""
    text = (files("wardround.clinical.codes") / "data" / "abbreviations.tsv").read_text(encoding="utf-8")
    table: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            phrase, _, expansions = line.partition("\t")
            meanings = tuple(part.strip() for part in expansions.split(";") if part.strip())
            key = normalise_label(phrase)
            table[key] = table.get(key, ()) + tuple(
                meaning for meaning in meanings if meaning not in table.get(key, ())
            )
    return MappingProxyType(table)


# Names of laboratory tests in use, and the tests of an order: two tables of our own in ``data``.


SAYS_NOTHING = "-"


@cache
def load_lab_words() -> Mapping[str, tuple[str, ...]]:
    """Return normalised word or phrase -> its names, likeliest first; the empty name for words like "level"."""
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
    text = (files("wardround.clinical.codes") / "data" / name).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            left, _, right = line.partition("\t")
            yield left, right


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
    text = (files("wardround.clinical.codes") / "data" / "word_roots.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]
    roots = {part: words for part, words in rows if part[0] not in "-="}
    endings, acts = ({part[1:]: words for part, words in rows if part[0] == mark} for mark in "-=")
    return roots, endings, acts
