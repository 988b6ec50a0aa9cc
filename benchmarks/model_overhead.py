"""What a turn costs without the model: the client, the log, the replay. CPU time of this process only.

    python benchmarks/model_overhead.py

The server runs in another process and answers at once with one tool call; bare httpx2 and, where it is installed, the
official SDK are measured in the same run, so that ratios can be compared between machines.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import httpx2

from wardround.core import Message, ToolSchema
from wardround.log import EpisodeLog, LogReader, ToolRecord
from wardround.models import ModelConfig, Request, call, open_model, recorded_replies, resumed
from wardround.models.wire import encode_request

REPOSITORY = Path(__file__).resolve().parents[1]
TURNS = 20
RESULT = "labevents: 10 of 120 rows\n" + "\n".join(
    f"labevents:{n} | 2150-01-01 08:00:00 | Lactate | 4.1" for n in range(10)
)
TOOLS = tuple(
    ToolSchema(
        name=f"tool_{n}",
        description="Rows of one table between two times, newest first, with a cursor for the next page. " * 2,
        parameters={
            "type": "object",
            "properties": {f"p{k}": {"type": "string", "description": "x" * 60} for k in range(4)},
        },
    )
    for n in range(16)
)
START = (
    Message(role="system", content="You are a careful clinician. " * 40),
    Message(role="user", content="Task. " * 60),
)
Ask = Callable[[Request], Awaitable[Message]]


async def episode(ask: Ask, name: str) -> None:
    """Twenty turns of one tool call each, the history growing."""
    messages = START
    for ordinal in range(TURNS):
        reply = await ask(Request(messages=messages, tools=TOOLS, episode=name, ordinal=ordinal))
        results = (Message(role="tool", content=RESULT, tool_call_id=one.id) for one in reply.tool_calls)
        messages += (reply, *results)


async def cpu_per_call(ask: Ask, concurrent: int, calls: int) -> float:
    """CPU milliseconds of this process per call."""
    await episode(ask, "warm")
    waiting = iter(range(max(concurrent, calls // TURNS)))
    done = 0

    async def worker() -> None:
        nonlocal done
        for n in waiting:
            await episode(ask, f"e{n}")
            done += TURNS

    gc.collect()
    started = time.process_time()
    await asyncio.gather(*(worker() for _ in range(concurrent)))
    return (time.process_time() - started) * 1000 / done


async def clients(url: str) -> None:
    model = open_model(ModelConfig(name="openai/test-model", base_url=url, max_concurrent=256))
    bare = httpx2.AsyncClient(trust_env=False, limits=httpx2.Limits(max_connections=256), timeout=60)
    asks: dict[str, Ask] = {}
    closings = [model.close, bare.aclose]

    async def ours(request: Request) -> Message:
        return (await model.complete(request)).message

    async def floor(request: Request) -> Message:
        response = await bare.post(url + "/chat/completions", content=encode_request(request, "test-model"))
        return Message.from_wire(response.json()["choices"][0]["message"])

    asks["bare httpx2, our encoding"] = floor
    asks["wardround client"] = ours
    if find_spec("openai"):
        import openai

        sdk = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        closings.append(sdk.close)
        tools = [tool.to_wire() for tool in TOOLS]

        async def official(request: Request) -> Message:
            messages = [message.to_wire() for message in request.messages]
            reply = await sdk.chat.completions.create(
                model="test-model",
                messages=messages,  # type: ignore[arg-type]
                tools=tools,  # type: ignore[arg-type]
                temperature=0.7,
                top_p=0.8,
                max_tokens=4096,
            )
            return Message.from_wire(reply.choices[0].message.model_dump())

        asks["openai SDK"] = official
    print(f"{'client, CPU ms per call':<28}{'c=1':>8}{'c=64':>8}{'c=256':>8}   calls")
    for name, ask in asks.items():
        costs = [
            await cpu_per_call(ask, concurrent, calls) for concurrent, calls in ((1, 400), (64, 1280), (256, 5120))
        ]
        print(f"{name:<28}" + "".join(f"{cost:>8.2f}" for cost in costs) + "   400, 1,280, 5,120")
    for close in closings:
        await close()


def log_per_turn(folder: Path) -> None:
    """CPU microseconds to record a turn, commits included, by its place in the episode."""
    episodes = 200
    costs: dict[int, list[float]] = {}
    path = folder / "speed.episodes.sqlite"
    with EpisodeLog(path) as log:
        for n in range(episodes):
            recorder = log.begin(f"e{n}", {"task": "t"})
            messages = START
            for ordinal in range(101):
                reply = call("tool_1", p0="x")
                message = Message(role="assistant", content=f"{n} {ordinal}", tool_calls=reply.message.tool_calls)
                spoken = type(reply)(message=message, usage=reply.usage, finish_reason="tool_calls", model="m")
                record = ToolRecord(
                    call=message.tool_calls[0], result_text=RESULT + str(ordinal), row_ids=("a:1", "a:2")
                )
                request = Request(messages=messages, tools=TOOLS, episode=f"e{n}", ordinal=ordinal)
                started = time.process_time_ns()
                recorder.turn(request, spoken, [record])
                costs.setdefault(ordinal, []).append((time.process_time_ns() - started) / 1000)
                messages += (message, Message(role="tool", content=record.result_text, tool_call_id="call_0"))
            recorder.finish({"answer": []})
    print(f"\n{'log, CPU us per turn':<28}{'mean':>8}{'median':>8}   turns")
    for name, low, high in (("turns 1-5", 1, 5), ("turns 48-52", 48, 52), ("turns 96-100", 96, 100)):
        values = [cost for ordinal in range(low, high + 1) for cost in costs[ordinal]]
        print(f"{name:<28}{sum(values) / len(values):>8.0f}{median(values):>8.0f}   {len(values):,}")
    size = path.stat().st_size / episodes / 101
    print(f"{size:,.0f} bytes on disk per turn ({len(RESULT)} of them its result's text), {episodes * 101:,} turns")


async def replay_per_turn(folder: Path, url: str) -> None:
    """CPU microseconds per turn to read recorded replies and to serve them."""
    path = folder / "replay.episodes.sqlite"
    model = open_model(ModelConfig(name="openai/test-model", base_url=url))
    with EpisodeLog(path) as log:
        recorder = log.begin("e", {})

        async def record(request: Request) -> Message:
            reply = await model.complete(request)
            recorder.turn(
                request, reply, [ToolRecord(call=one, result_text=RESULT) for one in reply.message.tool_calls]
            )
            return reply.message

        await episode(record, "e")
        recorder.finish({})
    with LogReader(path) as reader:
        started = time.process_time()
        for _ in range(50):
            replies = recorded_replies(reader, "e")
        read = (time.process_time() - started) * 1e6 / 50 / TURNS
    started = time.process_time()
    for _ in range(50):
        again = resumed(model, replies)

        async def serve(request: Request, again: object = again) -> Message:
            return (await again.complete(request)).message  # type: ignore[attr-defined,no-any-return]

        await episode(serve, "e")
    served = (time.process_time() - started) * 1e6 / 50 / TURNS
    await model.close()
    print(f"\nreplay, CPU us per turn: read from the log {read:.0f}, served {served:.0f} (1,000 turns)")


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    command = [sys.executable, str(REPOSITORY / "tests" / "fake_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, tempfile.TemporaryDirectory() as name:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            asyncio.run(clients(url))
            log_per_turn(Path(name))
            asyncio.run(replay_per_turn(Path(name), url))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
