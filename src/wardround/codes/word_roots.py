"""What the Greek and Latin parts of a medical word say: "colpopexy" is vagina, repair and fixation."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

LINKS = ("", "o", "i", "a")
SHORTEST = 6


def plain_words(word: str) -> str:
    """The plain words of a lower-case word: an act as ICD-10-PCS names it, or roots and one ending; "" if neither.

    >>> plain_words("nephropexy")
    'kidney repair fixation reposition'
    >>> plain_words("biopsy")
    'biopsy diagnostic excision'
    >>> plain_words("bicycle")
    ''
    """
    roots, endings, acts = _parts()
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
    """The roots that make up ``text``, longest first, joined by linking vowels; None if something is left over."""
    roots = _parts()[0]
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
def _parts() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Roots, endings and whole words, each without its mark, to plain words."""
    text = (files("wardround.codes") / "data" / "word_roots.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]
    roots = {part: words for part, words in rows if part[0] not in "-="}
    endings, acts = ({part[1:]: words for part, words in rows if part[0] == mark} for mark in "-=")
    return roots, endings, acts
