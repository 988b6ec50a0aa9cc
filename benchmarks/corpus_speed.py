"""How fast corpora are made and searched, on invented documents, and how well they answer beside a plain BM25 library.

    python benchmarks/corpus_speed.py --documents 200000
    python benchmarks/corpus_speed.py --quality shared/data        needs bm25s, PyStemmer and the sets there

Speed: documents of some 200 words, drawn by Zipf's law from 300,000, go through ``wardround corpus add`` as JSON lines;
queries are 2 to 12 words drawn from documents. Quality: nDCG@10 where each question has one right document.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import numpy as np

from wardround.tools.knowledge import Corpus, Library, add_corpus

_WORDS = 300_000
_SYLLABLES = ("ba", "co", "di", "fe", "gu", "ha", "li", "mo", "nu", "pa", "re", "si", "to", "va", "xe", "zo")
_TERMS = {"licence": "invented", "date": "2024-06-30"}
_COMMONEST = (
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "with",
    "as",
    "was",
    "on",
    "by",
    "be",
    "at",
)
"""As in English the commonest words are such that no search looks for."""
Questions = list[tuple[str, str]]
Texts = list[tuple[str, str, str]]


def main() -> None:
    """Measure what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000, help="invented documents of the speed test")
    parser.add_argument("--queries", type=int, default=1_000, help="queries of the speed test")
    parser.add_argument("--quality", type=Path, help="folder with knowledge-medquad and knowledge-pubmedqa")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.quality is None:
            speed(Path(scratch), arguments.documents, arguments.queries)
        else:
            quality(Path(scratch), arguments.quality)


def speed(scratch: Path, documents: int, queries: int) -> None:
    """Print documents a CPU second, and the CPU time of a search."""
    file, asked = scratch / "invented.jsonl", []
    with file.open("w") as lines:
        for number, words in enumerate(invented(documents)):
            title, text = " ".join(words[:8]), " ".join(words[8:])
            lines.write(
                json.dumps({"id": str(number), "title": title, "content": text, "year": 1990 + number % 35}) + "\n"
            )
            if number % max(1, documents // queries) == 0:
                asked.append(" ".join(words[8 : 10 + number % 11]))
    started = time.process_time()
    add_corpus(scratch / "library", "invented", file, **_TERMS)
    spent = time.process_time() - started
    print(f"add: {documents:,} documents in {spent:.1f} CPU s, {documents / spent:,.0f} a CPU second")
    size = sum(one.stat().st_size for one in (scratch / "library").rglob("*") if one.is_file())
    print(f"disk: {size / 2**20:,.0f} MiB ({file.stat().st_size / 2**20:,.0f} as JSON lines)")
    corpus = Library(scratch / "library").get("invented")
    for until in (None, "2010-12-31"):
        print(f"search, 10 documents{', published until ' + until if until else ''}: {searched(corpus, asked, until)}")


def searched(corpus: Corpus, asked: Sequence[str], until: str | None) -> str:
    """CPU milliseconds of searches, after a first round that warms the files."""
    day = None if until is None else date.fromisoformat(until)
    for query in asked[:50]:
        corpus.search(query, 10, until=day)
    times = []
    for query in asked:
        started = time.process_time()
        corpus.search(query, 10, until=day)
        times.append((time.process_time() - started) * 1000)
    p50, p95 = np.percentile(times, (50, 95))
    return f"p50 {p50:.2f}, p95 {p95:.2f} CPU ms over {len(asked):,} queries"


def invented(documents: int) -> Iterator[list[str]]:
    """Yield documents as words."""
    draw = np.random.default_rng(7)
    words = np.array([*_COMMONEST, *(_word(number) for number in range(_WORDS - len(_COMMONEST)))])
    share = 1.0 / np.arange(1, _WORDS + 1)
    edges = np.cumsum(share / share.sum())
    for start in range(0, documents, 1_000):
        count = min(1_000, documents - start)
        drawn = words[np.minimum(np.searchsorted(edges, draw.random((count, 208))), _WORDS - 1)]
        yield from (row.tolist() for row in drawn)


def _word(number: int) -> str:
    """A word of its own for every number."""
    parts = []
    while True:
        number, part = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[part])
        if number == 0:
            return "".join(parts) + ("n" if len(parts) % 2 else "k")


def quality(scratch: Path, data: Path) -> None:
    """Print nDCG@10 of ours and of bm25s, on the same documents and questions."""
    for read in (medquad, pubmedqa, told_at_length):
        name, (texts, questions) = read.__name__, read(data)
        ours, plain = of_corpus(scratch / name, texts, questions), of_bm25s(texts, questions)
        print(f"{name}: {len(texts):,} documents, {len(questions):,} questions: nDCG@10 {ours:.4f}, bm25s {plain:.4f}")


def medquad(data: Path) -> tuple[Texts, Questions]:
    """Questions of MedQuAD, each of which has its own document."""
    texts, questions = [], []
    for file in sorted((data / "knowledge-medquad").glob("*.jsonl.gz")):
        with gzip.open(file, "rt") as lines:
            for row in map(json.loads, lines):
                identifier = f"{file.name}:{row['doc']}"
                answers = "\n".join(one["answer"] or "" for one in row["qa"])
                texts.append((identifier, row["focus"] or "", answers))
                questions += [(one["question"], identifier) for one in row["qa"]]
    return texts, questions


def pubmedqa(data: Path) -> tuple[Texts, Questions]:
    """Questions of PubMedQA, each of which has its abstract."""
    with gzip.open(data / "knowledge-pubmedqa" / "abstracts.jsonl.gz", "rt") as lines:
        texts = [(row["pmid"], "", row["text"]) for row in map(json.loads, lines)]
    with gzip.open(data / "knowledge-pubmedqa" / "ori_pqal.json.gz", "rt") as file:
        asked = json.load(file)
    return texts, [(asked[pmid]["QUESTION"], pmid) for pmid, _, _ in texts]


def told_at_length(data: Path) -> tuple[Texts, Questions]:
    """Long questions: what an abstract of PubMedQA asks and concludes, which are not in the text that is searched."""
    with gzip.open(data / "knowledge-pubmedqa" / "ori_pqal.json.gz", "rt") as file:
        asked = json.load(file)
    texts = [(pmid, "", "\n".join(one["CONTEXTS"])) for pmid, one in asked.items()]
    return texts, [(f"{one['QUESTION']} {one['LONG_ANSWER']}", pmid) for pmid, one in asked.items()]


def of_corpus(scratch: Path, texts: Texts, questions: Questions) -> float:
    """Mean nDCG@10 of a corpus made of the texts."""
    scratch.mkdir(parents=True)
    rows = ({"id": one, "title": title, "content": text or title} for one, title, text in texts)
    (scratch / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    add_corpus(scratch / "library", "texts", scratch / "texts.jsonl", **_TERMS)
    corpus = Library(scratch / "library").get("texts")
    found = ([hit.document.id for hit in corpus.search(question, 10)] for question, _ in questions)
    return _mean_ndcg(found, questions)


def of_bm25s(texts: Texts, questions: Questions) -> float:
    """Mean nDCG@10 of bm25s over title and text together, stemmed as ours are."""
    import bm25s
    import Stemmer

    index, stemmer = bm25s.BM25(), Stemmer.Stemmer("english")
    whole = [f"{title}\n{text}" for _, title, text in texts]
    index.index(bm25s.tokenize(whole, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    asked = bm25s.tokenize([one for one, _ in questions], stopwords="en", stemmer=stemmer, show_progress=False)
    places, _ = index.retrieve(asked, k=10, show_progress=False)
    return _mean_ndcg(([texts[place][0] for place in row] for row in places), questions)


def _mean_ndcg(found: Iterator[list[str]], questions: Questions) -> float:
    gains = [
        1 / math.log2(ids.index(right) + 2) if right in ids else 0.0
        for ids, (_, right) in zip(found, questions, strict=True)
    ]
    return sum(gains) / len(gains)


if __name__ == "__main__":
    main()
