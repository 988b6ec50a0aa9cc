"""Episodes without what was read to the models, one after another: all that scoring needs, in three statements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from wardround.core import Message, UserError
from wardround.log.columns import Bodies, checked
from wardround.log.played import CallOutline, Outline, ResultOutline, TurnOutline
from wardround.log.rows import USAGE_FIELDS, EpisodeEntry, Note

_TURNS = f"""
SELECT episode, body.text, body.hash, ordinal, purpose, cost, seconds, prompt_bytes, prefix_bytes, tools,
{", ".join(USAGE_FIELDS)}
FROM turn LEFT JOIN message ON message.hash = turn.reply_hash LEFT JOIN body ON body.hash = message.body
WHERE episode BETWEEN ? AND ? ORDER BY episode, ordinal
"""
_TOOLS = """
SELECT episode, turn, call_id, name, arguments, is_error, seconds, table_name
FROM tool WHERE episode BETWEEN ? AND ? ORDER BY episode, turn, n
"""
_NOTES = "SELECT episode, n, kind, detail FROM note WHERE episode BETWEEN ? AND ? ORDER BY episode, n"

_Row = Sequence[Any]


def read_outlines(bodies: Bodies, entries: Sequence[EpisodeEntry]) -> Iterator[Outline]:
    """Read episodes of one log file, given by key, in one view of the file.

    What lies between the first and the last of them is passed over: they should be neighbours.
    """
    edges = (entries[0].key, entries[-1].key)
    connection = bodies.connection
    connection.execute("BEGIN")
    try:
        for table in ("turn", "tool", "note"):
            bodies.must_be_sealed(table, "AND episode BETWEEN ? AND ?", edges)
        turns, tools, notes = (_Merged(connection.execute(query, edges)) for query in (_TURNS, _TOOLS, _NOTES))
        for entry in entries:
            yield Outline(
                entry=entry,
                turns=_turns(turns.of(entry.key), tools.of(entry.key), bodies),
                notes=_notes(notes.of(entry.key)),
            )
    finally:
        connection.execute("ROLLBACK")


class _Merged:
    """Rows that come sorted by their first column, the episode, taken episode by episode in that order."""

    def __init__(self, rows: Iterable[_Row]) -> None:
        self._groups = groupby(rows, itemgetter(0))
        self._next = next(self._groups, None)

    def of(self, episode: str) -> list[_Row]:
        while self._next is not None and self._next[0] < episode:
            self._next = next(self._groups, None)
        if self._next is None or self._next[0] != episode:
            return []
        rows = list(self._next[1])
        self._next = next(self._groups, None)
        return rows


def _turns(rows: Sequence[_Row], tools: Iterable[_Row], bodies: Bodies) -> tuple[TurnOutline, ...]:
    results: dict[int, list[ResultOutline]] = {}
    for _, turn, call_id, name, arguments, is_error, seconds, table in tools:
        call = CallOutline(call_id, name, arguments)
        results.setdefault(turn, []).append(ResultOutline(call, bool(is_error), seconds, table))
    return tuple(
        TurnOutline(
            purpose,
            tuple(tokens),
            cost,
            seconds,
            prompt_bytes,
            prefix_bytes,
            () if schemas is None else bodies.decoded(schemas) or (),
            _reply(body, ordinal),
            results.get(ordinal, ()),
        )
        for (_, _, _, ordinal, purpose, cost, seconds, prompt_bytes, prefix_bytes, schemas, *tokens), body in zip(
            rows, _decoded([text and checked(text, digest) for _, text, digest, *_ in rows]), strict=True
        )
    )


def _reply(body: Any, ordinal: int) -> Message:
    if body is None:
        raise UserError(f"a log is damaged: turn {ordinal} of an episode has no reply in it")
    return Message.from_wire(body)


def _notes(rows: Sequence[_Row]) -> tuple[Note, ...]:
    details = _decoded([detail for *_, detail in rows])
    return tuple(Note(n=n, kind=kind, detail=detail) for (_, n, kind, _), detail in zip(rows, details, strict=True))


def _decoded(texts: Iterable[str | None]) -> list[Any]:
    """Decode JSON texts at once, which costs a third of one by one."""
    values: list[Any] = json.loads(f"[{','.join('null' if text is None else text for text in texts)}]")
    return values
