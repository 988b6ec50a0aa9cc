"""A document of a corpus: an id, a title, a text, and the last day it can have been published."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
"""Characters that no reader sees and a model does: controls, joiners, turned directions, tags, halves of pairs."""
_SPACES = re.compile(r" ?[^\S\n ][^\S\n]*| {2,}")
"""Space that is not one plain space; single ones are not looked at, which is most of a text."""
_BLANK_LINES = re.compile(r"\n(?: ?\n)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document. ``published`` is the last day that its date can mean, None where none is known; ``address`` says
    where it came from (a file, a URL), empty where that says nothing."""

    id: str
    title: str
    text: str
    published: date | None = None
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Says that a document is no longer: a PubMed ``DeleteCitation``."""

    id: str


def visible(text: str) -> str:
    """Return a foreign text as people would see it: without unseen characters, one space for several.

    >>> visible("fever\\u200b  and\\u202e chills")
    'fever and chills'
    """
    if _is_plain(text):
        return text.strip()
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    seen = _UNSEEN.sub("", text if text.isascii() else unicodedata.normalize("NFC", text))
    return _BLANK_LINES.sub("\n\n", _SPACES.sub(" ", seen)).strip()


def _is_plain(text: str) -> bool:
    """Whether a text is ASCII in which nothing would change: most are, and looking is a tenth of the work."""
    irregular = any(one in text for one in ("  ", "\n\n\n", "\n \n"))
    return not irregular and text.isascii() and text.replace("\n", "").isprintable()
