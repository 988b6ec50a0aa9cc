"""What the agent loop costs without its model: CPU per turn by turn number, and many episodes at once.

Run: python benchmarks/loop_overhead.py [--episodes 40] [--concurrent 256] [--turns 20] [--processes 2]

A turn here is everything but the model and the work inside the tool: rendering under the budget, the request, the
dispatch of one tool call on a worker thread, the log in SQLite. The bars are those of section 13 of the design.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from wardround.agents import Limits, Prompt, get_agent, run_episode
from wardround.log import EpisodeLog
from wardround.models import ModelSettings, Reply, Request, ScriptedModel, call
from wardround.tools import ToolResult, default_toolset

MODEL_SECONDS = 0.1
PROMPT = Prompt(user="Name the diagnoses. " * 40)
LINE = "labevents:{n} | 2150-01-01 08:00:00 | Creatinine | 1.2 | mg/dL | abnormal | 0.4 | 1.1 | Blood | Chemistry"


class PaperChart:
    """The surface of an environment over results that are there already; the schemas are the real ones."""

    def __init__(self, lines: int) -> None:
        text = "\n".join(LINE.format(n=n) for n in range(lines))
        self._result = ToolResult(text=text, table="labevents", rows_total=1204, rows_shown=lines, cursor="c1")
        self.toolset = default_toolset()

    def _call(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        if name == "finish":
            return ToolResult(text="done", answer=tuple(json.loads(str(arguments))["response"]))
        return self._result

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        return await asyncio.to_thread(self._call, name, arguments)

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[()]:
        return ()


class TimedModel(ScriptedModel):
    """Notes the CPU clock when it is asked and when it has answered."""

    def __init__(self, turns: int, *, seconds: float = 0.0) -> None:
        self.asked: list[float] = []
        self.answered: list[float] = []
        super().__init__(self._line, seconds=seconds)
        self._turns = turns

    def _line(self, request: Request) -> Reply:
        if request.ordinal + 1 < self._turns:
            return call("get_records_by_time", table_name=f"table_{request.ordinal}")
        return call("finish", response=["Septicemia"])

    async def complete(self, request: Request) -> Reply:
        self.asked.append(time.process_time())
        reply = await super().complete(request)
        self.requests.clear()
        self.answered.append(time.process_time())
        return reply


async def play(log: EpisodeLog, name: str, model: TimedModel, *, lines: int, limits: Limits) -> None:
    recorder = log.begin(name, {})
    outcome = await run_episode(
        get_agent("react"),
        model=model,
        environment=PaperChart(lines),
        prompt=PROMPT,
        limits=limits,
        settings=ModelSettings(),
        recorder=recorder,
        episode=name,
    )
    recorder.finish(outcome.to_json())


def by_turn(folder: Path, *, episodes: int, lines: int, context_tokens: int) -> list[float]:
    """Return median CPU milliseconds from one reply to the next request, by turn."""
    gaps: list[list[float]] = []
    with EpisodeLog(folder / f"turns-{context_tokens}-{lines}.sqlite") as log:
        for number in range(episodes):
            model = TimedModel(100)
            limits = Limits(turns=100, context_tokens=context_tokens, reply_tokens=1024)
            asyncio.run(play(log, f"e{number}", model, lines=lines, limits=limits))
            gaps.append([(a - b) * 1e3 for a, b in zip(model.asked[1:], model.answered, strict=False)])
    return [statistics.mean(turn) for turn in zip(*gaps, strict=True)]


def at_once(folder: str, concurrent: int, turns: int, start_at: float) -> tuple[float, float]:
    """Return (wall, CPU) seconds of many episodes on one event loop, from an agreed moment on."""

    async def run() -> tuple[float, float]:
        with EpisodeLog(Path(folder) / f"at-once-{os.getpid()}.sqlite") as log:
            models = [TimedModel(turns, seconds=MODEL_SECONDS) for _ in range(concurrent)]
            await asyncio.sleep(max(0.0, start_at - time.time()))
            started, cpu = time.perf_counter(), time.process_time()
            limits = Limits(turns=turns)
            await asyncio.gather(
                *(play(log, f"e{n}", model, lines=20, limits=limits) for n, model in enumerate(models))
            )
            return time.perf_counter() - started, time.process_time() - cpu

    return asyncio.run(run())


def on_processes(folder: str, *, processes: int, concurrent: int, turns: int) -> None:
    """Print the slowest process's wall against the ideal."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        start_at = time.time() + 3.0
        share = concurrent // processes
        runs = [pool.submit(at_once, folder, share, turns, start_at) for _ in range(processes)]
        walls, cpus = zip(*(run.result() for run in runs), strict=True)
    ideal = turns * MODEL_SECONDS
    print(
        f"{processes} process(es): wall {max(walls):.2f} s, ideal {ideal:.2f} s, ratio {max(walls) / ideal:.2f}; "
        f"CPU {sum(cpus) / (share * processes * turns) * 1e3:.3f} ms per turn; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--concurrent", type=int, default=256)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print(f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("\nCPU ms per turn without the model (mean over episodes); bar 1.0, flat")
        print(f"{'budget':>8} {'result':>14} {'turns 1-10':>11} {'45-55':>8} {'90-99':>8} {'all':>8}")
        for context_tokens, lines in ((64_000, 2), (64_000, 40), (8_000, 40)):
            turns = by_turn(folder, episodes=options.episodes, lines=lines, context_tokens=context_tokens)
            size = f"{len(PaperChart(lines)._result.text):,} chars"
            parts = [statistics.mean(part) for part in (turns[:10], turns[44:55], turns[89:], turns)]
            print(f"{context_tokens:>8} {size:>14} " + " ".join(f"{part:>8.3f}" for part in parts))
        print(f"\n{options.concurrent} episodes x {options.turns} turns at once against a 100 ms model; bar 1.5")
        for processes in sorted({1, options.processes}):
            on_processes(name, processes=processes, concurrent=options.concurrent, turns=options.turns)


if __name__ == "__main__":
    main()
