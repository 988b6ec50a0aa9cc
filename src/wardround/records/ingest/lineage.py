"""From which store a store was made, what was taken of it, and why the rest was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CHANGE_WORDS = {"new": "new", "changed": "changed", "same": "the same", "gone": "gone"}
"""What may have become of a subject, as stored and as said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """Tables and dictionaries that are taken, and by table why it is read."""

    tables: tuple[str, ...]
    dictionaries: tuple[str, ...]
    read: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """From which store another was made. ``subjects``: how many are ``new``, ``changed``, ``same`` and ``gone``.

    ``read``: by table why it was read; ``shards``: how many of how many were taken whole. ``why_nothing`` was taken,
    and ``why_every_subject`` was finished anew; None: neither.
    """

    digest: str
    subjects: Mapping[str, int]
    tables: Sequence[str]
    read: Mapping[str, str]
    shards: Sequence[int]
    why_nothing: str | None
    why_every_subject: str | None

    def as_text(self) -> str:
        """Say it in a few lines."""
        counts = ", ".join(f"{count:,} {CHANGE_WORDS[what]}" for what, count in self.subjects.items())
        lines = [f"made from store {self.digest[:16]}: subjects {counts}"]
        if self.why_nothing is not None:
            return "\n".join([f"nothing was taken from it, everything was read: {self.why_nothing}", *lines])
        reused, whole = self.shards
        lines.append(f"taken from it: {len(self.tables):,} tables, and {reused:,} of {whole:,} shards whole")
        if self.why_every_subject is not None:
            lines.append(f"every subject's rows were finished anew: {self.why_every_subject}")
        for why in dict.fromkeys(self.read.values()):
            lines.append(f"read, {why}: {', '.join(name for name, other in self.read.items() if other == why)}")
        return "\n".join(lines)
