"""A training case as text, and a note that remembers whose it is. What peers store begins here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wardround.core import estimate_tokens
from wardround.memory.construction.attempts import Attempt, Case, evidence_of
from wardround.memory.construction.drafts import names_answer
from wardround.memory.experience import Experience
from wardround.memory.material import reduced_trajectory

PEER_RULES = "peer-rules-1"
"""The model that notes name which no language model wrote."""
_LONG_NUMBER = re.compile(r"\d{5,}")
_SHARES = {"question": 0.25, "patient": 0.25, "trajectory": 0.4}
"""How a document's room is shared; the right answer and the headings have what is left."""


def without_identifiers(text: str) -> str:
    """A text whose long numbers, which name a patient, an encounter or a row, are struck out."""
    return _LONG_NUMBER.sub("#", text)


def beginning(text: str, max_tokens: int) -> str:
    """The beginning of a text, at a word's end, within some tokens."""
    if estimate_tokens(text) <= max_tokens:
        return text
    kept = text[: 4 * max_tokens]
    while kept and estimate_tokens(kept) > max_tokens - 1:
        kept = kept[: len(kept) * 7 // 8]
    return f"{kept.rpartition(' ')[0] or kept} ..."


def best_attempt(case: Case) -> Attempt:
    """The attempt with the best score, the earliest of equals."""
    return max(case.attempts, key=lambda one: (one.success, one.material.score or 0.0))


def case_document(case: Case, *, max_tokens: int) -> str:
    """A training case as one text: what was asked, of whom, how the best attempt went, what was right."""
    best = best_attempt(case)
    rooms = {name: int(share * max_tokens) for name, share in _SHARES.items()}
    patient = case.description or "; ".join(case.setting)
    ended = f"{len(case.successes)} of {len(case.attempts)} attempts succeeded"
    parts = {
        "Question": beginning(best.material.question, rooms["question"]),
        "Patient": beginning(patient, rooms["patient"]),
        f"The best attempt ({ended})": reduced_trajectory(best.material.messages, rooms["trajectory"]).text,
        "Right answer": beginning(" | ".join(best.material.target or ()), max_tokens // 10),
    }
    return without_identifiers("\n".join(f"{name}: {text}" for name, text in parts.items() if text))


def note_of(
    case: Case,
    peer: str,
    *,
    title: str,
    content: str,
    description: str = "",
    model: str = PEER_RULES,
    prompts: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Experience:
    """A note that a peer draws from a case. It rests on every row that the case's attempts showed."""
    target = best_attempt(case).material.target
    texts = [without_identifiers(text) for text in (title, description, content)]
    hashes = {**case.provenance.prompts, **(prompts or {})}
    return Experience(
        kind="note",
        tool=peer,
        title=texts[0],
        description=texts[1],
        content=texts[2],
        task=case.attempts[0].material.task,
        provenance=replace(case.provenance, model=model, prompts=hashes),
        evidence=evidence_of(case.attempts),
        facts={**(facts or {}), "names_answer": names_answer(" ".join(texts), target)},
    )


def searched_text(note: Experience) -> str:
    """The whole of a note, as it is encoded unless a peer says otherwise."""
    return "\n".join(part for part in (note.title, note.description, note.content) if part)


def listed(names: Sequence[str]) -> str:
    """Names as one line."""
    return ", ".join(dict.fromkeys(name for name in names if name))
