"""What training and test share that they must not: a source report, or the words of a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wardround.benchmarks.told.cases import TextCase
from wardround.core import UserError

Shared = Literal["report", "question"]
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Two cases of one report or of one question: the one may teach, the other is asked in the test."""

    shared: Shared
    training: TextCase
    test: TextCase


def overlaps(training: Sequence[TextCase], test: Sequence[TextCase]) -> list[Overlap]:
    """Return every training case that has its report or its question in common with a test case, once for each."""
    reports = {case.report: case for case in test if case.report}
    stems = {case.stem: case for case in test}
    found = []
    for case in training:
        if case.report in reports:
            found.append(Overlap(shared="report", training=case, test=reports[case.report]))
        if case.stem in stems:
            found.append(Overlap(shared="question", training=case, test=stems[case.stem]))
    return found


def must_not_overlap(training: Sequence[TextCase], test: Sequence[TextCase]) -> None:
    """Raise UserError where training and test share a report or a question."""
    found = overlaps(training, test)
    if not found:
        return
    kinds = {kind: sum(one.shared == kind for one in found) for kind in ("report", "question")}
    counts = " and ".join(f"{number:,} by their {kind}" for kind, number in kinds.items() if number)
    named = ", ".join(f"{one.training.id} = {one.test.id}" for one in found[:_SHOWN])
    named += ", ..." if len(found) > _SHOWN else ""
    raise UserError(
        f"cases to learn from are in the test too, {counts} ({named}): take them "
        "out of the files, or leave them out of training with --drop-overlaps"
    )
