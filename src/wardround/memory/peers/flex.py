"""After FLEX (Cai et al., 2025): a library with a golden and a warning zone, each in three levels: strategies, patterns
under them, cases under these. An updater adds or merges; reading goes down the levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from wardround.memory.construction.drafts import Case, draw_by_rules
from wardround.memory.construction.linking import SAME, words_in_common
from wardround.memory.experience import Experience
from wardround.memory.peer import (
    NewNote,
    NoteChanges,
    Peer,
    PeerAsking,
    PeerCase,
    PeerMemory,
    PeerSettings,
    Remembered,
    case_document,
    linked,
    listed,
    note_of,
    searched_text,
)
from wardround.models.schema import object_schema

ZONES = ("golden", "warning")
LEVELS = ("strategy", "pattern", "case")
_NEAR = 20
_COMPARED = 3
_ITEM = object_schema(
    {
        "zone": {"type": "string", "enum": list(ZONES)},
        "level": {"type": "string", "enum": list(LEVELS)},
        "title": {"type": "string", "minLength": 1, "maxLength": 200},
        "content": {"type": "string", "minLength": 1, "maxLength": 1_200},
    }
)
_ITEMS = {"type": "array", "items": _ITEM, "maxItems": 6}
_UPDATE = object_schema(
    {
        "action": {"type": "string", "enum": ["add", "merge", "skip"]},
        "into": {"type": "integer"},
        "content": {"type": "string", "maxLength": 1_200},
    },
    optional=(
        "into",
        "content",
    ),
)


async def distil_items(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """Return the items of a case for the library, higher levels first, so that lower items find their parents."""
    if asking is None:
        return _in_order(_by_rules(case))
    document = case_document(case, max_tokens=settings.document_tokens)
    items = await asking.value("flex_distil", _ITEMS, document=document)
    return _in_order([_item(case, item, **asking.origin) for item in items])


async def update_library(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Add an item under its parent, merge it into one of its shelf, or skip it."""
    near = [one for one in memory.nearest(searched_text(note), limit=_NEAR) if _zone(one[0]) == _zone(note)]
    shelf = [other for other, _ in near if _level(other) == _level(note)][:_COMPARED]
    update: Mapping[str, Any] = _update_by_rules(note, shelf)
    if asking is not None and shelf:
        update = await asking.value("flex_update", _UPDATE, note=note, shelf=shelf)
    into = dict(enumerate(shelf, start=1)).get(update.get("into", 0))
    if update["action"] == "skip":
        memory.counts["skipped"] += 1
        return NoteChanges()
    if update["action"] == "merge" and into is not None:
        merged = replace(into, content=update.get("content") or into.content, id="")
        return NoteChanges(new=(NewNote(note=merged, hands=(note.provenance,), replaces=into.id),))
    return NoteChanges(new=(NewNote(note=note),), links=_under_its_parent(note, near))


_FIRST = 5
"""The number of texts read from the top down; the rest of the room goes to the nearest texts."""


def read_downwards(case: PeerCase) -> Sequence[Remembered]:
    """Return the nearest strategy, then patterns below it, then cases below these. The rest of the limit goes to the
    nearest texts."""
    nearest = case.by_meaning()
    shown: dict[str, Remembered] = {}
    parents: list[Remembered] = []
    for level, places in zip(LEVELS, _places(min(case.settings.k, _FIRST)), strict=True):
        under = {note.id for parent in parents for note, _ in case.linked(parent.note.id)}
        on_level = [remembered for remembered in nearest if _level(remembered.note) == level]
        ordered = sorted(on_level, key=lambda remembered: remembered.note.id not in under)
        parents = [_marked(remembered, under) for remembered in ordered[:places]]
        shown |= {remembered.note.id: remembered for remembered in parents}
    return [*shown.values(), *(remembered for remembered in nearest if remembered.note.id not in shown)]


def _places(k: int) -> tuple[int, int, int]:
    """Return how many of k texts come from each level: one strategy, and equal numbers of patterns and cases."""
    patterns = k // 2
    return (1, patterns, max(0, k - 1 - patterns))


def _marked(remembered: Remembered, under: set[str]) -> Remembered:
    return (
        replace(remembered, why=f"{remembered.why}, under what was read before")
        if remembered.note.id in under
        else remembered
    )


def _under_its_parent(note: Experience, near: Sequence[tuple[Experience, float]]) -> tuple[Any, ...]:
    """Return the link to the nearest item one level up."""
    above = dict(zip(LEVELS[1:], LEVELS, strict=False)).get(_level(note))
    parents = [linked(note.id, other.id, weight) for other, weight in near if _level(other) == above]
    return tuple(chain.from_iterable(parents[:1]))


def _update_by_rules(note: Experience, shelf: Sequence[Experience]) -> dict[str, Any]:
    """Merge with what says the same in almost the same words."""
    for place, other in enumerate(shelf, start=1):
        if words_in_common(note.content, other.content) >= SAME:
            return {"action": "merge", "into": place}
    return {"action": "add"}


def _by_rules(case: Case) -> list[Experience]:
    found = []
    setting = listed(case.setting) or "no setting"
    ended = f"{len(case.successes)} of {len(case.attempts)} attempts succeeded"
    for draw_by_rule in draw_by_rules(case):
        zone = "golden" if draw_by_rule.kind == "indication" else "warning"
        words = {
            "strategy": (
                f"{draw_by_rule.task_type} questions",
                f"For {draw_by_rule.task_type} questions: {draw_by_rule.title.lower()}.",
            ),
            "pattern": (draw_by_rule.title, draw_by_rule.content),
            "case": (f"A case of {draw_by_rule.task}", f"{setting}: {draw_by_rule.title.lower()} ({ended})."),
        }
        found += [
            _item(case, {"zone": zone, "level": level, "title": title, "content": content})
            for level, (title, content) in words.items()
        ]
    return found


def _item(case: Case, fields: Mapping[str, Any], **origin: Any) -> Experience:
    place = {"zone": fields["zone"], "level": fields["level"]}
    title = f"{fields['zone']} {fields['level']}: {fields['title']}"
    return note_of(case, "flex", title=title, content=fields["content"], facts=place, **origin)


def _in_order(items: Sequence[Experience]) -> list[Experience]:
    return sorted(items, key=lambda item: LEVELS.index(_level(item)))


def _zone(note: Experience) -> str:
    return str(note.facts["zone"])


def _level(note: Experience) -> str:
    return str(note.facts["level"])


FLEX = Peer(
    name="flex",
    title="after FLEX: a library of golden and warning items in three levels (Cai et al., 2025)",
    draw=distil_items,
    settle=update_library,
    recall=read_downwards,
    prompts=("flex_distil", "flex_update"),
    differences=(
        "the levels are descended by vector and link; in the published method a model chooses at each level",
        "a merged item replaces the one it was merged into and can be had back",
        "attempts are those of the training run; the published method shows the library to later attempts",
    ),
)
