"""What a peer does to its memory: notes that are new, notes that replace others, notes that are dropped, links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardround.memory.edges import Edge
from wardround.memory.experience import Experience, Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote:
    """A note to add. ``hands``: whose cases it says something of besides its own; ``replaces``: the id of a note that
    it stands for from now on, whose hands and links it takes over."""

    note: Experience
    hands: tuple[Provenance, ...] = ()
    replaces: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteChanges:
    """One step of a peer's writer, applied all or nothing. ``dropped`` says why of each id."""

    new: tuple[NewNote, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    links: tuple[Edge, ...] = ()


def linked(first: str, second: str, weight: float) -> tuple[Edge, Edge]:
    """A link between two notes, both ways."""
    value = min(1.0, max(0.0, weight))
    return Edge(source=first, target=second, weight=value), Edge(source=second, target=first, weight=value)
