"""Reading the label of a classification task out of a reply: its value, or its name in its place. Never a guess.

The last line that begins with ``Answer:`` decides, and it alone: a reply that ends in "Answer: unclear" has none,
though its reasoning may say "the answer is 1 if ...". Without such a line a sentence at the reply's end may give it,
a JSON value, or one short line. A reply that names two labels where one may hold, or none, gives None: that is a
no-prediction, which scoring names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wardround.answers.free_text import parse_answer
from wardround.answers.label_phrases import Labels, labels_in, plain
from wardround.core import without_thinking

_SIGN = r"[\s*_`\"']*(?:[:=]|\bis\b[\s*_`]*:?)[ \t*_`]*"
_OPENING = r"^[ \t>*_#`\"'{(\[$-]*(?:(?:my|the)\s+)?(?:final\s+|predicted\s+)?"
_ANSWER = re.compile(
    rf"{_OPENING}answer(?:\s*[(\[][^)\]\n]{{0,40}}[)\]])?(?:{_SIGN}|[*_\s`]*$)", re.IGNORECASE | re.MULTILINE
)
_PREDICTION = re.compile(rf"{_OPENING}(?:prediction|label){_SIGN}", re.IGNORECASE | re.MULTILINE)
_IN_A_SENTENCE = re.compile(rf"(?<![\"'“‘`\w])(?:final\s+)?(?:answer|prediction){_SIGN}", re.IGNORECASE)
_SUPPOSED = re.compile(r"\b(?:if|unless|whether|had|would|were|suppos\w+|assum\w+|not?)\b[^.\n]*\Z", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)])\s+\S")
_MOST_LINES, _MOST_CHARACTERS, _MOST_SENTENCES = 200, 10_000, 10
_EMPTY = " \t*_`'\"()[]{}.,;:$#<>"


def read_labels(text: str | None, labels: Labels, *, whole: bool = True) -> tuple[str, ...] | None:
    """Return the label values in a text, None where there is no answer.

    Of a reply that was cut off (not ``whole``) only a finished answer line gives a label: its end is mid-thought.
    """
    spoken = _end(plain(without_thinking(text or "")))
    if not whole:
        spoken = spoken[: spoken.rfind("\n") + 1]
    for marker in (_ANSWER, _PREDICTION):
        for found in reversed(list(marker.finditer(spoken))):
            if said := _said(spoken[found.end() :], labels):
                return settle_labels(said, labels)
    if not whole:
        return None
    last = (spoken.splitlines() or [""])[-1]
    for found in reversed(list(_IN_A_SENTENCE.finditer(last))[-_MOST_SENTENCES:]):
        if not _SUPPOSED.search(last[: found.start()]):
            return settle_labels(_said(last[found.end() :], labels), labels)
    return settle_labels(parse_answer(spoken) or (), labels)


def settle_labels(answer: Sequence[str], labels: Labels) -> tuple[str, ...] | None:
    """Return an answer as label values, None where none can be read."""
    read = list(dict.fromkeys(label for said in answer for label in labels_in(said, labels)))
    if labels.several:
        return tuple(sorted(read, key=labels.values.index)) or None
    return (read[0],) if len(read) == 1 else None


def _end(text: str) -> str:
    """Return the lines at a text's end that say anything: an answer stands there, and reading must stay quick."""
    lines = "\n".join([line for line in text.splitlines() if line.strip()][-_MOST_LINES:]).strip()
    return lines if len(lines) <= _MOST_CHARACTERS else f"... {lines[-_MOST_CHARACTERS:]}"


def _said(text: str, labels: Labels) -> list[str]:
    """Return the first line that says anything; of several labels, a list below it too. What follows is a remark."""
    lines = [line for line in text.splitlines() if line.strip(_EMPTY)]
    if not lines or _ANSWER.match(lines[0]):
        return []
    listed = 1
    while labels.several and listed < len(lines) and _BULLET.match(lines[0]) and _BULLET.match(lines[listed]):
        listed += 1
    return [re.sub(r"^\s*[-•]\s+", "", line) for line in lines[:listed]]
