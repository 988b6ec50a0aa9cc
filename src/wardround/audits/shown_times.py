"""When each row and cell of a store is first shown on a chart: what audits compare with what it should wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from wardround.records.chart.censor import clock
from wardround.records.rules.language import NO_TIME, Column, Times
from wardround.records.shards.layout import AVAILABLE, EVENT, LATE, NEVER_TIME
from wardround.records.specs.spec import TableSpec, late_rules


@dataclass(frozen=True, slots=True)
class ShownTable:
    """The rows of one subject with the moments (microseconds) from which a chart shows them."""

    spec: TableSpec
    rows: pa.RecordBatch
    row: Times
    event: Times

    @classmethod
    def of(cls, spec: TableSpec, rows: pa.RecordBatch) -> ShownTable:
        """Take stored rows."""
        event = clock(rows, EVENT)
        return cls(spec, rows, np.maximum(clock(rows, AVAILABLE), event), event)

    def cell(self, column: str) -> Times:
        """Return from when on a cell is shown; ``NEVER_TIME`` where it is empty, or never."""
        if column not in self.rows.schema.names:
            return np.full(self.rows.num_rows, NEVER_TIME)
        filled = self.rows.column(column).is_valid().to_numpy(zero_copy_only=False)
        shown = self.row
        for rule, columns in late_rules(self.spec, self.rows.schema.names).items():
            if column in columns:
                late = clock(self.rows, rule.name if isinstance(rule, Column) else f"{LATE}{columns[0]}")
                shown = np.where(late == NO_TIME, NEVER_TIME, np.maximum(shown, late))
        return np.where(filled, shown, NEVER_TIME)

    def texts(self, column: str) -> list[str]:
        """Return a column's cells as text, empty where there is nothing."""
        if column not in self.rows.schema.names:
            return [""] * self.rows.num_rows
        return ["" if cell is None else str(cell) for cell in self.rows.column(column).to_pylist()]
