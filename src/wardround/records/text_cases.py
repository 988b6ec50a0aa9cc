"""Text cases: published reports and examination questions without a patient's record.

Their runs still have a store, one without subjects, so that code that needs a chart fails with one clear line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wardround.records.shards.layout import STORE_VERSION
from wardround.records.specs.spec import SourceSpec
from wardround.records.store import Store

TEXT_CASE_SOURCE = "text-cases"
"""Source name of all text cases: one report is one subject in every benchmark."""
_SPEC = SourceSpec(
    name=TEXT_CASE_SOURCE,
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
    """One text case. ``subject_id``: number of its report or question."""

    subject_id: int
    text: str


class NoRecords(Store):
    """The store of a benchmark of text cases: without subjects, tables or charts."""

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
