"""Findings of the offline policy as lines of text, and its rule file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

# Findings as lines of text: ``- drug: Furosemide x3 [prescriptions:1 prescriptions:2]``, written and read back.


_LINE = re.compile(r"^- ([a-z]+): (.+?)(?: x(\d+(?:\.\d+)?))?(?: \[((?:\w+:[^\s\]]+ ?)+)\])?$", re.MULTILINE)
_ROWS_KEPT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineFinding:
    """One finding: what kind, what, how much of it, and the rows it was read from."""

    kind: str
    value: str
    amount: float = 1.0
    rows: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The finding as text."""
        amount = "" if self.amount == 1 else f" x{self.amount:g}"
        rows = f" [{' '.join(self.rows[:_ROWS_KEPT])}]" if self.rows else ""
        return f"- {self.kind}: {' '.join(self.value.split())}{amount}{rows}"


def read_notes(text: str) -> list[OfflineFinding]:
    """Return the findings in a text."""
    return [
        OfflineFinding(kind=kind, value=value, amount=float(amount or 1), rows=tuple((rows or "").split()))
        for kind, value, amount, rows in _LINE.findall(text)
    ]


class OfflineFindings:
    """All findings so far, by kind, in the order they were made."""

    def __init__(
        self, notes: Iterable[OfflineFinding], *, now: str, space: str, listed: Iterable[str] = (), shown: str = ""
    ) -> None:
        self._notes: dict[str, list[OfflineFinding]] = {}
        self.now = now
        """The time of the question, as the prompt gives it."""
        self.space = space
        """The candidate table of the question."""
        self._listed = {name.casefold(): name for name in listed}
        self.shown = shown
        """The text in the prompt beside the question."""
        self.add(notes)

    def add(self, notes: Iterable[OfflineFinding]) -> None:
        """Take in more findings."""
        for note in notes:
            self._notes.setdefault(note.kind, []).append(note)

    def permitted(self, label: str) -> str | None:
        """Return a label as the question lists it; None if it does not; unchanged if the question lists no names."""
        return self._listed.get(label.casefold()) if self._listed else label

    def of(self, kind: str) -> list[OfflineFinding]:
        """Return the findings of a kind."""
        return self._notes.get(kind, [])

    def first(self, kind: str, default: str = "") -> str:
        """Return the first value of a kind."""
        notes = self.of(kind)
        return notes[0].value if notes else default

    def has(self, kind: str, value: str) -> bool:
        """Return whether a value of a kind was found."""
        return any(note.value == value for note in self.of(kind))

    def table(self, name: str) -> bool:
        """Return whether the chart has rows in a table; without a list of tables, assume so."""
        return not self.of("tables") or name in self.first("tables").split()

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table, none where nobody looked."""
        listed = (note.value.split() for note in self.of("columns"))
        return next((tuple(columns) for name, *columns in listed if name == table), ())

    @property
    def everything(self) -> list[OfflineFinding]:
        """Return all findings."""
        return [note for notes in self._notes.values() for note in notes]


# The rule file: what a drug, a laboratory value or a word in a note makes one think of.


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule:
    """If a finding matches ``pattern``, ``thought`` holds with ``weight`` (a rough probability)."""

    pattern: re.Pattern[str]
    thought: str
    weight: float


@cache
def load_rules() -> dict[str, Any]:
    """Return the rule file as plain tables."""
    text = resources.files("wardround.models.offline").joinpath("rules.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def rules_for(task: str, kind: str) -> tuple[FindingRule, ...]:
    """Return the rules of one task for one kind of finding."""
    rows = load_rules().get(task, {}).get(kind, [])
    return tuple(
        FindingRule(pattern=re.compile(rf"\b(?:{pattern})", re.IGNORECASE), thought=thought, weight=weight)
        for pattern, thought, weight in rows
    )


def names(task: str, key: str) -> tuple[str, ...]:
    """Return a list of names from the rule file."""
    return tuple(load_rules().get(task, {}).get(key, ()))
