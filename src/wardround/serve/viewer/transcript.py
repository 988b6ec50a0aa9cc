"""What an episode said and read, in order: every message stands once, under the model call that was first shown it.

An assistant's messages are the replies, a tool's are the results; the others (question, reminders, summaries that are
carried, experiences) stand where they came in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from wardround.agents.loop.steps import STEP_NOTE
from wardround.core import Message, Picture
from wardround.log import Note, ToolRecord, Trajectory, Turn
from wardround.serve.viewer.result_tables import ResultTable, read_table

BlockKind = Literal["shown", "reasoning", "reply", "call", "result", "note"]
_SAID_ELSEWHERE = ("assistant", "tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """One text, or a part of one. ``table``: the same text as cells; ``missed``: the tool refused; ``part``: which of
    how many parts."""

    kind: BlockKind
    title: str
    text: str
    table: ResultTable | None = None
    missed: bool = False
    pictures: tuple[Picture, ...] = ()
    part: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSection:
    """The blocks of one model call, or of the runtime's notes where there is no ``turn``."""

    turn: Turn | None
    blocks: tuple[TextBlock, ...]

    @property
    def anchor(self) -> str:
        """Its name in a page's address."""
        return "notes" if self.turn is None else f"turn-{self.turn.ordinal}"


def transcript(trajectory: Trajectory) -> tuple[CallSection, ...]:
    """Return everything of an episode in the order in which it happened, the runtime's notes last."""
    shown: set[tuple[str, str | None]] = set()
    sections = [CallSection(turn=turn, blocks=tuple(_blocks(turn, shown))) for turn in trajectory.turns]
    notes = CallSection(turn=None, blocks=tuple(map(_note, trajectory.notes)))
    return (*sections, *([notes] if notes.blocks else []))


def _blocks(turn: Turn, shown: set[tuple[str, str | None]]) -> Iterator[TextBlock]:
    for message in turn.prompt:
        key = (message.role, message.content)
        if message.role not in _SAID_ELSEWHERE and key not in shown:
            shown.add(key)
            yield _message(message)
    if turn.reasoning:
        yield TextBlock(kind="reasoning", title="reasoning", text=turn.reasoning)
    if turn.reply.content:
        yield TextBlock(kind="reply", title="reply", text=turn.reply.content)
    if not turn.results:
        yield from (TextBlock(kind="call", title=call.name, text=call.arguments) for call in turn.reply.tool_calls)
    for record in turn.results:
        yield TextBlock(kind="call", title=record.call.name, text=record.call.arguments)
        yield _result(record)


def _message(message: Message) -> TextBlock:
    return TextBlock(kind="shown", title=message.role, text=message.content or "", pictures=_kept(message.pictures))


def _result(record: ToolRecord) -> TextBlock:
    counted = "" if record.rows_total is None else f": {record.rows_shown or 0:,} of {record.rows_total:,} rows"
    return TextBlock(
        kind="result",
        title=f"{record.call.name}{counted}{': refused' if record.is_error else ''}",
        text=record.result_text,
        table=None if record.is_error else read_table(record.result_text),
        missed=record.is_error,
        pictures=_kept(record.pictures),
    )


def _kept(pictures: Sequence[Picture]) -> tuple[Picture, ...]:
    return tuple(picture for picture in pictures if picture.data)


def _note(note: Note) -> TextBlock:
    title = note.kind
    if title == STEP_NOTE:
        title = f"{note.kind} {note.detail.get('step')}, {note.detail.get('hour')}"
    return TextBlock(kind="note", title=title, text=json.dumps(note.detail, ensure_ascii=False))
