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

# Recorded replies: from an episode's log back to what a model said.


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A reply that was recorded: which of its episode's calls it answered, and the digest of the request."""

    ordinal: int
    digest: str
    reply: Reply


def recorded_replies(reader: LogReader, episode: str) -> list[Recorded]:
    """Return an episode's replies in order, those without a turn too. An episode that was never begun has none."""
    if not reader.has(episode):
        return []
    found: list[Turn | KeptReply] = [*reader.trajectory(episode).turns, *reader.kept(episode)]
    found.sort(key=lambda one: one.ordinal)
    return [Recorded(ordinal=one.ordinal, digest=one.request_digest, reply=reply_of(one)) for one in found]


def reply_of(turn: Turn | KeptReply) -> Reply:
    """The reply as its model gave it, with its own time, attempts and cost."""
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


# Models that speak from recordings: a cassette that never goes live, and the beginning of an interrupted episode.


Noter = Callable[[str, Mapping[str, Any]], None]
"""Takes a kind and a detail, as ``EpisodeRecorder.note`` does."""
Keeper = Callable[[Request, Reply], None]
"""Takes a live reply as soon as it has come, as ``EpisodeRecorder.keep`` does."""

_BEFORE, _SHOWN = 60, 200
"""Bytes shown of a message that differs: before its first difference, and in all."""


class RecordedModel:
    """Serves one episode's recorded replies, each to the call it answered, and asks the live model for the others.

    A reply is served only where the request is the one it answered and its model is the one that is asked now. At the
    first difference the rest is dropped, and noted; from then on everything is live. ``keep`` is handed live replies.
    """

    def __init__(
        self, model: Model, replies: Sequence[Recorded], *, note: Noter | None = None, keep: Keeper | None = None
    ) -> None:
        self.name = model.name
        self.identity = model.identity
        self.served = 0
        self.dropped = 0
        self._model = model
        self._waiting = {one.ordinal: one for one in replies}
        self._path = PromptPath()
        self._note = note
        self._keep = keep

    async def check(self) -> None:
        """Check the live model."""
        await self._model.check()

    async def complete(self, request: Request) -> Reply:
        """Serve the reply that was recorded for this call or ask the live model."""
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
        """The live model belongs to whoever opened it; nothing of our own to release."""

    def beside(self, other: Model) -> RecordedModel:
        """Return another live model that is served from the same recordings, and whose replies are kept with these."""
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
    """Return a model for one episode that serves ``replies`` and hands live ones to ``keep``; itself if neither."""
    return RecordedModel(model, replies, note=note, keep=keep) if replies or keep else model


def beside(player: Model, other: Model) -> Model:
    """Return the model that another question of an episode is asked of: ``other``, after what is recorded for the model
    that plays it; a cassette alone where that is one, since it never goes live."""
    if isinstance(player, ReplayModel):
        return player
    return player.beside(other) if isinstance(player, RecordedModel) else other


class ReplayModel:
    """A cassette: the recorded replies of a log file or run folder, by episode, ordinal and request digest.

    It never calls anything. A request that was not recorded is a ProviderError that says what differs. An episode key
    that names its model finds the recorded key that names another one in its place, if there is just one.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise UserError(f"replay: there is no {path}; name a run folder or an episode log")
        self.name = f"replay:{path}"
        self.identity = self.name
        self._reader = LogReader(path)
        self._keys: tuple[str, ...] | None = None
        self._open: dict[str, tuple[Trajectory, dict[int, int], PromptPath]] = {}

    async def check(self) -> None:
        """Raise ProviderError when the cassette holds nothing."""
        if not self._reader.episodes():
            raise ProviderError(f"{self.name}: no episode is recorded there")

    async def complete(self, request: Request) -> Reply:
        """Give the recorded reply."""
        trajectory, places, path = self._episode(request)
        if request.ordinal not in places:
            raise self._miss(request, f"the recording has {len(places)} turns and ends before it")
        turn = trajectory.turns[places[request.ordinal]]
        path.follow(request.messages)
        if request.digest(turn.identity, path=path.tip) != turn.request_digest:
            raise self._miss(request, _difference(request, trajectory, places[request.ordinal]))
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
            places = {turn.ordinal: place for place, turn in enumerate(trajectory.turns)}
            while len(self._open) >= 1024:
                self._open.pop(next(iter(self._open)))
            self._open[key] = (trajectory, places, PromptPath())
        return self._open[key]

    def _recorded_key(self, request: Request) -> str:
        if self._keys is None:
            self._keys = tuple(entry.key for entry in self._reader.episodes())
        if request.episode in self._keys:
            return request.episode
        before, found, after = request.episode.partition(self.name)
        size = len(before) + len(after)
        alike = [k for k in self._keys if found and k.startswith(before) and k.endswith(after) and len(k) >= size]
        if len(alike) == 1:
            return alike[0]
        if alike:
            raise self._miss(request, f"several recorded episodes could be meant: {', '.join(alike[:3])}")
        named = ", ".join(self._keys[:3])
        raise self._miss(request, f"no such episode is recorded; there are {named or 'none'}")

    def _miss(self, request: Request, why: str) -> ProviderError:
        return ProviderError(f"{self.name}: episode {request.episode!r} turn {request.ordinal}: {why}")


def _difference(request: Request, trajectory: Trajectory, place: int) -> str:
    """What differs between a request and the recorded one, most telling first."""
    turn = trajectory.turns[place]
    for index, (asked, recorded) in enumerate(zip(request.messages, turn.prompt, strict=False)):
        if asked != recorded:
            return f"message {index} ({asked.role}) differs: {_first_difference(asked.wire, recorded.wire)}"
    if len(request.messages) != len(turn.prompt):
        return f"asked with {len(request.messages)} messages, recorded with {len(turn.prompt)}"
    asked_tools = [tool.to_wire() for tool in request.tools]
    if asked_tools != list(turn.tools):
        names = {tool["function"]["name"] for tool in turn.tools} ^ {tool.name for tool in request.tools}
        return f"the tools differ ({', '.join(sorted(names)) or 'same names, other descriptions or parameters'})"
    return "the messages and tools are the recorded ones, the settings or the response schema differ"


def _first_difference(asked: bytes, recorded: bytes) -> str:
    """Show both texts around the first place where they differ."""
    first = next((n for n, (one, other) in enumerate(zip(asked, recorded, strict=False)) if one != other), None)
    place = min(len(asked), len(recorded)) if first is None else first
    start = max(0, place - _BEFORE)
    return f"asked {_piece(asked, start)}, recorded {_piece(recorded, start)}"


def _piece(wire: bytes, start: int) -> str:
    text = wire[start : start + _SHOWN].decode(errors="replace")
    return f"{'...' if start else ''}{text}{'...' if start + _SHOWN < len(wire) else ''}"


# A model that says what it was told to: the double for tests, demonstrations and measurements. It sends nothing.


Line = Reply | Message | str | Exception
"""What a script may hold: a reply, a message, the text of one, or an error to raise."""


def say(text: str) -> Reply:
    """A reply that is text."""
    return _reply(Message(role="assistant", content=text))


def call(name: str, arguments: str | None = None, **named: Any) -> Reply:
    """A reply that calls one tool, with arguments by name or as the text a model would write."""
    return calls((name, json.dumps(named) if arguments is None else arguments))


def calls(*wanted: tuple[str, str]) -> Reply:
    """A reply that calls several tools at once: (name, arguments as text)."""
    made = tuple(ToolCall(id=f"call_{n}", name=name, arguments=text) for n, (name, text) in enumerate(wanted))
    return _reply(Message(role="assistant", content=None, tool_calls=made))


class ScriptedModel:
    """Replies in order from a list, or from a function of the request. ``requests`` keeps what it was asked.

    ``seconds`` makes every reply take that long, for measurements. A list that runs out is a mistake in the script and
    raises RuntimeError.
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
        """Nothing to reach."""

    async def complete(self, request: Request) -> Reply:
        """Give the next line; ids of tool calls are made unique by the request's ordinal."""
        position = len(self.requests)
        self.requests.append(request)
        if self._seconds:
            await asyncio.sleep(self._seconds)
        if callable(self._script):
            line = self._script(request)
        elif position < len(self._script):
            line = self._script[position]
        else:
            raise RuntimeError(f"the script holds {len(self._script)} replies and was asked for one more")
        return self._spoken(line, request)

    async def close(self) -> None:
        """Nothing to release."""

    def _spoken(self, line: Line, request: Request) -> Reply:
        if isinstance(line, Exception):
            raise line
        if isinstance(line, str):
            line = say(line)
        if isinstance(line, Message):
            line = _reply(line)
        message = line.message
        if message.tool_calls:
            renamed = tuple(replace(one, id=f"{one.id}_{request.ordinal}") for one in message.tool_calls)
            message = Message(role=message.role, content=message.content, tool_calls=renamed)
        return replace(line, message=message, model=line.model or self.name, identity=self.identity)


def _reply(message: Message) -> Reply:
    reason: FinishReason = "tool_calls" if message.tool_calls else "stop"
    return Reply(message=message, usage=Usage(), finish_reason=reason, model="", unreported=USAGE_FIELDS)
