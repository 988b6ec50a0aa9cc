"""A shard of a newer release of two parts: who changed is finished anew, everybody else's rows are taken as stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.ingest.buckets import read_bucket
from wardround.records.ingest.earlier import EarlierShard, write_bucket
from wardround.records.ingest.finalise import FinishedRows, Finishing
from wardround.records.ingest.foreign_keys import links, orphans
from wardround.records.ingest.plan import Plan, as_json
from wardround.records.ingest.touched import subjects_of
from wardround.records.shards.layout import AVAILABLE, NEVER_TIME
from wardround.records.specs.arrow_types import microseconds

Integers = npt.NDArray[np.int64]
_COUNTS = ("rows", "never_visible")


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """One shard, what the earlier store holds of it, and the subjects who are ``touched``."""

    plan: Plan
    shard: int
    held: EarlierShard
    touched: Integers

    def write_buckets(self, read: Collection[str]) -> None:
        """Write the rows of who is touched, of tables that were ``read`` as they are now, as buckets of their own."""
        for name, table in self.plan.spec.tables.items():
            if name in read:
                rows = read_bucket(self.plan.bucket_folder(name), self.shard)
                if rows is not None:
                    rows = rows.filter(pa.array(np.isin(subjects_of(table, rows), self.touched)))
            else:
                rows = self.held.as_read(name, self.touched)
            write_bucket(self.plan.touched_folder(name), self.shard, rows)

    def crosses(self) -> bool:
        """Whether a row of one part names a row of the other, so that the parts cannot be finished apart."""
        return any(self._crosses(*link) for link in links(self.plan.spec))

    def _crosses(self, table: str, column: str, other: str) -> bool:
        key = self.plan.spec.tables[other].key[0]
        apart = [self.held.of(name, self.touched, others=True) for name in (table, other)]
        cells, keys = (_column(found, name) for found, name in zip(apart, (column, key), strict=True))
        own_cells, own_keys = list(self._own(table, column)), list(self._own(other, key))
        return _meet(cells, own_keys) or _meet(keys, own_cells)

    def _own(self, table: str, column: str) -> Iterator[Any]:
        """Yield a column of who is touched, as it was and as it is."""
        was = _column(self.held.of(table, self.touched), column)
        now = read_bucket(self.plan.touched_folder(table), self.shard)
        if was is not None:
            yield was
        if now is not None and column in now.schema.names:
            yield now.column(column)

    def finish(self, finishing: Finishing, folder: Path) -> dict[str, Any]:
        """Write the shard and return what is counted of all of it."""
        buckets = {name: self.plan.touched_folder(name) for name in finishing.buckets}
        own = replace(finishing, buckets=buckets)
        counts = own.finish(self.shard, folder, lambda name: self.held.of(name, self.touched, others=True))
        return dict(as_json(counts))

    def counted(self, counts: Mapping[str, Any], earlier: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
        """Return the counts of the shard: those of the ``earlier`` one, with ``counts`` in place of what it had of
        the touched subjects. Rows of one key are all of touched subjects."""
        gone = {name: self.held.of(name, self.touched) for name in self.plan.spec.tables}
        lost = {name: _count(found) for name, found in gone.items() if found is not None}
        result = dict(counts)
        for place, kind in enumerate(_COUNTS):
            was = {name: each[place] for name, each in lost.items()}
            result[kind] = _exchanged(earlier[kind], was, counts[kind])
        result["orphans"] = {}
        for name in {*earlier["orphans"], *counts["orphans"]}:
            was = self._orphans(name, gone, read)
            now = counts["orphans"].get(name, {})
            result["orphans"][name] = _exchanged(earlier["orphans"].get(name, {}), was, now)
        return result

    def _orphans(self, name: str, gone: Mapping[str, FinishedRows | None], read: Collection[str]) -> dict[str, int]:
        found, tables = gone[name], self.plan.spec.tables
        if found is None:
            return {}
        return orphans(tables[name], found.rows, lambda other: _column(gone[other], tables[other].key[0]), read)


def _column(found: FinishedRows | None, name: str) -> Any:
    return None if found is None or name not in found.rows.schema.names else found.rows.column(name)


def _meet(cells: Any, few: list[Any]) -> bool:
    """Whether some cell is among a few others."""
    if cells is None or not few:
        return False
    wanted = pc.drop_null(pc.unique(pa.concat_arrays([each.cast(cells.type) for each in few])))
    return bool(len(wanted)) and bool(pc.any(pc.is_in(cells, wanted)).as_py())


def _count(found: FinishedRows) -> tuple[int, int]:
    never = int(np.count_nonzero(microseconds(found.rows.column(AVAILABLE)) == NEVER_TIME))
    return found.rows.num_rows, never


def _exchanged(counts: Mapping[str, int], gone: Mapping[str, int], come: Mapping[str, int]) -> dict[str, int]:
    whole = Counter(counts)
    whole.subtract(gone)
    whole.update(come)
    return {name: count for name, count in whole.items() if count}
