"""Reading the items a model wrote: Markdown or JSON, fenced or bare, labels in any dress. Nothing is ever evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import FormatError, load_prompt, without_thinking
from wardround.models import read_value

MAXIMUM_ITEMS = 10
_LONGEST = {"title": 200, "description": 600, "content": 2_000}
_LONGEST_TEXT = 200_000
_LISTS = ("items", "memory_items", "experiences", "memories")
_NONE = re.compile(r"\W*none\W*", re.IGNORECASE)
_DRESS = r"[ \t>#*_`\-•]*"
_FIELD = re.compile(
    rf"^(?P<lead>{_DRESS})(?:\d+[.)][ \t]*)?[*_`]*(?P<name>title|description|content)"
    r"[ \t*_`]*(?P<colon>[:：]?)[ \t*_`]*(?P<rest>.*)$",
    re.IGNORECASE,
)
_ITEM = re.compile(
    rf"^{_DRESS}(?:memory[ \t]+)?(?:item|experience|lesson)[ \t]*(?:\d+|i)?{_DRESS}[:.]?[ \t*_]*$", re.IGNORECASE
)
_OBJECTS = {"type": "array", "items": {"type": "object"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedItem:
    """One item: a title, when it applies, what to do."""

    title: str
    description: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedItems:
    """What a reply held. ``problems`` says what was dropped or shortened, and why."""

    items: tuple[ParsedItem, ...]
    problems: tuple[str, ...] = ()


def parse_experiences(text: str, *, maximum: int = MAXIMUM_ITEMS) -> ParsedItems:
    """Read up to ``maximum`` items. A reply of NONE holds none, which is no mistake.

    Raises FormatError, with the correction to send, when there is no usable item.
    """
    plain = without_thinking(text[:_LONGEST_TEXT]).strip()
    if _NONE.fullmatch(plain):
        return ParsedItems(items=())
    drafts = _from_json(plain) or list(_from_markdown(plain.splitlines()))
    items, problems = _usable(drafts, maximum)
    if not items:
        problem = "; ".join(problems[:3]) or "there is no item with a title and a content in it"
        raise FormatError(f"no experience could be read: {problem}", correction=correction(problem, maximum))
    return ParsedItems(items=items, problems=problems)


def item_format(maximum: int) -> str:
    """The paragraph that tells a model how to write items."""
    return load_prompt("wardround.memory", "item_format").render(maximum=maximum)


def correction(problem: str, maximum: int) -> str:
    """What to send a model whose items could not be read."""
    return load_prompt("wardround.memory", "correction").render(problem=problem, item_format=item_format(maximum))


def _from_json(text: str) -> list[Mapping[str, str]]:
    if "{" not in text:
        return []
    listed, problem = read_value(text, _OBJECTS)
    if problem is not None:
        for name in _LISTS:
            schema = {"type": "object", "required": [name], "properties": {name: _OBJECTS}}
            value, problem = read_value(text, schema)
            if problem is None:
                listed = value[name]
                break
    if problem is not None:
        single, problem = read_value(text, {"type": "object", "required": ["title", "content"]})
        listed = [] if problem is not None else [single]
    return [_lowered(entry) for entry in listed]


def _lowered(entry: Mapping[str, Any]) -> dict[str, str]:
    fields = {str(name).strip().casefold(): value for name, value in entry.items()}
    return {name: str(fields.get(name) or "") for name in _LONGEST}


def _from_markdown(lines: Sequence[str]) -> Iterable[Mapping[str, str]]:
    """Follow labelled lines; a line without a label belongs to the field before, or is the title of what follows."""
    draft: dict[str, str] = {}
    current = ""
    loose = ""
    for line in lines:
        if line.strip().startswith("```"):
            continue
        field = _FIELD.match(line)
        labelled = field is not None and (field["colon"] or "#" in field["lead"] or "*" in line or not field["rest"])
        if field is not None and labelled:
            name = field["name"].casefold()
            if name in draft:
                yield draft
                draft = {}
            if name == "description" and "title" not in draft and loose:
                draft["title"] = loose
            current, loose = name, ""
            draft[name] = field["rest"]
        elif _ITEM.match(line):
            if draft:
                yield draft
            draft, current, loose = {}, "", ""
        elif not line.strip():
            loose = ""
            current = "" if current == "content" and draft.get("content") else current
        elif current:
            draft[current] = f"{draft[current]} {line.strip()}"
        else:
            loose = line.strip(" \t#*_`-•.0123456789)")
    if draft:
        yield draft


def _usable(drafts: Iterable[Mapping[str, str]], maximum: int) -> tuple[tuple[ParsedItem, ...], tuple[str, ...]]:
    items: list[ParsedItem] = []
    problems: list[str] = []
    titles: set[str] = set()
    for number, draft in enumerate(drafts, start=1):
        fields = {name: _clean(draft.get(name, "")) for name in _LONGEST}
        missing = [name for name in ("title", "content") if not fields[name]]
        if missing:
            problems.append(f"item {number} has no {' and no '.join(missing)}")
        elif fields["title"].casefold() in titles:
            problems.append(f"item {number} repeats a title")
        elif len(items) == maximum:
            problems.append(f"item {number} is beyond the {maximum} that are taken")
        else:
            titles.add(fields["title"].casefold())
            long = [name for name, limit in _LONGEST.items() if len(fields[name]) > limit]
            problems += [f"the {name} of item {number} was cut at {_LONGEST[name]} characters" for name in long]
            items.append(ParsedItem(**{name: fields[name][:limit].strip() for name, limit in _LONGEST.items()}))
    return tuple(items), tuple(problems)


def _clean(text: str) -> str:
    """One line, no control characters, no dress around it."""
    printable = "".join(mark if mark.isprintable() else " " for mark in text)
    return " ".join(printable.split()).strip("*_` <>").strip()
