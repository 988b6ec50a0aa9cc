"""Event columns made of literal events, and an encoder whose likenesses are chosen by the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from wardround.core import to_microseconds
from wardround.records import EventColumns
from wardround.records.rules.language import ALWAYS_TIME
from wardround.tools.retrieval import Vectors

DAY_ZERO = datetime(2100, 1, 1)


def day(number: float) -> datetime:
    """A moment, in days after day zero."""
    return DAY_ZERO + timedelta(days=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One event; ``time`` None is a static row."""

    name: str
    time: datetime | None = None
    value: float = float("nan")
    text: str | None = None
    unit: str | None = None
    kind: str = "lab"
    code: str | None = None


def history(rows: Sequence[Row], *, classes: Sequence[tuple[str, str]] = ()) -> EventColumns:
    """Return rows as event columns, in the order of a chart; row ids number the rows as given. ``classes``: kinds and
    names that a source's spec calls no more than classes."""
    times = [ALWAYS_TIME if row.time is None else to_microseconds(row.time) for row in rows]
    order = sorted(range(len(rows)), key=lambda place: times[place])
    ordered = [rows[place] for place in order]
    concepts = list(dict.fromkeys((row.kind, row.name, row.code or row.name) for row in ordered))
    return EventColumns(
        time=np.array([times[place] for place in order], np.int64),
        concept=np.array([concepts.index((row.kind, row.name, row.code or row.name)) for row in ordered], np.int64),
        numeric_value=np.array([row.value for row in ordered], np.float64),
        table=np.zeros(len(rows), np.int64),
        row=np.array(order, np.int64),
        codes=tuple(code for _, _, code in concepts),
        descriptions=tuple(name for _, name, _ in concepts),
        kinds=tuple(kind for kind, _, _ in concepts),
        class_only=tuple((kind, name) in classes for kind, name, _ in concepts),
        table_names=("events",),
        text_array=pa.array([row.text for row in ordered], pa.string()),
        unit_array=pa.array([row.unit for row in ordered], pa.string()),
        row_id_array=pa.array([f"events:{place}" for place in order], pa.string()),
    )


class ChosenEncoder:
    """The query is (1, 0, 0); a text that holds a chosen word has the cosine chosen for it, any other has 0."""

    name = identity = "chosen"
    dimensions = 3
    max_tokens = None

    def __init__(self, cosines: Mapping[str, float]) -> None:
        self.cosines = cosines

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = [self._row(text) for text in texts]
        return np.array(rows, np.float32).reshape(len(rows), 3)

    def _row(self, text: str) -> tuple[float, float, float]:
        if text == "query":
            return 1.0, 0.0, 0.0
        cosine = next((cosine for word, cosine in self.cosines.items() if word in text), 0.0)
        return cosine, (1 - cosine**2) ** 0.5, 0.0
