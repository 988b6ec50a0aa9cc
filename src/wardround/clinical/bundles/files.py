"""Bundles of a chart or a whole store, in memory and as Parquet."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wardround.clinical.bundles.events import HOUR, BundleStream, EventKind, ValueLevel, cut
from wardround.clinical.bundles.reading import played_rows, read_events
from wardround.clinical.bundles.targets import TYPES, StepTargets, step_targets, untimed_types
from wardround.clinical.bundles.text import with_levels
from wardround.core import Progress, Reporter, UserError, must_be_new, private_folder, silent, to_microseconds
from wardround.records import Chart, SourceSpec, Store
from wardround.records.chart import stored_rows
from wardround.records.pieces import ROWS_AT_ONCE, StoredTable, stored_pieces

# From a chart or a store to bundles. A bundle is the clock hour of the later of event time and availability.


END_OF_TIME = datetime(9998, 12, 31)
"""A moment later than all records."""


def store_bundles(store: Store, *, rows_at_once: int = ROWS_AT_ONCE) -> Iterator[BundleStream]:
    """Yield the bundles of a whole store, some subjects at a time. Trusted code only: nothing is censored.

    UserError: the source's roles give no events.
    """
    _check(store.spec)
    for shard in range(store.shard_count):
        for piece in stored_pieces(store, shard, rows_at_once):
            stream = cut(with_levels(read_events(store.spec, piece)))
            if len(stream):
                yield stream


def subject_bundles(store: Store, subject_id: int) -> BundleStream:
    """Return all bundles of one subject. Trusted code only: the record to its end."""
    return bundles_of(store.chart(subject_id, END_OF_TIME))


def bundles_of(chart: Chart) -> BundleStream:
    """Return the bundles of a chart: all rows known at its moment, each in the hour in which it became known.

    UserError: the source's roles give no events.
    """
    _check(chart.spec)
    if chart.policy != "known_at":
        raise UserError("bundles follow the clock of knowledge: a chart with the papers' clocks has none")
    events = read_events(chart.spec, _stored(chart))
    known = events.known <= to_microseconds(chart.as_of)
    return cut(with_levels(events if known.all() else events.take(known)))


def _stored(chart: Chart) -> Iterator[StoredTable]:
    for name, layout in chart.layouts.items():
        rows = stored_rows(chart, name)
        if rows is not None:
            yield StoredTable(layout=layout, subject=np.full(rows.num_rows, chart.subject_id), stored=rows)


def _check(spec: SourceSpec) -> None:
    if not played_rows(spec):
        raise UserError(f"{spec.title} has no bundles: no table plays a role that gives events (docs/roles.md)")


# Bundles of a whole store on disk: a row per event and per target, as Parquet, in order.


SCHEMA_VERSION = 1
_KINDS = ("", *(kind.name for kind in sorted(EventKind)))
_LEVELS = tuple(level.name for level in sorted(ValueLevel))
_TIME = pa.timestamp("us")


@dataclass(slots=True, kw_only=True)
class BundlesReport:
    """What was written. ``skipped``: steps without a target of a type; ``visible``: decisions already on the chart."""

    folder: Path
    subjects: int = 0
    bundles: int = 0
    events: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    visible: Counter[str] = field(default_factory=Counter)
    without_targets: dict[str, str] = field(default_factory=dict)

    def add(self, stream: BundleStream, targets: StepTargets) -> None:
        """Count some subjects' bundles."""
        events = stream.columns
        self.subjects += len(np.unique(events.subject))
        self.bundles += len(stream)
        self.events += len(events)
        counts = np.bincount(events.kind, minlength=len(_KINDS)).tolist()
        self.kinds.update({kind.name: counts[kind] for kind in EventKind if counts[kind]})
        self.targets.update({name: int((targets.types == place).sum()) for place, name in enumerate(TYPES)})
        self.skipped.update(targets.skipped)
        self.visible.update(targets.visible)


class BesideTable(Protocol):
    """Another table made of bundles."""

    @property
    def name(self) -> str:
        """The name of its file."""
        ...

    @property
    def schema(self) -> Any:
        """Its Arrow schema."""
        ...

    def of(self, stream: BundleStream) -> pa.Table:
        """Return the rows of some subjects."""
        ...


def write_bundles(
    store: Store, folder: Path, *, beside: Sequence[BesideTable] = (), report: Reporter = silent
) -> BundlesReport:
    """Write ``events.parquet``, ``targets.parquet``, the tables ``beside`` and ``about.json`` into a new folder.

    UserError: the folder is not empty, or the source's roles give no events.
    """
    must_be_new(folder)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    private_folder(unfinished)
    made = BundlesReport(
        folder=folder, without_targets={str(name): why for name, why in untimed_types(store.spec).items()}
    )
    with ExitStack() as files:
        schemas = {"events": EVENTS, "targets": TARGETS, **{table.name: table.schema for table in beside}}
        writers = {
            name: files.enter_context(pq.ParquetWriter(unfinished / f"{name}.parquet", schema, compression="zstd"))
            for name, schema in schemas.items()
        }
        for stream in store_bundles(store):
            steps = step_targets(stream)
            writers["events"].write_table(event_table(stream))
            writers["targets"].write_table(target_table(steps))
            for table in beside:
                writers[table.name].write_table(table.of(stream))
            made.add(stream, steps)
            report(Progress(label="bundles", done=made.subjects, total=len(store.subjects), unit="subjects"))
    about = {"schema_version": SCHEMA_VERSION, "source": store.spec.title, "store": store.digest[:16]}
    (unfinished / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
    if folder.exists():
        folder.rmdir()
    unfinished.rename(folder)
    return made


EVENTS = pa.schema(
    [
        ("subject_id", pa.int64()),
        ("hour", _TIME),
        ("gap_hours", pa.int64()),
        ("kind", pa.string()),
        ("concept", pa.string()),
        ("value", pa.float64()),
        ("text", pa.string()),
        ("unit", pa.string()),
        ("level", pa.string()),
        ("event_time", _TIME),
        ("available_at", _TIME),
        ("revision", pa.int64()),
        ("encounter", pa.string()),
        ("row_id", pa.string()),
    ]
)
"""One row per event; a bundle is the rows of a subject and hour. ``gap_hours``: since the previous bundle, or null."""
TARGETS = pa.schema([("subject_id", pa.int64()), ("hour", _TIME), ("type", pa.string()), ("concept", pa.string())])
"""One row per target of the step after the bundle of ``hour``."""


def event_table(stream: BundleStream) -> pa.Table:
    """Return a stream's events as a table."""
    events = stream.columns
    sizes = np.diff(stream.starts)
    gaps = np.repeat(stream.gaps, sizes)
    columns = {
        "subject_id": pa.array(events.subject),
        "hour": _times(events.hour * HOUR),
        "gap_hours": pa.array(gaps, mask=gaps == 0),
        "kind": pa.array(_KINDS).take(pa.array(events.kind)),
        "concept": _named(events.names, events.concept),
        "value": pa.array(events.value, mask=np.isnan(events.value)),
        "text": events.text,
        "unit": events.unit,
        "level": pa.array(_LEVELS).take(pa.array(events.level)),
        "event_time": _times(events.event),
        "available_at": _times(events.known),
        "revision": pa.array(events.revision),
        "encounter": events.encounter,
        "row_id": events.row_id,
    }
    return pa.table(columns, schema=EVENTS)


def target_table(targets: StepTargets) -> pa.Table:
    """Return the targets of a stream's steps as a table."""
    stream = targets.stream
    columns = {
        "subject_id": pa.array(stream.subjects[targets.steps]),
        "hour": _times(stream.hours[targets.steps] * HOUR),
        "type": pa.array([str(name) for name in TYPES]).take(pa.array(targets.types)),
        "concept": _named(stream.columns.names, targets.concepts),
    }
    return pa.table(columns, schema=TARGETS)


def _named(names: tuple[str, ...], places: Any) -> Any:
    return pa.array(list(names), pa.string()).take(pa.array(places))


def _times(times: Any) -> Any:
    return pa.array(times.view("datetime64[us]"), _TIME)
