"""Stays that are predicted step by step: Recall@5 by type, and the tables of recall, of an agent's rules and audits.

Recall@5 of one step and type: the share of decisions that are among the first five predictions; a step without a
decision of a type does not count for it (TRACE, section 5). *Micro* pools all decisions of all stays, *macro* is the
mean over stays of the mean over steps. Table 2 of the paper names no aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, Literal

import numpy as np

from wardround.clinical.codes import LabelSet
from wardround.clinical.vocabulary import clinical_name, drug_name, lab_panel, main_class
from wardround.core.table import TableColumn, as_text, columns_of, table_of
from wardround.tasks.answers import StepAction, StepActions
from wardround.tasks.scoring.bootstrap import Interval, cluster_bootstrap, mean_of_rows
from wardround.tasks.scoring.episodes import EpisodeScore, StepCounts
from wardround.tasks.scoring.scorer import SCORERS, Scorer

MOST = 5
TYPES = ("MEDICATIONS", "LABS", "PROCEDURES")
MEDICATIONS, LABS, PROCEDURES = TYPES
RECALL = f"recall@{MOST}"
Matching = Literal["name", "class"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHits:
    """One step and type: ``hits`` of ``targets`` decisions were among the first five ``predicted``."""

    step: int
    kind: str
    hits: int
    targets: int
    predicted: int


def step_hits(answer: Iterable[str] | None, target: Iterable[str], matching: Matching = "name") -> list[StepHits]:
    """Return the hits at every step and type with a decision, in order.

    ``class``: drugs are compared by their class, tests by their panel, others by name; two of one class are one
    decision.
    """
    targets, predictions = _by_step(target), _by_step(answer or ())
    results = []
    for (step, kind), names in sorted(targets.items(), key=lambda target: (target[0][0] or 0, target[0][1])):
        first = [*predictions.get((step, kind), ()), *predictions.get((None, kind), ())][:MOST]
        target_keys, predicted_keys = (
            {_key(kind, name, matching) for name in names_to_key} for names_to_key in (names, first)
        )
        hits = len(target_keys & predicted_keys)
        results.append(
            StepHits(step=step or 0, kind=kind, hits=hits, targets=len(target_keys), predicted=len(predicted_keys))
        )
    return results


def missed_actions(answer: Iterable[str] | None, target: Iterable[str]) -> list[StepAction]:
    """Return the decisions that are not among the first five predictions of their type and step, in order."""
    predictions = _by_step(answer or ())
    missed = []
    for action in map(StepAction.parse, target):
        first = predictions.get((action.step, action.kind), ())[:MOST]
        if _key(action.kind, action.name, "name") not in {_key(action.kind, name, "name") for name in first}:
            missed.append(action)
    return missed


def _by_step(actions: Iterable[str]) -> dict[tuple[int | None, str], list[str]]:
    by_step: dict[tuple[int | None, str], list[str]] = {}
    for action in map(StepAction.parse, actions):
        step_names = by_step.setdefault((action.step, action.kind), [])
        if action.name not in step_names:
            step_names.append(action.name)
    return by_step


def _key(kind: str, name: str, matching: Matching) -> str:
    """Return the form in which an action is compared."""
    if kind == MEDICATIONS:
        by_class = main_class(name) if matching == "class" else None
        return by_class or drug_name(name)
    panel = lab_panel(name) if matching == "class" and kind == LABS else None
    return panel or clinical_name(name)


class StepActionsScorer(Scorer):
    """Recall@5 of a stay, with the decisions of all types pooled."""

    metric: ClassVar[str] = RECALL
    keeps_target: ClassVar[bool] = True
    rows_name_answers: ClassVar[bool] = False

    def figures(
        self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None
    ) -> Mapping[str, float]:
        hits = step_hits(answer, target)
        return {RECALL: sum(hit.hits for hit in hits) / sum(hit.targets for hit in hits)}


SCORERS.add(StepActions.name, StepActionsScorer())


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRow:
    """Recall@5 of one contender, type and matching. ``steps``: those with a decision of the type.

    ``capped``: hits divided by what five predictions could hit (a draw of 20 tests counts five). ``precision``: hits
    divided by predictions at those steps, None without predictions. Both are pooled.
    """

    contender: str
    kind: str
    matching: Matching
    micro: Interval
    macro: Interval
    steps: int
    targets: int
    stays: int
    capped: float
    precision: float | None


ALL_TYPES = "all"


def recall_rows(
    contender: str, answers: Sequence[tuple[Iterable[str] | None, Iterable[str], int]], *, seed: int = 0
) -> list[RecallRow]:
    """Return a row per type and matching, and one over all types.

    ``answers``: (answer, target, person) by stay.
    """
    rows = []
    for matching in ("name", "class"):
        hits = [(step_hits(answer, target, matching), person) for answer, target, person in answers]
        for kind in (*TYPES, ALL_TYPES):
            hits_of_kind = [
                ([one for one in step_hits_ if kind in (one.kind, ALL_TYPES)], person) for step_hits_, person in hits
            ]
            row = _row(contender, kind, matching, [one for one in hits_of_kind if one[0]], seed)
            if row is not None and (matching == "name" or kind != PROCEDURES):
                rows.append(row)
    return rows


def _row(
    contender: str, kind: str, matching: Matching, stays: list[tuple[list[StepHits], int]], seed: int
) -> RecallRow | None:
    if not stays:
        return None
    people = [person for _, person in stays]
    all_hits = [hit for stay_hits, _ in stays for hit in stay_hits]
    hits, predicted = sum(one.hits for one in all_hits), sum(one.predicted for one in all_hits)
    pooled = np.array(
        [[sum(hit.hits for hit in stay_hits), sum(hit.targets for hit in stay_hits)] for stay_hits, _ in stays], float
    )
    means = np.array([[fmean(hit.hits / hit.targets for hit in stay_hits), 1.0] for stay_hits, _ in stays])
    return RecallRow(
        contender=contender,
        kind=kind,
        matching=matching,
        micro=cluster_bootstrap(pooled, people, mean_of_rows, seed=seed),
        macro=cluster_bootstrap(means, people, mean_of_rows, seed=seed),
        steps=len(all_hits),
        targets=int(pooled[:, 1].sum()),
        stays=len(stays),
        capped=hits / sum(min(one.targets, MOST) for one in all_hits),
        precision=hits / predicted if predicted else None,
    )


# The tables of stays: Recall@5 by type of every contender, and what each did with its rules and its audits.


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
