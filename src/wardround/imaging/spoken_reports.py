"""What vision models reply in their own words: a report in prose, boxes in the form that a model was trained to write.

Read where a reply is no JSON. A box whose scale its form does not say is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wardround.core import without_thinking
from wardround.imaging.rendering import Outline
from wardround.models.structured import read_value

_SHORTEST_REPORT = 3
"""Words; less is no report."""
_HEADING = re.compile(
    r"(?:^|\n|(?<=[.:;]\s))[\s#*_>-]*(findings?|impressions?|conclusions?|opinion|summary)[\s*_]*:[\s*_]*",
    re.IGNORECASE,
)
_IMPRESSION = ("impression", "conclusion", "opinion", "summary")
_MARKS = re.compile(
    r"<\|?/?(?:obj|ref|box)\|?>|<loc\d{4}>|<[xy]\d{1,3}>|\(\d{1,4},\s*\d{1,4}\),\s*\(\d{1,4},\s*\d{1,4}\)"
)
_PAIRS = r"\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)\s*,\s*\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)"
_BOX_FORMS: tuple[tuple[re.Pattern[str], Callable[[list[float]], Outline]], ...] = (
    (  # MAIRA-2: <box><x10><y20><x55><y55></box>, hundredths
        re.compile(r"<x(\d{1,3})>\s*<y(\d{1,3})>\s*<x(\d{1,3})>\s*<y(\d{1,3})>"),
        lambda n: (n[0] / 100, n[1] / 100, n[2] / 100, n[3] / 100),
    ),
    (  # PaliGemma: <loc0256><loc0128><loc0768><loc0512>, top, left, bottom, right in 1,024 parts
        re.compile(r"<loc(\d{4})>\s*<loc(\d{4})>\s*<loc(\d{4})>\s*<loc(\d{4})>"),
        lambda n: (n[1] / 1024, n[0] / 1024, n[3] / 1024, n[2] / 1024),
    ),
    (  # CheXagent: <|box|> (10,20),(55,55) <|/box|>, hundredths
        re.compile(rf"<\|box\|>\s*{_PAIRS}"),
        lambda n: (n[0] / 100, n[1] / 100, n[2] / 100, n[3] / 100),
    ),
    (  # Qwen-VL: <box>(100,200),(550,550)</box>, thousandths
        re.compile(rf"<box>\s*{_PAIRS}"),
        lambda n: (n[0] / 1000, n[1] / 1000, n[2] / 1000, n[3] / 1000),
    ),
)


def read_report(text: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return findings and impression of a reply, as JSON or as prose, or None and what is wrong with it."""
    value, problem = read_value(text, schema)
    if problem is None:
        return value, None
    text = without_thinking(text)
    if text.lstrip().startswith(("{", "[", "<tool_call>")):
        return None, problem
    plain = " ".join(_MARKS.sub(" ", text).split(" ")).strip()
    parts = _parts(plain)
    if sum(len(part.split()) for part in parts.values()) < _SHORTEST_REPORT:
        return None, "it holds no report"
    return parts, None


def _parts(text: str) -> dict[str, str]:
    """Findings and impression by their headings; without one, all of it is findings."""
    found = list(_HEADING.finditer(text))
    if not found:
        return {"findings": _tidy(text), "impression": ""}
    parts = {"findings": "", "impression": ""}
    ends = [*(heading.start() for heading in found[1:]), len(text)]
    for heading, end in zip(found, ends, strict=True):
        part = "impression" if heading[1].lower().startswith(_IMPRESSION) else "findings"
        parts[part] = _tidy(f"{parts[part]} {text[heading.end() : end]}")
    return parts


def _tidy(text: str) -> str:
    return re.sub(r"\s+([.,;])", r"\1", re.sub(r"[ \t]+", " ", text)).strip(" *_\n-")


def read_boxes(text: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return the boxes of a reply, as JSON in shares of the picture or in a model's own form, or what is wrong."""
    value, problem = read_value(text, schema)
    if problem is None:
        outside = any(number > 1 for box in value["boxes"] for number in box)
        return (None, "the numbers of a box go from 0 to 1") if outside else (value, None)
    boxes = list(_own_boxes(text))
    return ({"boxes": boxes}, None) if boxes else (None, problem)


def _own_boxes(text: str) -> Iterator[list[float]]:
    for form, shares in _BOX_FORMS:
        for found in form.finditer(text):
            yield list(shares([float(number) for number in found.groups()]))
