"""Export a bank as lines of JSON, and import it into another bank: what it serves now, with its graph.

The file contains the key of the subjects' hashes, so that the same patient is still withheld in the other bank. The
file is as sensitive as the bank. Forgotten experiences are not imported again.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from wardround.core import UserError, private_file
from wardround.memory.bank import Bank
from wardround.memory.experience import Experience, Provenance
from wardround.memory.graph import edge_facts
from wardround.memory.keys import Key
from wardround.memory.outcomes import (
    CountedOutcomes,
    ExperienceTrial,
    LearningRule,
    LearntEpisode,
    counted,
    outcomes_between,
)
from wardround.memory.rows import Edge, every_edge_fact

_FORMAT = "wardround-bank-lines"
_VERSION = 1
_HANDS = "SELECT DISTINCT sample, subject, split FROM revision WHERE experience = ? ORDER BY number"
_SET = "SELECT number, experience, value FROM quality ORDER BY number"
_KEY = "SELECT encoder, text_hash, vector FROM key JOIN experience ON experience.key = key.number WHERE id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The counts of an import; ``refused`` existed already or had been forgotten."""

    experiences: int
    refused: int
    edges: int
    aliases: int


def export_bank(bank: Bank, path: Path) -> int:
    """Write what a bank serves now; return the number of experiences. UserError if the file exists."""
    if path.exists():
        raise UserError(f"{path} exists already; name another file")
    private_file(path)
    with path.open("w", encoding="utf-8") as file:
        for line in _lines(bank):
            file.write(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n")
    return len(bank)


def import_bank(bank: Bank, path: Path) -> Imported:
    """Import the file of another bank, all or nothing.

    Raises UserError if the file is no export, or if both banks have experiences and different keys of subjects: a
    patient could no longer be recognised.
    """
    header, lines = _read(path)
    with bank.batch():
        bank.adopt_subject_key(bytes.fromhex(header["subject_key"]))
        is_added_by_id = {line["experience"]["id"]: _add(bank, line) for line in lines if "experience" in line}
        new = {name for name, added in is_added_by_id.items() if added}
        edges = len({ends for facts in _together(lines) for ends in _take_in(bank, facts, new)})
        aliases = [line["alias"] for line in lines if "alias" in line]
        for name, entity in aliases:
            bank.add_alias(name, of=entity, reason="imported")
    return Imported(experiences=len(new), refused=len(is_added_by_id) - len(new), edges=edges, aliases=len(aliases))


def _together(lines: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Return the lines of the graph in order: each outcome alone, and all settings between two outcomes at once."""
    graph = (line for line in lines if line.keys() & {"quality", "edge", "outcome"})
    for is_outcome, facts in groupby(graph, key=lambda line: "outcome" in line):
        together = list(facts)
        yield from ([line] for line in together) if is_outcome else [together]


def _take_in(bank: Bank, facts: Sequence[Mapping[str, Any]], new: Set[str]) -> list[tuple[str, str]]:
    """Write a new outcome, or the settings of new experiences; return the ends of the edges."""
    if "outcome" in facts[0]:
        outcome = facts[0]["outcome"]
        if bank.learnt_at(outcome["episode"]) is None and not bank.is_withdrawn(outcome["sample"]):
            met = [ExperienceTrial(**one) for one in outcome["met"] if not bank.is_withdrawn(one["experience"])]
            bank.add_outcome(**{**outcome, "rule": LearningRule(**outcome["rule"]), "met": met})
        return []
    qualities = dict(fact["quality"] for fact in facts if "quality" in fact and fact["quality"][0] in new)
    edges = {(fact["edge"]["source"], fact["edge"]["target"]): Edge(**fact["edge"]) for fact in facts if "edge" in fact}
    fresh = [
        one for ends, one in edges.items() if set(ends) & new and bank.holds(one.source) and bank.holds(one.target)
    ]
    if qualities or fresh:
        bank.set_graph(qualities=qualities, edges=fresh, reason="imported")
    return [(one.source, one.target) for one in fresh]


def _lines(bank: Bank) -> Iterator[Mapping[str, Any]]:
    live = bank.experiences()
    names = {experience.id for experience in live}
    key = bank.file.setting("subject_key").hex()
    yield {"format": _FORMAT, "version": _VERSION, "subject_key": key, "revision": bank.revision}
    for experience in live:
        hands = [list(hand) for hand in bank.file.rows(_HANDS, (experience.id,))]
        yield {
            "experience": experience.to_json(),
            "hands": hands,
            "key": _key(bank, experience),
        }
    yield from _facts(bank, names)
    for name, entity in bank.graph().facts()["aliases"].items():
        if name != entity:
            yield {"alias": [name, entity]}


def _facts(bank: Bank, names: Set[str]) -> Iterator[Mapping[str, Any]]:
    """Return the settings and the outcomes in the order of their numbers."""
    connection, revision = bank.file.connection, bank.revision
    counts = counted(connection, revision)
    episodes = dict(bank.file.rows("SELECT number, episode FROM step WHERE episode <> ''"))
    lines: list[tuple[int, Mapping[str, Any]]] = [
        *(
            (number, {"edge": edge_facts(edge)})
            for number, edge in every_edge_fact(connection, revision)
            if {edge.source, edge.target} <= names
        ),
        *((number, {"quality": [name, value]}) for number, name, value in bank.file.rows(_SET) if name in names),
        *(
            (one.number, {"outcome": _outcome(one, counts, episodes)})
            for one in outcomes_between(connection, 0, revision)
        ),
    ]
    return (line for number, line in sorted(lines, key=lambda one: one[0]) if counts.holds(number))


def _outcome(outcome: LearntEpisode, counts: CountedOutcomes, episodes: Mapping[int, str]) -> dict[str, Any]:
    body = asdict(outcome)
    body["met"] = [asdict(trial) for trial in outcome.met if trial.experience not in counts.experiences]
    del body["number"]
    return body | {"episode": episodes[outcome.number]}


def _key(bank: Bank, experience: Experience) -> dict[str, str] | None:
    rows = bank.file.rows(_KEY, (experience.id,))
    if not rows:
        return None
    encoder, text_hash, vector = rows[0]
    return {"encoder": encoder, "text_hash": text_hash, "vector": b64encode(vector).decode()}


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}; name a file that `wardround memory export` wrote") from error
    if not lines or not isinstance(lines[0], dict) or lines[0].get("format") != _FORMAT:
        raise UserError(f"{path} is no exported bank; name a file that `wardround memory export` wrote")
    if lines[0]["version"] != _VERSION:
        raise UserError(
            f"{path} is of version {lines[0]['version']}, this wardround reads {_VERSION}: export the bank again"
        )
    return lines[0], lines[1:]


def _add(bank: Bank, line: Mapping[str, Any]) -> bool:
    """Add one experience with its contributors, unless one of them was withdrawn from this bank."""
    experience = Experience.from_json(line["experience"])
    if bank.is_withdrawn(*(sample for sample, _, _ in line["hands"])):
        return False
    line_key = line["key"]
    vector = None if line_key is None else np.frombuffer(b64decode(line_key["vector"]), "<f4")
    key = None if vector is None else Key(encoder=line_key["encoder"], vector=vector, text_hash=line_key["text_hash"])
    if not bank.add([experience], key=key, reason="imported"):
        return False
    for sample, subject, split in line["hands"]:
        if (sample, subject, split) != _own_hand(experience):
            origin = Provenance(sample=sample, subject=subject, split=split)
            bank.revise(experience.id, by=origin, reason="imported")
    return True


def _own_hand(experience: Experience) -> tuple[str, str, str]:
    origin = experience.provenance
    return origin.sample, origin.subject, origin.split
