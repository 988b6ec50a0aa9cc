"""Cases that are told in words: a published report, an examination question. Nobody's record stands behind them.

What a run stands on is a store all the same, one without a subject, so that whoever needs a chart fails there with
one clear line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wardround.records.shards.layout import STORE_VERSION
from wardround.records.specs.spec import SourceSpec
from wardround.records.store import Store

TOLD_SOURCE = "told"
"""How the subjects of all cases told in words are called: one report is one subject, whatever benchmark asks of it."""
_SPEC = SourceSpec(
    name=TOLD_SOURCE,
    title="Cases told in words, without records",
    sha256="",
    tables={},
    dictionaries={},
    order=(),
    files={},
    sensitivity="open",
)
_MANIFEST: dict[str, Any] = {"version": STORE_VERSION, "digest": "", "tables": {}, "files": {}, "assumptions": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCaseRecord:
    """One case in words. ``subject_id`` numbers the report or the question that it is from."""

    subject_id: int
    text: str


class NoRecords(Store):
    """The store of a benchmark whose cases are told in words: no subject, no table, and so no chart."""

    def __init__(self) -> None:
        self.path = Path()
        self.spec = _SPEC
        self.manifest = _MANIFEST
        self.table_names = ()
        self.digest = ""
        self.subjects = np.empty(0, np.int64)
        self._dictionaries = {}
        self._shards = []
        self._people = {}
        self._layouts = {}
