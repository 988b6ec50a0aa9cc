"""What a person may set about an ingest, and what an ingest says when it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from wardround.core import UserError, content_hash
from wardround.executors import EXECUTORS
from wardround.records.ingest.lineage import Lineage
from wardround.records.ingest.needed_tables import LostRows
from wardround.records.specs.spec import SourceSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """Everything that decides a store's content besides the source files, and the bounds of the work.

    ``median_delays`` fixes the medians of both halves of the subjects (key ``table.from.to``) instead of taking them
    from the data: audits need the same medians on both sides. ``result_lag`` and ``culture_lag`` stand for the time at
    which a laboratory result or a culture is known, where the source records none. ``time_zone``: the IANA name of the
    hospital's zone, on whose clock times with an offset are read; None: the spec's, and without one they are refused.
    ``memory_bytes`` bounds the work, not the result; ``workers`` do parts of it at once, where ``executor`` names.
    ``shards``: into how many files each table is cut (None: by the size of the input).
    """

    coding_lag: timedelta = timedelta(0)
    result_lag: timedelta = timedelta(hours=24)
    culture_lag: timedelta = timedelta(days=7)
    median_delays: Mapping[str, tuple[timedelta | None, timedelta | None]] = field(default_factory=dict)
    time_zone: str | None = None
    user_codes: Path | None = None
    memory_bytes: int = 1 << 30
    workers: int = 1
    executor: str = "processes"
    shards: int | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes < 1 << 26:
            raise UserError(f"memory_bytes must be at least 64 MiB, not {self.memory_bytes!r}")
        if self.workers < 1:
            raise UserError(f"workers must be at least 1, not {self.workers!r}")
        EXECUTORS.get(self.executor)

    @property
    def is_done_here(self) -> bool:
        """Whether this process does all parts itself."""
        return self.workers == 1 and not EXECUTORS.get(self.executor).spans_machines

    @property
    def lags(self) -> Mapping[str, int]:
        """Return the lags in microseconds, as rules name them."""
        lags = {"coding_lag": self.coding_lag, "result_lag": self.result_lag, "culture_lag": self.culture_lag}
        return {name: round(lag.total_seconds() * 1e6) for name, lag in lags.items()}

    def to_json(self) -> dict[str, Any]:
        """Return what decides the content, times in seconds; user codes by the hash of their files."""
        return {
            "coding_lag_seconds": self.coding_lag.total_seconds(),
            "result_lag_seconds": self.result_lag.total_seconds(),
            "culture_lag_seconds": self.culture_lag.total_seconds(),
            "median_delay_seconds": {name: _in_seconds(delays) for name, delays in self.median_delays.items()},
            "user_codes": None if self.user_codes is None else _hash_folder(self.user_codes),
            **({} if self.time_zone is None else {"time_zone": self.time_zone}),
        }

    def assumptions(self, spec: SourceSpec) -> tuple[str, ...]:
        """Return, in words, the times that this source does not record and these settings stand for."""
        assumed = [f"assumed: {text}: {getattr(self, name)} ({name})" for name, text in spec.assumed.items()]
        if self.time_zone is not None:
            assumed.append(f"assumed: times with an offset are of one place: {self.time_zone} (time_zone)")
        return tuple(assumed)


def _in_seconds(delays: Iterable[timedelta | None]) -> list[float | None]:
    return [None if delay is None else delay.total_seconds() for delay in delays]


def _hash_folder(folder: Path) -> str:
    files = sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else []
    return content_hash([[file.relative_to(folder).as_posix(), content_hash(file.read_bytes())] for file in files])


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """Counts of a finished ingest, by table. ``never_visible`` rows have no time at which they became known."""

    store: Path
    rows: Mapping[str, int]
    subjects: int
    quarantined: Mapping[str, int]
    never_visible: Mapping[str, int]
    missing_tables: tuple[str, ...]
    missing_columns: Mapping[str, tuple[str, ...]]
    unknown_files: tuple[str, ...]
    unknown_columns: Mapping[str, tuple[str, ...]]
    seconds: float
    dictionary_rows: Mapping[str, int] = field(default_factory=dict)
    quarantine_reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By table or dictionary: why rows were set aside, and how many for each reason."""
    emptied_cells: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By table: cells that could not be read and are shown later than their row, which is kept without them."""
    empty_files: tuple[str, ...] = ()
    only_headers: tuple[str, ...] = ()
    """Tables and dictionaries whose files hold a header and no row."""
    needed_tables: Mapping[str, LostRows] = field(default_factory=dict)
    """Missing tables, and what is never shown for want of each."""
    assumptions: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """What of raw files that are no tables has no place in the source's tables, in words."""
    repeated_rows: Mapping[str, int] = field(default_factory=dict)
    """Rows that were given more than once, and kept once."""
    casts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Cells of Parquet files whose type is not the spec's, by table, and by column and cast."""
    orphans: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Filled cells that name a row of another table which has no such row, by table, and by column and that table."""
    filled: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Filled cells of the rows that were read, by table and column."""
    rows_read: Mapping[str, int] = field(default_factory=dict)
    """Rows that were read and not broken, by table."""
    resumed: bool = False
    """Whether work of an earlier, interrupted call was kept."""
    made_from: Lineage | None = None
    """What was taken from the store of an earlier release, and whose records changed since."""
