"""Writing a store as a MEDS 0.4 data set, some subjects at a time: memory is bounded by a shard of the store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.core import Progress, Reporter, must_be_new, private_folder, silent
from wardround.exports.meds.event_rows import CodeBook, EventCounts, EventRows, TimeMode
from wardround.exports.meds.events import events_of
from wardround.exports.meds.write import DATA_SCHEMA, MEDS_VERSION, SUBJECTS_PER_FILE, DataFiles, write_metadata
from wardround.records.ingest.origin import PEOPLE_OF, SAME_PERSON
from wardround.records.pieces import ROWS_AT_ONCE, stored_pieces
from wardround.records.rules.language import Times
from wardround.records.specs.arrow_types import valid
from wardround.records.store import Store

NO_SPLIT = "no_split"
"""Where subjects lie that the store's own splits do not name."""
_STANDARD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """``time``: what the standard's time column holds, the time at which a row became ``known`` or that of the
    ``event``. Whoever reads the latter must look at ``available_at`` too, or sees the future. ``splits``: subject to
    split, instead of the store's own. ``rows_at_once`` bounds the work, not the result."""

    time: TimeMode = "known"
    subjects_per_file: int = SUBJECTS_PER_FILE
    rows_at_once: int = ROWS_AT_ONCE
    splits: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What was written, and what was not."""

    folder: Path
    subjects: int
    files: int
    codes: int
    counts: EventCounts
    splits: Mapping[str, int] = field(default_factory=dict)
    without_split: int = 0


_DEFAULTS = ExportSettings()


def export_meds(
    store: Store, folder: Path, *, settings: ExportSettings = _DEFAULTS, report: Reporter = silent
) -> ExportReport:
    """Write a store as MEDS into a new folder. UserError: the folder holds something."""
    must_be_new(folder)
    splits = store.splits() if settings.splits is None else settings.splits
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    private_folder(unfinished)
    files = DataFiles(folder=unfinished, subjects_per_file=settings.subjects_per_file)
    book, counts = CodeBook(), EventCounts()
    subjects: list[npt.NDArray[np.int64]] = []
    for shard in range(store.shard_count):
        report(Progress(label="export", done=shard, total=store.shard_count, unit="shards"))
        for piece in stored_pieces(store, shard, settings.rows_at_once):
            parts = [part for part in events_of(piece, settings.time, book, counts) if len(part.subject)]
            if not parts:
                continue
            table = _in_order(parts)
            subjects.append(np.unique(table.column("subject_id").to_numpy()))
            for split, rows in _by_split(table, splits):
                files.add(rows, split)
    files.close()
    everyone = np.concatenate(subjects) if subjects else np.empty(0, np.int64)
    held = {subject: splits[subject] for subject in everyone.tolist() if subject in splits}
    write_metadata(unfinished, _codes(store, book), held, _about(store, settings))
    (unfinished / "data").mkdir(exist_ok=True)
    if folder.exists():
        folder.rmdir()
    unfinished.rename(folder)
    return ExportReport(
        folder=folder,
        subjects=len(everyone),
        files=files.count,
        codes=len(book.descriptions),
        counts=counts,
        splits={name: list(held.values()).count(name) for name in dict.fromkeys(held.values())},
        without_split=len(everyone) - len(held) if splits else 0,
    )


def _in_order(parts: Sequence[EventRows]) -> pa.Table:
    """Return events as one table, by subject and time, what has no time first; ties as the store has its tables."""

    def whole(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    subject, time = whole("subject"), whole("time")
    order = np.lexsort((time, subject))
    taken = pa.array(order)
    value = whole("value")[order]
    columns = {
        "subject_id": pa.array(subject[order]),
        "time": _times(time[order]),
        "code": _codes_of(parts).take(taken),
        "numeric_value": pa.array(value.astype(np.float32), mask=np.isnan(value)),
        "text_value": _joined(parts, "text").take(taken).cast(pa.large_string()),
        "unit": _joined(parts, "unit").take(taken),
        "event_time": _times(whole("event")[order]),
        "available_at": _times(whole("known")[order]),
        "revision": pa.array(whole("number")[order].astype(np.int16)),
        "row_id": _joined(parts, "row_id").take(taken),
        "telling_of": _joined(parts, "telling_of").take(taken),
    }
    return pa.table(columns)


def _joined(parts: Sequence[EventRows], name: str) -> Any:
    return pa.chunked_array([getattr(part, name) for part in parts]).combine_chunks()


def _codes_of(parts: Sequence[EventRows]) -> Any:
    """Return the code of every event, as a dictionary column: a shard's codes are few beside its events."""
    places: dict[str, int] = {}
    numbers = []
    for part in parts:
        own = np.array([places.setdefault(code, len(places)) for code in part.codes], dtype=np.int32)
        numbers.append(own[part.concept])
    return pa.DictionaryArray.from_arrays(pa.array(np.concatenate(numbers)), pa.array(list(places), pa.string()))


def _times(times: Times) -> Any:
    return pa.array(times.view("datetime64[us]"), pa.timestamp("us"))


def _by_split(table: pa.Table, splits: Mapping[int, str]) -> Iterator[tuple[str, pa.Table]]:
    if not splits:
        yield "", table
        return
    subject = table.column("subject_id").to_numpy()
    everyone, places = np.unique(subject, return_inverse=True)
    own = [splits.get(each, NO_SPLIT) for each in everyone.tolist()]
    for name in dict.fromkeys(own):
        mask = np.array([split == name for split in own])[places]
        yield name, table.filter(pa.array(mask))


def _codes(store: Store, book: CodeBook) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield every code with its most frequent description, and its parents: the source's own, and its groups."""
    own = _own_parents(store)
    for code, descriptions in book.descriptions.items():
        ranked = sorted((-count, text) for text, count in descriptions.items() if text)
        parents = {*own.get(code, ()), *book.parents.get(code, ())}
        yield code, ranked[0][1] if ranked else None, sorted(parents)


def _own_parents(store: Store) -> dict[str, list[str]]:
    """Return the parents that a dictionary of codes itself has (MEDS has one)."""
    for name, dictionary in store.spec.dictionaries.items():
        if "parent_codes" in dictionary.columns and name in store.manifest["dictionaries"]:
            table = store.dictionary(name)
            if "parent_codes" in table.column_names:
                table = table.filter(pa.array(valid(table.column("parent_codes").combine_chunks())))
                texts = table.column("parent_codes").to_pylist()
                return dict(zip(table.column("code").to_pylist(), (text.split("\n") for text in texts), strict=True))
    return {}


def _about(store: Store, settings: ExportSettings) -> dict[str, Any]:
    what = "when the row became known" if settings.time == "known" else "when it happened (available_at: when known)"
    return {
        "dataset_name": f"{store.spec.title}, through wardround; time is {what}",
        "dataset_version": store.digest[:16],
        "etl_name": "wardround export meds",
        PEOPLE_OF: store.spec.people,
        SAME_PERSON: {str(s): person for s in store.subjects.tolist() if (person := store.person_of(s)) != s},
        "etl_version": "1",
        "meds_version": MEDS_VERSION,
        "raw_source_id_columns": ["row_id"],
        "code_modifier_columns": ["unit"],
        "other_extension_columns": [name for name in DATA_SCHEMA.names[_STANDARD:] if name not in ("row_id", "unit")],
    }
