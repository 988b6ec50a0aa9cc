"""After A-Mem (Xu et al., 2025): notes with a context, keywords and tags, linked to like notes, whose neighbours evolve
when a new one comes; read by vector, each note with what it is linked to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wardround.memory.construction.drafts import Case
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
from wardround.tools.retrieval.encoder import words_of

_NEIGHBOURS = 5
_MOST_KEYWORDS = 5
_SHARED_KEYWORDS = 2
"""By rules, notes that share so many keywords are linked."""
_MOST_LINKED = 2
_KEYWORDS, _TAGS = "Keywords: ", "Tags: "
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 60}, "maxItems": 10}
_CONTEXT = {"type": "string", "minLength": 1, "maxLength": 600}
_NOTE = object_schema({"context": _CONTEXT, "keywords": _NAMES, "tags": _NAMES})
_EVOLVED = object_schema({"note": {"type": "integer"}, "context": _CONTEXT, "tags": _NAMES})
_EVOLUTION = object_schema(
    {
        "links": {"type": "array", "items": {"type": "integer"}},
        "evolved": {"type": "array", "items": _EVOLVED},
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of a note. They are part of its description, so they are searched and revised with it."""

    context: str
    keywords: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def text(self) -> str:
        """The description of a note."""
        return f"{self.context}\n{_KEYWORDS}{listed(self.keywords)}\n{_TAGS}{listed(self.tags)}"

    @classmethod
    def of(cls, note: Experience) -> Attributes:
        """Read them from a note's description."""
        context, keywords, tags = note.description.rsplit("\n", 2)
        return cls(
            context=context,
            keywords=tuple(filter(None, keywords.removeprefix(_KEYWORDS).split(", "))),
            tags=tuple(filter(None, tags.removeprefix(_TAGS).split(", "))),
        )


async def draw_note(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """Return the case as one note with its attributes."""
    content = case_document(case, max_tokens=settings.document_tokens)
    title = f"A case of {case.attempts[0].material.task}"
    if asking is None:
        return [note_of(case, "a-mem", title=title, description=_by_rules(case).text, content=content)]
    described = await asking.value("a_mem_note", _NOTE, document=content)
    attributes = Attributes(
        context=_line(described["context"]), keywords=_names(described["keywords"]), tags=_names(described["tags"])
    )
    return [note_of(case, "a-mem", title=title, description=attributes.text, content=content, **asking.origin)]


async def settle_note(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Link a note to its neighbours, and let these evolve."""
    near = memory.nearest(searched_text(note), limit=_NEIGHBOURS)
    if not near:
        return NoteChanges(new=(NewNote(note=note),))
    if asking is None:
        links, attributes = _evolution_by_rules(note, near)
    else:
        others = [other for other, _ in near]
        evolution = await asking.value("a_mem_evolve", _EVOLUTION, note=note, others=others)
        links, attributes = _evolution(evolution, near)
    evolved = {
        other.id: NewNote(
            note=replace(
                other, description=attributes[other.id].text, facts={**other.facts, "evolved_from": other.id}, id=""
            ),
            hands=(note.provenance,),
            replaces=other.id,
        )
        for other, _ in near
        if other.id in attributes and attributes[other.id].text != other.description
    }
    ends = {name: evolved[name].note.id if name in evolved else name for name in links}
    return NoteChanges(
        new=(NewNote(note=note), *evolved.values()),
        links=tuple(edge for name, weight in links.items() for edge in linked(note.id, ends[name], weight)),
    )


def recall_notes(case: PeerCase) -> Sequence[Remembered]:
    """Return the nearest notes, each followed by the most strongly linked notes."""
    found: dict[str, Remembered] = {}
    for remembered in case.by_meaning():
        if len(found) >= case.settings.k:
            break
        found.setdefault(remembered.note.id, remembered)
        for note, weight in case.linked(remembered.note.id)[:_MOST_LINKED]:
            why = f"linked to {remembered.note.id} ({weight:.2f})"
            found.setdefault(note.id, Remembered(note=note, score=remembered.score * weight, why=why))
    return list(found.values())


def _by_rules(case: Case) -> Attributes:
    counts = Counter(word for word in words_of(f"{case.description} {' '.join(case.setting)}") if len(word) > 3)
    keywords = sorted(counts, key=lambda word: (-counts[word], word))[:_MOST_KEYWORDS]
    task = case.attempts[0].material.task
    ended = f"{len(case.successes)} of {len(case.attempts)} attempts succeeded"
    return Attributes(
        context=f"A {task} case ({listed(case.setting) or 'no setting'}): {ended}.",
        keywords=tuple(keywords),
        tags=(task, "solved" if case.successes else "not solved"),
    )


def _evolution_by_rules(
    note: Experience, near: Sequence[tuple[Experience, float]]
) -> tuple[dict[str, float], dict[str, Attributes]]:
    """Links to notes that share keywords; these take over the new one's tags."""
    own = Attributes.of(note)
    known = {other.id: Attributes.of(other) for other, _ in near}
    shares = {name: len(set(own.keywords) & set(one.keywords)) for name, one in known.items()}
    links = {other.id: weight for other, weight in near if shares[other.id] >= _SHARED_KEYWORDS}
    tags = {name: tuple(dict.fromkeys((*known[name].tags, *own.tags))) for name in links}
    return links, {name: replace(known[name], tags=tags[name]) for name in links}


def _evolution(
    evolution: Mapping[str, Any], near: Sequence[tuple[Experience, float]]
) -> tuple[dict[str, float], dict[str, Attributes]]:
    """Return the changes that a model asks for, without numbers that name no neighbour."""
    numbered = dict(enumerate(near, start=1))
    links = {numbered[one][0].id: numbered[one][1] for one in evolution["links"] if one in numbered}
    attributes = {}
    for one in evolution["evolved"]:
        if one["note"] in numbered:
            other = numbered[one["note"]][0]
            attributes[other.id] = replace(
                Attributes.of(other), context=_line(one["context"]), tags=_names(one["tags"])
            )
    return links, attributes


def _line(text: str) -> str:
    return " ".join(text.split())


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_line(name).replace(",", " ") for name in names if name.strip()))


A_MEM = Peer(
    name="a-mem",
    title="after A-Mem: linked notes that evolve (Xu et al., 2025)",
    draw=draw_note,
    settle=settle_note,
    recall=recall_notes,
    prompts=("a_mem_note", "a_mem_evolve"),
    differences=(
        "a note is one training case, not one turn of a conversation",
        "an evolved neighbour is replaced by a new note and can be restored; the published code overwrites its text",
        "the five texts include the linked notes (at most two per note); the published code adds them",
    ),
)
