"""Whether two stores hold the same of the people that a benchmark asks about: one hash of all their rows, and counts.

Charts are made of these rows, clocks and all, so the same samples on other rows are another benchmark. How a store is
packed (shards, compression) is no part of it. One hash of all: what a few rows hold could be guessed from theirs.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv

from wardround.core import Progress, Reporter, silent
from wardround.records import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOfPeople:
    """The hash of all rows of some people, and how many there are in each table."""

    sha256: str
    rows: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {"sha256": self.sha256, "rows": dict(self.rows)}

    def difference(self, other: RecordsOfPeople) -> str | None:
        """Say how these, here, differ from the other site's; None where every row is the same."""
        if self.sha256 == other.sha256:
            return None
        tables = sorted(self.rows.keys() | other.rows.keys())
        counts = {name: (self.rows.get(name, 0), other.rows.get(name, 0)) for name in tables}
        told = [f"{name} {there:,} rows, here {here:,}" for name, (here, there) in counts.items() if there != here]
        return f"other records of the people asked about ({', '.join(told) or 'as many rows, other cells'})"


def records_of_people(store: Store, subjects: Iterable[int], *, report: Reporter = silent) -> RecordsOfPeople:
    """Return what a store holds of some people, for comparing."""
    people, digest = sorted(set(subjects)), hashlib.sha256()
    rows = dict.fromkeys(sorted(store.table_names), 0)
    for done, subject in enumerate(people):
        report(Progress(label="records", done=done, total=len(people), unit="subjects"))
        for name in rows:
            held = store.rows(subject, name, versions=True)
            rows[name] += held.num_rows
            digest.update(f"{subject} {name}\n".encode())
            digest.update(_text_of(held))
    return RecordsOfPeople(sha256=digest.hexdigest(), rows={name: count for name, count in rows.items() if count})


def _text_of(rows: pa.RecordBatch) -> bytes:
    """The rows as CSV, in their order: the same for the same cells, whatever they are stored as."""
    text = io.BytesIO()
    pyarrow.csv.write_csv(rows, text)
    return text.getvalue()
