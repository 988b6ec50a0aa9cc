"""Small real things the memory tests share: experiences of made-up subjects, keys of a few numbers, an episode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wardround.core import Message, ToolCall, Usage
from wardround.memory import POLARITIES, Bank, Experience, Key, Material, PinnedBank, Provenance, Subject
from wardround.memory.construction import Attempt, Case
from wardround.memory.peer import PEERS, Peer, PeerAsking, PeerMemory, PeerSettings
from wardround.models import Reply
from wardround.tools.retrieval import LexicalEncoder

SOURCE = "mimiciv"


def patient(number: int) -> Subject:
    return Subject(source=SOURCE, subject_id=number)


def origin(bank: Bank, subject: int, *, split: str = "train", sample: str = "", **more: Any) -> Provenance:
    name = sample or f"sample-{subject}"
    return Provenance(sample=name, subject=bank.subject_hash(patient(subject)), split=split, **more)


def lesson(bank: Bank, title: str, subject: int, *, split: str = "train", sample: str = "", **more: Any) -> Experience:
    fields: dict[str, Any] = {"kind": "actor", "description": "When asked", "content": f"Do {title}"}
    fields |= {"task": "diagnoses", **more}
    if fields["kind"] == "note":
        fields["tool"] = fields.get("tool") or "a-mem"
    if fields["kind"] in POLARITIES:
        fields = {"condition": f"Condition of {title}", "task_type": "diagnosis", **fields}
    return Experience(title=title, provenance=origin(bank, subject, split=split, sample=sample), **fields)


def key(*numbers: float, encoder: str = "hand") -> Key:
    vector = np.array(numbers, np.float32)
    return Key(encoder=encoder, vector=vector / np.linalg.norm(vector))


def titles(found: Any) -> list[str]:
    return [experience.title for experience in found.experiences]


def asks(call_id: str, tool: str, arguments: str) -> Message:
    return Message(role="assistant", content=None, tool_calls=(ToolCall(id=call_id, name=tool, arguments=arguments),))


def answers(call_id: str, text: str) -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id)


def turns(*played: tuple[str, str, str]) -> tuple[Message, ...]:
    """(tool, arguments, result) per turn."""
    messages: list[Message] = []
    for number, (tool, arguments, result) in enumerate(played):
        messages += [asks(f"c{number}", tool, arguments), answers(f"c{number}", result)]
    return tuple(messages)


def episode(**changes: Any) -> Material:
    """A finished episode with one hit, one overlooked, one never met and one wrong answer."""
    fields: dict[str, Any] = {
        "task": "diagnoses",
        "question": "Which diagnoses?",
        "messages": turns(
            (
                "get_latest_records",
                '{"table_name": "radiology"}',
                "radiology: 1 of 1 rows\nPneumonia, pleural effusion",
            ),
            ("get_records_by_keyword", '{"table_name": "labevents"}', "labevents: 1 of 9 rows\nAcute renal failure"),
            ("get_latest_records", '{"table_name": "nonsense"}', "Error: there is no table 'nonsense'"),
        ),
        "prediction": ("Pneumonia", "Asthma"),
        "target": ("Pneumonia", "Acute renal failure", "Gout"),
        "summary": "The chest film shows pneumonia.",
        "score": 0.4,
    }
    return Material(**{**fields, **changes})


class Scripted:
    """Answers by purpose: a value, or a function of the prompt. Everything asked and noted is kept."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str]] = []
        self.notes: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, messages: Sequence[Message], *, purpose: str, schema: Any = None) -> Reply:
        text = messages[-1].content or ""
        self.asked.append((purpose, text))
        answer = self.answers[purpose]
        value = answer(text) if isinstance(answer, Callable) else answer  # type: ignore[arg-type]
        said = value if isinstance(value, str) else json.dumps(value)
        message = Message(role="assistant", content=said)
        return Reply(message=message, usage=Usage(), finish_reason="stop", model="scripted")

    def note(self, kind: str, detail: Any) -> None:
        self.notes.append((kind, dict(detail)))

    def count(self, purpose: str) -> int:
        return sum(name == purpose for name, _ in self.asked)


class Conversations:
    """The memory of a peer that is told of one case after the other by a scripted model."""

    def __init__(self, bank: Bank, peer: str | Peer) -> None:
        self.bank, self.peer = bank, PEERS.get(peer) if isinstance(peer, str) else peer
        self.memory = PeerMemory(peer=self.peer.name, bank=bank, encoder=LexicalEncoder(), keyed_by=self.peer.keyed_by)

    def told(self, subject: int, **answers: Any) -> Scripted:
        attempt = Attempt(episode="e", material=episode(), success=True, rows=(("labevents:1",),))
        case = Case(provenance=origin(self.bank, subject), attempts=(attempt,))
        scripted = Scripted(**answers)
        asking = PeerAsking(asker=scripted, model="scripted")

        async def tell() -> None:
            (note,) = await self.peer.draw(case, asking, PeerSettings())
            self.memory.apply(await self.peer.settle(note, self.memory, asking))

        asyncio.run(tell())
        return scripted

    @property
    def facts(self) -> dict[str, Experience]:
        return {one.content: one for one in self.memory.notes()}


def served_hash(bank: Bank) -> str:
    """The hash of everything a bank would serve now."""
    with PinnedBank.open(bank.path) as pinned:
        return pinned.content_hash()
