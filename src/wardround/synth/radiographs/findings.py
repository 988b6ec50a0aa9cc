"""What a sentence about a chest means: CheXpert's labels, and what a picture of it shows (``findings.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple


class SeenFinding(NamedTuple):
    """One thing to draw: what, on whose side of the patient (``left``, ``right``, ``both``), how much of it, 0 to 1."""

    what: str
    side: str
    amount: float


@cache
def _catalog() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath("findings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def label_names() -> tuple[str, ...]:
    """Return CheXpert's fourteen labels, in its order."""
    return tuple(_catalog()["labels"])


def findings_of(text: str) -> tuple[SeenFinding, ...]:
    """Return what a picture of a finding's text shows. KeyError: a sentence that the catalog does not know."""
    return tuple(SeenFinding(*drawn) for says in _sentences(text) for drawn in says.get("draw", ()))


def labels_of(text: str) -> dict[str, int]:
    """Return CheXpert's labels of a finding's text: 1 present, 0 absent; what it does not mention is not in it.

    What one sentence finds, no other takes back.
    """
    found: dict[str, int] = {}
    for says in _sentences(text):
        for name, value in says.get("labels", {}).items():
            found[name] = max(value, found.get(name, 0))
    return {name: found[name] for name in label_names() if name in found}


def _sentences(text: str) -> Iterator[Mapping[str, Any]]:
    for sentence in text.split("."):
        if sentence.strip():
            yield _catalog()["says"][sentence.strip()]
