"""After Mem0 with a graph (Chhikara et al., 2025): memories as labelled edges between entities; a new one replaces what
it contradicts; reading goes from the entities a question names, and by the likeness of whole triplets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wardround.memory.construction.attempts import Case
from wardround.memory.construction.rules import draw_by_rules
from wardround.memory.entities import normal_name
from wardround.memory.experience import Experience
from wardround.memory.peers.asking import PeerAsking
from wardround.memory.peers.changes import NewNote, NoteChanges
from wardround.memory.peers.documents import case_document, note_of, searched_text
from wardround.memory.peers.peer import Peer
from wardround.memory.peers.peer_case import PeerCase, Remembered, fused
from wardround.memory.peers.peer_memory import PeerMemory
from wardround.memory.peers.settings import PeerSettings
from wardround.memory.words import plain_words

_COMPARED = 10
_NAME = {"type": "string", "minLength": 1, "maxLength": 80}
_TRIPLET = {
    "type": "object",
    "properties": {
        "source": _NAME,
        "relation": _NAME,
        "target": _NAME,
        "fact": {"type": "string", "minLength": 1, "maxLength": 600},
    },
    "required": ["source", "relation", "target", "fact"],
}
_TRIPLETS = {"type": "array", "items": _TRIPLET, "maxItems": 8}
_OBSOLETE = {"type": "array", "items": {"type": "integer"}}


async def draw_triplets(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """What a case says, as triplets with the sentence they stand for."""
    if asking is None:
        return [one for drawn in draw_by_rules(case) for one in _by_rules(case, drawn)]
    document = case_document(case, max_tokens=settings.document_tokens)
    said = await asking.value("mem0_graph_extract", _TRIPLETS, document=document)
    return [_triplet(case, one["source"], one["relation"], one["target"], one["fact"], **asking.origin) for one in said]


async def settle_triplet(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Add a triplet that is not there yet, and drop those that a model finds contradicted by it."""
    near = [other for other, _ in memory.nearest(searched_text(note), limit=_COMPARED)]
    if any(_parts(other) == _parts(note) for other in near):
        memory.counts["said already"] += 1
        return NoteChanges()
    rivals = [other for other in near if _ends(other) & _ends(note)]
    obsolete: list[Experience] = []
    if asking is not None and rivals:
        numbers = await asking.value("mem0_graph_conflicts", _OBSOLETE, note=note, rivals=rivals)
        obsolete = [one for place, one in enumerate(rivals, start=1) if place in numbers]
    return NoteChanges(new=(NewNote(note=note),), dropped={one.id: f"obsolete since {note.id}" for one in obsolete})


def recall_triplets(case: PeerCase) -> Sequence[Remembered]:
    """Triplets around the entities that the question names, and those that are like it, fused."""
    words = set(plain_words(case.question.text).split())
    by_vector = case.by_meaning()
    pool = {one.note.id: one for one in (*case.by_words(), *by_vector)}
    named = [one for one in pool.values() if any(_stands_in(end, words) for end in _ends(one.note))]
    reached = {end for one in named for end in _ends(one.note)}
    beyond = [one for one in pool.values() if one not in named and _ends(one.note) & reached]
    return fused([[*named, *beyond], by_vector])


def _stands_in(name: str, words: set[str]) -> bool:
    own = set(plain_words(name).split())
    return bool(own) and own <= words


def _by_rules(case: Case, drawn: Experience) -> list[Experience]:
    """An edge from each phrase of an experience's condition to what it says is to be done, or not."""
    relation = "is led by" if drawn.kind == "indication" else "is misled by"
    phrases = [phrase.strip() for phrase in drawn.condition.split(";") if phrase.strip()]
    return [_triplet(case, phrase, relation, drawn.title, drawn.content) for phrase in phrases]


def _triplet(case: Case, source: str, relation: str, target: str, fact: str, **origin: Any) -> Experience:
    facts = {"source": normal_name(source), "relation": normal_name(relation), "target": normal_name(target)}
    title = f"{source} - {relation} - {target}"
    return note_of(case, "mem0-graph", title=title, content=fact, facts=facts, **origin)


def _parts(note: Experience) -> tuple[str, ...]:
    return tuple(str(note.facts[name]) for name in ("source", "relation", "target"))


def _ends(note: Experience) -> frozenset[str]:
    source, _, target = _parts(note)
    return frozenset((source, target))


MEM0_GRAPH = Peer(
    name="mem0-graph",
    title="after Mem0-graph: memories as triplets, contradicted ones dropped (Chhikara et al., 2025)",
    draw=draw_triplets,
    settle=settle_triplet,
    recall=recall_triplets,
    prompts=("mem0_graph_extract", "mem0_graph_conflicts"),
    differences=(
        "written here: the package's graph store needs a graph database, and its later versions have none",
        "entities are one where their names are, in normal form; there also where their vectors are near",
        "a triplet is shown with the sentence it stands for, and counts as one of the five texts",
        "traversal goes one step beyond the entities named, among the fifty nearest by words and by vector",
    ),
)
