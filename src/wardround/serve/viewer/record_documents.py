"""Notes and images on a record as of a moment, as marks on a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from wardround.records import Event
from wardround.serve.viewer.record import Interest, TimeScale

MOST_DOCUMENTS = 20
_EXCERPT = 800
_TITLE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnDocument:
    """A note or an image: its place, the beginning of its text, whether the agent read or cited it."""

    row_id: str
    x: float
    is_image: bool
    when: str
    title: str
    text: str
    is_cut: bool
    is_read: bool
    cite: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnDocuments:
    """The drawn documents in order of time, and the number of all."""

    shown: tuple[DrawnDocument, ...]
    total: int


def draw_documents(
    documents: Sequence[Event], images: set[str], start: datetime, end: datetime, interest: Interest
) -> DrawnDocuments:
    """Lay out notes and images between two moments: those cited and those read first, then the latest."""
    scale = TimeScale(start=start, end=end)
    ranked = sorted(documents, key=lambda document: document.time or start, reverse=True)
    ranked.sort(key=lambda one: (one.row_id not in interest.cited, one.row_id not in interest.read))
    chosen = sorted(ranked[:MOST_DOCUMENTS], key=lambda one: (one.time or start, one.row_id))
    shown = tuple(_drawn(one, one.table in images, scale, interest) for one in chosen)
    return DrawnDocuments(shown=shown, total=len(documents))


def _drawn(event: Event, is_image: bool, scale: TimeScale, interest: Interest) -> DrawnDocument:
    text = event.text_value or ""
    said = event.description or event.code
    return DrawnDocument(
        row_id=event.row_id,
        x=0.0 if event.time is None else scale.x(event.time, margin=4),
        is_image=is_image,
        when="" if event.time is None else f"{event.time:%Y-%m-%d %H:%M}",
        title=event.table if said == event.table else f"{event.table}: {said[:_TITLE]}",
        text=text[:_EXCERPT],
        is_cut=len(text) > _EXCERPT,
        is_read=event.row_id in interest.read,
        cite=interest.cited.get(event.row_id),
    )
