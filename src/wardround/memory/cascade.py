"""Withdrawing a source, and everything that the bank made of it: experiences, their edges, qualities and weights that
its outcomes moved, names that only it gave a meaning to.

What its outcomes moved is computed again without them, and nothing of it is taken in again; experiences that it had a
hand in are retired. Everything is written as further revisions, in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wardround.core import UserError
from wardround.memory.bank import Bank
from wardround.memory.experience import Experience
from wardround.memory.graph import GraphReader

_MET = "SELECT DISTINCT experience FROM met JOIN step USING (number) WHERE step.sample = ?"
_SAID_BY = "SELECT experience FROM mention WHERE name = ?"
_ALIASES = "SELECT DISTINCT name FROM alias ORDER BY name"


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
    UserError where the bank knows nothing of the source.
    """
    with bank.batch():
        met = came_of(bank, source, bank.at(revision=bank.revision).every_experience)
        if not met and not is_known(bank, source):
            raise UserError(f"nothing in {bank.path} came of {source!r}: name an experience, a sample or a row")
        before = _standing(bank.graph())
        live = bank.liveness()
        gone = sorted(one.id for one in met)
        retired = [name for name in gone if live(name)]
        for name in retired:
            bank.retire(name, reason=reason)
        bank.take_out(source, gone, reason=reason)
        after = _standing(bank.graph())
        names = _names_alone(bank)
        for name in names:
            bank.end_alias(name, reason=reason)
        touched = {name for (name,) in bank.file.rows(_MET, (source,))} - set(gone)
    return Withdrawn(
        experiences=tuple(retired),
        edges=sum(after.get(ends) != edge for ends, edge in before.items()),
        qualities=len(touched),
        names=len(names),
    )


def came_of(bank: Bank, source: str, among: Iterable[Experience]) -> list[Experience]:
    """The experiences that a source had a hand in."""
    by_sample = {experience for experience, sample, _, _ in bank.origins() if sample == source}
    return [one for one in among if one.id == source or one.id in by_sample or source in one.rows]


def is_known(bank: Bank, source: str) -> bool:
    """Whether a source had a hand in anything, live or not."""
    if bank.holds(source) or any(sample == source for _, sample, _, _ in bank.origins()):
        return True
    return bool(bank.file.rows("SELECT 1 FROM step WHERE sample = ?", (source,)))


def _standing(graph: GraphReader) -> dict[tuple[str, str], tuple[float, float]]:
    """Every edge by its ends, with its weight and what outcomes moved it by."""
    return {(edge.source, edge.target): (edge.weight, edge.phi) for edge in graph.every_edge()}


def _names_alone(bank: Bank) -> list[str]:
    """Names that mean another which no live experience says any more, or that none says themselves."""
    graph = bank.graph()
    live = {one.id for one in bank.experiences()}

    def is_said(name: str) -> bool:
        return any(experience in live for (experience,) in bank.file.rows(_SAID_BY, (name,)))

    meanings = {name: graph.entity(name) for (name,) in bank.file.rows(_ALIASES)}
    return [name for name, entity in meanings.items() if entity != name and not (is_said(name) and is_said(entity))]
