"""Stays played by steps: Recall@5 of each type, and what an agent noted of its rules and its audits.

Recall@5 of one step and type: the share of what was decided that is among the first five that were predicted; a step
without a decision of a type does not count for it (TRACE, section 5). *Micro* pools all decisions of all stays, *macro*
is the mean over stays of the mean over steps. Table 2 of the paper names no aggregate.
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
    """One step and type: of ``targets`` decisions so many were ``hits`` among the first five ``predicted``."""

    step: int
    kind: str
    hits: int
    targets: int
    predicted: int


def step_hits(answer: Iterable[str] | None, target: Iterable[str], matching: Matching = "name") -> list[StepHits]:
    """Return what was hit at every step and type that has a decision, in order.

    ``class``: drugs stand for the class they are counted under, tests for the panel they are ordered with, and what has
    none for itself; two of one class are one decision.
    """
    wanted, said = _by_step(target), _by_step(answer or ())
    found = []
    for (step, kind), names in sorted(wanted.items(), key=lambda one: (one[0][0] or 0, one[0][1])):
        first = [*said.get((step, kind), ()), *said.get((None, kind), ())][:MOST]
        decided, given = ({_key(kind, name, matching) for name in some} for some in (names, first))
        hits = len(decided & given)
        found.append(StepHits(step=step or 0, kind=kind, hits=hits, targets=len(decided), predicted=len(given)))
    return found


def missed_actions(answer: Iterable[str] | None, target: Iterable[str]) -> list[StepAction]:
    """Return the decisions that are not among the first five said of their type at their step, in order."""
    said = _by_step(answer or ())
    found = []
    for action in map(StepAction.parse, target):
        first = said.get((action.step, action.kind), ())[:MOST]
        if _key(action.kind, action.name, "name") not in {_key(action.kind, name, "name") for name in first}:
            found.append(action)
    return found


def _by_step(actions: Iterable[str]) -> dict[tuple[int | None, str], list[str]]:
    found: dict[tuple[int | None, str], list[str]] = {}
    for action in map(StepAction.parse, actions):
        held = found.setdefault((action.step, action.kind), [])
        if action.name not in held:
            held.append(action.name)
    return found


def _key(kind: str, name: str, matching: Matching) -> str:
    """The form in which an action is compared."""
    if kind == MEDICATIONS:
        by_class = main_class(name) if matching == "class" else None
        return by_class or drug_name(name)
    panel = lab_panel(name) if matching == "class" and kind == LABS else None
    return panel or clinical_name(name)


class StepActionsScorer(Scorer):
    """Recall@5 of a stay: its decisions of all types pooled."""

    metric: ClassVar[str] = RECALL
    keeps_target: ClassVar[bool] = True
    rows_name_answers: ClassVar[bool] = False

    def figures(
        self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None
    ) -> Mapping[str, float]:
        hits = step_hits(answer, target)
        return {RECALL: sum(one.hits for one in hits) / sum(one.targets for one in hits)}


SCORERS.add(StepActions.name, StepActionsScorer())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """What an agent noted while it played a stay, by steps.

    ``cited``: a prediction names a rule that was activated (adherence as the paper prints it); ``strict``: and the
    rule's trigger held at that step; ``audited``: the Auditor looked; ``failed``: it found something, by flaw;
    ``unchecked``: something passed that nobody could check; ``grades``: of its plans by a judge, 1 to 5, where one was
    asked.
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
    """Return what a stay's notes say; None of an episode that was played by turns."""
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
    """Recall@5 of one contender, type and matching. ``steps`` are those with a decision of the type.

    ``capped``: hits over what five predictions could hit, where a draw of 20 tests counts five; ``precision``: over
    what was predicted at those steps, None where nothing was. Both are pooled.
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
    """Return a row per type and matching, and one over all types. ``answers``: (answer, target, person) by stay."""
    rows = []
    for matching in ("name", "class"):
        hits = [(step_hits(answer, target, matching), person) for answer, target, person in answers]
        for kind in (*TYPES, ALL_TYPES):
            of_kind = [([one for one in some if kind in (one.kind, ALL_TYPES)], person) for some, person in hits]
            row = _row(contender, kind, matching, [one for one in of_kind if one[0]], seed)
            if row is not None and (matching == "name" or kind != PROCEDURES):
                rows.append(row)
    return rows


def _row(
    contender: str, kind: str, matching: Matching, stays: list[tuple[list[StepHits], int]], seed: int
) -> RecallRow | None:
    if not stays:
        return None
    people = [person for _, person in stays]
    pooled = np.array([[sum(o.hits for o in some), sum(o.targets for o in some)] for some, _ in stays], float)
    means = np.array([[fmean(o.hits / o.targets for o in some), 1.0] for some, _ in stays])
    return RecallRow(
        contender=contender,
        kind=kind,
        matching=matching,
        micro=cluster_bootstrap(pooled, people, mean_of_rows, seed=seed),
        macro=cluster_bootstrap(means, people, mean_of_rows, seed=seed),
        steps=sum(len(some) for some, _ in stays),
        targets=int(pooled[:, 1].sum()),
        stays=len(stays),
        **_pooled_shares([one for some, _ in stays for one in some]),
    )


class _PooledShares(TypedDict):
    capped: float
    precision: float | None


def _pooled_shares(found: Sequence[StepHits]) -> _PooledShares:
    hits, said = sum(one.hits for one in found), sum(one.predicted for one in found)
    return {
        "capped": hits / sum(min(one.targets, MOST) for one in found),
        "precision": hits / said if said else None,
    }
