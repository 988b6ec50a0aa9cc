"""A page as the browser holds it: numbered wrapped lines, links by number, and where a found place is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from wardround.core import estimate_tokens

WIDTH = 80
VIEW_TOKENS = 1024
"""What is shown of a page at once, unless a number of lines is asked for."""
_TITLE_CHARACTERS = 300
_URL_CHARACTERS = 1000
_MOST_HITS = 50
_LINES_OF_A_HIT = 4
_LINK = re.compile(r"【\d+†(?P<text>[^†】]+)(?:†[^†】]+)?】")
_LINK_BEGUN = re.compile(r"【\d*(?:†(?P<text>[^†】]*)(?:†[^†】]*)?)?$")
_LINK_ENDED = re.compile(r"^[^【】]*】")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserPage:
    """One page. ``links`` are addresses by number; ``places`` (of a page of finds) are the lines they lead to.

    ``listing``: a page of results or finds, in which nothing is found again. ``source`` is what it was made of, where
    that is a text."""

    url: str
    title: str
    lines: Sequence[str]
    links: Mapping[int, str] = field(default_factory=dict)
    places: Mapping[int, int] = field(default_factory=dict)
    listing: bool = False
    source: str | None = None

    def end_of_view(self, start: int, count: int, tokens: int) -> int:
        """Return the line behind the last one to show from ``start`` on: ``count`` lines, or as many as fit, at least
        one, and never more than ``tokens``."""
        room = tokens if count > 0 else min(VIEW_TOKENS, tokens)
        most = len(self.lines) if count <= 0 else min(len(self.lines), start + count)
        end = start
        while end < most:
            room -= estimate_tokens(f"L{end}: {self.lines[end]}\n")
            if room < 0 and end > start:
                break
            end += 1
        return end

    def shown(self, cursor: int, start: int, end: int) -> str:
        """The page's text from a line to the one before ``end``, under its head."""
        address = f" ({_cut(unquote(self.url), _URL_CHARACTERS)})" if self.url else ""
        head = f"[{cursor}] {_cut(self.title, _TITLE_CHARACTERS)}{address}"
        where = f"**viewing lines [{start} - {end - 1}] of {len(self.lines) - 1}**"
        body = "\n".join(f"L{number}: {self.lines[number]}" for number in range(start, end))
        return f"{head}\n{where}\n\n{body}"

    def find(self, pattern: str) -> BrowserPage:
        """Return the page of the places where a text stands, case aside, without what a link mark adds."""
        wanted, lines = pattern.lower(), _without_links(self.lines)
        places: list[int] = []
        number = 0
        while number < len(lines) and len(places) < _MOST_HITS:
            if wanted in lines[number].lower():
                places.append(number)
                number += _LINES_OF_A_HIT
            else:
                number += 1
        found = "\n\n".join(
            "\n".join([f"# 【{hit}†match at L{place}】", *lines[place : place + _LINES_OF_A_HIT]])
            for hit, place in enumerate(places)
        )
        return BrowserPage(
            url=f"{self.url}/find?pattern={pattern}",
            title=f"Find results for text: `{pattern}` in `{self.title}`",
            lines=wrapped(found or f"No `find` results for pattern: `{pattern}`"),
            links=dict.fromkeys(range(len(places)), self.url),
            places=dict(enumerate(places)),
            listing=True,
        )


def wrapped(text: str) -> list[str]:
    """Cut a text into lines of at most 80 characters; an empty line stays one.

    >>> wrapped("a" * 81)[1]
    'a'
    """
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, WIDTH, replace_whitespace=False, drop_whitespace=False) or [""]
    return lines


def _without_links(lines: Sequence[str]) -> list[str]:
    """Lines with the words of links instead of their marks; a mark that is wrapped over two lines too."""
    text = _LINK.sub(lambda found: found["text"], "\n".join(lines))
    bare = [_LINK_BEGUN.sub(lambda found: found["text"] or "", line) for line in text.split("\n")]
    return [_LINK_ENDED.sub("", line) for line in bare]


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 3] + "..."
