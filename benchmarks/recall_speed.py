"""What seed recall and the walk cost while another process writes; opening, and following another writer's commit.

Run: python benchmarks/recall_speed.py [--sizes 10000 100000] [--dimensions 384]

Experiences of about 100 words out of a vocabulary with a few common and many rare words, 5 entities, 8 edges each;
questions of 25 words. The bars: recall p95 5 / 15 ms at 10,000 / 100,000 without the question's encoding, walk p95 10
ms, open 1 s, another writer's commit 20 ms, at 100,000.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from wardround.memory import (
    Bank,
    Edge,
    Entity,
    Experience,
    Findings,
    GraphCase,
    GraphRecallSettings,
    Key,
    Provenance,
    RecallQuestion,
    Subject,
    WalkSettings,
    recall_by_graph,
    walk,
)
from wardround.tools.retrieval import Vectors

ASKED_BY = Subject(source="mimiciv", subject_id=7)
VOCABULARY = 60_000
WRITER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from recall_speed import made, unit
from wardround.memory import Bank, Key
import numpy as np
random = np.random.default_rng(1)
with Bank.open(Path(sys.argv[1])) as bank:
    number = 10**7
    while True:
        key = Key(encoder="bench", vector=unit(random, 1, int(sys.argv[3]))[0])
        bank.add([made(bank, number, random)], key=key)
        number += 1
        time.sleep(0.05)
"""


def unit(random: np.random.Generator, count: int, dimensions: int) -> Vectors:
    """Random vectors of length 1."""
    vectors = random.standard_normal((count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def words(random: np.random.Generator, count: int) -> str:
    """Words as common as those of a language: the n-th is met 1/n times as often as the first."""
    ranks = np.exp(random.uniform(0.0, np.log(VOCABULARY), count)).astype(int)
    return " ".join(f"w{chr(97 + rank % 26)}{rank:x}q" for rank in ranks)


def made(bank: Bank, number: int, random: np.random.Generator) -> Experience:
    """One experience of one of 1,000 subjects, one in ten outside training."""
    split = "test" if number % 10 == 3 else "train"
    subject = bank.subject_hash(Subject(source="mimiciv", subject_id=number % 1000))
    names = dict.fromkeys(words(random, 1) for _ in range(5))
    return Experience(
        kind="indication" if number % 3 else "contraindication",
        title=f"Lesson {number}",
        description="",
        content=words(random, 90),
        condition=words(random, 10),
        task="diagnoses",
        task_type="diagnosis",
        provenance=Provenance(sample=f"sample-{number}", subject=subject, split=split),
        entities=tuple(Entity(name=name, role="condition") for name in names),
    )


def filled(path: Path, size: int, dimensions: int) -> list[str]:
    """Write a bank and its graph; return the ids."""
    random = np.random.default_rng(size)
    vectors = unit(random, size, dimensions)
    ids: list[str] = []
    started = time.process_time()
    with Bank.open(path) as bank:
        with bank.batch():
            for number in range(size):
                one = made(bank, number, random)
                bank.add([one], key=Key(encoder="bench", vector=vectors[number]))
                ids.append(one.id)
        print(f"  add: {1000 * (time.process_time() - started) / size:.2f} ms CPU an item")
        started = time.process_time()
        qualities = {name: float(value) for name, value in zip(ids, random.uniform(0.3, 0.9, size), strict=True)}
        bank.set_graph(qualities=qualities, edges=_edges(ids, random), reason="built")
        print(f"  graph: {1000 * (time.process_time() - started) / size:.2f} ms CPU an item")
    return ids


def _edges(ids: list[str], random: np.random.Generator) -> Iterator[Edge]:
    for place, name in enumerate(ids):
        for target in {int(one) for one in random.integers(0, len(ids), 8)} - {place}:
            yield Edge(source=name, target=ids[target], weight=float(random.uniform(0.35, 0.8)), entity=0.5, task=1.0)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor milliseconds of a call."""
    started, cpu = time.perf_counter(), time.process_time()
    work()
    return 1000 * (time.perf_counter() - started), 1000 * (time.process_time() - cpu)


def told(name: str, calls: list[tuple[float, float]]) -> None:
    """Print median and 95th percentile of wall time, mean and 95th percentile of processor time."""
    wall, cpu = (sorted(column) for column in zip(*calls, strict=True))
    last = int(0.95 * (len(calls) - 1))
    print(
        f"  {name}: wall median {wall[len(wall) // 2]:.2f} ms, p95 {wall[last]:.2f}; "
        f"CPU mean {sum(cpu) / len(cpu):.2f} ms, p95 {cpu[last]:.2f}"
    )


def measure(size: int, dimensions: int, repeats: int) -> None:
    """Print the figures of one size."""
    print(f"{size:,} experiences, vectors of {dimensions}")
    random = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.sqlite"
        ids = filled(path, size, dimensions)
        started, cpu = time.perf_counter(), time.process_time()
        reader = Bank.open(path, writable=False)
        len(reader)
        print(f"  open: {time.perf_counter() - started:.2f} s, {time.process_time() - cpu:.2f} s CPU")
        questions = [
            RecallQuestion(text=words(random, 25), key=Key(encoder="bench", vector=vector))
            for vector in unit(random, repeats, dimensions)
        ]
        told("the first recall", [timed(lambda: reader.seeds(questions[0], for_subject=ASKED_BY))])
        with Bank.open(path) as writer:
            calls = []
            for number in range(10):
                writer.revise(ids[number], content=words(random, 90), reason="measured")
                calls.append(timed(lambda: len(reader)))
            told("following another writer's commit", calls)
        command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent), str(dimensions)]
        process = subprocess.Popen(command)
        try:
            time.sleep(2.0)
            calls = [timed(lambda one=one: reader.seeds(one, for_subject=ASKED_BY)) for one in questions]  # type: ignore[misc]
            told("seed recall, a writer running", calls)
            calls = [timed(lambda one=one: _walked(reader, ids, one)) for one in range(repeats)]  # type: ignore[misc]
            told("walk, 5 seeds, 60 steps, a writer running", calls)
            calls = [timed(lambda one=one: _recalled(reader, one)) for one in questions]  # type: ignore[misc]
            told("the whole recall with scope and walk, a writer running", calls)
        finally:
            process.terminate()
            process.wait()
        reader.close()


def _walked(reader: Bank, ids: list[str], number: int) -> object:
    seeds = {ids[(number * 5 + place) * 7919 % len(ids)]: 1.0 for place in range(5)}
    settings = WalkSettings(most_taken=60, least=0.0)
    return walk(reader.graph(), seeds, judge=lambda name: None, settings=settings)


def _recalled(reader: Bank, question: RecallQuestion) -> object:
    case = GraphCase(reader, ASKED_BY, Findings(age=70, sex="male"), GraphRecallSettings())
    return recall_by_graph(case, question)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=200)
    arguments = parser.parse_args()
    for size in arguments.sizes:
        measure(size, arguments.dimensions, arguments.repeats)


if __name__ == "__main__":
    main()
