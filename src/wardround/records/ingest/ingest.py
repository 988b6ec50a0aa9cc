"""Ingest: raw files of a source become a store, in one pass, with bounded memory, and restartable after a kill.

Raw files that are not tables are made flat first (`sources/flatten.py`). Then every file is read once and its rows are
distributed over buckets by subject (`buckets.py`); each bucket becomes a shard with clocks, row ids and labels
(`finalise.py`); the manifest is written last. Each finished part is noted, so that the same call does only what is
left.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wardround import __version__
from wardround.core import Progress, RecordError, Reporter, UserError, content_hash, silent
from wardround.core.executors import each
from wardround.records.ingest.buckets import bucket_part, join_parts, table_parts
from wardround.records.ingest.clocks import median_of_counts
from wardround.records.ingest.derived import made_of_buckets, note_derived
from wardround.records.ingest.finalise import finish_shard, forget_shared
from wardround.records.ingest.joins import needed_tables
from wardround.records.ingest.plan import (
    RAW_ROWS,
    IngestReport,
    IngestSettings,
    Lineage,
    Medians,
    Plan,
    Reuse,
    check_unchanged,
    file_fingerprints,
    is_finished,
    prepare,
    shard_count,
)
from wardround.records.ingest.reuse import (
    CONFLICTING,
    decide_reuse,
    is_same_release,
    keep_origin,
    lend_parent,
    note_lineage,
    people_of,
    reuse_dictionary,
    reuse_everything,
    reuse_table,
    shards_of,
    why_every_subject,
    why_nothing,
)
from wardround.records.ingest.shard_merge import renew_shard
from wardround.records.reading.flat_tables import QUARANTINE
from wardround.records.reading.postgres import Database, copy_tables
from wardround.records.reading.source_files import SourceFiles, joined_keys, read_keys, write_keys, write_quarantine
from wardround.records.reading.table_reader import ReadCounts, TableReader, add_counts
from wardround.records.shards.layout import (
    INDEX,
    SPEC_FOLDER,
    SUBJECT_KEYS,
    SUBJECTS,
    dictionary_file,
    read_manifest,
    write_manifest,
)
from wardround.records.sources.flatten import flat_files, flatten, must_read_offsets, raw_files
from wardround.records.specs.spec import ARROW_TYPES, SourceSpec
from wardround.records.specs.spec_file import load_source_spec

fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None
"""File locks, where the system has them."""

_MANIFEST_NOTE = "manifest"
"""The last part: everything else of the store is written."""


def ingest(
    source: str | SourceSpec,
    folder: Path | str | Sequence[Path | str],
    store: Path | str,
    *,
    settings: IngestSettings | None = None,
    earlier: Path | str | None = None,
    report: Reporter = silent,
) -> IngestReport:
    """Read a source's raw files into a new store; return counts of what was read and what was set aside.

    The same call after an interruption continues; on a finished store made from the same input it only reports.
    ``earlier``: the store of an earlier release, whose unchanged parts are reused; it is only read. The result equals
    the store that a complete ingest into as many shards makes. UserError: a folder is missing, no known table, a wrong
    schema, a full disk. RecordError: a damaged file.
    """
    started = time.monotonic()
    settings, store = settings or IngestSettings(), Path(store)
    folders = [Path(path) for path in ((folder,) if isinstance(folder, (str, Path)) else folder)]
    earlier = None if earlier is None else Path(earlier)
    spec = source if isinstance(source, SourceSpec) else load_source_spec(source)
    spec = spec.in_zone(settings.time_zone)
    if spec.time_zone:
        must_read_offsets(spec)
        settings = replace(settings, time_zone=spec.time_zone)
    plan = _planned(spec, raw_files(spec, folders), store, settings, earlier)
    with _disk_errors(store):
        if is_finished(store):
            found = _report_of(store, plan, started)
            _remove(plan.building)  # what a kill in the last step left
            return found
        resumed = prepare(plan)
        with _only_one(plan.building):
            if plan.noted(_MANIFEST_NOTE) is None:
                _make(plan, report)
                check_unchanged(plan)
            for name in RAW_ROWS:  # first: a finished store never contains them, even after a kill
                _remove(plan.building / name)
            write_manifest(plan.store, plan.noted(_MANIFEST_NOTE))
            _remove(plan.building)
    return _report_of(store, plan, started, resumed=resumed)


def _planned(spec: SourceSpec, files: SourceFiles, store: Path, settings: IngestSettings, earlier: Path | None) -> Plan:
    people_of(files.folders)  # refused before anything is read
    shards = shard_count(files, settings)
    plan = Plan(spec=spec, files=files, settings=settings, store=store, shards=shards)
    if earlier is None:
        return plan
    if earlier.resolve() == store.resolve():
        raise UserError(f"{store}: an earlier store is never changed; give another folder for the new one")
    why = why_nothing(earlier, spec, settings, shards)
    shards_before = shards if why is not None else shards_of(earlier)
    return replace(plan, earlier=earlier, why_nothing=why, shards=shards_before)


def _remove(folder: Path) -> None:
    """Remove a folder; another process may be removing it too."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _make(plan: Plan, report: Reporter) -> None:
    """Make everything but the manifest."""
    for name, text in plan.spec.files.items():
        (plan.store / SPEC_FOLDER / name).write_text(text, encoding="utf-8")
    if plan.can_reuse and is_same_release(plan, _tables(plan), report):
        plan.note(_MANIFEST_NOTE, reuse_everything(plan, report))
        return
    if plan.spec.flatten is not None:
        folder = plan.flat_folder
        if plan.noted("flatten") is None:
            quarantine = plan.store / "quarantine" / f"{QUARANTINE}.jsonl"
            plan.note("flatten", flatten(plan.spec, plan.files, folder, quarantine, report))
        plan = replace(plan, files=flat_files(plan.spec, plan.files, folder, plan.noted("flatten")))
    _run(plan, report)


def _tables(plan: Plan) -> list[str]:
    return [name for name in plan.spec.tables if plan.has_rows(name)]


def _run(plan: Plan, report: Reporter) -> None:
    tables = _tables(plan)
    reuse = decide_reuse(plan, tables, report) if plan.can_reuse else None
    _reuse_or_read(plan, tables, reuse, report)
    medians = _medians(plan, tables)
    every = why_every_subject(plan, tables, medians) if plan.can_reuse else None
    if reuse is None:
        work = partial(finish_shard, medians=medians)
    else:
        work = partial(renew_shard, medians=medians, reuse=reuse, every_subject=every is not None)
    _each(plan, work, list(range(plan.shards)), report)
    forget_shared()
    for name in [] if reuse is None else made_of_buckets(plan, reuse):
        note_derived(plan, name)
    keep_origin(plan, tables)
    _note_manifest(plan, tables, medians, reuse, every)


def _reuse_or_read(plan: Plan, tables: Sequence[str], reuse: Reuse | None, report: Reporter) -> None:
    """Read or reuse the dictionaries and tables; the rows of tables that are read are then in buckets."""
    reused = [] if reuse is None else reuse.tables
    for name in plan.files.dictionaries:
        if reuse is not None and name in reuse.dictionaries:
            reuse_dictionary(plan, name)
        else:
            file_fingerprints(plan, name, report)
            _read_dictionary(plan, name)
    for name in reused:
        reuse_table(plan, name)
    derived = [name for name in tables if plan.spec.tables[name].derive is not None and name not in plan.files.tables]
    read = [name for name in tables if name not in reused]
    named = {one.table for name in read if (one := plan.spec.tables[name].subject_from) is not None}
    parents = [name for name in tables if name in named]
    _each(plan, lend_parent, [name for name in parents if name in reused], report)
    _read_tables(plan, [name for name in parents if name in read], report)
    _read_tables(plan, [name for name in read if name not in (*parents, *derived)], report)
    later = [] if reuse is None else made_of_buckets(plan, reuse)
    for name in later:
        note_derived(plan, name)
    _read_tables(plan, [name for name in derived if name in read and name not in (*parents, *later)], report)


def _read_tables(plan: Plan, names: Sequence[str], report: Reporter) -> None:
    """Read tables into buckets, part by part: several processes may read one file."""
    names = [name for name in names if plan.noted(f"table-{name}") is None]
    there = plan if plan.settings.is_done_here else plan.elsewhere()
    _each(plan, bucket_part, chain.from_iterable(table_parts(there, name) for name in names), report)
    for name in names:
        join_parts(plan, name)


def _each(plan: Plan, work: Callable[..., None], items: Iterable[Any], report: Reporter) -> None:
    """Do a part for every item, in this process or in others; one item is not worth another process."""
    settings, total = plan.settings, len(items) if isinstance(items, Sequence) else None
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2 or settings.is_done_here:
        for item in chain(first, items):
            work(plan, item, report=report)
        return

    def on_done(number: int) -> None:
        report(Progress(label="ingest", done=number, total=total, unit="parts"))

    do = partial(_part, work, plan.elsewhere())
    each(do, chain(first, items), executor=settings.executor, workers=settings.workers, on_done=on_done)


def _part(work: Callable[..., None], plan: Plan, item: Any) -> None:
    """Do a part in another process.

    A process that was lost may still run where it cannot be reached. Whoever does a part holds its lock; the next one
    finds it finished.
    """
    with _held(plan.building / f"{item}.lock"):
        work(plan, item)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read_dictionary(plan: Plan, name: str) -> None:
    if plan.noted(f"dictionary-{name}") is not None:
        return
    dictionary = plan.spec.dictionaries[name]
    readers = [
        TableReader(
            path=path,
            name=name,
            columns=dictionary.columns,
            required=dictionary.key,
            ignored=plan.spec.ignored,
            shown=plan.files.name(path),
            files=dictionary.files,
        )
        for path in plan.files.dictionaries[name]
    ]
    quarantine = plan.store / "quarantine" / f"{name}.jsonl"
    quarantine.unlink(missing_ok=True)
    tables, counts = [], ReadCounts()
    for reader in readers:
        for cells in reader.read():
            table = cells.table
            if dictionary.absent:  # entries that mean "no code"
                key = table.column(dictionary.key[0]).cast(pa.string())
                table = table.filter(pc.invert(pc.is_in(key, pa.array(dictionary.absent, pa.string()))))
            tables.append(table)
            if cells.broken:
                write_quarantine(quarantine, cells.broken)
        counts.add(reader.counts)
    empty = pa.schema([(key, ARROW_TYPES[kind]) for key, kind in dictionary.columns.items()]).empty_table()
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks() if tables else empty
    path = plan.store / dictionary_file(name)
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, whole.schema) as stream:
        stream.write_table(whole)
    note = {"rows": whole.num_rows, "quarantined": counts.quarantined, "quarantine_reasons": counts.reasons}
    plan.note(f"dictionary-{name}", {**note, "sha256": content_hash(path.read_bytes())})


def _medians(plan: Plan, tables: Sequence[str]) -> dict[str, Medians]:
    """Return the median delays by ``table.from.to``: given ones, else those of the spec or of the data.

    A declared delay is for files that have the time of storage: if that column is missing, there is none.
    """
    medians: dict[str, Medians] = {}
    declared = plan.spec.median_seconds
    for name in tables:
        note = plan.noted(f"table-{name}")
        delays, missing = note["delays"], note["counts"]["missing_columns"]
        for start, end in plan.spec.tables[name].median_pairs:
            key = f"{name}.{start}.{end}"
            usual = None if end in missing else declared.get(key)
            medians[key] = (usual, usual)
            if plan.settings.measure_medians:
                first, other = (median_of_counts(dict(half)) for half in delays[f"{start}.{end}"])
                medians[key] = (first, other)
    for key, delays in plan.settings.median_delays.items():
        given = [None if delay is None else delay.total_seconds() for delay in delays]
        medians[key] = (given[0], given[1])
    return medians


def _note_manifest(
    plan: Plan, tables: Sequence[str], medians: Mapping[str, Medians], reuse: Reuse | None, every: str | None
) -> None:
    shards = [plan.noted(f"shard-{shard:05d}") for shard in range(plan.shards)]
    notes = {name: plan.noted(f"table-{name}") for name in tables}
    dictionaries = {name: plan.noted(f"dictionary-{name}") for name in plan.files.dictionaries}
    settings = plan.settings.to_json()
    orphans: dict[str, dict[str, int]] = {name: {} for name in tables}
    for shard in shards:
        for name in tables:
            add_counts(orphans[name], shard["orphans"].get(name, {}))
    conflicting = {name: sum(shard["conflicting_rows"].get(name, 0) for shard in shards) for name in tables}
    content = [plan.spec.sha256, settings, medians, [shard["files"] for shard in shards], sorted(dictionaries.items())]
    manifest: dict[str, Any] = {
        "source": plan.spec.name,
        "wardround": __version__,
        "spec_sha256": plan.spec.sha256,
        "plan": plan.digest,
        "digest": content_hash(content),
        "shards": plan.shards,
        "indexes": [dict(shard["files"])[INDEX] for shard in shards],
        "subjects": sum(len(shard["subjects"]) for shard in shards),
        "settings": settings,
        "assumptions": list(plan.settings.assumptions(plan.spec)),
        "median_delay_seconds": {name: list(halves) for name, halves in medians.items()},
        "tables": {
            name: {
                "file": _shown_files(plan, name),
                "rows": sum(shard["rows"].get(name, 0) for shard in shards),
                "columns": note["columns"],
                "quarantined": note["counts"]["quarantined"] + conflicting[name],
                "quarantine_reasons": note["counts"]["reasons"]
                | ({CONFLICTING: conflicting[name]} if conflicting[name] else {}),
                "emptied_cells": note["counts"]["emptied"],
                "masked_cells": note["counts"]["masked"],
                "casts": note["counts"]["casts"],
                "filled": note["filled"],
                "kept": note["kept"],
                "orphans": orphans[name],
                "never_visible": sum(shard["never_visible"].get(name, 0) for shard in shards),
                "repeated_rows": sum(shard["repeated_rows"].get(name, 0) for shard in shards),
                "missing_columns": note["counts"]["missing_columns"],
                "unknown_columns": note["counts"]["unknown_columns"],
            }
            for name, note in notes.items()
        },
        "dictionaries": dictionaries,
        "missing_tables": list(plan.files.missing),
        "unknown_files": list(plan.files.unknown),
        "empty_files": list(plan.files.empty),
        "flattened": plan.noted("flatten"),
        **people_of(plan.files.folders),
    }
    for name, note in notes.items():
        gone = manifest["tables"][name]["repeated_rows"] + conflicting[name]
        if manifest["tables"][name]["rows"] + gone != note["kept"] and plan.spec.tables[name].derive is None:
            raise RecordError(
                f"{plan.store}: rows of {name!r} were lost while ingesting; remove the folder and start again"
            )
    named = [name for name in tables if plan.keys_file(name).exists()]
    if named:
        write_keys(plan.store / SUBJECT_KEYS, joined_keys(read_keys(str(plan.keys_file(name))) for name in named))
    subjects = np.array(sorted(subject for shard in shards for subject in shard["subjects"]), dtype=np.int64)
    np.save(plan.store / SUBJECTS, subjects)
    manifest["made_from"] = note_lineage(
        plan,
        subjects,
        (subject for shard in shards for subject in shard.get("changed", ())),
        reuse=reuse,
        shards=sum(1 for shard in shards if shard.get("reused")),
        why_every_subject=every,
    )
    plan.note(_MANIFEST_NOTE, manifest)


def _shown_files(plan: Plan, name: str) -> str | None:
    files = plan.files.tables.get(name, ())
    if len(files) > 1:
        return f"{len(files)} files {plan.spec.tables[name].path}"
    return plan.files.name(files[0]) if files else None


def _report_of(store: Path, plan: Plan, started: float, *, resumed: bool = False) -> IngestReport:
    manifest = read_manifest(store)
    if manifest["plan"] != plan.digest:
        raise UserError(
            f"{store}: this store was made from other input or settings; choose another folder or remove it"
        )
    tables = manifest["tables"]
    flattened = manifest.get("flattened") or {"quarantined": 0, "left_out": {}}
    read = {**tables, **manifest["dictionaries"], QUARANTINE: flattened}
    set_aside = {name: body["quarantined"] for name, body in read.items()}
    given = {name: one["kept"] for name, one in tables.items() if one["file"] is not None and "kept" in one}
    given |= {name: one["rows"] for name, one in manifest["dictionaries"].items()}
    return IngestReport(
        store=store,
        rows={name: table["rows"] for name, table in tables.items() if table["rows"] or not plan.spec.flatten},
        subjects=manifest["subjects"],
        quarantined={name: count for name, count in set_aside.items() if count},
        quarantine_reasons={
            name: reasons for name, each in read.items() if (reasons := each.get("quarantine_reasons"))
        },
        emptied_cells={name: cells for name, table in tables.items() if (cells := table.get("emptied_cells"))},
        dictionary_rows={name: each["rows"] for name, each in manifest["dictionaries"].items()},
        never_visible={name: table["never_visible"] for name, table in tables.items() if table["never_visible"]},
        missing_tables=tuple(manifest["missing_tables"]),
        missing_columns={n: tuple(t["missing_columns"]) for n, t in tables.items() if t["missing_columns"]},
        unknown_files=tuple(manifest["unknown_files"]),
        empty_files=tuple(manifest.get("empty_files", ())),
        only_headers=tuple(name for name, rows in given.items() if not rows and not read[name]["quarantined"]),
        needed_tables=needed_tables(plan.spec, manifest["missing_tables"], tables),
        unknown_columns={n: tuple(t["unknown_columns"]) for n, t in tables.items() if t["unknown_columns"]},
        seconds=time.monotonic() - started,
        assumptions=tuple(manifest.get("assumptions", ())),
        left_out=flattened["left_out"],
        repeated_rows={name: table["repeated_rows"] for name, table in tables.items() if table["repeated_rows"]},
        casts={name: found for name, table in tables.items() if (found := table.get("casts"))},
        orphans={name: found for name, table in tables.items() if (found := table.get("orphans"))},
        filled={name: table.get("filled", {}) for name, table in tables.items()},
        rows_read={name: table.get("kept", table["rows"]) for name, table in tables.items()},
        resumed=resumed,
        made_from=None if manifest.get("made_from") is None else Lineage(**manifest["made_from"]),
    )


@contextlib.contextmanager
def _disk_errors(store: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"{store}: the disk is full; free space and run the same command again") from None
        raise


@contextlib.contextmanager
def _only_one(building: Path) -> Iterator[None]:
    """Hold the lock of an unfinished store; the system releases it when the process ends."""
    if fcntl is None:
        yield
        return
    with (building / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{building.parent}: another ingest into this folder is running") from None
        yield


# A PostgreSQL database in place of files: its tables are copied beside the store, read, and removed.


def ingest_database(
    source: str | SourceSpec,
    database: Database,
    store: Path | str,
    *,
    settings: IngestSettings | None = None,
    earlier: Path | str | None = None,
    report: Reporter = silent,
) -> IngestReport:
    """Read the tables of a database, as of one moment, into a new store. Arguments as for :func:`ingest`.

    The same call after an interruption continues. UserError: the store is finished, or as for :func:`ingest`.
    """
    store = Path(store)
    if is_finished(store):
        raise UserError(f"{store} is a finished store: name another folder to read the database again")
    spec = source if isinstance(source, SourceSpec) else load_source_spec(source)
    copied = store.with_name(f"{store.name}.tables")
    copy_tables(spec, database, copied, report=report)
    made = ingest(spec, copied, store, settings=settings, earlier=earlier, report=report)
    shutil.rmtree(copied)
    return made
