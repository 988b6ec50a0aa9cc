"""The tables of stays: Recall@5 by type of every contender, and what each did with its rules and its audits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wardround.core.table import TableColumn, as_text, columns_of, table_of
from wardround.tasks.scoring.bootstrap import Interval, cluster_bootstrap, mean_of_rows
from wardround.tasks.scoring.episodes import EpisodeScore
from wardround.tasks.scoring.stays import RecallRow, StepCounts, recall_rows

PAPER_AUDITED = (0.0515, 0.0942)
"""The paper's share of steps at which the Auditor runs (TRACE, table 1: Mixtral-8x22B and Llama-3.1-70B)."""
_EXPECTED = (0.025, 0.15)
"""Shares outside these are commented."""


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
    texts = (
        as_text(table_of(recall, columns_of(RECALL_COLUMNS, "terminal", kind="text", missing="–"))),
        "",
        as_text(table_of(adherence, columns_of(ADHERENCE_COLUMNS, "terminal", kind="text", missing="–"))),
    )
    return "\n".join([*texts, *filter(None, map(_far_off, adherence))])


def _far_off(row: AdherenceRow) -> str | None:
    """Return warnings where the gate of the audit opens far more or less often than in the paper."""
    share = row.audited.estimate
    if not row.steps or _EXPECTED[0] <= share <= _EXPECTED[1]:
        return None
    low, high = PAPER_AUDITED
    than = f"TRACE's paper has {low:.1%} to {high:.1%}"
    hint = "lower tau" if share < low else "raise tau, or read docs/methods/trace.md on the gate"
    return f"{row.contender}: the gate of the model's audit opens at {share:.1%} of steps; {than}: {hint}"


def _grade(row: AdherenceRow) -> str | None:
    return None if row.equivalence is None else f"{row.equivalence.estimate:.2f} ({row.equivalence.as_text()})"


RECALL_COLUMNS: tuple[TableColumn[RecallRow], ...] = (
    TableColumn(name="Contender", value=lambda row: row.contender, kind="text", terminal={"name": ""}),
    TableColumn(name="Type", value=lambda row: row.kind.lower(), kind="text", terminal={"name": "type"}),
    TableColumn(name="By", value=lambda row: row.matching, kind="text", terminal={"name": "by"}),
    TableColumn(name="Recall@5, micro", value=lambda row: row.micro.estimate, format=".3f", terminal={"name": "micro"}),
    TableColumn(name="95 % interval", value=lambda row: row.micro.as_text(), kind="text"),
    TableColumn(name="macro", value=lambda row: row.macro.estimate, format=".3f"),
    TableColumn(name="95 % interval", value=lambda row: row.macro.as_text(), kind="text"),
    TableColumn(name="capped", value=lambda row: row.capped, format=".3f"),
    TableColumn(name="precision", value=lambda row: row.precision, format=".3f", missing="–"),
    TableColumn(name="Steps", value=lambda row: row.steps, format=",", terminal={"name": "steps", "format": ""}),
    TableColumn(
        name="Decisions", value=lambda row: row.targets, format=",", terminal={"name": "decisions", "format": ""}
    ),
)
ADHERENCE_COLUMNS: tuple[TableColumn[AdherenceRow], ...] = (
    TableColumn(name="Contender", value=lambda row: row.contender, kind="text", terminal={"name": ""}),
    TableColumn(name="Steps", value=lambda row: row.steps, format=",", terminal={"name": "steps", "format": ""}),
    TableColumn(
        name="Cites an activated rule",
        value=lambda row: row.adherence.estimate,
        format=".0%",
        terminal={"name": "cites a rule", "format": ".1%"},
    ),
    TableColumn(name="that holds", value=lambda row: row.strict.estimate, format=".0%", terminal={"format": ".1%"}),
    TableColumn(
        name="Audited",
        value=lambda row: row.audited.estimate,
        format=".0%",
        terminal={"name": "audited", "format": ".1%"},
    ),
    TableColumn(name="Failed", value=lambda row: row.failed, terminal={"name": "failed"}),
    TableColumn(name="Flaws", value=lambda row: row.flaws or None, kind="text", terminal={"name": "flaws"}),
    TableColumn(
        name="Unchecked",
        value=lambda row: row.unchecked or None,
        help="steps with a drug or an allergy that no table knows",
        terminal={"name": "unchecked"},
    ),
    TableColumn(name="Equivalence (1 to 5)", value=_grade, kind="text", missing="–", terminal={"name": "equivalence"}),
)
