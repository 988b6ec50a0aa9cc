"""Score stays that are predicted step by step: Recall@5 by type, and the agent's rules and audits.

Recall@5 of one step and type: the share of decisions that are among the first five predictions; a step without a
decision of a type does not count for it (TRACE, section 5). *Micro* pools all decisions of all stays, *macro* is the
mean over stays of the mean over steps. Table 2 of the paper names no aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, Literal, TypedDict

import numpy as np

from wardround.clinical.codes import LabelSet
from wardround.clinical.vocabulary import clinical_name, drug_name, lab_panel, main_class
from wardround.log import Played
from wardround.tasks.answers import StepAction, StepActions
from wardround.tasks.scoring.bootstrap import Interval, cluster_bootstrap, mean_of_rows
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
class StepCounts:
    """Counts of an agent's notes over the steps of a stay.

    ``cited``: a prediction names an activated rule (adherence as the paper prints it). ``strict``: and the rule's
    trigger held at that step. ``audited``: the Auditor ran. ``failed``: it found something, by flaw. ``unchecked``:
    something passed that could not be checked. ``grades``: grades of its plans by a judge, 1 to 5.
    """

    steps: int
    activated: int
    cited: int
    strict: int
    audited: int
    failed: int
    flaws: Mapping[str, int]
    unchecked: int = 0
    grades: Sequence[int] = ()


def step_counts(trajectory: Played) -> StepCounts | None:
    """Return the counts of a stay's notes; None for an episode without steps."""
    notes = [note.detail for note in trajectory.notes if note.kind == "step"]
    if not notes:
        return None
    audits = [note.get("audit", {}) for note in notes]
    objections = [one["flaw"] for audit in audits for one in audit.get("objections", ())]
    return StepCounts(
        steps=len(notes),
        activated=sum(bool(note.get("read")) for note in notes),
        cited=sum(bool(_cited(note) & set(note.get("read", ()))) for note in notes),
        strict=sum(bool(_cited(note) & set(note.get("held", ()))) for note in notes),
        audited=sum(bool(audit.get("fired")) for audit in audits),
        failed=sum(bool(audit.get("objections")) for audit in audits),
        flaws={flaw: objections.count(flaw) for flaw in sorted(set(objections))},
        unchecked=sum(bool(audit.get("unchecked")) for audit in audits),
    )


def _cited(note: Mapping[str, Any]) -> set[str]:
    return {one for action in note.get("actions", ()) for one in action.get("because", ())} | set(
        note.get("citations", ())
    )


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
        steps=sum(len(stay_hits) for stay_hits, _ in stays),
        targets=int(pooled[:, 1].sum()),
        stays=len(stays),
        **_pooled_shares([hit for stay_hits, _ in stays for hit in stay_hits]),
    )


class _PooledShares(TypedDict):
    capped: float
    precision: float | None


def _pooled_shares(step_hits_: Sequence[StepHits]) -> _PooledShares:
    hits, predicted = sum(one.hits for one in step_hits_), sum(one.predicted for one in step_hits_)
    return {
        "capped": hits / sum(min(one.targets, MOST) for one in step_hits_),
        "precision": hits / predicted if predicted else None,
    }
