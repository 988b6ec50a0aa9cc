"""A text of reasoning as numbered points, so that a judge marks points and code does the counting."""

from __future__ import annotations

import re

MOST_POINTS = 60
_LONGEST_POINT = 400
_MARKER = re.compile(r"^\s*(?:[-*•>#]+|\(?\d{1,2}[.)]|step\s+\d{1,2}[.:)]?)\s*", re.IGNORECASE)
_HEADING = re.compile(r"^[\s*_#]*(?:final\s+)?(?:reasoning|answer|summary|conclusion)[\s*_]*:[\s*_]*$", re.IGNORECASE)
_TITLE = re.compile(r"^\s*(?:#{1,6}\s+[^:.;]+:?|(?:[-•]\s+|\d{1,2}[.)]\s+)?\*\*[^*:.;]+:?\*\*:?|[^:.;]+:[\s*_]*)$")
_MOST_TITLE_WORDS = 8
_LABEL = re.compile(r"^[\s*_]*reasoning[\s*_]*:[\s*_]*", re.IGNORECASE)
_ANSWER = re.compile(r"^[\s*_#>]*(?:final\s+)?answer[\s*_]*:", re.IGNORECASE | re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.;!?])\s+(?=[A-Z(])")
_WORD = re.compile(r"\w")


def points_of(text: str) -> tuple[str, ...]:
    """Return the points of a text: a line each, a long line sentence by sentence, at most the first 60.

    What stands behind the last ``Answer:`` is the answer and no reasoning.
    """
    lines = (_MARKER.sub("", line).strip() for line in reasoning_part(text).splitlines())
    found = [point for line in lines for point in _parts(line) if _WORD.search(point)]
    return tuple(found[:MOST_POINTS])


def reasoning_part(text: str) -> str:
    """Return a reply without its answer and without headings, alone in their line or before the first words.

    A heading is a Markdown title, a line all in bold or a line that ends in a colon, of at most 8 words.
    """
    marks = list(_ANSWER.finditer(text))
    reasoning = text[: marks[-1].start()] if marks else text
    return "\n".join(_LABEL.sub("", line) for line in reasoning.splitlines() if not _is_heading(line)).strip()


def _is_heading(line: str) -> bool:
    title = _TITLE.match(line) is not None and len(line.split()) <= _MOST_TITLE_WORDS
    return title or _HEADING.match(line) is not None


def _parts(line: str) -> list[str]:
    return [line] if len(line) <= _LONGEST_POINT else _SENTENCE.split(line)
