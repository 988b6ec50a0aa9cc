"""The earlier store from which a store was made: what was reused, and why the rest was read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CHANGE_WORDS = {"new": "new", "changed": "changed", "same": "the same", "gone": "gone"}
"""What happened to a subject's record: as stored, and as printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Tables and dictionaries that are reused, and by table why it is read again."""

    tables: tuple[str, ...]
    dictionaries: tuple[str, ...]
    read: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The earlier store from which another was made. ``subjects``: how many are ``new``, ``changed``, ``same``,
    ``gone``.

    ``read``: by table, why it was read; ``shards``: the number reused whole, and of all. ``why_nothing``: why nothing
    was reused; ``why_every_subject``: why every subject was processed again; None if that is not so.
    """

    digest: str
    subjects: Mapping[str, int]
    tables: Sequence[str]
    read: Mapping[str, str]
    shards: Sequence[int]
    why_nothing: str | None
    why_every_subject: str | None

    def as_text(self) -> str:
        """Return a few lines for people."""
        counts = ", ".join(f"{count:,} {CHANGE_WORDS[what]}" for what, count in self.subjects.items())
        lines = [f"made from store {self.digest[:16]}: subjects {counts}"]
        if self.why_nothing is not None:
            return "\n".join([f"nothing was reused, everything was read: {self.why_nothing}", *lines])
        reused, whole = self.shards
        lines.append(f"reused: {len(self.tables):,} tables, and {reused:,} of {whole:,} shards whole")
        if self.why_every_subject is not None:
            lines.append(f"every subject was processed again: {self.why_every_subject}")
        for why in dict.fromkeys(self.read.values()):
            lines.append(f"read, {why}: {', '.join(name for name, other in self.read.items() if other == why)}")
        return "\n".join(lines)
