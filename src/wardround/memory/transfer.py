"""A bank as lines of JSON, to be looked at, kept or taken into another bank: what it serves now, with its graph.

The file holds the key under which subjects are written down, so that the same patient is still withheld from there:
it is as sensitive as the bank. What was forgotten is not taken in again.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wardround.core import UserError, private_file
from wardround.memory.bank import Bank
from wardround.memory.edges import Edge
from wardround.memory.experience import Experience, Provenance
from wardround.memory.key import Key
from wardround.memory.trials import sums_of, trial_of

_FORMAT = "wardround-bank-lines"
_VERSION = 1
_HANDS = "SELECT DISTINCT sample, subject, split FROM revision WHERE experience = ? ORDER BY number"
_KEY = "SELECT encoder, text_hash, vector FROM key JOIN experience ON experience.key = key.number WHERE id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How much came in; ``refused`` were there already or had been forgotten."""

    experiences: int
    refused: int
    edges: int
    aliases: int


def export_bank(bank: Bank, path: Path) -> int:
    """Write what a bank serves now; returns the number of experiences. UserError where the file is there already."""
    if path.exists():
        raise UserError(f"{path} is there already; name another file")
    private_file(path)
    with path.open("w", encoding="utf-8") as file:
        for line in _lines(bank):
            file.write(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n")
    return len(bank)


def import_bank(bank: Bank, path: Path) -> Imported:
    """Take in what another bank exported, all or nothing.

    Raises UserError where the file is none, or where both banks hold experiences under different keys of subjects: a
    patient could not be recognised any more.
    """
    header, lines = _read(path)
    with bank.batch():
        bank.adopt_subject_key(bytes.fromhex(header["subject_key"]))
        taken = {line["experience"]["id"]: _add(bank, line) for line in lines if "experience" in line}
        new = {name for name, added in taken.items() if added}
        qualities = {
            line["experience"]["id"]: line["quality"]
            for line in lines
            if "experience" in line and line["experience"]["id"] in new and line["quality"] is not None
        }
        trials = {
            (line["experience"]["id"], task): trial_of(sums)
            for line in lines
            if "experience" in line and line["experience"]["id"] in new
            for task, *sums in line.get("trials", ())
        }
        edges = [Edge(**line["edge"]) for line in lines if "edge" in line]
        fresh = [one for one in edges if {one.source, one.target} & new and _both(bank, one)]
        if qualities or fresh or trials:
            bank.set_graph(qualities=qualities, edges=fresh, trials=trials, reason="imported")
        aliases = [line["alias"] for line in lines if "alias" in line]
        for name, entity in aliases:
            bank.add_alias(name, of=entity, reason="imported")
    return Imported(experiences=len(new), refused=len(taken) - len(new), edges=len(fresh), aliases=len(aliases))


def _lines(bank: Bank) -> Iterator[Mapping[str, Any]]:
    graph = bank.graph()
    facts = graph.facts()
    live = bank.experiences()
    names = {one.id for one in live}
    key = bank.file.setting("subject_key").hex()
    yield {"format": _FORMAT, "version": _VERSION, "subject_key": key, "revision": bank.revision}
    for one in live:
        hands = [list(hand) for hand in bank.file.rows(_HANDS, (one.id,))]
        yield {
            "experience": one.to_json(),
            "hands": hands,
            "key": _key(bank, one),
            "quality": facts["qualities"].get(one.id),
            "trials": [[task, *sums_of(trial)] for task, trial in graph.trials(one.id).items()],
        }
    for edge in facts["edges"]:
        if edge["source"] in names and edge["target"] in names:
            yield {"edge": edge}
    for name, entity in facts["aliases"].items():
        if name != entity:
            yield {"alias": [name, entity]}


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
    if lines[0]["version"] > _VERSION:
        raise UserError(f"{path} was written by a newer wardround; upgrade this one")
    return lines[0], lines[1:]


def _add(bank: Bank, line: Mapping[str, Any]) -> bool:
    """Add one experience, with everybody who had a hand in it."""
    experience = Experience.from_json(line["experience"])
    held = line["key"]
    vector = None if held is None else np.frombuffer(b64decode(held["vector"]), "<f4")
    key = None if vector is None else Key(encoder=held["encoder"], vector=vector, text_hash=held["text_hash"])
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


def _both(bank: Bank, edge: Edge) -> bool:
    return bank.holds(edge.source) and bank.holds(edge.target)
