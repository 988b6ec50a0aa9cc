"""Reading an answer out of free text, for models that finish without the tool. Nothing is ever evaluated.

Tried in this order: a JSON list or object (also inside a code fence, also a finish call written as text), a list in
single quotes, bullet or numbered lines, one short line. Prose gives None: no answer is better than a made-up one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from wardround.core import without_thinking

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
