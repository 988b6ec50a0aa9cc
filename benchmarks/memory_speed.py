"""What the bank costs: the exact scan, adding, opening, following another writer; and the default encoder.

Run: python benchmarks/memory_speed.py [--sizes 10000 100000] [--dimensions 384]

The bars are those of section 8 of the design (scan: 0.2 ms at 10,000 vectors of 384 numbers, 6 ms at 100,000). The bare
scan is the matrix product alone; a search adds the guards, the choice of the nearest and their exact order.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wardround.memory import Bank, Experience, Key, Provenance, Subject
from wardround.tools.retrieval import LexicalEncoder, Vectors

ASKED_BY = Subject(source="mimiciv", subject_id=7)
BARS_MS = {10_000: 0.2, 100_000: 6.0}


def milliseconds(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and 95th percentile wall time of a call."""
    work()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - started))
    return statistics.median(taken), sorted(taken)[int(0.95 * (repeats - 1))]


def filled(path: Path, vectors: Vectors) -> Bank:
    """A bank of one experience per vector, of 1,000 subjects, one in ten outside training."""
    bank = Bank.open(path)
    hashes = [bank.subject_hash(Subject(source="mimiciv", subject_id=number)) for number in range(1000)]
    started = time.perf_counter()
    for number, vector in enumerate(vectors):
        origin = Provenance(
            sample=f"sample-{number}", subject=hashes[number % 1000], split="test" if number % 10 == 3 else "train"
        )
        experience = Experience(
            kind="actor",
            title=f"Lesson {number}",
            description="When",
            content="Do",
            task="diagnoses",
            provenance=origin,
        )
        bank.add([experience], key=Key(encoder="bench", vector=vector))
        if number == 999:
            break
    print(f"  add, one commit each: {(time.perf_counter() - started):.2f} ms an item")
    rest = vectors[1000:]
    started = time.perf_counter()
    with bank.batch():
        for number, vector in enumerate(rest, start=1000):
            origin = Provenance(
                sample=f"sample-{number}", subject=hashes[number % 1000], split="test" if number % 10 == 3 else "train"
            )
            experience = Experience(
                kind="actor",
                title=f"Lesson {number}",
                description="When",
                content="Do",
                task="diagnoses",
                provenance=origin,
            )
            bank.add([experience], key=Key(encoder="bench", vector=vector))
    print(f"  add, one commit for all: {1000 * (time.perf_counter() - started) / max(1, len(rest)):.3f} ms an item")
    return bank


def measure(size: int, dimensions: int, repeats: int) -> None:
    """Print the figures of one size."""
    print(f"{size:,} vectors of {dimensions}")
    random = np.random.default_rng(size)
    vectors = random.standard_normal((size, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    questions = vectors[:64] + 0.05 * random.standard_normal((64, dimensions)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.sqlite"
        bank = filled(path, vectors)
        turn = iter(range(10**9))
        bare = milliseconds(lambda: vectors @ questions[next(turn) % 64], repeats)
        print(f"  bare scan: median {bare[0]:.3f} ms, p95 {bare[1]:.3f} ms")
        started = time.perf_counter()
        reader = Bank.open(path, writable=False)
        len(reader)
        print(f"  open and load: {1000 * (time.perf_counter() - started):.0f} ms")
        for k in (1, 10):
            found = milliseconds(
                lambda k=k: reader.search(  # type: ignore[misc]
                    Key(encoder="bench", vector=questions[next(turn) % 64]),
                    kind="actor",
                    task="diagnoses",
                    for_subject=ASKED_BY,
                    k=k,
                ),
                repeats,
            )
            bar = f" (bar {BARS_MS[size]} ms)" if size in BARS_MS and dimensions == 384 else ""
            print(f"  search k={k}: median {found[0]:.3f} ms, p95 {found[1]:.3f} ms{bar}")
        first = bank.experiences()[0].id
        bank.revise(first, content="Do it well", reason="measured")
        started = time.perf_counter()
        reader.search(Key(encoder="bench", vector=questions[0]), kind="actor", for_subject=ASKED_BY)
        print(f"  first search after another process wrote: {1000 * (time.perf_counter() - started):.2f} ms")
        reader.close()
        bank.close()


def measure_encoder() -> None:
    """Print the default encoder's speed on texts of about 1,000 tokens."""
    words = [
        f"{syllable}{number % 97}" for number, syllable in enumerate(("creat", "sod", "hemo", "plate", "card") * 40)
    ]
    texts = [" ".join(words[start : start + 160]) + f" case {start} " * 10 for start in range(40)]
    encoder = LexicalEncoder()
    median, worst = milliseconds(lambda: encoder.encode(texts), 20)
    print(f"lexical encoder: median {median / len(texts):.3f} ms a text, p95 {worst / len(texts):.3f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[384])
    parser.add_argument("--repeats", type=int, default=200)
    arguments = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, numpy {np.__version__}")
    measure_encoder()
    for dimensions in arguments.dimensions:
        for size in arguments.sizes:
            measure(size, dimensions, arguments.repeats)


if __name__ == "__main__":
    main()
