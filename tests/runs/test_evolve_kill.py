"""Killing ``memory evolve`` with SIGKILL as it reflects: nothing is lost or learnt twice, little is asked again.

Every kill meets work: the model stops answering a few reflections after the one at which the kill is aimed.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_server import Answer, FakeServer, text, tools
from forking import commands, is_running, kill, wait_for
from wardround.cli import main
from wardround.log import LogReader
from wardround.memory import Bank, contamination_check
from wardround.runs import RunFolder, RunSettings, execute, start
from wardround.tasks.benchmarks import Benchmark

KILLS = 6
CONCURRENCY = 3
NEVER = 1e6
MOST_CALLS = 2
"""Model calls of the longest reflection here: a verdict and its lesson, or advice on two tools."""


class Speaker:
    """Plays one turn, then finishes; answers a reflection slowly, with a lesson named after its prompt.

    After ``last`` reflections it says nothing.
    """

    def __init__(self) -> None:
        self.reflections: Counter[str] = Counter()
        self.last = sys.maxsize

    def __call__(self, body: Any) -> Answer:
        if "tools" in body:
            acted = any(message["role"] == "tool" for message in body["messages"])
            return tools(("finish", '{"response": ["Gout"]}')) if acted else tools(("get_table_names", "{}"))
        asked = body["messages"][-1]["content"]
        if "Your task now: summarise." in asked:
            return text("a summary")
        name = hashlib.sha256(asked.encode()).hexdigest()[:12]
        self.reflections[name] += 1
        lesson = f"### Item 1\nTitle: Lesson {name}\nDescription: Always\nContent: Look again, then answer."
        seconds = 0.01 if self.reflections.total() <= self.last else NEVER
        return replace(text("Verdict: failure" if "Verdict:" in asked else lesson), seconds=seconds)


def evolving(run: Path, bank: Path) -> list[str]:
    words = ["memory", "evolve", "--resume", str(run), "--bank", str(bank), "--workers", "1"]
    return [*words, "--concurrency", str(CONCURRENCY)]


def learnt(path: Path) -> list[tuple[str, str, str, str]]:
    with Bank.open(path, writable=False) as bank:
        return sorted((one.kind, one.title, one.tool, one.provenance.sample) for one in bank.experiences())


def test_kills_at_random_moments_of_reflection_change_nothing(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    speaker, moments = Speaker(), random.Random(9)
    forks = commands()
    with FakeServer(speaker) as server:
        settings = RunSettings.of(
            benchmark=str(synthetic_benchmark_path),
            store=str(synthetic_store_path),
            tasks=("diagnoses", "transfers"),
            split="train",
            limit=6,
            agents=("retrosum",),
            models=("openai/test-model",),
            base_url=server.url,
            final_summary=True,
        )
        folder = start(tmp_path / "killed" / "training", settings)
        execute(folder)
        shutil.copytree(tmp_path / "killed", tmp_path / "whole")
        words = [
            "memory",
            "evolve",
            "--resume",
            str(tmp_path / "whole" / "training"),
            "--bank",
            str(tmp_path / "whole.sqlite"),
        ]
        assert main([*words, "--workers", "1"]) == 0
        undisturbed = Counter(speaker.reflections)
        assert set(undisturbed.values()) == {1}

        speaker.reflections.clear()
        bank = tmp_path / "killed.sqlite"
        for _ in range(KILLS):
            aim = speaker.reflections.total() + moments.randint(1, 3)
            speaker.last = aim + CONCURRENCY
            group = forks.start(evolving(folder.path, bank))
            wait_for(lambda aim=aim: speaker.reflections.total() >= aim, group)  # type: ignore[misc]
            time.sleep(moments.uniform(0.0, 0.05))
            assert is_running(group), "a kill must hit an evolve at work"
            kill(group)
        speaker.last = sys.maxsize
        assert main(["memory", "evolve", "--resume", str(folder.path), "--bank", str(bank), "--workers", "1"]) == 0

    assert learnt(bank) == learnt(tmp_path / "whole.sqlite")
    assert speaker.reflections.keys() == undisturbed.keys()
    again = speaker.reflections.total() - undisturbed.total()
    assert again <= KILLS * CONCURRENCY * MOST_CALLS, "only what was under way at a kill is asked again"
    with Bank.open(bank) as held:
        samples = Benchmark.open(synthetic_benchmark_path).all_samples
        assert contamination_check(held, samples, source="mimiciv").clean
        assert len({one.id for one in held.experiences()}) == len(held)
    with LogReader(RunFolder.open(folder.path).path / "reflections") as reader:
        assert {entry.state for entry in reader.episodes()} == {"finished"}
