"""Mem0 with and without a graph (Chhikara et al., 2025), and its own package behind an adapter."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

from wardround.core import Message, import_extra
from wardround.memory.construction.drafts import Case, draw_by_rules
from wardround.memory.experience import Experience, normal_name
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
    fused,
    note_of,
    searched_text,
)
from wardround.memory.peers.packages import BY_A_MODEL, FactChanges, environment, package_peer
from wardround.memory.words import plain_words
from wardround.models.schema import object_schema

# After Mem0 with a graph (Chhikara et al., 2025): memories as labelled edges between entities; a new one replaces what
# it contradicts; reading goes from the entities a question names, and by the likeness of whole triplets.


_COMPARED = 10
_NAME = {"type": "string", "minLength": 1, "maxLength": 80}
_TRIPLET = object_schema(
    {
        "source": _NAME,
        "relation": _NAME,
        "target": _NAME,
        "fact": {"type": "string", "minLength": 1, "maxLength": 600},
    }
)
_TRIPLETS = {"type": "array", "items": _TRIPLET, "maxItems": 8}
_OBSOLETE = {"type": "array", "items": {"type": "integer"}}


async def draw_triplets(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """Return the case as triplets, each with the sentence it comes from."""
    if asking is None:
        return [by_rule for drawn in draw_by_rules(case) for by_rule in _by_rules(case, drawn)]
    document = case_document(case, max_tokens=settings.document_tokens)
    triplets = await asking.value("mem0_graph_extract", _TRIPLETS, document=document)
    return [
        _triplet(case, one["source"], one["relation"], one["target"], one["fact"], **asking.origin) for one in triplets
    ]


async def settle_triplet(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
    """Add a new triplet, and drop the triplets that it contradicts according to a model."""
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
    """Return an edge from each phrase of an experience's condition to the action that it asks for or forbids."""
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
        "entities are equal if their normal names are; in the published method also if their vectors are near",
        "a triplet is shown with the sentence it comes from, and counts as one of the five texts",
        "traversal goes one step beyond the entities named, among the fifty nearest by words and by vector",
    ),
)


# The package ``mem0ai`` behind an adapter: our model, our encoder, our bank in place of its own; nothing is sent.
#
# Its ``add`` runs in a thread and is told of the bank through a store that answers searches and keeps what it is told
# to change. It is imported when it is first used, with its telemetry off and its folder in a place that is gone
# afterwards.


async def _written(conversation: str, memory: PeerMemory, asking: PeerAsking) -> FactChanges:
    """Let the package read a conversation. Raises what the endpoint raises, and UserError without the package."""
    store = _RecordingStore(memory)
    model = _PackageModel(asking, asyncio.get_running_loop())
    mem0 = _mem0(model, store)
    await asyncio.to_thread(mem0.add, [{"role": "user", "content": conversation}], user_id=memory.peer)
    if model.failure is not None:  # the package keeps some of them to itself
        raise model.failure
    return store.changes


class _RecordingStore:
    """What the package takes for its vector store."""

    def __init__(self, memory: PeerMemory) -> None:
        self._memory = memory
        self._texts: dict[str, str] = {}
        self.changes = FactChanges()

    def search(self, query: str, vectors: Sequence[float], limit: int = 5, filters: Any = None) -> list[Any]:
        """Return the nearest facts of the bank. A text has the same vector in both."""
        near = self._memory.nearest(query, limit=limit)
        self._texts |= {note.id: note.content for note, _ in near}
        return [self.get(note.id) for note, _ in near]

    def get(self, vector_id: str) -> Any:
        """Return a fact that an earlier search found."""
        return SimpleNamespace(id=vector_id, payload={"data": self._texts[vector_id]})

    def insert(self, vectors: Any, payloads: Sequence[Mapping[str, Any]], ids: Any = None) -> None:
        """Record a fact to add."""
        self.changes.added |= {payload["data"]: {} for payload in payloads}

    def update(self, vector_id: str, vector: Any = None, payload: Mapping[str, Any] | None = None) -> None:
        """Record a fact to change."""
        if payload is not None:
            self.changes.updated[vector_id] = payload["data"]

    def delete(self, vector_id: str) -> None:
        """Record a fact to delete."""
        self.changes.deleted[vector_id] = "deleted by Mem0"


class _PackageModel:
    """What the package takes for its language model; every call is recorded as any other."""

    def __init__(self, asking: PeerAsking, loop: asyncio.AbstractEventLoop) -> None:
        self._asking = asking
        self._loop = loop
        self.failure: Exception | None = None

    def generate_response(self, messages: Sequence[Mapping[str, str]], **_: Any) -> str:
        """Ask, from the package's thread."""
        purpose = "mem0_extract" if messages[0]["role"] == "system" else "mem0_update"
        request = [Message(role=message["role"], content=message["content"]) for message in messages]  # type: ignore[arg-type]
        try:
            reply = asyncio.run_coroutine_threadsafe(
                self._asking.asker.ask(request, purpose=purpose), self._loop
            ).result()
        except Exception as error:
            self.failure = error
            raise
        return reply.message.content or ""


def _mem0(model: _PackageModel, store: _RecordingStore) -> Any:
    """Return a memory of the package, made without its factories, which would open stores and clients of their own."""
    package = _package()
    made = package.Memory.__new__(package.Memory)
    nothing = SimpleNamespace(add_history=lambda *_, **__: None)
    made.config = SimpleNamespace(llm=SimpleNamespace(config={}))
    made.custom_fact_extraction_prompt = made.custom_update_memory_prompt = None
    made.config.custom_fact_extraction_prompt = made.config.custom_update_memory_prompt = None
    made.embedding_model = SimpleNamespace(embed=lambda *_, **__: ())
    made.vector_store, made.llm, made.db = store, model, nothing
    made.api_version, made.enable_graph, made.graph = "v1.1", False, None
    return made


def _unsent(*_: Any, **__: Any) -> None:
    """Return a replacement of the package's telemetry that sends nothing."""


@cache
def _package() -> ModuleType:
    """Return the package's module. Raises UserError if it is not installed."""
    with (
        TemporaryDirectory() as folder,
        environment({"MEM0_DIR": folder, "MEM0_TELEMETRY": "False"}),
        warnings.catch_warnings(action="ignore"),  # it is written for an older pydantic
    ):
        module: ModuleType = import_extra("mem0.memory.main", "mem0", what=BY_A_MODEL)
    vars(module)["capture_event"] = _unsent
    return module


# Mem0 (Chhikara et al., 2025): facts extracted from a case, each added to the memory, merged into an older one, or in
# place of it. The writer is the released package itself; without a model, lines drawn by rules are added as
# they are, as the package does with ``infer=False``.


MEM0 = package_peer(
    "mem0",
    _written,
    tables=(1,),
    title="Mem0: extracted facts, added, updated, deleted (Chhikara et al., 2025; package mem0ai)",
    differences=(
        "the package's writer with its own prompts, over our model, our encoder and our bank; its telemetry is off",
        "version 0.1.115, which adds, updates and deletes as the paper says; later versions only add",
        "a conversation is one training case, given as one message",
        "an update replaces a fact by a new one, which carries the hands of both cases",
    ),
)
