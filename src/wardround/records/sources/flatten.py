"""Sources whose raw files are not tables (bundles, nested JSON, minutes since admission): made flat before ingest.

A flattener is a function that streams the raw files of some folders into :class:`FlatTables`; a spec names it with
``[source] flatten = "name"``. It decides only which element becomes which cell; clocks stay in the spec.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wardround.core import Reporter, UserError, silent
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.reading.source_files import SourceFiles, find_files, is_empty
from wardround.records.sources.eicu import flatten_eicu
from wardround.records.sources.fhir import flatten_fhir
from wardround.records.specs.spec import SourceSpec

Flatten = Callable[[Sequence[Path], FlatTables], None]
"""(raw files in a fixed order, output). It must read every file or name it in ``unused_files``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flattener:
    """A function and the endings of the files it reads."""

    function: Flatten
    suffixes: tuple[str, ...]
    reads_offsets: bool = False
    """Whether its times say how far they are from UTC, so that they can be read in a time zone."""


FLATTENERS: Mapping[str, Flattener] = {
    "eicu": Flattener(function=flatten_eicu, suffixes=(".csv", ".csv.gz", ".parquet")),
    "fhir": Flattener(
        function=flatten_fhir, suffixes=(".ndjson", ".ndjson.gz", ".json", ".json.gz"), reads_offsets=True
    ),
}
_OTHER_DATA = (".csv", ".csv.gz", ".parquet", ".jsonl", ".jsonl.gz", ".xml", ".xml.gz", ".zip")
"""Files that a person may have expected to be read: named as not used."""


def raw_files(spec: SourceSpec, folder: Path | Sequence[Path]) -> SourceFiles:
    """Return the files of a source: its tables, or the raw files that will be made flat."""
    if spec.flatten is None:
        return find_files(spec, folder)
    folders = (folder,) if isinstance(folder, Path) else tuple(folder)
    suffixes = _flattener(spec).suffixes
    for each in folders:
        if not each.is_dir():
            raise UserError(f"{each}: no such folder; give the folder that holds {' or '.join(suffixes)} files")
    every = sorted({path for each in folders for path in each.rglob("*") if path.is_file()})
    named = [path for path in every if path.name.lower().endswith(suffixes)]
    raw = tuple(path for path in named if not is_empty(path))
    if not raw:
        where = ", ".join(map(str, folders))
        raise UserError(
            f"{where}: no file of source {spec.name!r} is there; expected names ending in {', '.join(suffixes)}"
        )
    others = (path for path in every if path not in set(named) and path.name.lower().endswith(_OTHER_DATA))
    files = SourceFiles(folders=folders, tables={}, dictionaries={}, missing=(), unknown=(), raw=raw)
    empty = tuple(files.name(path) for path in named if path not in set(raw))
    return replace(files, unknown=tuple(files.name(path) for path in others), empty=empty)


def flatten(
    spec: SourceSpec,
    files: SourceFiles,
    folder: Path,
    quarantine: Path,
    report: Reporter = silent,
) -> dict[str, Any]:
    """Make raw files flat in ``folder``, from the start; return the note of this part. UserError: no row was made."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    quarantine.unlink(missing_ok=True)
    flat = FlatTables(spec, folder, quarantine, report)
    _flattener(spec).function(files.raw, flat)
    flat.close()
    if not any(name in spec.tables for name in flat.rows):
        seen = ", ".join(f"{what} {count:,}" for what, count in flat.left_out.most_common(5))
        broken = f"{flat.quarantined:,} records could not be read" if flat.quarantined else ""
        why = "; ".join(part for part in (f"found {seen}" if seen else "", broken) if part) or "the files are empty"
        raise UserError(f"{', '.join(map(str, files.folders))}: no row was made of {spec.name!r}: {why}")
    return {
        "rows": flat.rows,
        "records": flat.records,
        "quarantined": flat.quarantined,
        "quarantine_reasons": dict(flat.reasons.most_common()),
        "left_out": dict(flat.left_out.most_common()),
        "unused": [*files.unknown, *(files.name(path) for path in flat.unused_files)],
    }


def flat_files(spec: SourceSpec, files: SourceFiles, folder: Path, note: Mapping[str, Any]) -> SourceFiles:
    """Return the flat files as the source's tables; a restart still compares the raw ones."""
    found = find_files(spec, folder)
    folders = (folder, *files.folders)
    return replace(found, raw=files.raw, folders=folders, unknown=tuple(note["unused"]), empty=files.empty)


@contextmanager
def flattened(spec: SourceSpec, folder: Path | Sequence[Path]) -> Iterator[SourceFiles]:
    """Provide a source's tables as files: its own, or flat ones that are removed afterwards."""
    files = raw_files(spec, folder)
    if spec.flatten is None:
        yield files
        return
    with tempfile.TemporaryDirectory(prefix="wardround-flat-") as name:
        flat = Path(name) / "flat"
        note = flatten(spec, files, flat, Path(name) / "quarantine.jsonl")
        yield flat_files(spec, files, flat, note)


def must_read_offsets(spec: SourceSpec) -> None:
    """Raise UserError if the times of a source cannot have UTC offsets, so that a time zone has no effect."""
    if spec.flatten is not None and not _flattener(spec).reads_offsets:
        raise UserError(f"source {spec.name!r}: its times have no UTC offsets; leave out --time-zone (time_zone)")


def _flattener(spec: SourceSpec) -> Flattener:
    found = FLATTENERS.get(spec.flatten or "")
    if found is None:
        raise UserError(f"source {spec.name!r}: no flattener {spec.flatten!r}; known are {', '.join(FLATTENERS)}")
    return found
