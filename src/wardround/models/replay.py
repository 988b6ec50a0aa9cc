"""Models that answer from recordings or scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from wardround.core import Message, ProviderError, ToolCall, Usage, UserError
from wardround.log import KeptReply, LogReader, PromptPath, Trajectory, Turn
from wardround.models.protocol import USAGE_FIELDS, FinishReason, Model, Reply, Request

# Recorded replies: from an episode's log back to a model's replies.


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded reply, with the number of its call in the episode and the digest of its request."""

    ordinal: int
    digest: str
    reply: Reply


def recorded_replies(reader: LogReader, episode: str) -> list[Recorded]:
    """Return an episode's replies in order, also those without a turn; empty for an unknown episode."""
    if not reader.has(episode):
        return []
    recordings: list[Turn | KeptReply] = [*reader.trajectory(episode).turns, *reader.kept(episode)]
    recordings.sort(key=lambda recording: recording.ordinal)
    return [
        Recorded(ordinal=recording.ordinal, digest=recording.request_digest, reply=reply_of(recording))
        for recording in recordings
    ]


def reply_of(turn: Turn | KeptReply) -> Reply:
    """Return the reply as its model gave it, with its own time, attempts and cost."""
    reason = turn.finish_reason if turn.finish_reason in get_args(FinishReason) else "other"
    return Reply(
        message=turn.reply,
        usage=turn.usage,
        finish_reason=cast(FinishReason, reason),
        model=turn.model,
        seconds=turn.seconds,
        attempts=turn.attempts,
        cost=turn.cost,
        token_logprobs=turn.token_logprobs,
        unreported=turn.unreported,
        identity=turn.identity,
        reasoning=turn.reasoning,
    )


# Models that answer from recordings: a cassette that never calls a model, and the start of an interrupted episode.


Noter = Callable[[str, Mapping[str, Any]], None]
"""Called with a kind and a detail, like ``EpisodeRecorder.note``."""
Keeper = Callable[[Request, Reply], None]
"""Called with each live reply at once, like ``EpisodeRecorder.keep``."""

_BEFORE, _SHOWN = 60, 200
"""Bytes of a differing message in errors: before its first difference, and in all."""


class RecordedModel:
    """Replays one episode's recorded replies; other calls go to the live model.

    A reply is replayed only for an equal request to the same model. At the first difference the remaining replies are
    dropped, which is noted; after that every call is live. ``keep`` is called with live replies.
    """

    def __init__(
        self, model: Model, replies: Sequence[Recorded], *, note: Noter | None = None, keep: Keeper | None = None
    ) -> None:
        self.name = model.name
        self.identity = model.identity
        self.served = 0
        self.dropped = 0
        self._model = model
        self._waiting = {reply.ordinal: reply for reply in replies}
        self._path = PromptPath()
        self._note = note
        self._keep = keep

    async def check(self) -> None:
        """Check the live model."""
        await self._model.check()

    async def complete(self, request: Request) -> Reply:
        """Return the reply recorded for this call, or call the live model."""
        if self._waiting:
            self._path.follow(request.messages)
        recorded = self._waiting.get(request.ordinal)
        if recorded is not None:
            if self._answers(request, recorded):
                del self._waiting[request.ordinal]
                self.served += 1
                return recorded.reply
            self._drop(request)
        reply = await self._model.complete(request)
        if self._keep is not None:
            self._keep(request, reply)
        return reply

    async def close(self) -> None:
        """Do nothing: the live model belongs to its opener."""

    def beside(self, other: Model) -> RecordedModel:
        """Return another live model that shares these recordings and ``keep``."""
        shared = RecordedModel(beside(self._model, other), (), note=self._note, keep=self._keep)
        shared._waiting, shared._path = self._waiting, self._path
        return shared

    def _answers(self, request: Request, recorded: Recorded) -> bool:
        identity = recorded.reply.identity or recorded.reply.model
        return identity == self.identity and request.digest(identity, path=self._path.tip) == recorded.digest

    def _drop(self, request: Request) -> None:
        self.dropped = len(self._waiting)
        self._waiting.clear()
        if self._note is not None:
            detail = {"turn": request.ordinal, "served": self.served, "dropped": self.dropped}
            self._note("recorded_replies_dropped", detail)


def resumed(
    model: Model, replies: Sequence[Recorded], *, note: Noter | None = None, keep: Keeper | None = None
) -> Model:
    """Return a model for one episode that replays ``replies`` and passes live ones to ``keep``.

    Returns the model itself without either.
    """
    return RecordedModel(model, replies, note=note, keep=keep) if replies or keep else model


def beside(player: Model, other: Model) -> Model:
    """Return the model for another question of an episode: ``other``, after the player's recordings.

    If the player is a cassette, the cassette: it never calls a model.
    """
    if isinstance(player, ReplayModel):
        return player
    return player.beside(other) if isinstance(player, RecordedModel) else other


class ReplayModel:
    """A cassette: the recorded replies of a log file or run folder.

    Replies are found by episode, ordinal and request digest. It never calls a model. A request that was not recorded
    is a ProviderError that describes the difference. An episode key with this model's name also matches the only
    recorded key with another model in its place.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise UserError(f"replay: {path} does not exist; name a run folder or an episode log")
        self.name = f"replay:{path}"
        self.identity = self.name
        self._reader = LogReader(path)
        self._keys: tuple[str, ...] | None = None
        self._open: dict[str, tuple[Trajectory, dict[int, int], PromptPath]] = {}

    async def check(self) -> None:
        """Raise ProviderError when the cassette is empty."""
        if not self._reader.episodes():
            raise ProviderError(f"{self.name}: no episode is recorded there")

    async def complete(self, request: Request) -> Reply:
        """Return the recorded reply."""
        trajectory, turn_indices, path = self._episode(request)
        if request.ordinal not in turn_indices:
            raise self._miss(request, f"the recording has {len(turn_indices)} turns and ends before it")
        turn = trajectory.turns[turn_indices[request.ordinal]]
        path.follow(request.messages)
        if request.digest(turn.identity, path=path.tip) != turn.request_digest:
            raise self._miss(request, _difference(request, trajectory, turn_indices[request.ordinal]))
        if turn is trajectory.turns[-1]:
            del self._open[request.episode]
        return reply_of(turn)

    async def close(self) -> None:
        """Close the files."""
        self._reader.close()

    def _episode(self, request: Request) -> tuple[Trajectory, dict[int, int], PromptPath]:
        key = request.episode
        if key not in self._open:
            trajectory = self._reader.trajectory(self._recorded_key(request))
            turn_indices = {turn.ordinal: index for index, turn in enumerate(trajectory.turns)}
            while len(self._open) >= 1024:
                self._open.pop(next(iter(self._open)))
            self._open[key] = (trajectory, turn_indices, PromptPath())
        return self._open[key]

    def _recorded_key(self, request: Request) -> str:
        if self._keys is None:
            self._keys = tuple(entry.key for entry in self._reader.episodes())
        if request.episode in self._keys:
            return request.episode
        before, has_name, after = request.episode.partition(self.name)
        size = len(before) + len(after)
        similar = [k for k in self._keys if has_name and k.startswith(before) and k.endswith(after) and len(k) >= size]
        if len(similar) == 1:
            return similar[0]
        if similar:
            raise self._miss(request, f"several recorded episodes could be meant: {', '.join(similar[:3])}")
        first_keys = ", ".join(self._keys[:3])
        raise self._miss(request, f"no such episode is recorded; recorded are {first_keys or 'none'}")

    def _miss(self, request: Request, why: str) -> ProviderError:
        return ProviderError(f"{self.name}: episode {request.episode!r} turn {request.ordinal}: {why}")


def _difference(request: Request, trajectory: Trajectory, turn_index: int) -> str:
    """Describe the difference between a request and the recorded one, the most informative first."""
    turn = trajectory.turns[turn_index]
    for index, (message, recorded) in enumerate(zip(request.messages, turn.prompt, strict=False)):
        if message != recorded:
            return f"message {index} ({message.role}) differs: {_first_difference(message.wire, recorded.wire)}"
    if len(request.messages) != len(turn.prompt):
        return f"requested with {len(request.messages)} messages, recorded with {len(turn.prompt)}"
    tools = [tool.to_wire() for tool in request.tools]
    if tools != list(turn.tools):
        names = {tool["function"]["name"] for tool in turn.tools} ^ {tool.name for tool in request.tools}
        return f"the tools differ ({', '.join(sorted(names)) or 'same names, other descriptions or parameters'})"
    return "the messages and tools are the recorded ones, the settings or the response schema differ"


def _first_difference(requested: bytes, recorded: bytes) -> str:
    """Show both texts around their first difference."""
    first = next(
        (n for n, (byte, recorded_byte) in enumerate(zip(requested, recorded, strict=False)) if byte != recorded_byte),
        None,
    )
    position = min(len(requested), len(recorded)) if first is None else first
    start = max(0, position - _BEFORE)
    return f"requested {_piece(requested, start)}, recorded {_piece(recorded, start)}"


def _piece(wire: bytes, start: int) -> str:
    text = wire[start : start + _SHOWN].decode(errors="replace")
    return f"{'...' if start else ''}{text}{'...' if start + _SHOWN < len(wire) else ''}"


# A model that follows a script: for tests, demonstrations and measurements. It sends nothing.


Line = Reply | Message | str | Exception
"""An entry of a script: a reply, a message, its text, or an error to raise."""


def say(text: str) -> Reply:
    """Return a reply with text."""
    return _reply(Message(role="assistant", content=text))


def call(name: str, arguments: str | None = None, **named: Any) -> Reply:
    """Return a reply with one tool call; arguments by name, or as the text that a model would write."""
    return calls((name, json.dumps(named) if arguments is None else arguments))


def calls(*wanted: tuple[str, str]) -> Reply:
    """Return a reply with several tool calls: (name, arguments as text)."""
    tool_calls = tuple(ToolCall(id=f"call_{n}", name=name, arguments=text) for n, (name, text) in enumerate(wanted))
    return _reply(Message(role="assistant", content=None, tool_calls=tool_calls))


class ScriptedModel:
    """Replies in order from a list, or from a function of the request. ``requests`` records the requests.

    ``seconds`` delays every reply, for measurements. A list that runs out is a mistake in the script and raises
    RuntimeError.
    """

    def __init__(
        self, script: Sequence[Line] | Callable[[Request], Line], *, name: str = "scripted", seconds: float = 0.0
    ) -> None:
        self.name = name
        self.identity = name
        self.requests: list[Request] = []
        self._script = script
        self._seconds = seconds

    async def check(self) -> None:
        """Do nothing: there is no endpoint."""

    async def complete(self, request: Request) -> Reply:
        """Return the next line; ids of tool calls are made unique by the request's ordinal."""
        position = len(self.requests)
        self.requests.append(request)
        if self._seconds:
            await asyncio.sleep(self._seconds)
        if callable(self._script):
            line = self._script(request)
        elif position < len(self._script):
            line = self._script[position]
        else:
            raise RuntimeError(f"the script has {len(self._script)} replies and was called once more")
        return self._as_reply(line, request)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _as_reply(self, line: Line, request: Request) -> Reply:
        if isinstance(line, Exception):
            raise line
        if isinstance(line, str):
            line = say(line)
        if isinstance(line, Message):
            line = _reply(line)
        message = line.message
        if message.tool_calls:
            renamed = tuple(replace(call, id=f"{call.id}_{request.ordinal}") for call in message.tool_calls)
            message = Message(role=message.role, content=message.content, tool_calls=renamed)
        return replace(line, message=message, model=line.model or self.name, identity=self.identity)


def _reply(message: Message) -> Reply:
    reason: FinishReason = "tool_calls" if message.tool_calls else "stop"
    return Reply(message=message, usage=Usage(), finish_reason=reason, model="", unreported=USAGE_FIELDS)
