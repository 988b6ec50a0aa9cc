"""A search over 100,000 names finds misspelt ones; what it costs is measured in benchmarks/candidate_speed.py."""

from __future__ import annotations

import random

from wardround.codes import LabelSet, distinct_labels
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


def test_a_hundred_thousand_names() -> None:
    labels = names(100_000)
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
