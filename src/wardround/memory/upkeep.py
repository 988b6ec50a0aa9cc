"""Upkeep of a bank: going back to an earlier revision, and looking for damage.

Everything here writes further revisions; nothing is taken out of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wardround.core import UserError
from wardround.memory.bank import Bank
from wardround.memory.graph import GraphReader
from wardround.memory.state import SERVABLE_SPLITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What going back changed: experiences given their earlier text, experiences no longer served (they are newer),
    qualities and edges set back."""

    reverted: int
    retired: int
    qualities: int
    edges: int


def undo(bank: Bank, *, to: int, reason: str) -> Undone:
    """Serve again what was served at a revision, by one transaction of further revisions; aliases stay."""
    if not 0 <= to <= bank.revision:
        raise UserError(f"revision {to} is not one of the bank's, which are at {bank.revision}")
    with bank.batch():
        before, then, now = bank.at(revision=to), bank.graph(revision=to), bank.graph()
        qualities = _differing(_qualities(then), _qualities(now))
        edges = _differing(_edges(then), _edges(now))
        changed = bank.texts_since(to)
        old = [name for name in changed if before.known(name) is not None]
        new = [name for name in changed if before.known(name) is None and bank.history(name)[-1].live]
        for name in old:
            bank.revert(name, to=to, reason=reason)
        for name in new:
            bank.retire(name, reason=reason)
        bank.go_back(to, reason=reason)
    return Undone(reverted=len(old), retired=len(new), qualities=qualities, edges=edges)


def _qualities(graph: GraphReader) -> dict[Any, Any]:
    facts: dict[str, Any] = graph.facts()
    return dict(facts["qualities"]) | {(name, task): rest for name, task, *rest in facts.get("evidence", ())}


def _edges(graph: GraphReader) -> dict[Any, Any]:
    return {(edge.source, edge.target): edge for edge in graph.every_edge()}


def _differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> int:
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


@dataclass(frozen=True, slots=True, kw_only=True)
class BankAudit:
    """What a look through a bank found. ``problems`` count what should not be; the rest is only told."""

    live: int
    retired: int
    kinds: Mapping[str, int]
    never_served: int
    duplicates: int
    problems: Mapping[str, int]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.problems.values())


def audit_bank(bank: Bank) -> BankAudit:
    """Check the file, its indexes and its edges; count duplicates and what the guards never serve.

    A damaged bank is not looked at any further: it may not even open.
    """
    problems = bank.damage()
    if any(problems.values()):
        return BankAudit(live=0, retired=0, kinds={}, never_served=0, duplicates=0, problems=problems)
    live = bank.experiences()
    kinds: dict[str, int] = {}
    texts: dict[tuple[str, ...], int] = {}
    for one in live:
        kinds[one.kind] = kinds.get(one.kind, 0) + 1
        text = (one.kind, one.task, one.condition, one.title, one.content)
        texts[text] = texts.get(text, 0) + 1
    names = {one.id for one in live}
    outside = {name for name, _, _, split in bank.origins() if split not in SERVABLE_SPLITS}
    return BankAudit(
        live=len(live),
        retired=bank.at(revision=bank.revision).size - len(live),
        kinds=dict(sorted(kinds.items())),
        never_served=len(names & outside),
        duplicates=sum(count - 1 for count in texts.values()),
        problems=problems,
    )
