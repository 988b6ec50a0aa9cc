"""Phrases with the CCS label they mean, from the tables beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wardround.clinical.codes import load_ccs
from wardround.tools.candidates import CandidateSpace

FOLDER = Path(__file__).parent


class Phrase(NamedTuple):
    """What somebody wrote, and the label that is right."""

    kind: str
    text: str
    label: str


def read_phrases(name: str) -> list[Phrase]:
    """The rows of a table; a category number stands for its label."""
    groupers = {"diagnoses": load_ccs("diagnoses"), "procedures": load_ccs("procedures")}
    rows = [line.split("\t") for line in (FOLDER / name).read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    return [
        Phrase(kind, text, groupers[kind].categories[int(label)].label if label.isdigit() else label)
        for kind, text, label in rows
    ]


def hits(spaces: dict[str, CandidateSpace], phrases: list[Phrase], depth: int) -> float:
    """The share of phrases whose label is among the first ``depth`` candidates by meaning."""
    found = sum(
        any(match.label == phrase.label for match in spaces[phrase.kind].by_meaning(phrase.text, depth))
        for phrase in phrases
    )
    return found / len(phrases)
