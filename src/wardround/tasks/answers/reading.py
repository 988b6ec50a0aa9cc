"""Read answers and labels from a reply's text; nothing is ever evaluated."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import without_thinking

# Reading an answer out of free text, for models that finish without the tool. Nothing is ever evaluated.
#
# Tried in this order: a JSON list or object (also inside a code fence, also a finish call written as text), a list in
# single quotes, bullet or numbered lines, one short line. Prose gives None: no answer is better than a made-up one.


_QUOTED = re.compile(r"'((?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_QUOTED_LIST = re.compile(
    r"\[\s*((?:'(?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*'|\"(?:[^\"\\\n]|\\.)*\")\s*"
    r"(?:,\s*(?:'(?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*'|\"(?:[^\"\\\n]|\\.)*\")\s*)*),?\s*\]"
)
_BULLET = re.compile(r"^[^\S\n]*(?:[-*•]|\d{1,3}[.)])\s+(.+?)\s*$", re.MULTILINE)
_MARKER = re.compile(r"^\s*(?:the\s+)?(?:final\s+)?answers?\s*(?:is|are)?\s*:\s*", re.IGNORECASE)
_KEYS = ("response", "answer", "answers", "final_answer", "labels", "predictions")
_LONGEST_TEXT = 100_000
_LONGEST_LINE = 120


def parse_answer(text: str | None) -> tuple[str, ...] | None:
    """Return the answers in a text, without duplicates, in order; None when there is nothing to read."""
    if not text:
        return None
    text = without_thinking(text)[-_LONGEST_TEXT:].strip()
    if not text:
        return None
    for reading in (_from_json, _from_quoted_list, _from_bullets, _from_line):
        answers = _clean(reading(text))
        if answers:
            return answers
    return None


def _clean(items: Iterable[str]) -> tuple[str, ...]:
    trimmed = (re.sub(r"\s+", " ", item).strip().strip("*`").strip() for item in items)
    return tuple(dict.fromkeys(item for item in trimmed if item))


def _from_json(text: str) -> list[str]:
    last: list[str] = []
    for value in _json_values(text):
        last = _strings(value) or last
    return last


def _json_values(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    position, failures = 0, 0
    while failures < 200:
        found = re.compile(r"[\[{]").search(text, position)
        if found is None:
            return
        try:
            value, position = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            position, failures = found.end(), failures + 1
        else:
            yield value


def _strings(value: Any) -> list[str]:
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            return value
        return [name for item in value if isinstance(item, dict) for name in _strings(item)[:1]]
    if isinstance(value, dict):
        inner = value.get("arguments")
        for holder in (value, inner if isinstance(inner, dict) else {}):
            for key in _KEYS:
                held = holder.get(key)
                if isinstance(held, str):
                    return [held]
                if isinstance(held, list):
                    return _strings(held)
        name = value.get("name") if inner is None else None
        return [name] if isinstance(name, str) else []
    return []


def _from_quoted_list(text: str) -> list[str]:
    lists = _QUOTED_LIST.findall(text)
    if not lists:
        return []
    return [re.sub(r"\\(.)", r"\1", one or other) for one, other in _QUOTED.findall(lists[-1])]


def _from_bullets(text: str) -> list[str]:
    return _BULLET.findall(text)


def _from_line(text: str) -> list[str]:
    line = _MARKER.sub("", text.splitlines()[-1])
    marked = line != text.splitlines()[-1]
    if not marked and ("\n" in text or ". " in text or text.endswith(("?", ":"))):
        return []
    return [line.rstrip(".")] if 0 < len(line) <= _LONGEST_LINE and line[0] not in "<[{" else []


# What labels a phrase names, after ``Answer:`` or in a finish call. What could mean two things means none.
#
# A value (``1``), a value with its meaning (``1 (>= 7 days)``, ``No (0)``), or a label's name at the start of the
# phrase. A denial, a number with a unit, a range, a value beside another label's name: none of these is an answer.


_WRAPPING = " \t*_`'\"“”‘’[](){}.,;:$!"
_TAG = re.compile(r"</?(?:answer|label)>", re.IGNORECASE)
_PAIR = re.compile(r"<\s*(\w[\w ]*?)\s*>")
_BOXED = re.compile(r"\\(?:boxed|text|textbf|mathbf)\{([^{}]*)\}")
_PREFIX = re.compile(
    r"(?:(?:most\s+)?(?:likely|probably)\s+|predicted\s+|the\s+|an?\s+|(?:label|class|category|option|value)\b\W*)+",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(
    r"""\s*(?:[%‰^+°/:~–-]|[.,]\d|-\s*\d) | \s+(?:in|out\s+of|of|to|or|in\s+every)\s+\d
    | \s*(?:percent|per\s*cent|seconds?|minutes?|hours?|days?|weeks?|months?|years?|m?g|mmol|meq|times)\b
    | \s+(?:or|and)\s+(?:more|less|higher|lower|above|below|over|under)\b
    | [\s,]+(?:(?:is|was|would|will|can|could|seems?|looks?|appears?|be)\s+)*
      (?:not|n't|isn't|un\w+ly|un(?:supported|justified|warranted)|wrong|incorrect|improbable|excluded|ruled|impossible)
      \b(?!\s*\d)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""What makes the number before it something else than a label."""
_MEANT = re.compile(r"\s*(?:\s[-–]|:|-\s)\s*(?=[^\W\d]|[<>=])")
"""``1 - readmission``, ``2: moderate``: what stands behind says what the value means."""
_DENIAL = re.compile(
    r"\b(?:not?|none|never|without|but|except|than|less|lower|below|above|more|low|hardly|rarely|un\w*likely|"
    r"improbable|doubt\w*|exclud\w+|ruled|absent|wrong|incorrect|\w+n't)\b",
    re.IGNORECASE,
)
_JOINED = re.compile(r"\s*(?:[,;/|&~–-]|\bor\b|\band\b|\bto\b|\bvs\b\.?|\bversus\b|(?<=\s))\s*", re.IGNORECASE)
_PARTS = re.compile(r"\s*(?:[,;/&+\n]|\band\b|\bor\b)\s*", re.IGNORECASE)
_AFTER_NAME = re.compile(r"\W*$|\s*[,.;:)(\]\[–-]|\s+(?:within|in|of|by|for|on|at)\b", re.IGNORECASE)
_LAST_BRACKET = re.compile(r"^(.*?)[(\[]\s*([\w.]+)\s*[)\]]\W*$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The labels there are: ``values`` with the ``names`` that say what they mean; ``several`` may hold at once.

    ``about`` are the question's own words: a phrase that repeats them says nothing more than its label.
    """

    values: tuple[str, ...]
    names: tuple[str, ...]
    several: bool = False
    about: str = ""


def labels_in(said: str, labels: Labels) -> list[str]:
    """Return the label values a phrase names, each once; more than one where it names more."""
    phrase = plain(said)
    if labels.several and (parts := [part for part in _PARTS.split(phrase) if part.strip(_WRAPPING)])[1:]:
        whole = _by_name(phrase, labels)
        found = whole or [value for part in parts for value in _one(part, labels)]
    else:
        found = _one(phrase, labels)
    return list(dict.fromkeys(found))


def plain(text: str) -> str:
    """Return a text in its plain characters: no fullwidth digits, no single sign for two, no boxes, no tags."""
    folded = unicodedata.normalize("NFKC", text).replace("≥", ">=").replace("≤", "<=").replace("\u2019", "'")
    return _PAIR.sub(r"\1", _TAG.sub(" ", _BOXED.sub(r"\1", folded)))


def _one(said: str, labels: Labels) -> list[str]:
    phrase = said.strip(_WRAPPING)
    phrase = phrase[found.end() :].strip(_WRAPPING) if (found := _PREFIX.match(phrase)) else phrase
    for read in (_by_value, _by_name):
        named = read(phrase, labels)
        if named is not None:
            return named
    return _by_bracket(said.strip(" \t*_`'\"."), labels)


def _by_value(phrase: str, labels: Labels) -> list[str] | None:
    """Return the value a phrase starts with, and those joined to it: "0 or 1" names two. None: it starts with none."""
    found: list[str] = []
    rest = phrase
    while value := next((one for one in labels.values if _starts(rest, one)), None):
        found.append(value)
        rest = rest[len(value) :]
        joined = _JOINED.match(rest)
        behind = rest[joined.end() :].lstrip("*_`'\"") if joined else ""
        if not any(_starts(behind, one) for one in labels.values):
            break
        rest = behind
    if not found:
        return None
    if not _MEANT.match(rest) and _NO_VALUE.match(rest.lstrip(")]*_`'\"")):
        return []
    return [] if len(found) == 1 and _contradicted(rest, found[0], labels) else found


def _contradicted(rest: str, value: str, labels: Labels) -> bool:
    """Whether what stands behind a value is the name of another label: "1 (no readmission)"."""
    meaning = re.split(r"[,;)\]]|\.\s", rest.strip(_WRAPPING + "-–—="), maxsplit=1)[0]
    return any(_folded(meaning) == _folded(name) for other, name in _names(labels) if other != value)


def _by_name(phrase: str, labels: Labels) -> list[str] | None:
    """Return the label whose name a phrase starts with, longer names first; nothing where what follows denies it."""
    said = _folded(phrase)
    for value, name in _names(labels):
        behind = said[len(_folded(name)) :]
        if not said.startswith(_folded(name)) or behind[:1].isalnum():
            continue
        if re.match(r"\W*(?:false|0)\b", behind) or (_DENIAL.search(behind) and not _explains(behind)):
            return []
        about = set(re.findall(r"\w+", labels.about.casefold()))
        if not (_AFTER_NAME.match(behind) or set(re.findall(r"\w+", behind)) <= about):
            return []
        if labels.several and _DENIAL.search(behind):
            return [value]
        others = [one for one, other in _names(labels) if one != value and _names_it(behind, other)]
        return [value, *others]
    return None


def _explains(behind: str) -> bool:
    """Whether a denial speaks of something else than the name before it: "readmission (with no plan for care)"."""
    return re.match(r"\s*[(\[:;.–-]\W*(?!not?\b|un|false\b)\w", behind) is not None


def _names_it(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_folded(name))}(?!\w)", text) is not None


def _by_bracket(phrase: str, labels: Labels) -> list[str]:
    """Return the value in brackets at the end: "No (0)"; nothing where the words before it speak against it."""
    found = _LAST_BRACKET.match(phrase)
    if found is None or found[2] not in labels.values:
        return []
    before, value = found[1].strip(_WRAPPING), found[2]
    named = [other for other, name in _names(labels) if _folded(before) == _folded(name)]
    if named:
        return [value] if value in named else []
    refused = _folded(before) == "no" and value == labels.values[0]
    denied = _DENIAL.search(before) or re.search(r"[()\[\]]", before)
    return [value] if refused or not denied else []


def _names(labels: Labels) -> list[tuple[str, str]]:
    """Return values and names, the longest name first: "no diagnosis" is not "diagnosis"."""
    return sorted(zip(labels.values, labels.names, strict=True), key=lambda pair: -len(pair[1]))


def _starts(phrase: str, value: str) -> bool:
    return re.match(rf"{re.escape(value)}(?![\w.]*\w)", phrase, re.IGNORECASE) is not None


def _folded(text: str) -> str:
    """Return a text in small letters, spaces once and none after a comparison: ``< 7`` is ``<7``."""
    return re.sub(r"([<>]=?)\s+", r"\1", " ".join(plain(text).casefold().split())).strip("*_`'\"")


# Reading the label of a classification task out of a reply: its value, or its name in its place. Never a guess.
#
# The last line that begins with ``Answer:`` decides, and it alone: a reply that ends in "Answer: unclear" has none,
# though its reasoning may say "the answer is 1 if ...". Without such a line a sentence at the reply's end may give it,
# a JSON value, or one short line. A reply that names two labels where one may hold, or none, gives None: that is a
# no-prediction, which scoring names.


_SIGN = r"[\s*_`\"']*(?:[:=]|\bis\b[\s*_`]*:?)[ \t*_`]*"
_OPENING = r"^[ \t>*_#`\"'{(\[$-]*(?:(?:my|the)\s+)?(?:final\s+|predicted\s+)?"
_ANSWER = re.compile(
    rf"{_OPENING}answer(?:\s*[(\[][^)\]\n]{{0,40}}[)\]])?(?:{_SIGN}|[*_\s`]*$)", re.IGNORECASE | re.MULTILINE
)
_PREDICTION = re.compile(rf"{_OPENING}(?:prediction|label){_SIGN}", re.IGNORECASE | re.MULTILINE)
_IN_A_SENTENCE = re.compile(rf"(?<![\"'“‘`\w])(?:final\s+)?(?:answer|prediction){_SIGN}", re.IGNORECASE)
_SUPPOSED = re.compile(r"\b(?:if|unless|whether|had|would|were|suppos\w+|assum\w+|not?)\b[^.\n]*\Z", re.IGNORECASE)
_LABEL_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)])\s+\S")
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
    while (
        labels.several and listed < len(lines) and _LABEL_BULLET.match(lines[0]) and _LABEL_BULLET.match(lines[listed])
    ):
        listed += 1
    return [re.sub(r"^\s*[-•]\s+", "", line) for line in lines[:listed]]
