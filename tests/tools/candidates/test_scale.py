"""A search over many names finds misspelt ones (100,000 at length); what it costs is measured in
benchmarks/candidate_speed.py."""

from __future__ import annotations

import random

from effort import often
from wardround.clinical.codes import LabelSet, distinct_labels
from wardround.tools.candidates import CandidateSpace

SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ka",
    "le",
    "mi",
    "no",
    "pu",
    "ra",
    "se",
    "ti",
    "vo",
    "chlo",
    "statin",
    "zole",
)
KINDS = ("acute", "chronic", "left", "right", "initial", "tablet", "solution", "malignant", "benign")


def names(count: int) -> tuple[str, ...]:
    source = random.Random(3)
    made: set[str] = set()
    while len(made) < count:
        stem = "".join(source.choices(SYLLABLES, k=source.randint(2, 4)))
        made.add(f"{source.choice(KINDS)} {stem} {source.choice(KINDS)} {source.randint(1, 999)}")
    return distinct_labels(made)


def test_misspelt_names_are_found_among_many() -> None:
    labels = names(often(30_000, 100_000))
    space = CandidateSpace(name="x", labels=LabelSet(name="x", labels=labels))
    source = random.Random(5)
    found = 0
    for _ in range(60):
        label = source.choice(labels)
        place = source.randrange(len(label))
        slipped = label[:place] + source.choice("aeiou") + label[place + 1 :]
        matches = space.by_meaning(slipped)
        found += label in [match.label for match in matches]
    assert found >= 50
