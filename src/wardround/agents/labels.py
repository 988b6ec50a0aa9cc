"""Reading the label of a classification task out of a reply: its value, or its name in its place. Never a guess.

``Answer: 1``, ``**Answer:** 1 (>= 7 days)``, ``the answer is "readmission"``, a JSON list, one short line. A reply that
names two labels where one may hold, or none, gives None: that is a no-prediction, which scoring names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wardround.agents.answers import parse_answer
from wardround.core import Question, without_thinking

_MARKER = re.compile(r"\b(?:final\s+)?(?:answer|prediction|label)[\s*_`]*(?::|\bis\b|=)[\s*_`:]*", re.IGNORECASE)
_WRAPPING = " \t*_`'\"“”‘’[](){}<>.,;:"
_PREFIX = re.compile(r"(?:the\s+)?(?:label|class|category|option|value)\s+", re.IGNORECASE)
_JOINED = re.compile(r"\s*(?:[,;/–-]|or\b|and\b|to\b)\s*")
_DENIED = re.compile(r"\b(?:not|no|without)\s*\Z")


def read_answer(text: str | None, question: Question | None) -> tuple[str, ...] | None:
    """Return the answer in a text: free names for an open question, label values for any other."""
    if question is None or not question.label_values:
        return parse_answer(text)
    spoken = without_thinking(text or "").strip()
    marked = [spoken[found.end() :] for found in _MARKER.finditer(spoken)]
    for said in reversed(marked):
        labels = settle(_first_line(said, several=question.several), question)
        if labels:
            return labels
    return None if marked else settle(parse_answer(spoken) or (), question)


def settle(answer: Sequence[str], question: Question | None) -> tuple[str, ...] | None:
    """Return an answer as label values, None where none can be read; as it is for an open question."""
    if question is None or not question.label_values:
        return tuple(answer)
    read = list(dict.fromkeys(label for said in answer for label in _labels_in(said, question)))
    if question.several:
        return tuple(sorted(read, key=question.label_values.index)) or None
    return (read[0],) if len(read) == 1 else None


def _first_line(text: str, *, several: bool) -> Sequence[str]:
    lines = [line for line in text.splitlines() if line.strip(_WRAPPING)]
    return lines if several else lines[:1]


def _labels_in(said: str, question: Question) -> list[str]:
    """Return the values that a phrase names: those it starts with, one in brackets, or every label name in it."""
    phrase = _PREFIX.sub("", said.strip(_WRAPPING), count=1)
    leading = _leading(phrase, question)
    bracketed = [value for value in question.label_values if re.search(rf"[(\[]\s*{re.escape(value)}\s*[)\]]", said)]
    return leading or bracketed or _named(said, question)


def _leading(phrase: str, question: Question) -> list[str]:
    """Return the value that a phrase starts with, and those joined to it: "0 or 1" names two."""
    found: list[str] = []
    while value := next((one for one in question.label_values if _starts_with(phrase, one)), None):
        found.append(value)
        rest = phrase[len(value) :].lstrip(_WRAPPING.replace(",", "").replace(";", ""))
        joined = _JOINED.match(rest)
        phrase = rest[joined.end() :] if joined else ""
    return found


def _starts_with(phrase: str, value: str) -> bool:
    return re.match(rf"{re.escape(value)}(?![\w.]*\w)", phrase, re.IGNORECASE) is not None


def _named(said: str, question: Question) -> list[str]:
    """Return the labels whose name stands in a phrase, longer names first: "no diagnosis" does not name "diagnosis"."""
    left, found = " ".join(said.casefold().split()), []
    named = zip(question.label_names, question.label_values, strict=True)
    for name, value in sorted(named, key=lambda pair: -len(pair[0])):
        pattern = rf"(?<!\w){re.escape(' '.join(name.casefold().split()))}(?!\w)"
        places = list(re.finditer(pattern, left))
        if any(_DENIED.search(left[: place.start()]) for place in places):
            return []
        left = re.sub(pattern, " ", left)
        found += [value] if places else []
    return found
