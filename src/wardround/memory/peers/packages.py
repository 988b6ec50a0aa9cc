"""Memories that a package of others writes: a case is given as a conversation, what the package changes becomes notes.

The bank stays the only store: the package is shown the nearest facts in it. Without a model, lines drawn by rules are
added as they are.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.memory.construction.drafts import Case, draw_by_rules
from wardround.memory.experience import Experience
from wardround.memory.peer import (
    NewNote,
    NoteChanges,
    Peer,
    PeerAsking,
    PeerCase,
    PeerMemory,
    PeerSettings,
    RecallNotes,
    Remembered,
    beginning,
    case_document,
    note_of,
    without_identifiers,
)

BY_A_MODEL = "filling this memory by a model (--rules does without)"
_TITLE_TOKENS = 12


@dataclass(slots=True, kw_only=True)
class FactChanges:
    """What a package wants: texts of new facts with what is known of each, new texts of old ones by id, and ids that go
    with the reason."""

    added: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    updated: dict[str, str] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)


PackageWriter = Callable[[str, PeerMemory, PeerAsking], Awaitable[FactChanges]]
"""Let a package read a conversation. Raises what the endpoint raises, FormatError where the package cannot read a
reply, UserError without the package."""


def recall_facts(case: PeerCase) -> Sequence[Remembered]:
    """Return the nearest facts by vector."""
    return case.by_meaning()


def fact_text(note: Experience) -> str:
    """Return the text whose vector finds a fact: the fact alone."""
    return note.content


def package_peer(
    name: str,
    write: PackageWriter,
    *,
    title: str,
    differences: tuple[str, ...],
    recall: RecallNotes = recall_facts,
    tables: tuple[int, ...] = (),
    prompts: tuple[str, ...] = (),
) -> Peer:
    """Return the peer whose writer is a package. ``tables``: the tables of the GSEM paper that have it; ``prompts``:
    template files of ours."""

    async def draw(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
        if asking is not None:
            content = case_document(case, max_tokens=settings.document_tokens)
            return [note_of(case, name, title="a conversation", content=content, model=asking.model)]
        lines = dict.fromkeys(draw_by_rule.content for draw_by_rule in draw_by_rules(case))
        return [note_of(case, name, title=_title(line), content=line) for line in lines]

    async def settle(note: Experience, memory: PeerMemory, asking: PeerAsking | None) -> NoteChanges:
        if asking is None:
            return NoteChanges(new=(NewNote(note=note),))
        changes = await write(note.content, memory, asking)
        new = [NewNote(note=_fact(note, text, facts)) for text, facts in changes.added.items()]
        new += [NewNote(note=_fact(note, text, {}), replaces=old) for old, text in changes.updated.items()]
        return NoteChanges(new=tuple(new), dropped=changes.deleted)

    return Peer(
        name=name,
        title=title,
        draw=draw,
        settle=settle,
        recall=recall,
        keyed_by=fact_text,
        differences=differences,
        prompts=prompts,
        tables=tables,
    )


def _fact(conversation: Experience, text: str, facts: Mapping[str, Any]) -> Experience:
    text = without_identifiers(text)
    return replace(conversation, title=_title(text), content=text, facts={"extracted": True, **facts}, id="")


def _title(text: str) -> str:
    return beginning(text, _TITLE_TOKENS)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
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
