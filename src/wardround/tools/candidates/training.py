"""What training subjects have of a space's labels, counted in groups of people.

A question about a training subject is asked with what the people of other groups had, so that nothing of its own record
takes part in which candidates there are and in which order they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Described = dict[str, set[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Labels as they were spelt: what describes each, and how many subjects have it."""

    described: Described = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)

    def add(self, labels: Mapping[str, Iterable[str]]) -> None:
        """Count one subject's labels, each with what describes it."""
        for label, texts in labels.items():
            self.described.setdefault(label, set()).update(texts)
        self.uses.update(labels.keys())


class SeenByGroup:
    """What each group of training subjects has."""

    def __init__(self) -> None:
        self._parts: dict[int, Seen] = {}

    def add(self, group: int, labels: Mapping[str, Iterable[str]]) -> None:
        """Count one subject's labels for its group."""
        self._parts.setdefault(group, Seen()).add(labels)

    def all(self, *, but: int | None = None) -> Seen:
        """Join all groups, or all but one."""
        joined = Seen()
        for group, part in sorted(self._parts.items()):
            if group != but:
                for label, texts in part.described.items():
                    joined.described.setdefault(label, set()).update(texts)
                joined.uses.update(part.uses)
        return joined
