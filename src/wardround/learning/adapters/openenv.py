"""The door for OpenEnv 0.10 and what reads it (verifiers' taskset ``openenv``): its protocol, spoken here.

``/ws`` takes ``reset``, ``step``, ``state`` and ``close``, one episode per connection; ``/schema`` says that an action
is a tool call; ``/health`` says that it is up. A step's reward is 0 until the episode is over, so that the sum of the
steps is the reward. The protocol is small and its package large (a web interface comes with it), hence no dependency.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from wardround.core import UserError
from wardround.learning.world import World, WorldEpisode

ACTION_SCHEMA: Mapping[str, Any] = {
    "title": "CallToolAction",
    "type": "object",
    "properties": {
        "type": {"const": "call_tool", "default": "call_tool"},
        "tool_name": {"type": "string", "description": "Name of the tool to call"},
        "arguments": {"type": "object", "description": "Arguments to pass to the tool"},
    },
    "required": ["tool_name"],
}
_TEXT = {"type": "object", "properties": {"tool_name": {"type": "string"}, "result": {"type": "string"}}}
_LARGEST_MESSAGE = 1_000_000


class _Refused(Exception):
    """An invalid message; ``code`` is one of OpenEnv's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True, kw_only=True)
class _Connection:
    """One trainer's episode after another. Without a sample's name, ``reset`` takes the next of the world."""

    world: World
    turns: Any
    episode: WorldEpisode | None = None
    steps: int = 0
    answers: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.answers = {"reset": "_reset", "step": "_step", "state": "_state"}

    def answer(self, text: str) -> dict[str, Any]:
        """Return the answer to one message."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise _Refused("INVALID_JSON", "a message is one JSON object") from None
        kind = message.get("type") if isinstance(message, dict) else None
        if not isinstance(kind, str) or kind not in self.answers:
            raise _Refused("UNKNOWN_TYPE", f"there is no message of type {kind!r}")
        data = message.get("data") or {}
        if not isinstance(data, dict):
            raise _Refused("VALIDATION_ERROR", "data is an object")
        made: dict[str, Any] = getattr(self, self.answers[kind])(data)
        return {"type": "state" if kind == "state" else "observation", "data": made}

    def close(self) -> None:
        """Free the episode."""
        if self.episode is not None:
            self.episode.close()

    def _reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        requested = data.get("sample", data.get("episode_id"))
        ids = self.world.ids
        sample = str(requested) if requested is not None else ids[next(self.turns) % len(ids)]
        try:
            begun = self.world.begin(sample)
        except UserError as error:
            raise _Refused("VALIDATION_ERROR", str(error)) from None
        self.close()
        self.episode, self.steps = begun, 0
        return _observed({"prompt": begun.prompt, "sample": sample})

    def _step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        if data.get("type") == "list_tools":
            return _observed({"tools": self._tools()})
        name, arguments = data.get("tool_name"), data.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise _Refused("VALIDATION_ERROR", "a step is {tool_name, arguments}")
        if self.episode is None:
            raise _Refused("SESSION_ERROR", "reset comes first")
        episode = self.episode
        was_over = episode.done
        text = episode.call(name, arguments)
        self.steps += 1
        ends_now = episode.done and not was_over
        observation = {"tool_name": name, "result": text, "error": None}
        return _observed(observation, reward=episode.reward if ends_now else 0.0, done=episode.done)

    def _state(self, _data: Mapping[str, Any]) -> dict[str, Any]:
        sample = None if self.episode is None else self.episode.sample.id
        return {"episode_id": sample, "step_count": self.steps}

    def _tools(self) -> list[dict[str, Any]]:
        """Return the tools, before ``reset`` too, as the protocol requires."""
        episode = self.episode or self.world.begin(self.world.ids[0])
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in episode.tools
        ]
        if episode is not self.episode:
            episode.close()
        return tools


def openenv_app(world: World) -> Starlette:
    """Return the server of a world. It has no access control: serve it on loopback."""
    turns = count()

    async def play(socket: WebSocket) -> None:
        await socket.accept()
        connection = _Connection(world=world, turns=turns)
        try:
            while True:
                text = await socket.receive_text()
                if len(text) > _LARGEST_MESSAGE:
                    await socket.send_json(_error("VALIDATION_ERROR", "the message is too large"))
                    continue
                if _closes(text):
                    break
                await socket.send_json(_answered(connection, text))
        except WebSocketDisconnect:
            pass
        finally:
            connection.close()

    async def schema(_request: Request) -> JSONResponse:
        return JSONResponse({"action": ACTION_SCHEMA, "observation": _TEXT, "state": {"type": "object"}})

    async def health(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "healthy"})

    return Starlette(routes=[WebSocketRoute("/ws", play), Route("/schema", schema), Route("/health", health)])


def _answered(connection: _Connection, text: str) -> dict[str, Any]:
    try:
        return connection.answer(text)
    except _Refused as refused:
        return _error(refused.code, str(refused))


def _closes(text: str) -> bool:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("type") == "close"


def _observed(observation: dict[str, Any], *, reward: float = 0.0, done: bool = False) -> dict[str, Any]:
    return {"observation": observation, "reward": reward, "done": done}


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code}}
