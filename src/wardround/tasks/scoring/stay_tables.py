"""The tables of stays: Recall@5 by type of every contender, and what each did with its rules and its audits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from wardround.core.table import TableColumn, as_text, table_of
from wardround.tasks.scoring.bootstrap import Interval, cluster_bootstrap, mean_of_rows
from wardround.tasks.scoring.episodes import EpisodeScore
from wardround.tasks.scoring.stays import RecallRow, StepCounts, recall_rows

PAPER_AUDITED = (0.0515, 0.0942)
"""The paper's share of steps at which the Auditor runs (TRACE, table 1: Mixtral-8x22B and Llama-3.1-70B)."""
_EXPECTED = (0.025, 0.15)
"""Shares outside these are commented."""
RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdherenceRow:
    """One contender over all steps. ``adherence``: steps that cite a rule that was activated, as the paper counts it
    (section 5); ``strict``: and whose trigger was true; ``audited``: the gate of the model's audit opened; ``failed``:
    an audit found something; ``unchecked``: steps with a drug or allergy that no table knows; ``equivalence``: the mean
    grade of its plans, 1 to 5, where a judge graded them."""

    contender: str
    steps: int
    adherence: Interval
    strict: Interval
    audited: Interval
    failed: int
    flaws: str
    unchecked: int = 0
    equivalence: Interval | None = None


def stay_rows(
    scores: Iterable[EpisodeScore], *, seed: int = 0
) -> tuple[tuple[RecallRow, ...], tuple[AdherenceRow, ...]]:
    """Return both tables of a run's stays; empty where none was played by steps."""
    groups: dict[str, list[EpisodeScore]] = {}
    for score in scores:
        if score.steps is not None:
            groups.setdefault(f"{score.agent} · {score.model}", []).append(score)
    recall = [
        row
        for name, some in groups.items()
        for row in recall_rows(name, [(one.answer, one.target, one.subject_id) for one in some], seed=seed)
    ]
    return tuple(recall), tuple(_adherence(name, some, seed) for name, some in groups.items())


def _adherence(name: str, scores: Sequence[EpisodeScore], seed: int) -> AdherenceRow:
    counts = [score.steps for score in scores if score.steps is not None]
    people = [score.subject_id for score in scores if score.steps is not None]
    flaws = sorted({flaw for one in counts for flaw in one.flaws})
    return AdherenceRow(
        contender=name,
        steps=sum(one.steps for one in counts),
        adherence=_share(counts, [one.cited for one in counts], people, seed),
        strict=_share(counts, [one.strict for one in counts], people, seed),
        audited=_share(counts, [one.audited for one in counts], people, seed),
        failed=sum(one.failed for one in counts),
        flaws=", ".join(f"{flaw} {sum(one.flaws.get(flaw, 0) for one in counts)}" for flaw in flaws),
        unchecked=sum(one.unchecked for one in counts),
        equivalence=_mean_grade(counts, people, seed),
    )


def _share(counts: Sequence[StepCounts], parts: Sequence[int], people: Sequence[int], seed: int) -> Interval:
    rows = np.array([[part, one.steps] for part, one in zip(parts, counts, strict=True)], float)
    return cluster_bootstrap(rows, people, mean_of_rows, seed=seed)


def _mean_grade(counts: Sequence[StepCounts], people: Sequence[int], seed: int) -> Interval | None:
    graded = [(sum(one.grades), len(one.grades), person) for one, person in zip(counts, people, strict=True)]
    graded = [one for one in graded if one[1]]
    if not graded:
        return None
    rows = np.array([one[:2] for one in graded], float)
    return cluster_bootstrap(rows, [person for *_, person in graded], mean_of_rows, seed=seed)


def render_stays(recall: Sequence[RecallRow], adherence: Sequence[AdherenceRow]) -> str:
    """Return both as aligned plain-text tables."""
    tables = (as_text(table_of(recall, _RECALL_COLUMNS)), "", as_text(table_of(adherence, _RULE_COLUMNS)))
    return "\n".join([*tables, *filter(None, map(_far_off, adherence))])


def _far_off(row: AdherenceRow) -> str | None:
    """Where the gate of the model's audit opens far more or less often than in the paper."""
    share = row.audited.estimate
    if not row.steps or _EXPECTED[0] <= share <= _EXPECTED[1]:
        return None
    low, high = PAPER_AUDITED
    than = f"TRACE's paper has {low:.1%} to {high:.1%}"
    hint = "lower tau" if share < low else "raise tau, or read docs/methods/trace.md on the gate"
    return f"{row.contender}: the gate of the model's audit opens at {share:.1%} of steps; {than}: {hint}"


def _text(name: str, value: Callable[[RowT], object], form: str = "", missing: str = "–") -> TableColumn[RowT]:
    return TableColumn(name=name, value=value, format=form, kind="text", missing=missing)


def _grade(row: AdherenceRow) -> str | None:
    return None if row.equivalence is None else f"{row.equivalence.estimate:.2f} {row.equivalence.as_text()}"


_RECALL_COLUMNS: tuple[TableColumn[RecallRow], ...] = (
    _text("", lambda row: row.contender),
    _text("type", lambda row: row.kind.lower()),
    _text("by", lambda row: row.matching),
    _text("micro", lambda row: row.micro.estimate, ".3f"),
    _text("95 % interval", lambda row: row.micro.as_text()),
    _text("macro", lambda row: row.macro.estimate, ".3f"),
    _text("95 % interval", lambda row: row.macro.as_text()),
    _text("capped", lambda row: row.capped, ".3f"),
    _text("precision", lambda row: row.precision, ".3f"),
    _text("steps", lambda row: row.steps),
    _text("decisions", lambda row: row.targets),
)
_RULE_COLUMNS: tuple[TableColumn[AdherenceRow], ...] = (
    _text("", lambda row: row.contender),
    _text("steps", lambda row: row.steps),
    _text("cites a rule", lambda row: row.adherence.estimate, ".1%"),
    _text("that holds", lambda row: row.strict.estimate, ".1%"),
    _text("audited", lambda row: row.audited.estimate, ".1%"),
    _text("failed", lambda row: row.failed),
    _text("flaws", lambda row: row.flaws or None),
    _text("unchecked", lambda row: row.unchecked or None),
    _text("equivalence", _grade),
)
