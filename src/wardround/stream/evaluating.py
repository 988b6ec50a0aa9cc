"""What rows of the source's files come to as events, by the very rules with which ingest makes a store of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from wardround.bundles.reading import gathered, table_events
from wardround.records.ingest.clocks import ShardClocks
from wardround.records.ingest.finalise import dated_rows
from wardround.records.pieces import StoredTable
from wardround.records.shards.layout import GROUP
from wardround.records.shards.row_ids import numbered_ids
from wardround.records.shards.table_layout import table_layout
from wardround.stream.reading import taken, timely_events
from wardround.stream.source_rows import SourceRows, StreamedRow, batch_of
from wardround.stream.source_rules import SourceRules
from wardround.stream.taken import TakenEvents

RowEvents = dict[tuple[int, str], TakenEvents]
"""By subject and name of a row all that is ever known of it, however far ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowClocks:
    """Evaluates rows together with the rows of their subjects to which the rules of the source look."""

    rules: SourceRules
    rows: SourceRows

    def events(self, table: str, rows: Sequence[StreamedRow]) -> RowEvents:
        """Return the events of rows of one table; each row, and each group that collapses, is among them."""
        spec, played = self.rules.spec.tables[table], self.rules.played[table]
        batch = batch_of(spec, rows)
        batch = batch.select([name for name in batch.schema.names if not self._is_labelled(table, name)])
        ids = [row.name for row in rows for _ in row.versions]
        subjects = np.array([row.subject for row in rows for _ in row.versions], np.int64)
        dated = dated_rows(spec, batch, self._clocks({row.subject for row in rows}))
        stored = self.rules.labels.joined(spec, dated.stored(batch, pa.array(ids, pa.string())))
        layout = table_layout(spec, batch.schema.names, self.rules.labels.dictionaries)
        order = np.argsort(subjects, kind="stable")
        piece = StoredTable(layout=layout, subject=subjects[order], stored=stored.take(pa.array(order)))
        found: RowEvents = {(row.subject, row.name): [] for row in rows}
        if GROUP in stored.schema.names:
            groups = numbered_ids(table, stored.column(GROUP)).to_pylist()
            found |= {(subject, group): [] for subject, group in zip(subjects.tolist(), groups, strict=True)}
        parts = list(table_events(piece, played))
        events = timely_events(gathered(parts))
        for subject, pair in zip(events.subject.tolist(), taken(events), strict=True):
            found[subject, pair[0].row_id].append(pair)
        return found

    def _is_labelled(self, table: str, name: str) -> bool:
        """Whether a label that a row brings along is one of the store's dictionaries, or made of other columns."""
        spec = self.rules.spec.tables[table]
        if name not in spec.joined:
            return False
        ours = {new for join in spec.dictionaries if join.table in self.rules.labels.dictionaries for new in join.add}
        return name in ours or name in spec.first_of or (spec.group is not None and name == spec.group.name)

    def _clocks(self, subjects: set[int]) -> ShardClocks:
        def load(name: str, columns: tuple[str, ...]) -> pa.RecordBatch | None:
            rows = self.rows.of(subjects, name)
            return batch_of(self.rules.spec.tables[name], rows, columns) if rows else None

        return ShardClocks(spec=self.rules.spec, settings=self.rules.settings, load=load)


def in_rounds(steps: Sequence[tuple[int, str, bool]]) -> list[list[int]]:
    """Cut lines into rounds that may be read together, so that each comes to what it would alone: of each subject one
    line on which others hang, or several on which none does, none of one row twice.

    ``steps``: subject, row, and whether others hang on it. The rounds hold places, in order.
    """
    rounds: list[list[int]] = []
    begun: dict[int, int] = defaultdict(int)
    inside: dict[tuple[int, int], set[str]] = defaultdict(set)
    for place, (subject, row, alone) in enumerate(steps):
        number = begun[subject]
        seen = inside[subject, number]
        if seen and (alone or "" in seen or row in seen):
            number = begun[subject] = number + 1
            seen = inside[subject, number]
        seen.add("" if alone else row)
        while len(rounds) <= number:
            rounds.append([])
        rounds[number].append(place)
    return rounds
