"""A model answered through files: each request is ``<n>.request.json``, its reply ``<n>.reply.json``.

The reply is a message, ``{"content": "..."}`` or ``{"tool_calls": [{"name": "...", "arguments": {...}}]}``, or a whole
chat completion. An unreadable reply gets ``<n>.error.txt`` and is awaited again. Images of a request are in the folder
``pictures``, each once, under its hash.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wardround.core import ProviderError, UserError, private_folder
from wardround.models.endpoint import MalformedReply
from wardround.models.protocol import Reply, Request
from wardround.models.wire import ReadReply, read_reply

REQUEST_SCHEMA = "wardround.relay/1"
_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.02, 0.5
_WRITTEN_DOWN_SECONDS = 2.0
_Stamp = tuple[int, int]
_RequestKey = tuple[str, str, int]


class RelayModel:
    """Exchanges requests and replies through a folder, which several processes may share.

    A written request without a reply (its run was killed) keeps its number, so that a reply given meanwhile is not
    lost; ``served.txt`` lists the finished numbers. A number is listed once the run has had time to record the reply:
    a run killed before finds the reply in its place.
    """

    def __init__(self, folder: Path, *, timeout_seconds: float = 3600.0) -> None:
        try:
            private_folder(folder)
        except OSError as error:
            raise UserError(f"relay: cannot make the folder {folder} ({error.strerror})") from error
        self.folder = folder
        self.name = f"relay:{folder}"
        self.identity = "relay"
        self._timeout_seconds = timeout_seconds
        self._unserved, self._next = _requests_in(folder)
        self._handed_over: list[tuple[float, int]] = []

    async def check(self) -> None:
        """Raise ProviderError when the folder cannot be written."""
        if not os.access(self.folder, os.W_OK):
            raise ProviderError(f"{self.name}: the folder cannot be written")

    async def complete(self, request: Request) -> Reply:
        """Write the request and wait for the reply."""
        self._note_served(older_than=_WRITTEN_DOWN_SECONDS)
        digest = request.digest(self.identity)
        number = self._unserved.pop((digest, request.episode, request.ordinal), None)
        if number is None:
            number = self._write_request(request, digest)
        started = time.monotonic()
        read = await self._await_reply(number, request, started)
        self._handed_over.append((time.monotonic(), number))
        return Reply(
            message=read.message,
            usage=read.usage,
            finish_reason=read.finish_reason,
            model=read.model or "relay",
            seconds=time.monotonic() - started,
            token_logprobs=read.token_logprobs,
            unreported=read.unreported,
            identity=self.identity,
            reasoning=read.reasoning,
        )

    async def close(self) -> None:
        """List the finished numbers; the files stay."""
        self._note_served(older_than=0.0)

    def _note_served(self, *, older_than: float) -> None:
        """List the replies that were delivered at least ``older_than`` seconds ago."""
        moment = time.monotonic() - older_than
        numbers = [number for at, number in self._handed_over if at <= moment]
        if numbers:
            self._handed_over = [(at, number) for at, number in self._handed_over if at > moment]
            with (self.folder / "served.txt").open("a", encoding="utf-8") as served:
                served.write("".join(f"{number}\n" for number in numbers))

    def _write_request(self, request: Request, digest: str) -> int:
        body = {
            "schema": REQUEST_SCHEMA,
            "digest": digest,
            "episode": request.episode,
            "ordinal": request.ordinal,
            "messages": [message.to_wire() for message in request.messages],
            "tools": [tool.to_wire() for tool in request.tools],
            "tool_choice": request.tool_choice,
            "settings": asdict(request.settings),
            "response_schema": request.response_schema,
        }
        text = json.dumps(body, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        part = self.folder / f".{os.getpid()}-{digest[:16]}.part"
        try:
            self._write_pictures(request)
            part.write_bytes(text)
            while True:
                number, self._next = self._next, self._next + 1
                if _publish(part, self.folder / f"{number}.request.json"):
                    return number
        except OSError as error:
            raise ProviderError(f"{self.name}: cannot write a request ({error.strerror})") from error
        finally:
            part.unlink(missing_ok=True)

    def _write_pictures(self, request: Request) -> None:
        """Write the images that are missing in the folder, each in one step."""
        shown = {picture.file_name: picture for message in request.messages for picture in message.pictures}
        for name, picture in shown.items():
            path = self.folder / "pictures" / name
            if not path.exists():
                private_folder(path.parent)
                part = path.with_name(f".{os.getpid()}-{name}.part")
                part.write_bytes(picture.data)
                part.replace(path)

    async def _await_reply(self, number: int, request: Request, started: float) -> ReadReply:
        path = self.folder / f"{number}.reply.json"
        complaint = self.folder / f"{number}.error.txt"
        pause = _SHORTEST_POLL_SECONDS
        refused: _Stamp | None = None
        before: _Stamp | None = None
        while True:
            stamp = _stamp(path)
            if stamp is not None and stamp != refused:
                try:
                    read = _read(path.read_bytes(), request.ordinal)
                except (MalformedReply, OSError) as error:
                    if stamp == before:
                        complaint.write_text(f"{path.name}: {error}; write it again\n", encoding="utf-8")
                        refused = stamp
                else:
                    complaint.unlink(missing_ok=True)
                    return read
            before = stamp
            if time.monotonic() - started > self._timeout_seconds:
                raise ProviderError(f"{self.name}: no readable {path.name} within {self._timeout_seconds:g} s")
            await asyncio.sleep(pause)
            pause = min(_LONGEST_POLL_SECONDS, pause * 1.3)


def _requests_in(folder: Path) -> tuple[dict[_RequestKey, int], int]:
    """Return the waiting requests with their numbers, and the next free number."""
    numbers = {int(name): path for path in folder.glob("*.request.json") if (name := path.name.split(".")[0]).isdigit()}
    served_file = folder / "served.txt"
    served = set(served_file.read_text(encoding="utf-8").split()) if served_file.exists() else set()
    keyed = ((_request_key(path), number) for number, path in numbers.items() if str(number) not in served)
    waiting = {key: number for key, number in keyed if key is not None}
    return waiting, max(numbers, default=0) + 1


def _request_key(path: Path) -> _RequestKey | None:
    try:
        body = json.loads(path.read_bytes())
        return str(body["digest"]), str(body["episode"]), int(body["ordinal"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _publish(part: Path, target: Path) -> bool:
    """Rename a finished file in one step; return False when the name exists already."""
    try:
        os.link(part, target)
    except FileExistsError:
        return False
    except OSError:
        if target.exists():
            return False
        part.replace(target)
    return True


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read(body: bytes, ordinal: int) -> ReadReply:
    try:
        data: Any = json.loads(body)
    except ValueError as error:
        raise MalformedReply(f"not JSON ({error})") from error
    if not isinstance(data, dict):
        raise MalformedReply("not a JSON object")
    if "choices" not in data:
        if not data.keys() & {"content", "tool_calls", "function_call"}:
            raise MalformedReply('neither "content" nor "tool_calls" is in it')
        data = {"choices": [{"message": data, "finish_reason": data.get("finish_reason") or "stop"}]}
    read = read_reply(data, call_prefix=f"call_{ordinal}")
    for call in read.message.tool_calls:
        if not call.name:
            raise MalformedReply("a tool call has no name")
    return read
