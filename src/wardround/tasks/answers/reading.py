"""Parse answers and labels from a reply's text; nothing is ever evaluated."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import without_thinking

# Parse an answer from free text, for models that finish without the tool. Nothing is ever evaluated.
#
# The parsers in order: a JSON list or object (also inside a code fence, also a finish call written as text), a list in
# single quotes, bullet or numbered lines, one short line. Prose gives None: a guess would be worse than no answer.


_QUOTED = re.compile(r"'((?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_QUOTED_LIST = re.compile(
    r"\[\s*((?:'(?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*'|\"(?:[^\"\\\n]|\\.)*\")\s*"
    r"(?:,\s*(?:'(?:[^'\\\n]|\\.|(?<=\w)'(?=\w))*'|\"(?:[^\"\\\n]|\\.)*\")\s*)*),?\s*\]"
)
_BULLET = re.compile(r"^[^\S\n]*(?:[-*•]|\d{1,3}[.)])\s+(.+?)\s*$", re.MULTILINE)
_MARKER = re.compile(r"^\s*(?:the\s+)?(?:final\s+)?answers?\s*(?:is|are)?\s*:\s*", re.IGNORECASE)
_KEYS = ("response", "answer", "answers", "final_answer", "labels", "predictions")
_MAX_TEXT = 100_000
_MAX_LINE = 120


def parse_answer(text: str | None) -> tuple[str, ...] | None:
    """Return the answers in a text, in order and without duplicates; None where there are none."""
    if not text:
        return None
    text = without_thinking(text)[-_MAX_TEXT:].strip()
    if not text:
        return None
    for parser in (_from_json, _from_quoted_list, _from_bullets, _from_line):
        answers = _clean(parser(text))
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
        opening = re.compile(r"[\[{]").search(text, position)
        if opening is None:
            return
        try:
            value, position = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            position, failures = opening.end(), failures + 1
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
                content = holder.get(key)
                if isinstance(content, str):
                    return [content]
                if isinstance(content, list):
                    return _strings(content)
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
    return [line.rstrip(".")] if 0 < len(line) <= _MAX_LINE and line[0] not in "<[{" else []


# Find the labels in a phrase, after ``Answer:`` or in a finish call. An ambiguous phrase gives no label.
#
# Accepted: a value (``1``), a value with its meaning (``1 (>= 7 days)``, ``No (0)``), or a label's name at the start of
# the phrase. Not an answer: a denial, a number with a unit, a range, a value beside another label's name.


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
"""Text after a number that shows that the number is not a label."""
_MEANT = re.compile(r"\s*(?:\s[-–]|:|-\s)\s*(?=[^\W\d]|[<>=])")
"""``1 - readmission``, ``2: moderate``: the text after the sign gives the meaning of the value."""
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
    """The labels of a question: ``values`` with their ``names``; ``several``: more than one may be right.

    ``about``: the question's own words; a phrase that repeats them says nothing beyond its label.
    """

    values: tuple[str, ...]
    names: tuple[str, ...]
    several: bool = False
    about: str = ""


def labels_in(text: str, labels: Labels) -> list[str]:
    """Return the label values that a phrase names, each once."""
    phrase = plain(text)
    if labels.several and (parts := [part for part in _PARTS.split(phrase) if part.strip(_WRAPPING)])[1:]:
        whole = _by_name(phrase, labels)
        label_values = whole or [value for part in parts for value in _labels_of_part(part, labels)]
    else:
        label_values = _labels_of_part(phrase, labels)
    return list(dict.fromkeys(label_values))


def plain(text: str) -> str:
    """Return a text in plain characters: no full-width digits, no ligatures, no boxes, no tags."""
    folded = unicodedata.normalize("NFKC", text).replace("≥", ">=").replace("≤", "<=").replace("\u2019", "'")
    return _PAIR.sub(r"\1", _TAG.sub(" ", _BOXED.sub(r"\1", folded)))


def _labels_of_part(text: str, labels: Labels) -> list[str]:
    phrase = text.strip(_WRAPPING)
    phrase = phrase[found.end() :].strip(_WRAPPING) if (found := _PREFIX.match(phrase)) else phrase
    for read in (_by_value, _by_name):
        values = read(phrase, labels)
        if values is not None:
            return values
    return _by_bracket(text.strip(" \t*_`'\"."), labels)


def _by_value(phrase: str, labels: Labels) -> list[str] | None:
    """Return the value at the start of a phrase and the values joined to it; None where there is none.

    "0 or 1" names two values.
    """
    values: list[str] = []
    rest = phrase
    while value := next((value for value in labels.values if _starts(rest, value)), None):
        values.append(value)
        rest = rest[len(value) :]
        joined = _JOINED.match(rest)
        after = rest[joined.end() :].lstrip("*_`'\"") if joined else ""
        if not any(_starts(after, value) for value in labels.values):
            break
        rest = after
    if not values:
        return None
    if not _MEANT.match(rest) and _NO_VALUE.match(rest.lstrip(")]*_`'\"")):
        return []
    return [] if len(values) == 1 and _contradicted(rest, values[0], labels) else values


def _contradicted(rest: str, value: str, labels: Labels) -> bool:
    """Return whether the text after a value is the name of another label: "1 (no readmission)"."""
    meaning = re.split(r"[,;)\]]|\.\s", rest.strip(_WRAPPING + "-–—="), maxsplit=1)[0]
    return any(_folded(meaning) == _folded(name) for other, name in _names(labels) if other != value)


def _by_name(phrase: str, labels: Labels) -> list[str] | None:
    """Return the label whose name starts a phrase, longer names first; empty where the rest denies it."""
    folded = _folded(phrase)
    for value, name in _names(labels):
        after = folded[len(_folded(name)) :]
        if not folded.startswith(_folded(name)) or after[:1].isalnum():
            continue
        if re.match(r"\W*(?:false|0)\b", after) or (_DENIAL.search(after) and not _denial_is_about_other(after)):
            return []
        about = set(re.findall(r"\w+", labels.about.casefold()))
        if not (_AFTER_NAME.match(after) or set(re.findall(r"\w+", after)) <= about):
            return []
        if labels.several and _DENIAL.search(after):
            return [value]
        others = [one for one, other in _names(labels) if one != value and _contains_name(after, other)]
        return [value, *others]
    return None


def _denial_is_about_other(after: str) -> bool:
    """Return whether a denial is about something else: "readmission (with no plan for care)"."""
    return re.match(r"\s*[(\[:;.–-]\W*(?!not?\b|un|false\b)\w", after) is not None


def _contains_name(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_folded(name))}(?!\w)", text) is not None


def _by_bracket(phrase: str, labels: Labels) -> list[str]:
    """Return the value in brackets at the end ("No (0)"); empty where the words before contradict it."""
    match = _LAST_BRACKET.match(phrase)
    if match is None or match[2] not in labels.values:
        return []
    before, value = match[1].strip(_WRAPPING), match[2]
    named_values = [other for other, name in _names(labels) if _folded(before) == _folded(name)]
    if named_values:
        return [value] if value in named_values else []
    is_plain_no = _folded(before) == "no" and value == labels.values[0]
    is_denied = _DENIAL.search(before) or re.search(r"[()\[\]]", before)
    return [value] if is_plain_no or not is_denied else []


def _names(labels: Labels) -> list[tuple[str, str]]:
    """Return (value, name) pairs, longest name first: "no diagnosis" is not "diagnosis"."""
    return sorted(zip(labels.values, labels.names, strict=True), key=lambda pair: -len(pair[1]))


def _starts(phrase: str, value: str) -> bool:
    return re.match(rf"{re.escape(value)}(?![\w.]*\w)", phrase, re.IGNORECASE) is not None


def _folded(text: str) -> str:
    """Return a text in lower case with single spaces and none after a comparison: ``< 7`` becomes ``<7``."""
    return re.sub(r"([<>]=?)\s+", r"\1", " ".join(plain(text).casefold().split())).strip("*_`'\"")


# Parse the label of a classification task from a reply: its value or its name, never a guess.
#
# Only the last line that begins with ``Answer:`` decides: a reply that ends in "Answer: unclear" has no label, even if
# its reasoning says "the answer is 1 if ...". Without such a line a sentence at the end, a JSON value or one short line
# may give the label. A reply with two labels where one is allowed, or with none, gives None; scoring counts it as a
# no-prediction.


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

    In a reply that was cut off (not ``whole``) only a complete answer line counts.
    """
    reply_end = _last_lines(plain(without_thinking(text or "")))
    if not whole:
        reply_end = reply_end[: reply_end.rfind("\n") + 1]
    for marker in (_ANSWER, _PREDICTION):
        for match in reversed(list(marker.finditer(reply_end))):
            if phrases := _answer_lines(reply_end[match.end() :], labels):
                return settle_labels(phrases, labels)
    if not whole:
        return None
    last = (reply_end.splitlines() or [""])[-1]
    for match in reversed(list(_IN_A_SENTENCE.finditer(last))[-_MOST_SENTENCES:]):
        if not _SUPPOSED.search(last[: match.start()]):
            return settle_labels(_answer_lines(last[match.end() :], labels), labels)
    return settle_labels(parse_answer(reply_end) or (), labels)


def settle_labels(answer: Sequence[str], labels: Labels) -> tuple[str, ...] | None:
    """Return an answer as label values, None where it is invalid."""
    values = list(dict.fromkeys(label for phrase in answer for label in labels_in(phrase, labels)))
    if labels.several:
        return tuple(sorted(values, key=labels.values.index)) or None
    return (values[0],) if len(values) == 1 else None


def _last_lines(text: str) -> str:
    """Return the non-empty last lines of a text: an answer is there, and parsing must stay fast."""
    lines = "\n".join([line for line in text.splitlines() if line.strip()][-_MOST_LINES:]).strip()
    return lines if len(lines) <= _MOST_CHARACTERS else f"... {lines[-_MOST_CHARACTERS:]}"


def _answer_lines(text: str, labels: Labels) -> list[str]:
    """Return the first line with content; with several labels also a list below it. The rest is a remark."""
    lines = [line for line in text.splitlines() if line.strip(_EMPTY)]
    if not lines or _ANSWER.match(lines[0]):
        return []
    listed = 1
    while (
        labels.several and listed < len(lines) and _LABEL_BULLET.match(lines[0]) and _LABEL_BULLET.match(lines[listed])
    ):
        listed += 1
    return [re.sub(r"^\s*[-•]\s+", "", line) for line in lines[:listed]]
