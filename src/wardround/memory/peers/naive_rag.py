"""Naive RAG as in the GSEM paper's appendix B: training cases as documents, found by words and by vectors, merged."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.memory.construction.drafts import Case
from wardround.memory.experience import Experience
from wardround.memory.peer import (
    Peer,
    PeerAsking,
    PeerCase,
    PeerSettings,
    Remembered,
    case_document,
    fused,
    note_of,
)


async def draw_document(case: Case, asking: PeerAsking | None, settings: PeerSettings) -> Sequence[Experience]:
    """Return the case as one document; no model is called."""
    content = case_document(case, max_tokens=settings.document_tokens)
    return [note_of(case, "naive-rag", title=f"A case of {case.attempts[0].material.task}", content=content)]


def recall_documents(case: PeerCase) -> Sequence[Remembered]:
    """BM25 and dense ranks, fused."""
    return fused([case.by_words(), case.by_meaning()])


NAIVE_RAG = Peer(
    name="naive-rag",
    title="naive RAG: training cases by BM25 and vectors (Karpukhin et al., 2020)",
    draw=draw_document,
    recall=recall_documents,
    differences=(
        "the paper merges both lists and does not say how; here by reciprocal ranks",
        "a document is one training case with its best attempt, not one trajectory: five texts are five cases",
    ),
)
