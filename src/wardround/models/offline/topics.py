"""What the offline policy knows of questions with labels: a rule per topic, and what a text says by it.

It reads only lines that stand for events and measurements, so that neither the question nor a heading is evidence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

_EVENT = re.compile(r"^(?:\S+ \| )?\[([\d :-]+|no time)\] (.*)$")
_VALUE = re.compile(r"^(.*?) \(value: ([-+]?[\d.,]+)(?: ([^);]*))?(?:; .*)?\)$")
_MEASURED = re.compile(r"^(?:- )?(.+?)(?: \(([^()]*)\))?: (.*\d{4}-\d\d-\d\d \d\d:\d\d.*)$")
_AT = re.compile(r"([-+]?[\d.]+) at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicValue:
    """One value of the quantity a topic turns on. ``time`` is text that sorts."""

    time: str
    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One kind of question; see questions.toml."""

    about: str
    indicators: str
    searches: tuple[str, ...]
    keyword: str
    reading: str | None = None
    direction: str = "falling"
    limits: tuple[float, ...] = ()
    factors: Mapping[str, float] = field(default_factory=dict)
    usual: float = 1.0
    signs: tuple[str, ...] = ()
    least: int = 1
    named: bool = False

    def readings(self, lines: Iterable[str]) -> list[TopicValue]:
        """Return the values of its quantity in a text, in the order of time."""
        if self.reading is None:
            return []
        wanted = re.compile(self.reading, re.IGNORECASE)
        found = {one for line in lines for one in _readings(line) if wanted.search(one.name)}
        return sorted(found, key=lambda one: (one.time, one.name, one.value))

    def seen(self, lines: Iterable[str]) -> list[str]:
        """Return which of its signs a text shows, each in its own words once."""
        text = "\n".join(lines)
        hits = (re.search(sign, text, re.IGNORECASE) for sign in self.signs)
        return [hit.group(0).lower() for hit in hits if hit]

    def severity(self, reading: TopicValue) -> int:
        """Return how many limits a value passes."""
        value = reading.value * self.factors.get(reading.unit.lower(), self.usual)
        if self.direction == "rising":
            return sum(value > limit for limit in self.limits)
        return sum(value < limit for limit in self.limits)


def facts_of(text: str) -> list[str]:
    """Return the lines of a text that stand for events, measurements or rows."""
    lines = (line.strip().removeprefix("- fact: ") for line in text.splitlines())
    return [line for line in lines if _EVENT.match(line) or _MEASURED.match(line)]


def topic_of(question: str) -> Topic | None:
    """Return the topic of a question, by the first that it mentions."""
    return next((topic for topic in topics() if re.search(topic.about, question, re.IGNORECASE)), None)


@cache
def topics() -> tuple[Topic, ...]:
    """Return all topics, in the order in which they are looked for."""
    text = resources.files("wardround.models.offline").joinpath("questions.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["topic"]
    return tuple(Topic(**{key: _plain(value) for key, value in row.items()}) for row in rows)


def decide(topic: Topic | None, lines: Sequence[str], labels: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the labels that a text supports by a topic's rule, and why; the first label where it supports none."""
    values = list(labels)
    if topic is None:
        return values[:1], "there is no rule for this question, so the first label stands"
    if topic.named:
        text = "\n".join(lines).lower()
        found = [value for value, name in labels.items() if value != values[0] and name.lower() in text]
        return found or values[:1], f"named in the record: {', '.join(labels[value] for value in found) or 'none'}"
    readings = topic.readings(lines)
    if readings:
        last = readings[-1]
        place = min(topic.severity(last), len(values) - 1)
        return [values[place]], f"the latest {last.name} is {last.value:g} {last.unit} at {last.time}"
    if topic.reading is not None:
        return values[:1], f"no {topic.keyword} value was shown"
    seen = topic.seen(lines)
    place = 1 if len(seen) >= topic.least and len(values) > 1 else 0
    return [values[place]], f"{len(seen)} signs of at least {topic.least} needed: {', '.join(seen) or 'none'}"


def _readings(line: str) -> list[TopicValue]:
    event = _EVENT.match(line)
    if event:
        value = _VALUE.match(event.group(2).partition(" - ")[2])
        number = _number(value.group(2)) if value else None
        if value is None or number is None:
            return []
        return [TopicValue(time=event.group(1), name=value.group(1), value=number, unit=value.group(3) or "")]
    measured = _MEASURED.match(line)
    if measured is None:
        return []
    name, unit, values = measured.groups()
    return [
        TopicValue(time=time, name=name, value=float(value), unit=unit or "") for value, time in _AT.findall(values)
    ]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
