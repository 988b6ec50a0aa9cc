"""Upkeep of a bank: roll back, withdraw a source, forget for good, check for damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import UserError
from wardround.memory.bank import Bank
from wardround.memory.experience import Experience, utc_now
from wardround.memory.graph import GraphReader
from wardround.memory.keys import note_lengths_again
from wardround.memory.rows import mark_of
from wardround.memory.state import SERVABLE_SPLITS
from wardround.memory.words import index_all

# Upkeep of a bank: going back to an earlier revision, and looking for damage.
#
# Everything here writes further revisions; nothing is deleted from the file.


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackReport:
    """What going back changed: experiences given their earlier text, experiences no longer served (they are newer),
    qualities and edges set back."""

    reverted: int
    retired: int
    qualities: int
    edges: int


def undo(bank: Bank, *, to: int, reason: str) -> RollbackReport:
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
    return RollbackReport(reverted=len(old), retired=len(new), qualities=qualities, edges=edges)


def _qualities(graph: GraphReader) -> dict[Any, Any]:
    facts: dict[str, Any] = graph.facts()
    return dict(facts["qualities"]) | {(name, task): rest for name, task, *rest in facts.get("evidence", ())}


def _edges(graph: GraphReader) -> dict[Any, Any]:
    return {(edge.source, edge.target): edge for edge in graph.every_edge()}


def _differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> int:
    return sum(one.get(name) != other.get(name) for name in {*one, *other})


@dataclass(frozen=True, slots=True, kw_only=True)
class BankAudit:
    """The result of a check of a bank. ``problems`` counts errors; the rest is information."""

    live: int
    retired: int
    kinds: Mapping[str, int]
    never_served: int
    duplicates: int
    problems: Mapping[str, int]

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong."""
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
    for experience in live:
        kinds[experience.kind] = kinds.get(experience.kind, 0) + 1
        text = (experience.kind, experience.task, experience.condition, experience.title, experience.content)
        texts[text] = texts.get(text, 0) + 1
    names = {experience.id for experience in live}
    outside = {name for name, _, _, split in bank.origins() if split not in SERVABLE_SPLITS}
    return BankAudit(
        live=len(live),
        retired=bank.at(revision=bank.revision).size - len(live),
        kinds=dict(sorted(kinds.items())),
        never_served=len(names & outside),
        duplicates=sum(count - 1 for count in texts.values()),
        problems=problems,
    )


# Withdrawing a source, and everything that the bank made of it: experiences, their edges, qualities and weights that
# its outcomes moved, names that only it gave a meaning to.
#
# What its outcomes moved is computed again without them, and nothing of it is taken in again; experiences that it had a
# hand in are retired. Everything is written as further revisions, in one transaction.


_MET = "SELECT DISTINCT experience FROM met JOIN step USING (number) WHERE step.sample = ?"
_MENTIONED_BY = "SELECT experience FROM mention WHERE name = ?"
_ALIASES = "SELECT DISTINCT name FROM alias ORDER BY name"


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawalReport:
    """The changes of a withdrawal: ids no longer served, edges removed or recomputed, qualities recomputed, names
    restored to themselves."""

    experiences: tuple[str, ...]
    edges: int
    qualities: int
    names: int


def withdraw(bank: Bank, source: str, *, reason: str) -> WithdrawalReport:
    """Stop serving everything that came from a source: an experience's id, a sample's, or a row's.

    A sample that only revised an experience counts too: its part of the text cannot be separated. Raises UserError if
    the bank does not know the source.
    """
    with bank.batch():
        met = came_of(bank, source, bank.at(revision=bank.revision).every_experience)
        if not met and not is_known(bank, source):
            raise UserError(f"nothing in {bank.path} came of {source!r}: name an experience, a sample or a row")
        before = _standing(bank.graph())
        live = bank.liveness()
        gone = sorted(experience.id for experience in met)
        retired = [name for name in gone if live(name)]
        for name in retired:
            bank.retire(name, reason=reason)
        bank.take_out(source, gone, reason=reason)
        after = _standing(bank.graph())
        names = _names_alone(bank)
        for name in names:
            bank.end_alias(name, reason=reason)
        touched = {name for (name,) in bank.file.rows(_MET, (source,))} - set(gone)
    return WithdrawalReport(
        experiences=tuple(retired),
        edges=sum(after.get(ends) != edge for ends, edge in before.items()),
        qualities=len(touched),
        names=len(names),
    )


def came_of(bank: Bank, source: str, among: Iterable[Experience]) -> list[Experience]:
    """Return the experiences that a source contributed to."""
    by_sample = {experience for experience, sample, _, _ in bank.origins() if sample == source}
    return [one for one in among if one.id == source or one.id in by_sample or source in one.rows]


def is_known(bank: Bank, source: str) -> bool:
    """Return whether a source contributed to any experience, live or retired."""
    if bank.holds(source) or any(sample == source for _, sample, _, _ in bank.origins()):
        return True
    return bool(bank.file.rows("SELECT 1 FROM step WHERE sample = ?", (source,)))


def _standing(graph: GraphReader) -> dict[tuple[str, str], tuple[float, float]]:
    """Return every edge by its ends, with its weight and the update by outcomes."""
    return {(edge.source, edge.target): (edge.weight, edge.phi) for edge in graph.every_edge()}


def _names_alone(bank: Bank) -> list[str]:
    """Names that mean another which no live experience says any more, or that none says themselves."""
    graph = bank.graph()
    live = {one.id for one in bank.experiences()}

    def is_mentioned(name: str) -> bool:
        return any(experience in live for (experience,) in bank.file.rows(_MENTIONED_BY, (name,)))

    meanings = {name: graph.entity(name) for (name,) in bank.file.rows(_ALIASES)}
    return [
        name
        for name, entity in meanings.items()
        if entity != name and not (is_mentioned(name) and is_mentioned(entity))
    ]


# Forgetting a source for good: the one operation that cannot be undone.
#
# What came of it is withdrawn first; then its rows, texts, names, vectors and outcomes are deleted, the word index is
# made anew, the file is rebuilt and the log beside it emptied. Everything else is computed from what is left. What
# stays is a tombstone: a keyed hash that recognises the source, keeps it out, and reveals nothing.


REBUILD = "rebuild"
"""The setting that exists from the deletion until the file is rebuilt."""
_GUARDS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
_BEGUN = f"INSERT OR REPLACE INTO setting VALUES ('{REBUILD}', 1)"
_OF_AN_EXPERIENCE = (
    "DELETE FROM entry WHERE experience = ?1",
    "DELETE FROM revision WHERE experience = ?1",
    "DELETE FROM feedback WHERE experience = ?1",
    "DELETE FROM quality WHERE experience = ?1",
    "DELETE FROM edge WHERE source = ?1 OR target = ?1",
    "DELETE FROM met WHERE experience = ?1",
    "DELETE FROM mention WHERE experience = ?1",
    "DELETE FROM experience WHERE id = ?1",
)
_CAUSED = (
    "DELETE FROM quality WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM edge WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM met WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM outcome WHERE number IN (SELECT number FROM step WHERE sample = ?1)",
    "DELETE FROM withdrawal WHERE source = ?1 OR experience = ?1",
)
_MENTIONING = (
    "UPDATE step SET reason = 'forgotten', sample = '', episode = '' WHERE sample = ?1 OR names(reason, ?1)",
    "UPDATE step SET episode = '' WHERE names(episode, ?1)",
    "DELETE FROM snapshot WHERE names(name, ?1)",
    "UPDATE revision SET reason = 'forgotten' WHERE names(reason, ?1)",
    "DELETE FROM feedback WHERE names(episode, ?1) OR names(detail, ?1)",
)
_LEFT_OVER = (
    "DELETE FROM key WHERE number NOT IN (SELECT key FROM experience WHERE key IS NOT NULL)",
    "DELETE FROM alias WHERE name NOT IN (SELECT name FROM mention) OR entity NOT IN (SELECT name FROM mention)",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReport:
    """What was forgotten: how many experiences, and the ids and vectors' texts (hashes) to look for elsewhere."""

    experiences: tuple[str, ...]
    text_hashes: tuple[str, ...]


def forget(bank: Bank, source: str, *, reason: str) -> ForgetReport:
    """Forget an experience, a sample or a row, and everything that came of it. ``reason`` stays in the file.

    Cut short by a kill, it is finished by asking again. Raises UserError where the bank knows nothing of the source,
    and where another process still reads an earlier state of the file.
    """
    if source in reason:
        raise UserError("the reason stays in the file: do not name in it what is to be forgotten")
    gone = {experience.id for experience in came_of(bank, source, bank.at(revision=bank.revision).every_experience)}
    known = bool(gone) or is_known(bank, source)
    if not known and bank.file.setting(REBUILD) is None:
        raise UserError(f"nothing in {bank.path} came of {source!r}: name an experience, a sample or a row")
    query = "SELECT key.text_hash FROM experience JOIN key ON key.number = experience.key WHERE id = ?"
    hashes = tuple(sorted({text for name in gone for (text,) in bank.file.rows(query, (name,)) if text}))
    if known:
        with bank.batch():
            for name in (source, *sorted(gone)):
                if is_known(bank, name) or name == source:
                    withdraw(bank, name, reason="forgotten")
            _erase(bank, source, gone)
            rows = [(mark_of(bank.file, name), reason, utc_now()) for name in (source, *sorted(gone))]
            bank.file.connection.executemany("INSERT OR IGNORE INTO tombstone VALUES (?, ?, ?)", rows)
    bank.rebuild()
    return ForgetReport(experiences=tuple(sorted(gone)), text_hashes=hashes)


def _erase(bank: Bank, source: str, gone: Collection[str]) -> None:
    """Delete all rows of forgotten sources, with the guards of append-only tables lifted meanwhile."""
    connection = bank.file.connection
    guards = connection.execute(_GUARDS).fetchall()
    for name, _ in guards:
        connection.execute(f'DROP TRIGGER "{name}"')
    _each(connection, _CAUSED, (source, *sorted(gone)))
    _each(connection, _OF_AN_EXPERIENCE, sorted(gone))
    _each(connection, _MENTIONING, (source, *sorted(gone)))
    for statement in _LEFT_OVER:
        connection.execute(statement)
    index_all(connection)
    note_lengths_again(bank.file)
    for _, text in guards:
        connection.execute(text)
    connection.execute(_BEGUN)


def _each(connection: sqlite3.Connection, statements: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        for statement in statements:
            connection.execute(statement, (name,))
