"""How well seed recall finds the right text, against BM25 of a maintained library (bm25s, installed beside).

Run: python benchmarks/recall_quality.py DATA [--encoder lexical] [--limit 2000]

DATA holds ``knowledge-medquad`` and ``knowledge-pubmedqa``. Every text is an experience of a bank; a MedQuAD question
has one right document, a PubMedQA question its abstract. nDCG@10. Weights are chosen on questions with an even hash
and reported on the others. A question repeated for several documents of MedQuAD counts each time.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.memory import Bank, Experience, Provenance, RecallQuestion, SeedSettings, Subject, text_key
from wardround.retrieval import open_encoder

NOBODY = Subject(source="nobody", subject_id=0)
WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)
Pair = tuple[str, int]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def medquad(folder: Path) -> tuple[list[str], list[Pair]]:
    """Documents (what they are about and every answer) and (question, number of its document)."""
    texts, pairs = [], []
    for path in sorted(folder.glob("*_QA*.jsonl.gz")):
        for document in lines(path):
            answers = [one["answer"] for one in document["qa"]]
            pairs += [(one["question"], len(texts)) for one in document["qa"]]
            texts.append("\n".join([document["focus"], *answers]))
    return texts, pairs


def pubmedqa(folder: Path) -> tuple[list[str], list[Pair]]:
    """Abstracts and (question, number of its abstract)."""
    with gzip.open(folder / "ori_pqal.json.gz", "rt", encoding="utf-8") as file:
        questions = json.load(file)
    texts, pairs = [], []
    for abstract in lines(folder / "abstracts.jsonl.gz"):
        pairs.append((questions[abstract["pmid"]]["QUESTION"], len(texts)))
        texts.append(abstract["text"])
    return texts, pairs


def gain(ranked: Sequence[int], right: int) -> float:
    """NDCG@10 with one right answer."""
    return 1.0 / math.log2(2 + ranked[:10].index(right)) if right in ranked[:10] else 0.0


def by_library(texts: Sequence[str], pairs: Sequence[Pair]) -> list[float]:
    """The gains of bm25s with its defaults and English stop words."""
    library = importlib.import_module("bm25s")
    index = library.BM25()
    index.index(library.tokenize(list(texts), stopwords="en", show_progress=False), show_progress=False)
    asked = library.tokenize([question for question, _ in pairs], stopwords="en", show_progress=False)
    ranked, _ = index.retrieve(asked, k=10, show_progress=False)
    return [gain([int(one) for one in row], right) for row, (_, right) in zip(ranked, pairs, strict=True)]


def filled(path: Path, texts: Sequence[str], encoder: Any) -> Bank:
    """A bank with every text as an experience."""
    bank = Bank.open(path)
    subject = bank.subject_hash(Subject(source="texts", subject_id=1))
    with bank.batch():
        for number, text in enumerate(texts):
            origin = Provenance(sample=f"text-{number}", subject=subject, split="train")
            made = Experience(
                kind="reasoning",
                title=str(number),
                description="",
                content=text,
                task="texts",
                provenance=origin,
                id=f"text-{number}",
            )
            bank.add([made], key=text_key(encoder, text))
    return bank


def asked(bank: Bank, pairs: Sequence[Pair], encoder: Any, settings: SeedSettings) -> list[float]:
    """The gains of seed recall."""
    gains = []
    for question, right in pairs:
        key = text_key(encoder, question) if settings.dense else None
        recall = bank.seeds(
            RecallQuestion(text=question, key=key), for_subject=NOBODY, kinds=("reasoning",), settings=settings
        )
        gains.append(gain([int(one.title) for one in recall.experiences], right))
    return gains


def mean(values: Sequence[float]) -> float:
    """The mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def measure(name: str, texts: Sequence[str], pairs: Sequence[Pair], encoder: Any) -> None:
    """Print one set's figures."""
    started = time.process_time()
    even = [sha256(question.encode()).digest()[0] % 2 == 0 for question, _ in pairs]
    tuned = [pair for pair, first in zip(pairs, even, strict=True) if first]
    held = [pair for pair, first in zip(pairs, even, strict=True) if not first]
    library = by_library(texts, held)
    with tempfile.TemporaryDirectory() as folder, filled(Path(folder) / "bank.sqlite", texts, encoder) as bank:
        print(f"{name}: {len(texts)} texts, {len(tuned)} questions to tune, {len(held)} to report")
        curve = {weight: mean(asked(bank, tuned, encoder, SeedSettings(k=10, dense=weight))) for weight in WEIGHTS}
        print("  tuning half, weight of the vector: " + ", ".join(f"{w:g} {value:.4f}" for w, value in curve.items()))
        best = max(curve, key=lambda weight: (round(curve[weight], 4), -weight))
        for told, weight in (("words alone", 0.0), ("best weight", best), ("default", SeedSettings().dense)):
            value = mean(asked(bank, held, encoder, SeedSettings(k=10, dense=weight)))
            print(f"  reported half, {told} ({weight:g}): nDCG@10 {value:.4f}, bm25s {mean(library):.4f}")
        alone = mean(asked(bank, held, encoder, SeedSettings(k=10, lexical=0.0, entity=0.0, dense=1.0)))
        print(f"  reported half, vectors alone: {alone:.4f}; {time.process_time() - started:.0f} s CPU")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="lexical")
    parser.add_argument("--limit", type=int, default=2000, help="at most this many questions of a set, spread evenly")
    arguments = parser.parse_args()
    encoder = open_encoder(arguments.encoder)
    for name, read in (("knowledge-medquad", medquad), ("knowledge-pubmedqa", pubmedqa)):
        texts, pairs = read(arguments.data / name)
        count = min(arguments.limit, len(pairs))
        measure(name, texts, [pairs[n * len(pairs) // count] for n in range(count)], encoder)


if __name__ == "__main__":
    main()
