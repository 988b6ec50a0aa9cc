"""Which columns make a turn and the record of a tool call, and texts by their hash."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from wardround.core import Message, ToolCall, Usage, UserError, must_be_sealed, sealed_tables
from wardround.log.database import ROW_COUNTS
from wardround.log.rows import USAGE_FIELDS, ToolRecord, Turn

TURN_COLUMNS = """
ordinal, purpose, prompt_hash, reply_hash, request_digest, model, identity, finish,
input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost, seconds, attempts, prompt_bytes, prefix_bytes,
tools, settings, turn.ended
"""
"""Those of :func:`turn_of`, in its order."""

TOOL_COLUMNS = """
turn, call_id, name, arguments, is_error, seconds, table_name, rows_total, rows_shown, cursor
"""
"""Those of :func:`record_of`, in its order, after the turn that asked for it."""


class Bodies:
    """Texts by hash; what turns share (tool schemas, settings) is fetched and decoded once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._decoded: dict[bytes, Any] = {}
        self._sealed = dict(sealed_tables(connection))

    def must_be_sealed(self, table: str, where: str, values: Sequence[Any]) -> None:
        """Raise UserError where rows of a table that are about to be read are not as they were written."""
        must_be_sealed(self.connection, table, self._sealed[table], where, values)

    def text(self, digest: bytes | None) -> str | None:
        """Return a text; None of no hash. UserError: it is missing or damaged."""
        if digest is None:
            return None
        row = self.connection.execute("SELECT text FROM body WHERE hash = ?", (digest,)).fetchone()
        return checked(None if row is None else str(row[0]), digest)

    def decoded(self, digest: bytes) -> Any:
        """Return what a JSON text says."""
        if digest not in self._decoded:
            self._decoded[digest] = json.loads(self.text(digest) or "null")
        return self._decoded[digest]

    def must_be_complete(self, where: str, values: Sequence[Any]) -> None:
        """Raise UserError where a finished episode has other numbers of rows than it was finished with."""
        query = (
            f"SELECT key FROM episode WHERE row_counts IS NOT NULL AND row_counts IS NOT {ROW_COUNTS} {where} LIMIT 1"
        )
        found = self.connection.execute(query, values).fetchone()
        if found is not None:
            raise UserError(f"a log is damaged: rows of the episode {found[0]} are missing")


def checked(text: str | None, digest: bytes | None) -> str:
    """Return a text that has its hash. UserError: it has another or is missing, so the log is damaged."""
    if text is None or sha256(text.encode()).digest() != digest:
        raise UserError("a log is damaged: a text in it is not as it was written; `wardround audit files` says which")
    return text


def turn_of(
    columns: Sequence[Any],
    bodies: Bodies,
    *,
    reply: Message,
    results: tuple[ToolRecord, ...],
    prompt: tuple[Message, ...] = (),
    reasoning: str | None = None,
    token_logprobs: tuple[float, ...] | None = None,
) -> Turn:
    """Make a turn of its columns and of what lies elsewhere."""
    ordinal, purpose, prompt_hash, reply_hash, digest, model, identity, finish, *rest = columns
    given, read, cached, thought, cost, seconds, attempts, prompt_bytes, prefix_bytes, tools, settings, ended = rest
    counts = (given, read, cached, thought)
    return Turn(
        ordinal=ordinal,
        purpose=purpose,
        prompt=prompt,
        reply=reply,
        prompt_hash=prompt_hash.hex(),
        reply_hash=reply_hash.hex(),
        request_digest=digest,
        model=model,
        identity=identity,
        finish_reason=finish,
        usage=Usage(
            input_tokens=given or 0, output_tokens=read or 0, cached_tokens=cached or 0, reasoning_tokens=thought or 0
        ),
        unreported=tuple(name for name, count in zip(USAGE_FIELDS, counts, strict=True) if count is None)
        if None in counts
        else (),
        cost=cost,
        seconds=seconds,
        attempts=attempts,
        prompt_bytes=prompt_bytes,
        prefix_bytes=prefix_bytes,
        tools=() if tools is None else tuple(bodies.decoded(tools)),
        settings=bodies.decoded(settings),
        reasoning=reasoning,
        token_logprobs=token_logprobs,
        ended=ended,
        results=results,
    )


def record_of(columns: Sequence[Any], *, result: Message, row_ids: tuple[str, ...] = ()) -> ToolRecord:
    """Make a record of its columns, without its turn's, and of its result's message."""
    call_id, name, arguments, is_error, seconds, table, total, shown, cursor = columns
    return ToolRecord(
        call=ToolCall(id=call_id, name=name, arguments=arguments),
        result_text=result.content or "",
        is_error=bool(is_error),
        seconds=seconds,
        table=table,
        rows_total=total,
        rows_shown=shown,
        row_ids=row_ids,
        cursor=cursor,
        pictures=result.pictures,
    )
