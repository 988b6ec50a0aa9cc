"""Read logs: episodes, trajectories, outlines for scoring, and an integrity check."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from wardround.core import Message, PictureBytes, ToolCall, Usage, UserError
from wardround.log.database import (
    LOG_FORMAT,
    LOG_SUFFIX,
    ROW_COUNTS,
    TOOL_COLUMNS,
    TURN_COLUMNS,
    Bodies,
    checked,
    has_begun,
    must_have_hash,
    read_picture,
    record_of,
    turn_of,
)
from wardround.log.rows import (
    USAGE_FIELDS,
    EpisodeEntry,
    KeptReply,
    Note,
    RecordedEpisode,
    ToolRecord,
    Trajectory,
    Turn,
    read_kept,
)
from wardround.log.writer import ROOT

# Outlines: the parts of a recorded episode that scoring needs, at a fifth of the cost of a trajectory.
#
# Turns are plain tuples: of a large run there are hundreds of thousands, and a frozen dataclass of twenty fields takes
# forty times as long to make.


class CallOutline(NamedTuple):
    """A call."""

    id: str
    name: str
    arguments: str


class ReplyOutline(NamedTuple):
    """A reply."""

    content: str | None
    tool_calls: Sequence[CallOutline | ToolCall]


class ResultOutline(NamedTuple):
    """The outcome of a call, without its text and its rows."""

    call: CallOutline
    is_error: bool
    seconds: float
    table: str | None


class AnsweringModel(NamedTuple):
    """A model as it named itself, where it was asked, its first and last answer (UTC, ISO 8601), and how many."""

    model: str
    identity: str
    first: str
    last: str
    calls: int


class TurnOutline(NamedTuple):
    """A turn without its prompt. ``tokens`` are those of ``USAGE_FIELDS``, None where the endpoint did not count."""

    purpose: str
    tokens: tuple[int | None, ...]
    cost: float | None
    seconds: float
    prompt_bytes: int
    prefix_bytes: int
    tools: Sequence[Mapping[str, Any]]
    reply: ReplyOutline
    results: Sequence[ResultOutline]

    @property
    def unreported(self) -> tuple[str, ...]:
        """The fields of Usage that the endpoint did not count."""
        if None not in self.tokens:
            return ()
        return tuple(name for name, count in zip(USAGE_FIELDS, self.tokens, strict=True) if count is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline(RecordedEpisode):
    """An episode without the texts that its models read."""

    turns: Sequence[TurnOutline]

    @property
    def usage(self) -> Usage:
        """Tokens of all turns (unreported ones count as 0)."""
        columns = zip(*(turn.tokens for turn in self.turns), strict=True)
        return Usage(**{name: sum(filter(None, column)) for name, column in zip(USAGE_FIELDS, columns, strict=False)})


Played = Trajectory | Outline
"""An episode in the form that scoring reads."""
PlayedTurn = Turn | TurnOutline
PlayedCall = ToolCall | CallOutline


# Episodes without the texts that models read, one after another: all that scoring needs, in three statements.


_REPLIES = """
SELECT body.hash, CAST(body.text AS BLOB) FROM turn LEFT JOIN message ON message.hash = turn.reply_hash
LEFT JOIN body ON body.hash = message.body WHERE episode BETWEEN ? AND ? ORDER BY episode, ordinal
"""
_FINISHED_WITH = "SELECT key, row_counts FROM episode WHERE key BETWEEN ? AND ?"

_Row = Sequence[Any]
_new = tuple.__new__
"""Makes a named tuple in a third of the time that its class takes; an episode has some fifty."""


def read_outlines(bodies: Bodies, entries: Sequence[EpisodeEntry]) -> Iterator[Outline]:
    """Read episodes of one log file, given by key, in one view of the file.

    What lies between the first and the last of them is passed over: they should be neighbours.
    """
    edges = (entries[0].key, entries[-1].key)
    connection = bodies.connection
    connection.execute("BEGIN")
    try:
        turns, tools, notes = (
            bodies.sealed_rows(table, "episode BETWEEN ? AND ?", edges) for table in ("turn", "tool", "note")
        )
        replies = connection.execute(_REPLIES, edges).fetchall()
        finished_with = dict(connection.execute(_FINISHED_WITH, edges))
    finally:
        connection.execute("ROLLBACK")
    turns_of = _by_episode([row + reply for row, reply in zip(turns, replies, strict=True)])
    tools_of, notes_of = _by_episode(tools), _by_episode(notes)
    for entry in entries:
        own = turns_of.get(entry.key, ()), tools_of.get(entry.key, ()), notes_of.get(entry.key, ())
        _must_be_all(entry.key, " ".join(str(len(rows)) for rows in own), finished_with.get(entry.key, ""))
        yield Outline(entry=entry, turns=_turns(own[0], own[1], bodies), notes=_notes(own[2]))


def _must_be_all(episode: str, row_counts: str, finished_with: str | None) -> None:
    if finished_with not in (None, row_counts):
        raise UserError(f"a log is damaged: rows of the episode {episode} are missing")


def _by_episode(rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    """Group rows, sorted by their first column, by it."""
    return {episode: list(some) for episode, some in groupby(rows, itemgetter(0))}


def _turns(rows: Iterable[_Row], tools: Iterable[_Row], bodies: Bodies) -> tuple[TurnOutline, ...]:
    """Make turns of rows as the table has them, each with its seal and the hash and text of its reply behind it."""
    results: dict[int, list[ResultOutline]] = {}
    for _, turn, _, call_id, name, arguments, is_error, seconds, table, *_ in tools:
        call = _new(CallOutline, (call_id, name, arguments))
        results.setdefault(turn, []).append(_new(ResultOutline, (call, bool(is_error), seconds, table)))
    turns = []
    for row in rows:
        ordinal, (cost, seconds, _, prompt_bytes, prefix_bytes, schemas) = row[1], row[13:19]
        tools_offered = () if schemas is None else bodies.decoded(schemas) or ()
        reply = _reply(row[-1], row[-2], ordinal)
        of_turn = (row[2], row[9:13], cost, seconds, prompt_bytes, prefix_bytes, tools_offered, reply)
        turns.append(_new(TurnOutline, (*of_turn, results.get(ordinal, ()))))
    return tuple(turns)


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _CallBody(msgspec.Struct):
    id: str
    function: _Function


class _ReplyBody(msgspec.Struct):
    """A message as :meth:`Message.to_wire` writes it, as far as scoring reads it."""

    content: str | None
    tool_calls: list[_CallBody] = []


_read_reply = msgspec.json.Decoder(_ReplyBody).decode


def _reply(text: bytes | None, digest: bytes | None, ordinal: int) -> ReplyOutline:
    if text is None:
        raise UserError(f"a log is damaged: turn {ordinal} of an episode has no reply in it")
    must_have_hash(text, digest)
    try:
        body = _read_reply(text)
    except msgspec.DecodeError:  # written otherwise than we do: halves of characters, say
        whole = Message.from_wire(json.loads(text))
        return ReplyOutline(whole.content, whole.tool_calls)
    calls = []
    for call in body.tool_calls:
        function = call.function
        calls.append(_new(CallOutline, (call.id, function.name, function.arguments)))
    return _new(ReplyOutline, (body.content, calls))


def _notes(rows: Sequence[_Row]) -> tuple[Note, ...]:
    details = _decoded([row[3] for row in rows])
    return tuple(Note(n=n, kind=kind, detail=detail) for (_, n, kind, *_), detail in zip(rows, details, strict=True))


def _decoded(texts: Iterable[str]) -> list[Any]:
    """Decode JSON texts at once, which costs a third of one by one."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]")
    return values


# Reading logs back: episodes, and trajectories whose prompts are rebuilt by walking the message tree to its root.


_WALK = """
WITH RECURSIVE node(hash) AS (
    SELECT prompt_hash FROM turn WHERE episode = :episode
    UNION SELECT reply_hash FROM turn WHERE episode = :episode
    UNION SELECT message.parent FROM message JOIN node ON message.hash = node.hash
)
SELECT message.hash, message.parent, body.hash, body.text
FROM node JOIN message ON message.hash = node.hash JOIN body ON body.hash = message.body
"""
_READER_TURNS = f"SELECT {TURN_COLUMNS}, reasoning, token_logprobs FROM turn WHERE episode = ? ORDER BY ordinal"
_RESULTS = f"""
SELECT {TOOL_COLUMNS}, row_ids, body.hash, body.text
FROM tool LEFT JOIN body ON body.hash = tool.result WHERE episode = ? ORDER BY turn, n
"""
_COUNTS = f"SELECT {ROW_COUNTS}, (SELECT count(*) FROM kept WHERE kept.episode = key) FROM episode WHERE "
_AT_ONCE = 32
"""Episodes per statement: what they are made of stays in the processor's cache."""
_Tree = dict[bytes, tuple[bytes, Message]]
_Found = tuple[EpisodeEntry, Path, Bodies]


class PaidCall(NamedTuple):
    """The identity of one model call."""

    episode: str
    ordinal: int
    request_digest: str
    seconds: float


class LogReader:
    """Reads one log file, or every ``*.episodes.sqlite`` under a run folder, also while they are being written.

    An episode that is in several files (its worker was killed and another took over) is read where it got furthest.
    """

    def __init__(self, path: Path, *, may_be_empty: bool = False) -> None:
        self.path = path
        files = [file for file in sorted(path.rglob(f"*{LOG_SUFFIX}")) if has_begun(file)] if path.is_dir() else [path]
        if not files and not may_be_empty:
            raise UserError(f"no episode log (*{LOG_SUFFIX}) under {path}; is it a run folder?")
        self._connections: list[tuple[Path, Bodies]] = []
        try:
            for file in files:
                self._connections.append((file, Bodies(LOG_FORMAT.open_unchanged(file))))
        except UserError:
            self.close()
            raise

    def look_again(self, *, but: Path) -> None:
        """Open new logs, except the caller's own."""
        known = {file for file, _ in self._connections} | {but}
        for file in sorted(self.path.rglob(f"*{LOG_SUFFIX}")):
            if file not in known and has_begun(file):
                self._connections.append((file, Bodies(LOG_FORMAT.open_unchanged(file))))

    def episodes(self) -> tuple[EpisodeEntry, ...]:
        """Return all episodes, by key."""
        return tuple(entry for _, (entry, _, _) in sorted(self._index().items()))

    def finished(self) -> set[str]:
        """Return the keys of the finished episodes."""
        return {
            row[0]
            for _, bodies in self._connections
            for row in bodies.connection.execute("SELECT key FROM episode WHERE state = 'finished'")
        }

    def answering(self) -> list[AnsweringModel]:
        """Return the models that answered and from when to when, by their identities."""
        found: dict[tuple[str, str], AnsweringModel] = {}
        query = "SELECT model, identity, min(ended), max(ended), count(*) FROM turn GROUP BY model, identity"
        for _, bodies in self._connections:
            for model, identity, first, last, calls in bodies.connection.execute(query):
                one = AnsweringModel(model, identity, first, last, calls)
                held = found.setdefault((model, identity), one)
                if held is not one:
                    ends = min(held.first, first), max(held.last, last)
                    found[model, identity] = AnsweringModel(model, identity, *ends, held.calls + calls)
        return [found[key] for key in sorted(found)]

    def has(self, episode: str) -> bool:
        """Return whether an episode with this key was begun."""
        return episode in self._index(episode)

    def entry(self, episode: str) -> EpisodeEntry | None:
        """Return one episode's row, None if it was never begun."""
        found = self._index(episode).get(episode)
        return None if found is None else found[0]

    def trajectory(self, episode: str) -> Trajectory:
        """Read one whole episode. UserError: there is none with this key."""
        found = self._index(episode).get(episode)
        if found is None:
            raise UserError(f"no episode {episode!r} in {self.path}")
        return _read_whole(found)

    def outlines(self, first: str | None = None, last: str | None = None) -> Iterator[Outline]:
        """Read every finished episode without what was read to the models: no prompts, no texts of tool results, no
        reasoning, no log-probabilities. All that scoring needs, at a fifth of the cost.

        From one key to another, both of them in it; all without. They come file by file, in each by key.
        """
        groups: dict[Path, list[_Found]] = {}
        for _, found in sorted(self._index(first, last).items()):
            if found[0].state == "finished":
                groups.setdefault(found[1], []).append(found)
        for file, members in groups.items():
            for start in range(0, len(members), _AT_ONCE):
                some = members[start : start + _AT_ONCE]
                with LOG_FORMAT.errors(file):
                    yield from read_outlines(some[0][2], [entry for entry, _, _ in some])

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
            with LOG_FORMAT.errors(file):
                bodies.must_be_sealed("kept", "AND episode = ?", (episode,))
                for reply in read_kept(bodies.connection, episode):
                    replies.setdefault(reply.ordinal, reply)
        turns = found[2].connection.execute("SELECT ordinal FROM turn WHERE episode = ?", (episode,))
        return tuple(replies[ordinal] for ordinal in sorted(replies.keys() - {row[0] for row in turns}))

    def notes(self, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Read every note of one kind, with its episode's key, over all files."""
        for file, bodies in self._connections:
            with LOG_FORMAT.errors(file):
                query = "SELECT episode, detail FROM note WHERE kind = ? ORDER BY episode, n"
                rows = bodies.connection.execute(query, (kind,))
                yield from ((episode, json.loads(detail)) for episode, detail in rows)

    def costs(self) -> dict[PaidCall, float | None]:
        """Return the cost (US dollars, None where unknown) of every recorded call, of all files. A reply that a second
        worker was served from the log of the first has the same wall time there, and is one call."""
        found: dict[PaidCall, float | None] = {}
        for file, bodies in self._connections:
            with LOG_FORMAT.errors(file):
                rows = bodies.connection.execute("SELECT episode, ordinal, request_digest, seconds, cost FROM turn")
                found.update((PaidCall(*call), cost) for *call, cost in rows)
        return found

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

    def _index(self, first: str | None = None, last: str | None = None) -> dict[str, _Found]:
        """Find the episodes from one key to another (of one key alone, of all), each in the file to read it from."""
        best: dict[str, _Found] = {}
        reached: dict[str, tuple[bool, str, int]] = {}
        where, values = ("TRUE", ()) if first is None else ("key BETWEEN ? AND ?", (first, last or first))
        for file, bodies in self._connections:
            connection = bodies.connection
            with LOG_FORMAT.errors(file):
                connection.execute("BEGIN")
                try:
                    rows = bodies.sealed_rows("episode", where, values)
                    counts = connection.execute(f"{_COUNTS} {where} ORDER BY key", values).fetchall()
                finally:
                    connection.execute("ROLLBACK")
            for row, (row_counts, kept) in zip(rows, counts, strict=True):
                entry = _entry(row, row_counts)
                further = (entry.state == "finished", entry.ended or "", entry.turns + kept)
                if entry.key not in best or further > reached[entry.key]:
                    best[entry.key], reached[entry.key] = (entry, file, bodies), further
        return best


def _entry(row: Sequence[Any], row_counts: str) -> EpisodeEntry:
    """Make the entry of an episode that has so many rows. UserError: it was finished with other numbers."""
    key, facts, outcome, state, started, ended, finished_with, _ = row
    _must_be_all(key, row_counts, finished_with)
    return EpisodeEntry(
        key=key,
        facts=_object(facts),
        outcome=None if outcome is None else _object(outcome),
        state=state,
        started=started,
        ended=ended,
        turns=int(row_counts.partition(" ")[0]),
    )


def _object(text: str) -> dict[str, Any]:
    """Decode an object of JSON, in half the time of the standard library where that can be."""
    try:
        return _read_object(text)
    except msgspec.DecodeError:
        body: dict[str, Any] = json.loads(text)
        return body


_read_object = msgspec.json.Decoder(dict[str, Any]).decode


def _read_whole(found: _Found) -> Trajectory:
    entry, file, bodies = found
    with LOG_FORMAT.errors(file):
        bodies.connection.execute("BEGIN")
        try:
            return _trajectory(bodies, entry)
        finally:
            bodies.connection.execute("ROLLBACK")


def _trajectory(bodies: Bodies, entry: EpisodeEntry) -> Trajectory:
    connection = bodies.connection
    for table, key in (("episode", "key"), ("turn", "episode"), ("tool", "episode"), ("note", "episode")):
        bodies.must_be_sealed(table, f"AND {key} = ?", (entry.key,))
    rows = connection.execute(_WALK, {"episode": entry.key})
    find = partial(read_picture, connection)
    tree = {
        node: (parent, Message.from_wire(json.loads(_of_node(node, parent, body, text)), find))
        for node, parent, body, text in rows
    }
    paths: dict[bytes, tuple[Message, ...]] = {ROOT: ()}
    results = _results(connection, entry.key, find)
    turns = tuple(
        turn_of(
            columns,
            bodies,
            reply=_node(tree, columns[3])[1],
            results=tuple(results.get(columns[0], ())),
            prompt=_path(tree, paths, columns[2]),
            reasoning=bodies.text(reasoning),
            token_logprobs=None if logprobs is None else tuple(json.loads(logprobs)),
        )
        for *columns, reasoning, logprobs in connection.execute(_READER_TURNS, (entry.key,))
    )
    notes = connection.execute("SELECT n, kind, detail FROM note WHERE episode = ? ORDER BY n", (entry.key,))
    read = tuple(Note(n=n, kind=kind, detail=json.loads(detail)) for n, kind, detail in notes)
    return Trajectory(entry=entry, turns=turns, notes=read)


def _of_node(node: bytes, parent: bytes, body: bytes, text: str) -> str:
    """Return the text of a message in the tree. UserError: the log is damaged."""
    if sha256(parent + body).digest() != node:
        raise UserError("a log is damaged: a message is not in its place; `wardround audit files` says more")
    return checked(text, body)


def _node(tree: _Tree, node: bytes) -> tuple[bytes, Message]:
    if node not in tree:
        raise UserError("a log is damaged: a message is missing; `wardround audit files` says more")
    return tree[node]


def _path(tree: _Tree, paths: dict[bytes, tuple[Message, ...]], tip: bytes) -> tuple[Message, ...]:
    """Return the messages from the root to a node; known paths are reused."""
    tail: list[tuple[bytes, Message]] = []
    node = tip
    while node not in paths:
        parent, message = _node(tree, node)
        tail.append((node, message))
        node = parent
    path = paths[node] + tuple(message for _, message in reversed(tail))
    paths[tip] = path
    return path


def _results(connection: sqlite3.Connection, episode: str, find: PictureBytes) -> dict[int, list[ToolRecord]]:
    found: dict[int, list[ToolRecord]] = {}
    for turn, *columns, row_ids, body, text in connection.execute(_RESULTS, (episode,)):
        result = Message.from_wire(json.loads(checked(text, body)), find)
        record = record_of(columns, result=result, row_ids=tuple(json.loads(row_ids)))
        found.setdefault(turn, []).append(record)
    return found


# A log read whole: every row against its seal, every text, message and picture against the hash that names it.


def damage_of_log(path: Path) -> list[str]:
    """Return what is damaged in a log, a line each; nothing where all is as it was written."""
    return LOG_FORMAT.damage(path, _changed_content)


def _changed_content(connection: sqlite3.Connection) -> list[str]:
    texts = connection.execute("SELECT hash, text FROM body")
    nodes = connection.execute("SELECT hash, parent, body FROM message")
    pictures = connection.execute("SELECT hash, data FROM picture")
    found = {
        "texts": sum(sha256(text.encode()).digest() != digest for digest, text in texts),
        "messages": sum(sha256(parent + body).digest() != node for node, parent, body in nodes),
        "pictures": sum(sha256(data).digest() != digest for digest, data in pictures),
    }
    return [f"{count:,} {what} are not as they were written" for what, count in found.items() if count]
