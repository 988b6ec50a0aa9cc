"""Foreign bytes are decoded by a process of their own: a file made to burn time or memory ends that process, not ours.

A ``ConfinedReader`` keeps a few such processes warm. Each runs one function of ours, named when the reader is made, on
bytes and plain arguments, and gives back plain values and bytes; no pickle passes between the two. A process has limits
of CPU time, memory and file size. It ends when its parent does, or when nobody has called it for a while.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import resource
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from struct import Struct
from typing import Any

from wardround.core.errors import ToolFailure, UserError, WardroundError

Read = tuple[Mapping[str, Any], Sequence[memoryview]]
"""The return type of a confined function: JSON values and bytes (of arrays too, without a copy)."""
Confined = Callable[[bytes, Mapping[str, Any]], Read]
_LENGTHS = Struct(">QQ")
_PROGRAM = """
import sys
sys.path[:] = {path!r}
from wardround.core.confined import serve
serve({target!r}, {cpu}, {memory})
"""
_PIPE_BYTES = 1 << 20
_PROCESSES = 4
_LOOK_UP_SECONDS = 5.0
_IDLE_SECONDS = 300.0
_END_SECONDS = 2.0
_PASSED_ON = {"ToolFailure": ToolFailure, "UserError": UserError}


class UnreadableBytes(WardroundError):
    """Bytes that could not be decoded: ``why`` says how the process that tried it ended."""


@dataclass(slots=True)
class ConfinedReader:
    """Runs the function ``target`` (``module:name``) on foreign bytes, under limits. Threads may share it.

    ``cpu_seconds`` and ``wall_seconds`` are of one call, ``memory_bytes`` what it may take beyond the process itself.
    """

    target: str
    cpu_seconds: int
    wall_seconds: float
    memory_bytes: int
    _idle: list[_Process] = field(default_factory=list, init=False, repr=False)
    _slots: threading.BoundedSemaphore = field(init=False, repr=False)
    _pid: int = field(default=0, init=False, repr=False)

    def read(self, body: bytes, **arguments: Any) -> Read:
        """Return what the function makes of the bytes.

        ToolFailure, UserError: as it raised them. UnreadableBytes: it failed in another way, or took too much.
        """
        if self._pid != os.getpid():  # in a forked process the parent's are not ours
            self._pid, self._idle, self._slots = os.getpid(), [], threading.BoundedSemaphore(_PROCESSES)
            atexit.register(self.close)
        with self._slots:
            process = self._take()
            try:
                head, blobs = process.ask(json.dumps(arguments).encode(), body, self.wall_seconds)
            except BaseException:
                process.end()
                raise
            self._idle.append(process)
        kind = head.get("error")
        if kind is None:
            return head["value"], blobs
        raise _PASSED_ON.get(kind, UnreadableBytes)(head["text"])

    def close(self) -> None:
        """End the processes that wait."""
        while self._idle and self._pid == os.getpid():
            self._idle.pop().end()

    def _take(self) -> _Process:
        while self._idle:
            with suppress(IndexError):
                process = self._idle.pop()
                if process.is_alive:
                    return process
                process.end()
        return _Process(self.target, self.cpu_seconds, self.memory_bytes)


class _Process:
    """One process, for one call at a time."""

    def __init__(self, target: str, cpu_seconds: int, memory_bytes: int) -> None:
        program = _PROGRAM.format(path=sys.path, target=target, cpu=cpu_seconds, memory=memory_bytes)
        self._cpu_seconds = cpu_seconds
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            pipesize=_PIPE_BYTES,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, arguments: bytes, body: bytes, seconds: float) -> tuple[dict[str, Any], list[memoryview]]:
        """Send one call and wait for its reply. UnreadableBytes: the process ended, or took too long."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        ends = time.monotonic() + seconds
        try:
            _write(stdin.fileno(), _LENGTHS.pack(len(arguments), len(body)), arguments, body)
            length, rest = _LENGTHS.unpack(_read(stdout.fileno(), _LENGTHS.size, ends))
            head: dict[str, Any] = json.loads(_read(stdout.fileno(), length, ends))
            data = _read(stdout.fileno(), rest, ends)
        except TimeoutError:
            raise UnreadableBytes(f"took longer than {seconds:g} s") from None
        except (EOFError, BrokenPipeError, ValueError):
            raise UnreadableBytes(f"took more than {self._cpu_seconds} s of CPU, or ended the process") from None
        blobs, offset = [], 0
        for size in head.get("blobs", ()):
            blobs.append(memoryview(data)[offset : offset + size])
            offset += size
        return head, blobs

    def end(self) -> None:
        """End the process, now if it does not by itself."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        if self.is_alive:
            self._process.kill()
        self._process.wait(_END_SECONDS)


def _read(stream: int, count: int, ends: float | None = None) -> bytearray:
    """Read exactly so many bytes. EOFError: the other side ended. TimeoutError: the time is over."""
    found = bytearray(count)
    left = memoryview(found)
    with selectors.DefaultSelector() as waiting:
        if ends is not None:
            waiting.register(stream, selectors.EVENT_READ)
        while left:
            if ends is not None and not waiting.select(max(0.0, ends - time.monotonic())):
                raise TimeoutError
            part = os.readv(stream, [left])
            if not part:
                raise EOFError
            left = left[part:]
    return found


def _write(stream: int, *parts: bytes | memoryview) -> None:
    for part in parts:
        left = memoryview(part).cast("B")
        while left:
            left = left[os.write(stream, left) :]


def serve(target: str, cpu_seconds: int, memory_bytes: int) -> None:
    """Run calls of a function until nobody is there to make one: the main of a confined process."""
    replies = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    sys.dont_write_bytecode = True
    module, _, name = target.partition(":")
    function: Confined = getattr(import_module(module), name)
    _limit(resource.RLIMIT_AS, _own_bytes() + memory_bytes)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    parent = os.getppid()
    while _is_asked(parent):
        try:
            arguments, size = _LENGTHS.unpack(_read(0, _LENGTHS.size))
            given = json.loads(_read(0, arguments))
            body = bytes(_read(0, size))
        except EOFError:
            return
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + cpu_seconds)
        _send(replies, *_answer(function, body, given))


def _answer(function: Confined, body: bytes, given: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[memoryview]]:
    try:
        value, blobs = function(body, given)
    except (ToolFailure, UserError) as error:
        kind = "ToolFailure" if isinstance(error, ToolFailure) else "UserError"
        return {"error": kind, "text": str(error)}, ()
    except BaseException as error:  # a decoder's panic is no Exception; a foreign file can fail in any way
        return {"error": "unreadable", "text": type(error).__name__}, ()
    return {"value": value, "blobs": [blob.nbytes for blob in blobs]}, blobs


def _send(stream: int, head: Mapping[str, Any], blobs: Sequence[memoryview]) -> None:
    encoded = json.dumps(head).encode()
    _write(stream, _LENGTHS.pack(len(encoded), sum(blob.nbytes for blob in blobs)), encoded, *blobs)


def _limit(what: int, most: int) -> None:
    """Set a limit, or keep a lower one that this process was started with."""
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _own_bytes() -> int:
    """The address space that the process has by itself."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _is_asked(parent: int) -> bool:
    """Wait for a call; false once the parent is gone, or has not asked for a while."""
    idle_until = time.monotonic() + _IDLE_SECONDS
    with selectors.DefaultSelector() as waiting:
        waiting.register(0, selectors.EVENT_READ)
        while time.monotonic() < idle_until and os.getppid() == parent:
            if waiting.select(_LOOK_UP_SECONDS):
                return True
    return False
