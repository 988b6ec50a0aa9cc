"""The corpora find what a plain BM25 library finds, and more: real questions, each with its own document."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from effort import often
from extras import needs

pytestmark = needs("tantivy", "bm25s", "Stemmer")  # bm25s: a maintained library to compare with, stemmed

REPOSITORY = Path(__file__).resolve().parents[3]


def test_ndcg_is_not_below_that_of_bm25(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All documents of PubMedQA and of MedQuAD with some of the questions (all of them: benchmarks/corpus_speed.py)."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    sys.modules.pop("corpus_speed", None)
    import corpus_speed

    if not (shared_data / "knowledge-medquad").is_dir():
        pytest.skip("the question sets are not here")
    few = often(3, 1)
    reads = ((corpus_speed.medquad, 30), (corpus_speed.pubmedqa, few), (corpus_speed.told_at_length, few))
    for read, every in reads:
        texts, questions = read(shared_data)
        some = questions[::every]
        ours = corpus_speed.of_corpus(tmp_path / read.__name__, texts, some)
        assert ours >= corpus_speed.of_bm25s(texts, some) > 0.8
