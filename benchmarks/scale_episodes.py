"""The episodes of scale.py: many at once of a scripted model in one process, and its memory as the run goes on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from scale_records import Figures, disk_mb, measured, peak_mb, resident_mb
from wardround.models import MODELS, ModelEntry, Reply, Request
from wardround.models.replay import call
from wardround.records import Store, ingest
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.synth import synthesize
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.benchmarks.agentehr import build_agentehr

AT_ONCE = 256
TURNS = 5
"""Calls of an episode: four of a tool, then the answer."""
MODEL_SECONDS = 0.02
SAMPLES = 1_000
TABLES = ("labevents", "prescriptions", "microbiologyevents", "diagnoses_icd")


class Script:
    """Four looks into the record, then an answer; every reply takes a moment. It keeps nothing."""

    name = identity = "script"

    async def check(self) -> None:
        """Nothing to reach."""

    async def complete(self, request: Request) -> Reply:
        """Say what follows from how often was asked."""
        await asyncio.sleep(MODEL_SECONDS)
        asked = sum(message.role == "tool" for message in request.messages)
        if asked < TURNS - 1:
            return call("get_latest_records", table_name=TABLES[asked], limit=20)
        return call("finish", response=["Essential hypertension"])

    async def close(self) -> None:
        """Nothing is open."""


class Memory:
    """The memory of this process as a run goes on: what it is when a tenth is done, when half is, and at the end."""

    def __init__(self, total: int) -> None:
        self._left = [(share, int(share * total)) for share in (0.1, 0.5, 1.0)]
        self.at: dict[float, float] = {}

    def __call__(self, progress: Any) -> None:
        while self._left and progress.done >= self._left[0][1]:
            self.at[self._left.pop(0)[0]] = resident_mb()


def episodes(scratch: Path, number: int) -> Figures:
    """Play so many episodes of a scripted model, ``AT_ONCE`` at once, in this process."""
    MODELS.add("script", ModelEntry(name="script", takes="", description="for scale", open=lambda opening: Script()))
    folder = _run_of(number, scratch)
    memory = Memory(number)
    started = time.monotonic()
    counts, seconds = measured(lambda: execute(folder, concurrency=AT_ONCE, report=memory))
    assert counts.done == number, counts
    return {
        "episodes": number,
        "turn_ms": seconds / number / TURNS * 1e3,
        "episode_ms": seconds / number * 1e3,
        "wall": time.monotonic() - started,
        "memory_mb": list(memory.at.values()),
        "peak_mb": peak_mb(),
        "log_kb": disk_mb(folder.logs) / number * 1e3,
    }


def _run_of(episodes: int, scratch: Path) -> RunFolder:
    """A run of so many: of at most a thousand training samples of all tasks, as often as it takes."""
    samples = [sample.id for sample in Benchmark.open(scratch / "bench").samples(split="train")]
    chosen = samples[:: len(samples) // min(episodes, SAMPLES)][: min(episodes, SAMPLES)]
    settings = RunSettings.of(
        benchmark=str(scratch / "bench"),
        store=str(scratch / "store"),
        models=("script",),
        split="train",
        samples=tuple(chosen),
        epochs=episodes // len(chosen),
    )
    return start(scratch / f"run-{episodes}", settings)


def ground(scratch: Path) -> None:
    """Make what episodes are played on: 1,000 subjects, all tasks."""
    synthesize(scratch / "raw", patients=1_000, seed=7)
    ingest("mimiciv", scratch / "raw", scratch / "store")
    build_agentehr(Store.open(scratch / "store"), scratch / "bench", per_task=600)


def print_episodes(found: Figures) -> None:
    """Print one size in three lines."""
    memory = " / ".join(f"{one:,.0f}" for one in found["memory_mb"])
    print(f"{found['episodes']:,} episodes of {TURNS} turns, {AT_ONCE} at once, in {found['wall']:,.0f} s of wall time")
    print(
        f"  {found['turn_ms']:.2f} ms a turn, {found['episode_ms']:.1f} ms an episode, {found['log_kb']:.1f} KB of log"
    )
    print(f"  memory {memory} MB when a tenth, half and all are done; peak {found['peak_mb']:,.0f} MB")
