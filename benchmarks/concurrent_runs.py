"""Many episodes at once: a whole run, with queue, tools, log and HTTP, against a model that takes 100 ms.

Run: python benchmarks/concurrent_runs.py [--episodes 256] [--turns 20] [--rounds 3] [--workers 0] [--profile FILE]

The model is a server in a process of its own that answers every request after 100 ms with one tool call; its CPU does
not count. Measured are the CPU seconds of

* the run: one process that plays all episodes at once, from ``execute`` to its end;
* bare loops over httpx2, each in a process of its own, that send the bodies which the run sent, as many at once, and
  read each reply's JSON: with one client, as httpx2's documentation has it, and with a client for each task, which
  spares the walk through a pool of 256 connections and is the cheapest form of it.

They take turns; the medians are compared. Bar: the run takes at most 1.3 times the CPU of a bare loop. ``--workers N``
plays once more with N processes and prints the wall time against what the model alone would take.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import mmap
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from io import BufferedWriter
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import httpx2

from wardround.records import Store, ingest
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.synth import synthesize
from wardround.tasks.benchmarks import build_agentehr

MODEL_SECONDS = 0.1
BAR = 1.3
WALL_BAR = 1.5
CALL = {"id": "c0", "type": "function"}
CALL["function"] = {"name": "get_latest_records", "arguments": '{"table_name": "labevents"}'}  # type: ignore[assignment]
MESSAGE = {"role": "assistant", "content": None, "tool_calls": [CALL]}
BODY = json.dumps(
    {
        "model": "slow",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
MODELS = b'{"object": "list", "data": [{"id": "slow"}]}'
LISTING = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(MODELS) + MODELS
LENGTH_BYTES = 8


class SlowModel(asyncio.Protocol):
    """The cheapest HTTP server that will do: it looks at lengths only. It writes the bodies to ``record``."""

    record: BufferedWriter | None = None

    def __init__(self) -> None:
        self.buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        if self.buffer.startswith(b"GET"):
            self.buffer.clear()
            self.transport.write(LISTING)
            return
        start = self.buffer.lower().find(b"content-length:", 0, head) + 15
        length = int(self.buffer[start : self.buffer.find(b"\r\n", start)])
        if len(self.buffer) >= head + 4 + length:
            if self.record is not None:
                self.record.write(length.to_bytes(LENGTH_BYTES, "big") + self.buffer[head + 4 :])
            self.buffer.clear()
            asyncio.get_running_loop().call_later(MODEL_SECONDS, self.transport.write, ANSWER)


def serve(orders: Connection, record: str) -> None:
    """Serve until the other end says ``stop``; the bodies that come before ``recorded`` are written down."""

    def obey() -> None:
        while orders.recv() != "stop":
            assert SlowModel.record is not None
            file, SlowModel.record = SlowModel.record, None
            file.close()
            orders.send("closed")

    async def main() -> None:
        SlowModel.record = open(record, "wb")  # noqa: SIM115
        server = await asyncio.get_running_loop().create_server(SlowModel, "127.0.0.1", 0, backlog=1024)
        orders.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(obey)
        os._exit(0)

    asyncio.run(main())


@contextmanager
def model_server(record: Path) -> Iterator[tuple[str, Connection]]:
    """Start the model; yield its URL and where it takes orders."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, str(record)), daemon=True)
    server.start()
    yield f"http://127.0.0.1:{ours.recv()}/v1", ours
    ours.send("stop")
    server.join()


def make_settings(folder: Path, url: str, *, episodes: int, turns: int) -> RunSettings:
    """Make a hospital, a store and a benchmark; return the settings of a run on them."""
    hospital, store, bench = folder / "hospital", folder / "store", folder / "bench"
    synthesize(hospital, patients=max(120, episodes // 2), seed=1, notes=False)
    ingest("mimiciv", hospital, store)
    build_agentehr(Store.open(store), bench, seed=1, per_task=episodes)
    return RunSettings.of(
        benchmark=str(bench),
        store=str(store),
        split="train",
        models=("openai/slow",),
        base_url=url,
        turns=turns,
        tasks=("diagnoses", "labevents", "prescriptions", "transfers"),
        limit=-(-episodes // 4),
    )


def play(folder: Path, concurrency: int, profile: str | None) -> None:
    """Play a run in this process; print its CPU seconds and its episodes."""
    run = RunFolder.open(folder)
    profiler = cProfile.Profile(time.thread_time) if profile else None
    started = time.process_time()
    if profiler is not None:
        profiler.enable()
    counts = execute(run, workers=1, concurrency=concurrency)
    used = time.process_time() - started
    if profiler is not None:
        profiler.dump_stats(str(profile))
    print(json.dumps({"cpu": used, "done": counts.done}))


async def send_all(url: str, bodies: Iterator[bytes], concurrency: int, *, shared: bool) -> int:
    """Send the bodies, so many at once; return how many replies held a message."""
    found = 0

    async def send(client: httpx2.AsyncClient) -> None:
        nonlocal found
        for body in bodies:
            response = await client.post(url, content=body, headers={"content-type": "application/json"})
            found += response.json()["choices"][0]["message"]["role"] == "assistant"

    async with AsyncExitStack() as stack:
        limits = httpx2.Limits(max_connections=concurrency if shared else 1, max_keepalive_connections=concurrency)
        made = [
            httpx2.AsyncClient(trust_env=False, verify=False, limits=limits, timeout=60)
            for _ in range(1 if shared else concurrency)
        ]
        clients = [await stack.enter_async_context(client) for client in made]
        await asyncio.gather(*(send(clients[number % len(clients)]) for number in range(concurrency)))
    return found


def loop_bare(url: str, record: Path, concurrency: int, *, shared: bool) -> None:
    """Send what was recorded from this process; print its CPU seconds and the replies."""
    with record.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        data.madvise(mmap.MADV_WILLNEED)
        started = time.process_time()
        done = asyncio.run(send_all(f"{url}/chat/completions", recorded(data), concurrency, shared=shared))
        print(json.dumps({"cpu": time.process_time() - started, "done": done}))


def recorded(data: mmap.mmap) -> Iterator[bytes]:
    """Yield the recorded bodies in the order in which they came."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + LENGTH_BYTES], "big")
        yield data[at + LENGTH_BYTES : at + LENGTH_BYTES + length]
        at += LENGTH_BYTES + length


def in_own_process(*arguments: object) -> dict[str, float]:
    """Run a part of this script in a process of its own; return what it printed."""
    command = [sys.executable, __file__, *map(str, arguments)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="also play with so many processes, for the wall time")
    parser.add_argument("--profile", metavar="FILE", help="write a profile of the run (its CPU is then not the run's)")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        name, *rest = options.part
        if name == "run":
            play(Path(rest[0]), int(rest[1]), options.profile)
        else:
            loop_bare(rest[0], Path(rest[1]), int(rest[2]), shared=name == "shared")
        return
    with tempfile.TemporaryDirectory() as scratch, model_server(Path(scratch) / "bodies") as (url, orders):
        measure(Path(scratch), url, orders, options)


def measure(scratch: Path, url: str, orders: Connection, options: argparse.Namespace) -> None:
    """Play and send in turn, and print the medians."""
    settings = make_settings(scratch, url, episodes=options.episodes, turns=options.turns)
    record, episodes = scratch / "bodies", options.episodes
    profiled = () if options.profile is None else ("--profile", options.profile)
    bare: dict[str, Callable[[], dict[str, float]]] = {
        "bare httpx2, one client": lambda: in_own_process("--part", "shared", url, record, episodes),
        "bare httpx2, a client for each task": lambda: in_own_process("--part", "own", url, record, episodes),
    }
    used: dict[str, list[float]] = {"the run": [], **{name: [] for name in bare}}
    calls = 0.0
    for number in range(options.rounds):
        folder = start(scratch / f"run-{number}", settings)
        played = in_own_process(*profiled, "--part", "run", folder.path, episodes)
        used["the run"].append(played["cpu"])
        if number == 0:
            orders.send("recorded")
            orders.recv()
        for name, send in bare.items():
            sent = send()
            calls = sent["done"]
            assert calls == played["done"] * (options.turns + 1), "not every body had its reply"
            used[name].append(sent["cpu"])
    size = record.stat().st_size / calls
    print(f"{calls:,.0f} calls of {episodes} episodes at once, {size:,.0f} bytes a body, {options.rounds} rounds")
    ours = median(used["the run"])
    for name, seconds in used.items():
        ratio = ours / median(seconds)
        each = ", ".join(f"{one:.2f}" for one in seconds)
        verdict = "" if seconds is used["the run"] else f"; the run takes {ratio:.2f} times that"
        print(f"{name:36} {median(seconds) / calls * 1e3:6.3f} ms of CPU a call ({each} s){verdict}")
    print(f"bar {BAR}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.workers:
        print_wall(start(scratch / "run-wall", settings), options)


def print_wall(folder: RunFolder, options: argparse.Namespace) -> None:
    """Play with several processes; print the wall time against what the model alone would take."""
    started = time.perf_counter()
    counts = execute(folder, workers=options.workers, concurrency=-(-options.episodes // options.workers))
    wall = time.perf_counter() - started
    ideal = (options.turns + 1) * MODEL_SECONDS * -(-counts.done // options.episodes)
    print(f"{options.workers} workers: wall {wall:.2f} s, their start included; ideal {ideal:.2f} s;", end=" ")
    print(f"ratio {wall / ideal:.2f}, bar {WALL_BAR}; load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
