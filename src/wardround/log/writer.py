"""Write a log: turns in group commits, prompts placed in the message tree."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wardround.core import (
    Message,
    Picture,
    Sealed,
    ToolSchema,
    UserError,
    canonical_json,
    chain_hash,
    checkpoint,
    transaction,
    unsealed,
)
from wardround.log.database import INSERT as INSERT_PICTURE
from wardround.log.database import LOG_FORMAT, ROW_COUNTS, row_of_picture
from wardround.log.rows import USAGE_FIELDS, AskedRequest, GivenReply, ToolRecord, row_of

# The place of a prompt in the message tree, followed from turn to turn at the price of what is new.


ROOT = b""
"""The parent of a first message."""


class PromptPath:
    """The chain hashes of the latest prompt. ``follow`` hashes only messages that were not in the previous one."""

    def __init__(self) -> None:
        self.messages: tuple[Message, ...] = ()
        self.hashes: list[bytes] = []
        self._bytes_until: list[int] = [0]

    def follow(self, messages: tuple[Message, ...]) -> int:
        """Move to a prompt; return how many of its leading messages the previous prompt had too."""
        shared = self._shared(messages)
        del self.hashes[shared:]
        del self._bytes_until[shared + 1 :]
        parent = self.hashes[-1] if self.hashes else ROOT
        for message in messages[shared:]:
            parent = chain_hash(parent, message)
            self.hashes.append(parent)
            self._bytes_until.append(self._bytes_until[-1] + len(message.wire))
        self.messages = messages
        return shared

    @property
    def tip(self) -> bytes:
        """The hash that names the whole prompt."""
        return self.hashes[-1] if self.hashes else ROOT

    def size_bytes(self, count: int) -> int:
        """Wire bytes of the first ``count`` messages."""
        return self._bytes_until[count]

    def _shared(self, messages: tuple[Message, ...]) -> int:
        previous = self.messages
        if messages[: len(previous)] == previous:
            return len(previous)
        limit = min(len(previous), len(messages))
        pairs = enumerate(zip(previous, messages, strict=False))  # the same object is equal, without looking into it
        return next((index for index, (old, new) in pairs if old is not new and old != new), limit)


# Writing a log: an episode hands over its turns, the file takes them in groups.
#
# Rows wait in memory and go in one transaction when an episode finishes, when a group is full, and ``group_seconds``
# after the first of them came: on an event loop a timer sees to that, without one the next turn does. A reply without a
# turn waits for that timer: most have their turn before it, and need no row of their own.
#
# What is promised: a killed process loses at most what came in the last ``group_seconds``, and the file stays whole. A
# power cut may take the last commits too, never the file (SQLite's WAL with ``synchronous=NORMAL``); a run that goes on
# plays again what is missing here, whatever its queue says.


_STATEMENTS = {
    "episode": "INSERT INTO episode VALUES (?, ?, NULL, 'open', ?, NULL, NULL) ON CONFLICT (key) DO UPDATE SET "
    "facts = excluded.facts, outcome = NULL, state = 'open', started = excluded.started, ended = NULL, "
    "row_counts = NULL",
    "picture": INSERT_PICTURE,
    "body": "INSERT OR IGNORE INTO body VALUES (?, ?)",
    "message": "INSERT OR IGNORE INTO message VALUES (?, ?, ?, ?)",
    "stale_tool": "DELETE FROM tool WHERE episode = ? AND turn = ?",
    "turn": f"INSERT OR REPLACE INTO turn VALUES ({', '.join('?' * 23)})",
    "tool": f"INSERT OR REPLACE INTO tool VALUES ({', '.join('?' * 14)})",
    "note": "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?)",
    "kept": "INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?)",
    "settled": "DELETE FROM kept WHERE episode = ? AND ordinal = ?",
    "trim_turn": "DELETE FROM turn WHERE episode = ? AND ordinal > ?",
    "trim_tool": "DELETE FROM tool WHERE episode = ? AND turn > ?",
    "trim_note": "DELETE FROM note WHERE episode = ? AND n >= ?",
    "trim_kept": "DELETE FROM kept WHERE episode = ?",
    "finish": f"UPDATE episode SET outcome = ?, state = 'finished', ended = ?, row_counts = {ROW_COUNTS} WHERE key = ?",
}
"""In the order in which a group runs them."""


class EpisodeLog:
    """One worker's log file. Not for several threads; for several processes, one file each. ``several_machines``: it is
    read on others while it is written."""

    def __init__(
        self, path: Path, *, group_turns: int = 64, group_seconds: float = 0.25, several_machines: bool = False
    ) -> None:
        self.path = path
        self._connection = LOG_FORMAT.open(path, several_machines=several_machines)
        self._group_turns = group_turns
        self._group_seconds = group_seconds
        self._waiting: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _STATEMENTS}
        self._begun: set[str] = set()
        self._turns_waiting = 0
        self._last_commit = time.monotonic()
        self._timer_loop: asyncio.AbstractEventLoop | None = None
        self._replies: dict[tuple[str, int], tuple[AskedRequest, GivenReply]] = {}
        """Replies without a turn that are not in the file yet."""

    def begin(self, episode: str, facts: Mapping[str, Any]) -> EpisodeRecorder:
        """Start an episode, or start it again: rows of an earlier try are replaced one by one, leftovers at the end."""
        if episode in self._begun:
            self.flush()
        earlier = self._connection.execute("SELECT 1 FROM episode WHERE key = ?", (episode,)).fetchone()
        self._begun.add(episode)
        self._add("episode", (episode, _json(facts), _now()))
        return EpisodeRecorder(self, episode, again=earlier is not None)

    def flush(self) -> None:
        """Commit what waits. Call it when the worker goes idle; otherwise groups commit by themselves."""
        self._write_kept()
        self._commit()

    def _commit(self) -> None:
        """Commit what waits, but for replies without a turn while a timer will see to them."""
        self._turns_waiting = 0
        self._last_commit = time.monotonic()
        if not self._has_timer:
            self._write_kept()
        if not any(self._waiting.values()):
            return
        with LOG_FORMAT.errors(self.path):
            try:
                self._write()
            except UnicodeEncodeError:
                for rows in self._waiting.values():
                    rows[:] = [tuple(_plain(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]
                self._write()
        for rows in self._waiting.values():
            rows.clear()
        self._begun.clear()

    def _write(self) -> None:
        with transaction(self._connection):
            for name, statement in _STATEMENTS.items():
                if self._waiting[name]:
                    self._connection.executemany(statement, self._waiting[name])

    def close(self) -> None:
        """Commit and close; the file is then complete without its side files, also while others read it."""
        try:
            self.flush()
            with suppress(sqlite3.OperationalError):  # commits that cannot be moved now stay safe where they are
                checkpoint(self._connection)
        finally:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, name: str, row: tuple[Any, ...]) -> None:
        self._waiting[name].append(row)
        self._start_timer()

    def _keep(self, episode: str, request: AskedRequest, reply: GivenReply) -> None:
        self._replies[episode, request.ordinal] = (request, reply)
        self._start_timer()

    def _settle(self, episode: str, ordinal: int) -> None:
        """Forget a reply that has its turn now."""
        if self._replies.pop((episode, ordinal), None) is None:
            self._add("settled", (episode, ordinal))

    def _write_kept(self) -> None:
        for (episode, _), (request, reply) in self._replies.items():
            self._add("kept", row_of(episode, request, reply))
        self._replies.clear()

    @property
    def _has_timer(self) -> bool:
        return self._timer_loop is not None and not self._timer_loop.is_closed()

    def _start_timer(self) -> None:
        if self._has_timer:
            return
        try:
            self._timer_loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._timer_loop.call_later(self._group_seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer_loop = None
        with suppress(UserError):  # a full disk: the rows still wait, and the next turn or finish says so
            self.flush()

    def _turn_added(self) -> None:
        self._turns_waiting += 1
        waited = time.monotonic() - self._last_commit
        if self._turns_waiting >= self._group_turns or waited >= self._group_seconds:
            self._commit()


class EpisodeRecorder:
    """Records one episode. A turn costs what is new in it, whatever came before.

    Agents hold it: the log, in which other people's episodes and later ones of this person stand, is sealed.
    """

    def __init__(self, log: EpisodeLog, episode: str, *, again: bool) -> None:
        self.episode = episode
        self._log = Sealed(log)
        self._again = again
        self._paths: dict[str, PromptPath] = {}
        self._written: set[bytes] = set()
        self._ordinals: set[int] = set()
        self._kept: set[int] = set()
        self._notes = 0
        self._tools: tuple[Sequence[ToolSchema], bytes | None] = ((), None)
        self._settings: dict[Any, bytes] = {}
        self._tools_of: dict[str, bytes | None] = {}

    def keep(self, request: AskedRequest, reply: GivenReply) -> None:
        """Keep a reply that has just come, until its turn is recorded."""
        self._kept.add(request.ordinal)
        unsealed(self._log)._keep(self.episode, request, reply)

    def turn(
        self, request: AskedRequest, reply: GivenReply, results: Sequence[ToolRecord] = (), *, purpose: str = "act"
    ) -> None:
        """Record one model call and the results of the tools it asked for."""
        if request.ordinal in self._ordinals:
            raise ValueError(f"turn {request.ordinal} of episode {self.episode!r} is recorded already")
        self._ordinals.add(request.ordinal)
        if request.ordinal in self._kept:
            self._kept.remove(request.ordinal)
            unsealed(self._log)._settle(self.episode, request.ordinal)
        path = self._paths.setdefault(purpose, PromptPath())
        tools = self._tools_hash(request.tools)
        shared = path.follow(request.messages)
        self._add_nodes(path, shared)
        reply_hash = chain_hash(path.tip, reply.message)
        self._add_node(reply_hash, path.tip, reply.message)
        same_tools = self._tools_of.get(purpose, tools) == tools
        self._tools_of[purpose] = tools
        identity = reply.identity or reply.model
        counted = tuple(None if name in reply.unreported else getattr(reply.usage, name) for name in USAGE_FIELDS)
        unsealed(self._log)._add(
            "turn",
            (
                self.episode,
                request.ordinal,
                purpose,
                path.tip,
                reply_hash,
                request.digest(identity, path=path.tip),
                reply.model,
                identity,
                reply.finish_reason,
                *counted,
                reply.cost,
                reply.seconds,
                reply.attempts,
                path.size_bytes(len(request.messages)),
                path.size_bytes(shared) if same_tools else 0,
                tools,
                self._settings_hash(request.settings),
                None if reply.reasoning is None else self._add_text(reply.reasoning),
                None if reply.token_logprobs is None else _json(reply.token_logprobs),
                _now(),
            ),
        )
        self._add_results(request.ordinal, results)
        unsealed(self._log)._turn_added()

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Record a decision: what a budget removed, a reminder, a skip, a failure."""
        unsealed(self._log)._add("note", (self.episode, self._notes, kind, _json(detail)))
        self._notes += 1

    def finish(self, outcome: Mapping[str, Any]) -> None:
        """Record how the episode ended and commit."""
        if self._again:
            last = max(self._ordinals, default=-1)
            unsealed(self._log)._add("trim_turn", (self.episode, last))
            unsealed(self._log)._add("trim_tool", (self.episode, last))
            unsealed(self._log)._add("trim_note", (self.episode, self._notes))
        if self._again or self._kept:  # replies whose episode ended without them
            for ordinal in self._kept:
                unsealed(self._log)._replies.pop((self.episode, ordinal), None)
            unsealed(self._log)._add("trim_kept", (self.episode,))
        unsealed(self._log)._add("finish", (_json(outcome), _now(), self.episode))
        unsealed(self._log)._commit()

    def _add_nodes(self, path: PromptPath, shared: int) -> None:
        parent = path.hashes[shared - 1] if shared else ROOT
        for node, message in zip(path.hashes[shared:], path.messages[shared:], strict=True):
            self._add_node(node, parent, message)
            parent = node

    def _add_node(self, node: bytes, parent: bytes, message: Message) -> None:
        if node in self._written:
            return
        self._written.add(node)
        unsealed(self._log)._add("message", (node, parent, message.role, self._add_body(message)))

    def _add_body(self, message: Message) -> bytes:
        if message.digest not in self._written:
            self._written.add(message.digest)
            unsealed(self._log)._add("body", (message.digest, message.wire.decode()))
            for picture in message.pictures:
                self._add_picture(picture)
        return message.digest

    def _add_picture(self, picture: Picture) -> None:
        row = row_of_picture(picture)
        if row[0] not in self._written and picture.data:
            self._written.add(row[0])
            unsealed(self._log)._add("picture", row)

    def _add_text(self, text: str) -> bytes:
        data = text.encode("utf-8", "replace")
        digest = sha256(data).digest()
        unsealed(self._log)._add("body", (digest, data.decode()))
        return digest

    def _add_results(self, ordinal: int, results: Sequence[ToolRecord]) -> None:
        if self._again:
            unsealed(self._log)._add("stale_tool", (self.episode, ordinal))
        for n, result in enumerate(results):
            body = self._add_body(result.message)
            call = result.call
            row_ids = _json(result.row_ids)
            counts = (result.table, result.rows_total, result.rows_shown, row_ids)
            head = (self.episode, ordinal, n, call.id, call.name, call.arguments, result.is_error)
            unsealed(self._log)._add("tool", (*head, result.seconds, *counts, body, result.cursor))

    def _tools_hash(self, tools: Sequence[ToolSchema]) -> bytes | None:
        if not tools:
            return None
        known, digest = self._tools
        if known is not tools or digest is None:
            digest = self._add_text("[" + ",".join(tool.wire.decode() for tool in tools) + "]")
            self._tools = (tools, digest)
        return digest

    def _settings_hash(self, settings: Any) -> bytes:
        digest = self._settings.get(settings)
        if digest is None:
            digest = self._settings[settings] = self._add_text(canonical_json(asdict(settings)).decode())
        return digest


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _plain(text: str) -> str:
    """Text without lone surrogates, which a model can write and SQLite cannot store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
