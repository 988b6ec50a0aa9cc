"""Foreign bytes end the process that decodes them, never ours, and the next call is answered as ever."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wardround.core import ConfinedReader, ToolFailure, UnreadableBytes, UserError


class Panic(BaseException):
    """What a decoder in another language raises."""


def decoded(body: bytes, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
    """Do what the bytes say, as a decoder with a fault would."""
    match body:
        case b"panic":
            raise Panic("index out of bounds")
        case b"crash":
            ctypes.string_at(0)
        case b"exit":
            os._exit(0)
        case b"spin":
            while True:
                pass
        case b"sleep":
            time.sleep(60)
        case b"fill":
            return {"n": len(bytes(2**31))}, []
        case b"deep":
            return decoded(b"deep", arguments)
        case b"tool":
            raise ToolFailure("the film is upside down.")
        case b"user":
            raise UserError("no such film")
        case b"write":
            with open(arguments["path"], "wb") as file:
                file.write(b"x" * 9)
        case b"limits":
            return {"core": resource.getrlimit(resource.RLIMIT_CORE)[0]}, []
        case b"print":
            print("noise")  # noqa: T201
    return {"pid": os.getpid(), "said": arguments}, [memoryview(body), memoryview(body[::-1])]


@pytest.fixture(scope="module")
def reader() -> ConfinedReader:
    sys.path.insert(0, os.path.dirname(__file__))
    return ConfinedReader("test_confined:decoded", cpu_seconds=1, wall_seconds=120.0, memory_bytes=2**29)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"panic", UnreadableBytes, "Panic"),
        (b"crash", UnreadableBytes, "ended the process"),
        (b"exit", UnreadableBytes, "ended the process"),
        (b"spin", UnreadableBytes, "more than 1 s of CPU"),
        (b"fill", UnreadableBytes, "MemoryError"),
        (b"deep", UnreadableBytes, "RecursionError"),
        (b"tool", ToolFailure, "upside down"),
        (b"user", UserError, "no such film"),
    ],
)
def test_each_way_to_fail_has_its_name_and_the_next_call_its_answer(
    reader: ConfinedReader, body: bytes, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        reader.read(body)
    value, blobs = reader.read(b"print", frame=2, name="ä")
    assert value["said"] == {"frame": 2, "name": "ä"}
    assert blobs == [b"print", b"tnirp"]
    assert value["pid"] != os.getpid()


def test_it_writes_to_no_file_and_leaves_no_picture_of_its_memory(reader: ConfinedReader, tmp_path: Path) -> None:
    with pytest.raises(UnreadableBytes, match="OSError"):
        reader.read(b"write", path=str(tmp_path / "left behind"))
    assert (tmp_path / "left behind").read_bytes() == b""
    assert reader.read(b"limits")[0] == {"core": 0}


def test_what_takes_too_long_is_ended() -> None:
    impatient = ConfinedReader("test_confined:decoded", cpu_seconds=1, wall_seconds=0.5, memory_bytes=2**29)
    with pytest.raises(UnreadableBytes, match=r"longer than 0\.5 s"):
        impatient.read(b"sleep")


def test_a_process_is_kept_warm_and_threads_have_one_each(reader: ConfinedReader) -> None:
    once, again = (reader.read(b"x")[0]["pid"] for _ in range(2))
    assert once == again
    found: list[tuple[bytes, list[bytes]]] = []

    def ask(number: int) -> None:
        body = str(number).encode() * 100_000
        found.append((body, list(reader.read(body)[1])))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert all(blobs == [body, body[::-1]] for body, blobs in found)


def test_nothing_is_left_of_a_process_when_its_reader_is_closed() -> None:
    own = ConfinedReader("test_confined:decoded", cpu_seconds=1, wall_seconds=120.0, memory_bytes=2**29)
    process = own.read(b"x")[0]["pid"]
    os.kill(process, 0)
    own.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    own.close()


def test_a_forked_process_has_its_own(reader: ConfinedReader) -> None:
    ours = reader.read(b"x")[0]["pid"]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        theirs = reader.read(b"x")[0]["pid"]
        os.write(write, str(theirs).encode())
        reader.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(read, 100)) != ours
    assert reader.read(b"x")[0]["pid"] == ours


def test_a_lower_limit_of_this_machine_is_kept() -> None:
    """Where whoever started us allows less memory than a reader would."""
    program = f"""if True:
        import resource, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
        from wardround.core import ConfinedReader
        reader = ConfinedReader("test_confined:decoded", cpu_seconds=1, wall_seconds=120.0, memory_bytes=2**40)
        print(reader.read(b"print", frame=2)[0]["said"])
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stdout == "{'frame': 2}\n", ended.stderr
