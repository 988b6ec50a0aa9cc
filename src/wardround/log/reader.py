"""Reading logs back: episodes, and trajectories whose prompts are rebuilt by walking the message tree to its root."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zlib import crc32

from wardround.core import Message, ToolCall, Usage, UserError
from wardround.log.database import LOG_SUFFIX, explained, has_begun, open_for_reading
from wardround.log.kept import KeptReply, has_kept, read_kept
from wardround.log.path import ROOT
from wardround.log.rows import USAGE_FIELDS, EpisodeEntry, Note, ToolRecord, Trajectory, Turn

_WALK = """
WITH RECURSIVE node(hash) AS (
    SELECT prompt_hash FROM turn WHERE episode = :episode
    UNION SELECT reply_hash FROM turn WHERE episode = :episode
    UNION SELECT message.parent FROM message JOIN node ON message.hash = node.hash
)
SELECT message.hash, message.parent, body.text
FROM node JOIN message ON message.hash = node.hash JOIN body ON body.hash = message.body
"""
_REPLIES = """
SELECT message.hash, message.parent, body.text
FROM turn JOIN message ON message.hash = turn.reply_hash JOIN body ON body.hash = message.body
WHERE turn.episode = :episode
"""
_RESULTS = """
SELECT turn, call_id, name, arguments, is_error, seconds, table_name, rows_total, rows_shown, row_ids, cursor, body.text
FROM tool JOIN body ON body.hash = tool.result WHERE episode = ? ORDER BY turn, n
"""
_RESULTS_WITHOUT_TEXTS = """
SELECT turn, call_id, name, arguments, is_error, seconds, table_name, rows_total, rows_shown, '[]', cursor, NULL
FROM tool WHERE episode = ? ORDER BY turn, n
"""
_EPISODES = """
SELECT key, facts, outcome, state, started, ended, (SELECT count(*) FROM turn WHERE turn.episode = key), {kept}
FROM episode
"""
_KEPT = "(SELECT count(*) FROM kept WHERE kept.episode = key)"
_Tree = dict[bytes, tuple[bytes, Message]]
_Found = tuple[EpisodeEntry, Path, "_Bodies"]


class LogReader:
    """Reads one log file, or every ``*.episodes.sqlite`` under a run folder, also while they are being written.

    An episode that is in several files (its worker was killed and another took over) is read where it got furthest.
    """

    def __init__(self, path: Path, *, may_be_empty: bool = False) -> None:
        self.path = path
        files = [file for file in sorted(path.rglob(f"*{LOG_SUFFIX}")) if has_begun(file)] if path.is_dir() else [path]
        if not files and not may_be_empty:
            raise UserError(f"no episode log (*{LOG_SUFFIX}) under {path}; is it a run folder?")
        self._connections: list[tuple[Path, _Bodies]] = []
        try:
            for file in files:
                self._connections.append((file, _Bodies(open_for_reading(file))))
        except UserError:
            self.close()
            raise

    def episodes(self) -> tuple[EpisodeEntry, ...]:
        """All episodes, by key."""
        return tuple(entry for _, (entry, _, _) in sorted(self._index().items()))

    def finished(self) -> set[str]:
        """The keys of the episodes that have an end."""
        return {
            row[0]
            for _, bodies in self._connections
            for row in bodies.connection.execute("SELECT key FROM episode WHERE state = 'finished'")
        }

    def has(self, episode: str) -> bool:
        """Whether an episode of that key was ever begun."""
        return episode in self._index(episode)

    def entry(self, episode: str) -> EpisodeEntry | None:
        """Return one episode's row, or None when it was never begun."""
        found = self._index(episode).get(episode)
        return None if found is None else found[0]

    def trajectory(self, episode: str) -> Trajectory:
        """Read one episode whole. Raises UserError when there is none of that key."""
        found = self._index(episode).get(episode)
        if found is None:
            raise UserError(f"no episode {episode!r} in {self.path}")
        return _read_whole(found, texts=True)

    def outlines(self, part: int = 0, parts: int = 1) -> Iterator[Trajectory]:
        """Read every finished episode without what was read to the models: no prompts, no texts of tool results.

        All that scoring needs, at a third of the cost. ``part`` of ``parts``: a share of the keys.
        """
        for _, found in sorted(self._index(share=(part, parts)).items()):
            if found[0].state == "finished":
                yield _read_whole(found, texts=False)

    def kept(self, episode: str) -> tuple[KeptReply, ...]:
        """Return the replies of an episode that were answered and have no turn where it got furthest, by ordinal.

        Of all files: a worker that got less far may have been answered a call that the furthest one was not.
        """
        found = self._index(episode).get(episode)
        if found is None:
            return ()
        others = [one for one in self._connections if one[1] is not found[2]]
        replies: dict[int, KeptReply] = {}
        for file, bodies in [(found[1], found[2]), *others]:
            try:
                for reply in read_kept(bodies.connection, episode):
                    replies.setdefault(reply.ordinal, reply)
            except sqlite3.Error as error:
                raise explained(error, file) from error
        turns = found[2].connection.execute("SELECT ordinal FROM turn WHERE episode = ?", (episode,))
        return tuple(replies[ordinal] for ordinal in sorted(replies.keys() - {row[0] for row in turns}))

    def notes(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Read every note of one kind, with its episode's key; of an episode in several files those of all of them."""
        for file, bodies in self._connections:
            try:
                query = "SELECT episode, detail FROM note WHERE kind = ? ORDER BY episode, n"
                rows = bodies.connection.execute(query, (kind,))
                yield from ((episode, json.loads(detail)) for episode, detail in rows)
            except sqlite3.Error as error:
                raise explained(error, file) from error

    def trajectories(self) -> Iterator[Trajectory]:
        """Read every episode, one at a time, by key."""
        for entry in self.episodes():
            yield self.trajectory(entry.key)

    def close(self) -> None:
        """Close the files."""
        for _, bodies in self._connections:
            bodies.connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _index(self, episode: str | None = None, *, share: tuple[int, int] = (0, 1)) -> dict[str, _Found]:
        part, parts = share
        best: dict[str, _Found] = {}
        reached: dict[str, tuple[bool, str, int]] = {}
        for file, bodies in self._connections:
            connection = bodies.connection
            where, values = ("", ()) if episode is None else ("WHERE key = ?", (episode,))
            try:
                query = _EPISODES.format(kept=_KEPT if has_kept(connection) else "0") + where
                rows = connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise explained(error, file) from error
            for *row, kept in rows:
                if parts > 1 and crc32(row[0].encode()) % parts != part:
                    continue
                entry = _entry(row)
                further = (entry.state == "finished", entry.ended or "", entry.turns + kept)
                if entry.key not in best or further > reached[entry.key]:
                    best[entry.key], reached[entry.key] = (entry, file, bodies), further
        return best


def _entry(row: Sequence[Any]) -> EpisodeEntry:
    key, facts, outcome, state, started, ended, turns = row
    return EpisodeEntry(
        key=key,
        facts=json.loads(facts),
        outcome=None if outcome is None else json.loads(outcome),
        state=state,
        started=started,
        ended=ended,
        turns=turns,
    )


def _read_whole(found: _Found, *, texts: bool) -> Trajectory:
    entry, file, bodies = found
    try:
        bodies.connection.execute("BEGIN")
        try:
            return _trajectory(bodies, entry, texts=texts)
        finally:
            bodies.connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise explained(error, file) from error


def _trajectory(bodies: _Bodies, entry: EpisodeEntry, *, texts: bool) -> Trajectory:
    connection = bodies.connection
    rows = connection.execute(_WALK if texts else _REPLIES, {"episode": entry.key})
    tree = {node: (parent, Message.from_wire(json.loads(text))) for node, parent, text in rows}
    paths: dict[bytes, tuple[Message, ...]] | None = {ROOT: ()} if texts else None
    results = _results(connection, entry.key, texts=texts)
    cursor = connection.execute("SELECT * FROM turn WHERE episode = ? ORDER BY ordinal", (entry.key,))
    names = [column[0] for column in cursor.description]
    turns = tuple(
        _turn(dict(zip(names, row, strict=True)), tree, paths, bodies, results.get(row[1], ())) for row in cursor
    )
    notes = connection.execute("SELECT n, kind, detail FROM note WHERE episode = ? ORDER BY n", (entry.key,))
    read = tuple(Note(n=n, kind=kind, detail=json.loads(detail)) for n, kind, detail in notes)
    return Trajectory(entry=entry, turns=turns, notes=read)


class _Bodies:
    """Texts by hash; what turns share (tool schemas, settings) is fetched and decoded once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._decoded: dict[bytes, Any] = {}

    def text(self, digest: bytes | None) -> str | None:
        if digest is None:
            return None
        row = self.connection.execute("SELECT text FROM body WHERE hash = ?", (digest,)).fetchone()
        return None if row is None else str(row[0])

    def tools(self, digest: bytes | None) -> tuple[Mapping[str, Any], ...]:
        return () if digest is None else tuple(self._json(digest))

    def settings(self, digest: bytes) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._json(digest)
        return found

    def _json(self, digest: bytes) -> Any:
        if digest not in self._decoded:
            self._decoded[digest] = json.loads(self.text(digest) or "null")
        return self._decoded[digest]


def _turn(
    row: Mapping[str, Any],
    tree: _Tree,
    paths: dict[bytes, tuple[Message, ...]] | None,
    bodies: _Bodies,
    results: tuple[ToolRecord, ...],
) -> Turn:
    logprobs = row["token_logprobs"]
    return Turn(
        ordinal=row["ordinal"],
        purpose=row["purpose"],
        prompt=() if paths is None else _path(tree, paths, row["prompt_hash"]),
        reply=tree[row["reply_hash"]][1],
        prompt_hash=row["prompt_hash"].hex(),
        reply_hash=row["reply_hash"].hex(),
        request_digest=row["request_digest"],
        model=row["model"],
        identity=row["identity"],
        finish_reason=row["finish"],
        usage=Usage(**{name: row[name] or 0 for name in USAGE_FIELDS}),
        unreported=tuple(name for name in USAGE_FIELDS if row[name] is None),
        cost=row["cost"],
        seconds=row["seconds"],
        attempts=row["attempts"],
        prompt_bytes=row["prompt_bytes"],
        prefix_bytes=row["prefix_bytes"],
        tools=bodies.tools(row["tools"]),
        settings=bodies.settings(row["settings"]),
        reasoning=None if paths is None else bodies.text(row["reasoning"]),
        token_logprobs=None if logprobs is None else tuple(json.loads(logprobs)),
        ended=row["ended"],
        results=results,
    )


def _path(tree: _Tree, paths: dict[bytes, tuple[Message, ...]], tip: bytes) -> tuple[Message, ...]:
    """Messages from the root to a node; paths already walked are reused."""
    tail: list[tuple[bytes, Message]] = []
    node = tip
    while node not in paths:
        parent, message = tree[node]
        tail.append((node, message))
        node = parent
    path = paths[node] + tuple(message for _, message in reversed(tail))
    paths[tip] = path
    return path


def _results(connection: sqlite3.Connection, episode: str, *, texts: bool) -> dict[int, tuple[ToolRecord, ...]]:
    rows = connection.execute(_RESULTS if texts else _RESULTS_WITHOUT_TEXTS, (episode,))
    found: dict[int, tuple[ToolRecord, ...]] = {}
    for turn, call_id, name, arguments, is_error, seconds, table, total, shown, row_ids, cursor, text in rows:
        record = ToolRecord(
            call=ToolCall(id=call_id, name=name, arguments=arguments),
            result_text=json.loads(text)["content"] if texts else "",
            is_error=bool(is_error),
            seconds=seconds,
            table=table,
            rows_total=total,
            rows_shown=shown,
            row_ids=tuple(json.loads(row_ids)) if texts else (),
            cursor=cursor,
        )
        found[turn] = (*found.get(turn, ()), record)
    return found
