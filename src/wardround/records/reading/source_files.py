"""Find a source's files; quarantine broken rows; number subjects that are named by text."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath

import pyarrow as pa

from wardround.core import RecordError, UserError
from wardround.records.reading.csv_blocks import JSON_LINES
from wardround.records.specs.spec import SourceSpec

# Find a source's files: ``<folder>/<path>.csv``, ``.tsv``, ``.parquet`` or JSON lines, text gzipped or not, with or
# without the module folder, in capitals or not; the folder above a release will do.
#
# A table's path with a ``*`` means all matching files together; so does a folder of parts with the table's name.


DATA_SUFFIXES: tuple[str, ...] = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", *JSON_LINES)
_PART = re.compile(r"(part|chunk|teil|data)?[-_]?\d+.*", re.IGNORECASE)
"""The name of one of a folder's parts."""
_MOST_FOLDERS = 10_000
_LARGEST_EMPTY = 1_024
"""A compressed empty file has some 20 bytes and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """Files by table and dictionary, missing ones, and files of no table."""

    folders: tuple[Path, ...]
    tables: dict[str, tuple[Path, ...]]
    dictionaries: dict[str, tuple[Path, ...]]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    empty: tuple[str, ...] = ()
    """Files without a byte: they are no tables."""
    raw: tuple[Path, ...] = ()
    """The raw files of flattened tables: a restart compares these, not the flat ones."""

    def resolved(self) -> SourceFiles:
        """Return the same files by absolute paths, for processes with other working folders."""
        return replace(
            self,
            folders=_absolute(self.folders),
            tables={name: _absolute(paths) for name, paths in self.tables.items()},
            dictionaries={name: _absolute(paths) for name, paths in self.dictionaries.items()},
            raw=_absolute(self.raw),
        )

    def name(self, path: Path) -> str:
        """Return a file's name relative to its folder, for reports."""
        for folder in self.folders:
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix()
        return path.name

    def fingerprint(self) -> list[list[object]]:
        """Return name, size and modification time of every used file, for the comparison at a restart."""
        used = [(name, path) for files in (self.tables, self.dictionaries) for name in files for path in files[name]]
        if self.raw:
            used = [("raw", path) for path in self.raw]
        return [[name, self.name(path), path.stat().st_size, path.stat().st_mtime_ns] for name, path in sorted(used)]


def _absolute(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(path.absolute() for path in paths)


def find_files(spec: SourceSpec, folder: Path | Sequence[Path]) -> SourceFiles:
    """Find every table and dictionary of a source. UserError: a folder is missing, or has no table of the source."""
    folders = (folder,) if isinstance(folder, Path) else tuple(folder)
    for each in folders:
        if not each.is_dir():
            raise UserError(f"{each}: no such folder; give the folder that holds {_example(spec)}")
    tables = _tables(spec, folders)
    if not tables:
        folders = _releases(spec, folders)
        tables = _tables(spec, folders)
    if not tables:
        where = ", ".join(map(str, folders))
        raise UserError(f"{where}: no table of source {spec.name!r} is there; {_expected(spec, folders)}")
    places = {name: (table.path, *table.also) for name, table in spec.dictionaries.items()}
    found = {name: [_find(folders, path) for path in paths] for name, paths in places.items()}
    dictionaries = {name: tuple(path for path in paths if path) for name, paths in found.items() if any(paths)}
    derived = {name for name, table in spec.tables.items() if table.derive and table.derive.source in tables}
    missing = sorted({*spec.tables, *spec.dictionaries} - {*tables, *dictionaries} - derived)
    files = SourceFiles(folders=folders, tables=tables, dictionaries=dictionaries, missing=tuple(missing), unknown=())
    used = {path for by_name in (tables, dictionaries) for paths in by_name.values() for path in paths}
    others = [path for path in _data_files(folders) if path not in used]
    return replace(
        files,
        unknown=tuple(sorted(files.name(path) for path in others if not is_empty(path))),
        empty=tuple(sorted(files.name(path) for path in others if is_empty(path))),
    )


def table_files(folder: Path) -> list[tuple[str, str, tuple[Path, ...]]]:
    """Return possible tables of a folder: the path for a spec, a name, and the files of each.

    Numbered files are parts of their folder; folders like ``year=2020`` are parts too.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    tables: dict[str, list[Path]] = {}
    for path in sorted(_data_files([folder])):
        if _is_part(path, folder):
            tables.setdefault(_table_path(path.relative_to(folder)), []).append(path)
    return [(name, _shown(folder, paths), tuple(paths)) for name, paths in tables.items()]


def _table_path(path: Path) -> str:
    name = path.name.lower()
    suffix = next(each for each in sorted(DATA_SUFFIXES, key=len, reverse=True) if name.endswith(each))
    above = [part for part in path.parts[:-1] if "=" not in part]
    last = path.name[: -len(suffix)]
    return "/".join(above if above and _PART.fullmatch(last) else [*above, last])


def _shown(folder: Path, paths: Sequence[Path]) -> str:
    first = paths[0].relative_to(folder).as_posix()
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def is_empty(path: Path) -> bool:
    """Return whether a file has no content, not even a header; a compressed file is opened for this."""
    size = path.stat().st_size
    if size and (path.suffix.lower() != ".gz" or size > _LARGEST_EMPTY):
        return False
    try:
        return not size or not gzip.decompress(path.read_bytes())
    except (OSError, EOFError):
        return False  # damaged: its reader raises the error


def _tables(spec: SourceSpec, folders: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    return {name: paths for name, table in spec.tables.items() if (paths := _find_all(folders, table.path))}


def _expected(spec: SourceSpec, folders: Sequence[Path]) -> str:
    """Return the expected files in words."""
    empty = [path for path in _data_files(folders) if is_empty(path)]
    hint = f" (empty: {', '.join(sorted(path.name for path in empty)[:8])})" if empty else ""
    return f"expected files like {_example(spec)}{hint}"


def _releases(spec: SourceSpec, folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the uppermost folders with tables. UserError: two of them have the same table."""
    found: dict[Path, dict[str, tuple[Path, ...]]] = {}
    for below in _folders_below(folders):
        tables = {} if any(below.is_relative_to(above) for above in found) else _tables(spec, (below,))
        for above, others in found.items():
            both = sorted(set(tables) & set(others))
            if both:
                raise UserError(f"{above} and {below} both hold {both[0]!r}; give the folder that is meant")
        if tables:
            found[below] = tables
    return tuple(found) or tuple(folders)


def _folders_below(folders: Sequence[Path]) -> list[Path]:
    below = (path for folder in folders for path in folder.rglob("*") if path.is_dir())
    return sorted(islice(below, _MOST_FOLDERS), key=lambda path: (len(path.parts), path))


def _example(spec: SourceSpec) -> str:
    first = next(iter(spec.tables.values()))
    return f"{first.path}.parquet" if "*" in first.path else f"{first.path}.csv.gz"


def _find_all(folders: Sequence[Path], path: str) -> tuple[Path, ...]:
    if "*" not in path:
        found = _find(folders, path)
        return (found,) if found is not None else _parts(folders, path)
    return matching_files(folders, path)


def matching_files(folders: Iterable[Path], pattern: str) -> tuple[Path, ...]:
    """Return the files whose path without its suffix fits a pattern; suffixes may be in capitals."""
    matches = {
        file
        for folder in folders
        for file in folder.glob(f"{pattern}.*")
        if any(
            fnmatchcase(file.name, f"{PurePosixPath(pattern).name}{file.name[-len(end) :]}")
            for end in DATA_SUFFIXES
            if file.name.lower().endswith(end)
        )
    }
    return tuple(sorted(path for path in matches if _is_data(path) and not path.name.startswith(".")))


def _find(folders: Iterable[Path], path: str) -> Path | None:
    for place in _places(folders, path):
        inside = _names_in(place.parent)
        for suffix in DATA_SUFFIXES:
            found = inside.get(f"{place.name}{suffix}".casefold())
            if found is not None and _is_data(found):
                return found
    return None


def _parts(folders: Iterable[Path], path: str) -> tuple[Path, ...]:
    """Return the files in or below a folder with a table's name: all of one kind, without files of notes."""
    for place in _places(folders, path):
        inside = _names_in(place.parent)
        for suffix in ("", *DATA_SUFFIXES):
            folder = inside.get(f"{place.name}{suffix}".casefold())
            if folder is not None and folder.is_dir():
                parts = [part for part in sorted(folder.rglob("*")) if _is_part(part, folder)]
                if parts:
                    return tuple(parts)
    return ()


def _is_part(path: Path, folder: Path) -> bool:
    own = path.relative_to(folder).parts
    is_hidden = any(part.startswith((".", "_")) for part in own)
    return not is_hidden and path.name.lower().endswith(DATA_SUFFIXES) and _is_data(path)


def _places(folders: Iterable[Path], path: str) -> Iterable[Path]:
    """Yield possible paths of a table without suffix: in its module's folder, or beside the others."""
    *above, name = PurePosixPath(path).parts
    for folder in folders:
        module = folder
        for part in above:
            module = _names_in(module).get(part.casefold(), module / part)
        yield from dict.fromkeys((module / name, folder / name))


def _names_in(folder: Path) -> dict[str, Path]:
    """Return a folder's entries by lower-case name; of two that differ in case only, the first."""
    inside = sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []
    return {path.name.casefold(): path for path in inside}


def _is_data(path: Path) -> bool:
    return path.is_file() and not is_empty(path)


def _data_files(folders: Iterable[Path]) -> Iterable[Path]:
    for folder in folders:
        yield from (path for path in folder.rglob("*") if path.name.lower().endswith(DATA_SUFFIXES) and path.is_file())


# Rows that could not be read: quarantined with place and reason, never dropped silently.


_QUOTED = re.compile(r": ['\"].*['\"] is no ", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRow:
    """One row of a source file that does not fit its spec. ``line`` counts from 1, the header is line 1."""

    file: str
    line: int
    reason: str
    raw: str


def reason_kinds(rows: Iterable[BrokenRow]) -> Counter[str]:
    """Count rows by reason, without the quoted cell."""
    return Counter(_QUOTED.sub(" is no ", row.reason) for row in rows)


def write_quarantine(path: Path, rows: Iterable[BrokenRow]) -> None:
    """Append rows as JSON lines."""
    with path.open("a", encoding="utf-8") as target:
        for row in rows:
            target.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


# Subjects with text ids, as whole numbers: the same text is the same number everywhere.


_BITS = 53
"""Numbers stay below 2**53, so that they survive JSON, JavaScript and float columns."""


def subject_number(key: str) -> int:
    """Return a positive number below 2**53 that depends on the key only; a whole number stays itself."""
    if key.isascii() and key.isdigit() and key[0] != "0" and len(key) <= 16 and int(key) < 1 << _BITS:
        return int(key)
    digest = hashlib.blake2b(key.encode(), digest_size=8, person=b"subject").digest()
    return int.from_bytes(digest, "little") >> (64 - _BITS) or 1


@dataclass(slots=True)
class SubjectKeys:
    """The keys of one source and their numbers. RecordError: two keys have one number (they would share a chart)."""

    _numbers: dict[str, int] = field(default_factory=dict)
    _keys: dict[int, str] = field(default_factory=dict)

    def number(self, key: str) -> int:
        """Return a key's number; outer spaces do not count."""
        key = key.strip()
        number = self._numbers.get(key)
        if number is None:
            number = subject_number(key)
            other = self._keys.setdefault(number, key)
            if other != key:
                raise RecordError(f"subjects {other!r} and {key!r} would have one number, {number}; rename one of them")
            self._numbers[key] = number
        return number

    @property
    def keys(self) -> Mapping[int, str]:
        """Return every number with its key."""
        return self._keys

    def __len__(self) -> int:
        return len(self._numbers)


def write_keys(path: Path, keys: Mapping[int, str]) -> None:
    """Write numbers and their keys, by number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = pa.array(sorted(keys), pa.int64())
    texts = pa.array([keys[number] for number in sorted(keys)], pa.string())
    table = pa.table({"subject_id": numbers, "key": texts})
    with pa.OSFile(str(path), "wb") as target, pa.ipc.new_file(target, table.schema) as stream:
        stream.write_table(table)


def read_keys(data: object) -> dict[int, str]:
    """Return the numbers and keys in a file or its bytes."""
    table = pa.ipc.open_file(data).read_all()
    return dict(zip(table.column("subject_id").to_pylist(), table.column("key").to_pylist(), strict=True))


def joined_keys(parts: Iterable[Mapping[int, str]]) -> dict[int, str]:
    """Return the keys of all tables together. RecordError: two keys have one number."""
    subjects = SubjectKeys()
    for part in parts:
        for key in part.values():
            subjects.number(key)
    return dict(subjects.keys)
