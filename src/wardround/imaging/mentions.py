"""What a report's sentences say of findings: present, absent, or nothing. A few words and how they are denied.

It is a rule of thumb, made to point at contradictions, not to label reports (CheXpert's and NegBio's labellers do).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_WORDS: Mapping[str, str] = {
    "Atelectasis": r"atelecta\w+",
    "Cardiomegaly": r"cardiomegaly|enlarged (?:heart|cardiac)|(?:heart|cardiac silhouette)[\w ]{0,20} enlarged",
    "Consolidation": r"consolidation\w*",
    "Edema": r"(?:o)?edema|vascular congestion",
    "Effusion": r"effusions?",
    "Emphysema": r"emphysema\w*|hyperinflat\w+",
    "Fracture": r"fractures?",
    "Hernia": r"hernia\w*",
    "Lung Opacity": r"opacit\w+|infiltrat\w+|airspace disease",
    "Mass": r"mass(?:es)?",
    "Nodule": r"nodul\w+",
    "Pneumonia": r"pneumonia\w*",
    "Pneumothorax": r"pneumothora\w+",
    "Pleural Thickening": r"pleural thickening",
}
_DENIED = re.compile(
    r"\b(?:no|not|without|free of|negative for|absen\w+|resol\w+|rul\w+ out|clear of|neither|nor|unremarkable)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"\b(?:may|might|possib\w+|cannot|could|question\w*|versus|suspect\w*|concern\w*)\b", re.IGNORECASE
)
_TURN = re.compile(r"\b(?:but|however|although|with)\b|[;:]", re.IGNORECASE)


def mentions_of(text: str) -> dict[str, bool]:
    """Return finding -> whether a text says that it is there; what it doubts or does not name is not in it.

    >>> mentions_of("Small left effusion. No pneumothorax. Possible pneumonia.")
    {'Effusion': True, 'Pneumothorax': False}
    """
    found: dict[str, bool] = {}
    for clause in _clauses(text):
        if _DOUBTED.search(clause):
            continue
        denied = _DENIED.search(clause)
        for name, words in _WORDS.items():
            word = re.search(rf"\b(?:{words})\b", clause, re.IGNORECASE)
            if word is not None:
                found[name] = found.get(name, False) or denied is None or denied.start() > word.end()
    return {name: found[name] for name in _WORDS if name in found}


def _clauses(text: str) -> Iterator[str]:
    for sentence in re.split(r"(?<=[.!?])\s+|\n", text):
        yield from _TURN.split(sentence)
