"""How well seed recall finds the right text, against stemmed BM25 of a maintained library (bm25s and PyStemmer beside).

Run: python benchmarks/recall_quality.py DATA [--encoder lexical] [--limit 2000] [--stems]

DATA holds ``knowledge-medquad`` and ``knowledge-pubmedqa``. Every text is an experience of a bank; a MedQuAD question
has one right document, a PubMedQA question its abstract. nDCG@10. Weights are chosen on questions with an even hash
and reported on the others. A question repeated for several documents of MedQuAD counts each time.

``--stems``: our words without plural endings against Porter's stems (SQLite's), on MedQuAD and on conversations
(``notes-mts-dialog``: a section of a note asks for its dialogue; ``notes-aci-bench``: a sentence of a note asks for any
eight turns of its conversation): recall at 10.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import math
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.memory import Bank, Experience, Provenance, RecallQuestion, SeedSettings, Subject, text_key, words
from wardround.tools.retrieval import open_encoder

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


def dialogues(folder: Path) -> tuple[list[str], list[Pair]]:
    """Dialogues of MTS-Dialog and (section of its note, number of the dialogue)."""
    with (folder / "MTS-Dialog-TrainingSet.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if len(row["section_text"].split()) >= 8]
    return [row["dialogue"] for row in rows], [(row["section_text"], number) for number, row in enumerate(rows)]


def conversations(folder: Path) -> tuple[list[str], list[Pair]]:
    """Pieces of eight turns of ACI-Bench, each headed by its conversation's number, and (sentence, that number)."""
    texts, pairs = [], []
    with (folder / "train.csv").open(encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            turns = row["dialogue"].split("\n")
            texts += [f"{number}\n" + "\n".join(turns[start : start + 8]) for start in range(0, len(turns), 8)]
            sentences = re.split(r"(?<=[.])\s+|\n+", row["note"])
            pairs += [(sentence, number) for sentence in sentences if 6 <= len(sentence.split()) <= 30]
    return texts, pairs


def porter() -> Callable[[str], str]:
    """Porter's stems, as SQLite's tokenizer makes them."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE one USING fts5 (word, tokenize='porter ascii')")
    connection.execute("CREATE VIRTUAL TABLE stems USING fts5vocab (one, 'row')")

    @cache
    def stem(word: str) -> str:
        connection.execute("DELETE FROM one")
        connection.execute("INSERT INTO one VALUES (?)", (word.replace(".", "x"),))
        found = connection.execute("SELECT term FROM stems").fetchone()
        return str(found[0]) if found else word

    return stem


def compare_stems(data: Path, encoder: Any, limit: int) -> None:
    """Print recall at 10 with both ways of stemming."""
    sets = {"knowledge-medquad": medquad, "notes-mts-dialog": dialogues, "notes-aci-bench": conversations}
    for name, read in sets.items():
        texts, pairs = read(data / name)
        count = min(limit, len(pairs))
        some = [pairs[number * len(pairs) // count] for number in range(count)]
        right = [int(text.split("\n", 1)[0]) for text in texts] if name == "notes-aci-bench" else range(len(texts))
        for label, stem in (("plural endings", words.stem), ("Porter", porter())):
            with (
                stemming_by(stem),
                tempfile.TemporaryDirectory() as folder,
                filled(Path(folder) / "bank.sqlite", texts, encoder) as bank,
            ):
                found = [
                    number in [right[int(one.title)] for one in recalled(bank, question, encoder)]
                    for question, number in some
                ]
            print(f"{name}, {label}: recall at 10 {mean([float(one) for one in found]):.4f} of {count} questions")


@contextmanager
def stemming_by(stem: Callable[[str], str]) -> Iterator[None]:
    """Let the bank's index stem otherwise for a while."""
    before, words.stem = words.stem, stem
    try:
        yield
    finally:
        words.stem = before


def recalled(bank: Bank, question: str, encoder: Any) -> Sequence[Experience]:
    """The ten seeds of a question."""
    asked_for = RecallQuestion(text=question, key=text_key(encoder, question))
    return bank.seeds(asked_for, for_subject=NOBODY, kinds=("reasoning",), settings=SeedSettings(k=10)).experiences


def gain(ranked: Sequence[int], right: int) -> float:
    """NDCG@10 with one right answer."""
    return 1.0 / math.log2(2 + ranked[:10].index(right)) if right in ranked[:10] else 0.0


def by_library(texts: Sequence[str], pairs: Sequence[Pair]) -> list[float]:
    """The gains of bm25s with its defaults, English stop words and Snowball's English stems."""
    library, stemmer = importlib.import_module("bm25s"), importlib.import_module("Stemmer").Stemmer("english")

    def tokens(of: Sequence[str]) -> Any:
        return library.tokenize(list(of), stopwords="en", stemmer=stemmer, show_progress=False)

    index = library.BM25()
    index.index(tokens(texts), show_progress=False)
    asked = tokens([question for question, _ in pairs])
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
            print(f"  reported half, {told} ({weight:g}): nDCG@10 {value:.4f}, stemmed bm25s {mean(library):.4f}")
        alone = mean(asked(bank, held, encoder, SeedSettings(k=10, lexical=0.0, entity=0.0, dense=1.0)))
        print(f"  reported half, vectors alone: {alone:.4f}; {time.process_time() - started:.0f} s CPU")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="lexical")
    parser.add_argument("--limit", type=int, default=2000, help="at most this many questions of a set, spread evenly")
    parser.add_argument("--stems", action="store_true", help="compare ways of stemming alone")
    arguments = parser.parse_args()
    encoder = open_encoder(arguments.encoder)
    if arguments.stems:
        compare_stems(arguments.data, encoder, arguments.limit)
        return
    for name, read in (("knowledge-medquad", medquad), ("knowledge-pubmedqa", pubmedqa)):
        texts, pairs = read(arguments.data / name)
        count = min(arguments.limit, len(pairs))
        measure(name, texts, [pairs[n * len(pairs) // count] for n in range(count)], encoder)


if __name__ == "__main__":
    main()
