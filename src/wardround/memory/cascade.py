"""Withdrawing a source, and everything that the bank made of it: experiences, their edges, qualities and weights that
its outcomes moved, names that only it gave a meaning to.

What can be computed again without the source is; the rest is retired and served no more. Everything is written as
further revisions, in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from wardround.core import UserError
from wardround.memory.bank import Bank
from wardround.memory.edges import Edge
from wardround.memory.effect import MaskingTrial
from wardround.memory.experience import Experience
from wardround.memory.sums import SumStep, sums_without
from wardround.memory.trials import TrialName, sums_of, trial_history, trial_of

_RATED = (
    "SELECT quality.number, value, step.sample FROM quality JOIN step USING (number) WHERE experience = ? ORDER BY 1"
)
_MOVED = """
SELECT DISTINCT experience FROM quality JOIN step USING (number) WHERE step.sample = ? ORDER BY experience
"""
_WEIGHED = """
SELECT edge.number, weight, step.sample FROM edge JOIN step USING (number)
WHERE source = ? AND target = ? ORDER BY edge.number
"""
_PULLED = "SELECT DISTINCT source, target FROM edge JOIN step USING (number) WHERE step.sample = ? ORDER BY 1, 2"
_TRIED = "SELECT DISTINCT experience, task FROM trial JOIN step USING (number) WHERE step.sample = ? ORDER BY 1, 2"
_PHI = """
SELECT edge.number, phi, step.sample FROM edge JOIN step USING (number)
WHERE source = ? AND target = ? ORDER BY edge.number
"""
_SAMPLES = "SELECT number, sample FROM step WHERE number IN (SELECT number FROM trial WHERE experience = ?)"
_TOUCHING = "SELECT DISTINCT source FROM edge WHERE source = ?1 OR target = ?1"
_SAID_BY = "SELECT experience FROM mention WHERE name = ?"
_ALIASES = "SELECT DISTINCT name FROM alias ORDER BY name"

WITHDRAWN = "withdrawn"
"""The feedback that says that a sample's episodes count no more for an experience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """What withdrawing a source changed: ids that are no longer served, edges taken away or computed again, qualities
    computed again, names that stand for themselves again."""

    experiences: tuple[str, ...]
    edges: int
    qualities: int
    names: int


def withdraw(bank: Bank, source: str, *, reason: str) -> Withdrawn:
    """Serve nothing any more that came of a source: an experience's id, a sample's, or a row's.

    A sample that only revised an experience counts too: what it said cannot be taken out of the text again. Raises
    UserError where the bank knows nothing of the source. What is put right is a move of the source's own, so that it
    counts for nothing either when something else is withdrawn.
    """
    with bank.batch():
        met = came_of(bank, source, bank.experiences())
        if not met and not is_known(bank, source):
            raise UserError(f"nothing in {bank.path} came of {source!r}: name an experience, a sample or a row")
        gone = {one.id for one in met}
        for name in sorted(gone):
            bank.retire(name, reason=reason)
        cut = _edges_cut(bank, gone)
        qualities, moved = _replayed(bank, source, gone)
        trials = _tried_without(bank, source, gone)
        if cut or moved or qualities or trials:
            bank.set_graph(qualities=qualities, edges=[*cut, *moved], trials=trials, reason=reason, sample=source)
        counted = {*qualities, *(name for name, _ in trials)}
        for name in sorted(counted):
            bank.add_feedback(name, WITHDRAWN, detail={"sample": source}, episode=f"withdrawn|{source}")
        names = _names_alone(bank)
        for name in names:
            bank.end_alias(name, reason=reason)
    return Withdrawn(
        experiences=tuple(sorted(gone)), edges=len(cut) + len(moved), qualities=len(counted), names=len(names)
    )


def came_of(bank: Bank, source: str, among: Iterable[Experience]) -> list[Experience]:
    """The experiences that a source had a hand in."""
    by_sample = {experience for experience, sample, _, _ in bank.origins() if sample == source}
    return [one for one in among if one.id == source or one.id in by_sample or _shows(one, source)]


def is_known(bank: Bank, source: str) -> bool:
    """Whether a source had a hand in anything, live or not."""
    if bank.holds(source) or any(sample == source for _, sample, _, _ in bank.origins()):
        return True
    return bool(bank.file.rows("SELECT 1 FROM step WHERE sample = ?", (source,)))


def _shows(experience: Experience, row: str) -> bool:
    return any(row in evidence.rows for evidence in experience.evidence)


def _edges_cut(bank: Bank, gone: Collection[str]) -> list[Edge]:
    """The live edges from and to what is gone, taken away."""
    graph = bank.graph()
    sources = {source for name in gone for (source,) in bank.file.rows(_TOUCHING, (name,))}
    live = (edge for source in sorted(sources) for edge in graph.edges(source))
    return [replace(edge, live=False) for edge in live if edge.source in gone or edge.target in gone]


def _replayed(bank: Bank, sample: str, gone: Collection[str]) -> tuple[dict[str, float | None], list[Edge]]:
    """The qualities and weights that a sample's outcomes moved, as they would be without them."""
    qualities = {
        name: _last_of(quality_steps(bank, name), sample)
        for (name,) in bank.file.rows(_MOVED, (sample,))
        if name not in gone
    }
    graph = bank.graph()
    edges = []
    for source, target in bank.file.rows(_PULLED, (sample,)):
        last = next((edge for edge in graph.edges(source) if edge.target == target), None)
        if last is None or {source, target} & set(gone):
            continue
        weight = _last_of(weight_steps(bank, source, target), sample)
        phi = sums_without(phi_steps(bank, source, target), sample)[-1].sums[0] if weight is not None else 0.0
        edges.append(replace(last, live=False) if weight is None else replace(last, weight=weight, phi=phi))
    return qualities, edges


def _tried_without(bank: Bank, sample: str, gone: Collection[str]) -> dict[TrialName, MaskingTrial]:
    """The trials in which a sample was played, as they would be without its episodes."""
    names = [(name, task) for name, task in bank.file.rows(_TRIED, (sample,)) if name not in gone]
    return {name: trial_of(sums_without(trial_steps(bank, *name), sample)[-1].sums) for name in names}


def phi_steps(bank: Bank, source: str, target: str) -> list[SumStep]:
    """Every phi of an edge, oldest first."""
    rows = bank.file.rows(_PHI, (source, target))
    return [SumStep(number=number, sums=(phi,), sample=sample) for number, phi, sample in rows]


def trial_steps(bank: Bank, experience: str, task: str) -> list[SumStep]:
    """Every state of a trial, oldest first."""
    samples = dict(bank.file.rows(_SAMPLES, (experience,)))
    history = trial_history(bank.file.connection, experience)
    return [
        SumStep(number=number, sums=sums_of(trial), sample=samples[number])
        for number, of_task, trial in history
        if of_task == task
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One value that a quality or a weight had, and the sample whose outcome moved it there; none where it was set."""

    number: int
    value: float | None
    sample: str


def quality_steps(bank: Bank, experience: str) -> list[Step]:
    """Every value of a quality, oldest first."""
    return _steps(bank.file.rows(_RATED, (experience,)))


def weight_steps(bank: Bank, source: str, target: str) -> list[Step]:
    """Every weight of an edge, oldest first."""
    return _steps(bank.file.rows(_WEIGHED, (source, target)))


def without(steps: Iterable[Step], sample: str) -> list[Step]:
    """Replay a value without the moves that a sample caused, within 0 to 1; what was set, not moved, is as it was."""
    kept: list[Step] = []
    before: float | None = None
    value: float | None = None
    for step in steps:
        if step.sample != sample:
            moved = step.sample and None not in (step.value, before, value)
            value = _clipped(value, step.value, before) if moved else step.value
            kept.append(replace(step, value=value))
        before = step.value
    return kept


def _clipped(value: float | None, after: float | None, before: float | None) -> float:
    assert value is not None
    assert after is not None
    assert before is not None
    return min(1.0, max(0.0, value + after - before))


def _last_of(steps: Iterable[Step], sample: str) -> float | None:
    kept = without(steps, sample)
    return kept[-1].value if kept else None


def _steps(rows: Iterable[tuple[int, float | None, str]]) -> list[Step]:
    return [Step(number=number, value=value, sample=sample) for number, value, sample in rows]


def _names_alone(bank: Bank) -> list[str]:
    """Names that mean another which no live experience says any more, or that none says themselves."""
    graph = bank.graph()
    live = {one.id for one in bank.experiences()}

    def is_said(name: str) -> bool:
        return any(experience in live for (experience,) in bank.file.rows(_SAID_BY, (name,)))

    meanings = {name: graph.entity(name) for (name,) in bank.file.rows(_ALIASES)}
    return [name for name, entity in meanings.items() if entity != name and not (is_said(name) and is_said(entity))]
