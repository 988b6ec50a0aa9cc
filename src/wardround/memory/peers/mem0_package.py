"""The package ``mem0ai`` behind an adapter: our model, our encoder, our bank in place of its own; nothing is sent.

Its ``add`` runs in a thread and is told of the bank through a store that answers searches and keeps what it is told to
change. It is imported when it is first used, with its telemetry off and its folder in a place that is gone afterwards.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

from wardround.core import Message, import_extra
from wardround.memory.peers.asking import PeerAsking
from wardround.memory.peers.documents import without_identifiers
from wardround.memory.peers.peer_memory import PeerMemory


@dataclass(slots=True, kw_only=True)
class FactChanges:
    """What the package wants: texts of new facts, new texts of old ones by id, ids of those that go."""

    added: list[str] = field(default_factory=list)
    updated: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)


async def package_changes(conversation: str, memory: PeerMemory, asking: PeerAsking) -> FactChanges:
    """Let the package read a conversation. Raises what the endpoint raises, and UserError without the package."""
    told = _ToldStore(memory)
    model = _AskedModel(asking, asyncio.get_running_loop())
    mem0 = _mem0(model, told)
    await asyncio.to_thread(mem0.add, [{"role": "user", "content": conversation}], user_id=memory.peer)
    if model.failure is not None:  # the package keeps some of them to itself
        raise model.failure
    return told.changes


class _ToldStore:
    """What the package takes for its vector store."""

    def __init__(self, memory: PeerMemory) -> None:
        self._memory = memory
        self._texts: dict[str, str] = {}
        self.changes = FactChanges()

    def search(self, query: str, vectors: Sequence[float], limit: int = 5, filters: Any = None) -> list[Any]:
        """The nearest facts of the bank; a text has the same vector there and here."""
        near = self._memory.nearest(query, limit=limit)
        self._texts |= {note.id: note.content for note, _ in near}
        return [self.get(note.id) for note, _ in near]

    def get(self, vector_id: str) -> Any:
        """A fact that was searched for before."""
        return SimpleNamespace(id=vector_id, payload={"data": self._texts[vector_id]})

    def insert(self, vectors: Any, payloads: Sequence[Mapping[str, Any]], ids: Any = None) -> None:
        """Keep what is to be added."""
        self.changes.added += [without_identifiers(payload["data"]) for payload in payloads]

    def update(self, vector_id: str, vector: Any = None, payload: Mapping[str, Any] | None = None) -> None:
        """Keep what is to be changed."""
        if payload is not None:
            self.changes.updated[vector_id] = without_identifiers(payload["data"])

    def delete(self, vector_id: str) -> None:
        """Keep what is to go."""
        self.changes.deleted.append(vector_id)


class _AskedModel:
    """What the package takes for its language model; every call is recorded as any other."""

    def __init__(self, asking: PeerAsking, loop: asyncio.AbstractEventLoop) -> None:
        self._asking = asking
        self._loop = loop
        self.failure: Exception | None = None

    def generate_response(self, messages: Sequence[Mapping[str, str]], **_: Any) -> str:
        """Ask, from the package's thread."""
        purpose = "mem0_extract" if messages[0]["role"] == "system" else "mem0_update"
        asked = [Message(role=one["role"], content=one["content"]) for one in messages]  # type: ignore[arg-type]
        try:
            reply = asyncio.run_coroutine_threadsafe(
                self._asking.asker.ask(asked, purpose=purpose), self._loop
            ).result()
        except Exception as error:
            self.failure = error
            raise
        return reply.message.content or ""


def _mem0(model: _AskedModel, store: _ToldStore) -> Any:
    """A memory of the package, made without its factories: these would open stores and clients of their own."""
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
    """What stands for the package's telemetry."""


@cache
def _package() -> ModuleType:
    """The package's module. Raises UserError where it is not installed."""
    what = "filling this memory by a model (--rules does without)"
    with (
        TemporaryDirectory() as folder,
        _environment({"MEM0_DIR": folder, "MEM0_TELEMETRY": "False"}),
        warnings.catch_warnings(action="ignore"),  # it is written for an older pydantic
    ):
        module: ModuleType = import_extra("mem0.memory.main", "mem0", what=what)
    vars(module)["capture_event"] = _unsent
    return module


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
