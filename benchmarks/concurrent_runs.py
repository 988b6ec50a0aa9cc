"""Many episodes at once: a whole run, with workers, queue, tools, log and HTTP, against a model that takes 100 ms.

Run: python benchmarks/concurrent_runs.py [--episodes 256] [--turns 20] [--workers 2]

The model is a server in a process of its own that answers every request after 100 ms with one tool call; the run uses
as many cores as it has workers. Ideal is what the model alone would take if everything else were free. Bar of section
13 of the design: 256 concurrent episodes on 2 cores within 1.5 times the ideal (the server's own CPU, which a real
endpoint would not take from these cores, is printed beside it).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from wardround.records import Store, ingest
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.synth import synthesize
from wardround.tasks.benchmarks import build_agentehr

MODEL_SECONDS = 0.1
BAR = 1.5
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


class SlowModel(asyncio.Protocol):
    """The cheapest HTTP server that will do: it looks at lengths only."""

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
            self.buffer.clear()
            asyncio.get_running_loop().call_later(MODEL_SECONDS, self.transport.write, ANSWER)


def serve(ready: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(SlowModel, "127.0.0.1", 0, backlog=1024)
        ready.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(ready.recv)
        used = resource.getrusage(resource.RUSAGE_SELF)
        ready.send(used.ru_utime + used.ru_stime)
        os._exit(0)

    asyncio.run(main())


def make_run(folder: Path, url: str, episodes: int, turns: int) -> RunFolder:
    hospital, store, bench = folder / "hospital", folder / "store", folder / "bench"
    synthesize(hospital, patients=max(120, episodes // 2), seed=1, notes=False)
    ingest("mimiciv", hospital, store)
    build_agentehr(Store.open(store), bench, seed=1, per_task=episodes)
    settings = RunSettings.of(
        benchmark=str(bench),
        store=str(store),
        split="train",
        models=("openai/slow",),
        base_url=url,
        turns=turns,
        tasks=("diagnoses", "labevents", "prescriptions", "transfers"),
        limit=-(-episodes // 4),
    )
    return start(folder / "run", settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}/v1"
    with tempfile.TemporaryDirectory() as scratch:
        folder = make_run(Path(scratch), url, options.episodes, options.turns)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        counts = execute(folder, workers=options.workers, concurrency=-(-options.episodes // options.workers))
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours.send("stop")
    server_cpu = ours.recv()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    calls = counts.done * (options.turns + 1)
    ideal = (options.turns + 1) * MODEL_SECONDS * -(-counts.done // options.episodes)
    print(f"{counts.done} episodes of {options.turns} turns and a forced last call, {options.workers} workers")
    print(f"wall {wall:.2f} s, of which starting workers is part; ideal {ideal:.2f} s; ratio {wall / ideal:.2f}")
    print(f"bar {BAR}: {'met' if wall / ideal <= BAR else 'missed'}")
    print(f"CPU of the workers {cpu:.2f} s = {cpu / calls * 1e3:.2f} ms per call; of the server {server_cpu:.2f} s")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
