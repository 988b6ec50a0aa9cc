"""What a store keeps of how it was made, beside its rows: enough to take from it what a newer release has unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround import __version__
from wardround.core import UserError, write_atomically
from wardround.records.ingest.marks import RAW, Marks, mark_files
from wardround.records.ingest.plan import Plan
from wardround.records.shards.checksums import map_checked
from wardround.records.shards.layout import ORIGIN_NOTES

PEOPLE_OF, SAME_PERSON = "people_of", "same_person"
"""The keys of a data set's ``metadata/dataset.json`` under which our own exports say whose numbers its subjects have,
and which of these are one person: subject to the person's number, where that is another."""


def people_of(folders: Sequence[Path]) -> dict[str, Any]:
    """Return what exports of ours in some folders say of their people; nothing of anybody else's data sets.

    UserError: the folders have people of several sources.
    """
    sources: dict[str, None] = {}
    same: dict[str, int] = {}
    for path in (folder / "metadata" / "dataset.json" for folder in folders):
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError):
            continue  # another writer's: the standard asks for nothing in it
        if isinstance(said, dict) and isinstance(said.get(PEOPLE_OF), str):
            sources[said[PEOPLE_OF]] = None
            same |= said.get(SAME_PERSON) or {}
    if len(sources) > 1:
        raise UserError(f"the folders were exported of several sources ({', '.join(sources)}): make a store of each")
    return {PEOPLE_OF: next(iter(sources), None), SAME_PERSON: same}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The notes of a finished ingest. ``marks``: of the files by table or dictionary, and of the raw ones where tables
    were made flat of them; ``tables``, ``shards``, ``flattened``: what was noted of these parts."""

    wardround: str
    marks: Mapping[str, Marks]
    tables: Mapping[str, Any]
    shards: Sequence[Any]
    flattened: Any

    @classmethod
    def read(cls, store: Path, manifest: Mapping[str, Any]) -> Origin:
        """Return what a store keeps. RecordError: it is not what was written."""
        return cls(**json.loads(bytes(map_checked(store / ORIGIN_NOTES, manifest["files"][ORIGIN_NOTES]))))


def keep_origin(plan: Plan, tables: Sequence[str]) -> None:
    """Write the notes of an ingest whose parts are done into its store."""
    named = [*tables, *plan.files.dictionaries, *([RAW] if plan.files.raw else [])]
    body = {
        "wardround": __version__,
        "marks": {name: mark_files(plan, name) for name in named},
        "tables": {name: plan.noted(f"table-{name}") for name in tables},
        "shards": [plan.noted(f"shard-{shard:05d}") for shard in range(plan.shards)],
        "flattened": plan.noted("flatten"),
    }
    write_atomically(plan.store / ORIGIN_NOTES, json.dumps(body), durable=False)
