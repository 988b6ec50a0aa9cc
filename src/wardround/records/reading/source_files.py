"""Finding a source's files: ``<folder>/<path>.csv``, ``.csv.gz``, ``.parquet`` or JSON lines, with or without the
module folder, in capitals or not; the folder above a release will do.

A table's path with a ``*`` in it stands for every file that matches: the table is all of them together. So is a folder
of parts that has the table's name.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath

from wardround.core import UserError
from wardround.records.reading.json_lines import JSON_LINES
from wardround.records.specs.spec import DictionarySpec, SourceSpec

DATA_SUFFIXES: tuple[str, ...] = (".csv", ".csv.gz", ".parquet", *JSON_LINES)
_PART = re.compile(r"(part|chunk|teil|data)?[-_]?\d+.*", re.IGNORECASE)
"""The name of one of a folder's parts."""
_MOST_FOLDERS = 10_000
_LARGEST_EMPTY = 1_024
"""A compressed file of nothing is some 20 bytes and its own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """Which file holds which table or dictionary, what is missing, and what no table asked for."""

    folders: tuple[Path, ...]
    tables: dict[str, tuple[Path, ...]]
    dictionaries: dict[str, tuple[Path, ...]]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    empty: tuple[str, ...] = ()
    """Files without a single byte: none of them is a table."""
    raw: tuple[Path, ...] = ()
    """The files that the tables are made flat from: they, not the flat ones, are what a restart compares."""

    def resolved(self) -> SourceFiles:
        """Return the same files by absolute paths, for processes that stand elsewhere."""
        return replace(
            self,
            folders=_absolute(self.folders),
            tables={name: _absolute(paths) for name, paths in self.tables.items()},
            dictionaries={name: _absolute(paths) for name, paths in self.dictionaries.items()},
            raw=_absolute(self.raw),
        )

    def name(self, path: Path) -> str:
        """Return a file's name relative to its folder, as reports show it."""
        for folder in self.folders:
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix()
        return path.name

    def fingerprint(self) -> list[list[object]]:
        """Return name, size and time of change of every used file: what a restart compares."""
        used = [(name, path) for held in (self.tables, self.dictionaries) for name in held for path in held[name]]
        if self.raw:
            used = [("raw", path) for path in self.raw]
        return [[name, self.name(path), path.stat().st_size, path.stat().st_mtime_ns] for name, path in sorted(used)]


def _absolute(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(path.absolute() for path in paths)


def find_files(spec: SourceSpec, folder: Path | Sequence[Path]) -> SourceFiles:
    """Look for every table and dictionary of a source. UserError: a folder is missing, or no known table is there."""
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
    dictionaries = {name: paths for name, table in spec.dictionaries.items() if (paths := _all_of(folders, table))}
    derived = {name for name, table in spec.tables.items() if table.derive and table.derive.source in tables}
    missing = sorted({*spec.tables, *spec.dictionaries} - {*tables, *dictionaries} - derived)
    files = SourceFiles(folders=folders, tables=tables, dictionaries=dictionaries, missing=tuple(missing), unknown=())
    used = {path for held in (tables, dictionaries) for paths in held.values() for path in paths}
    others = [path for path in _data_files(folders) if path not in used]
    return replace(
        files,
        unknown=tuple(sorted(files.name(path) for path in others if not is_empty(path))),
        empty=tuple(sorted(files.name(path) for path in others if is_empty(path))),
    )


def table_files(folder: Path) -> list[tuple[str, str, tuple[Path, ...]]]:
    """Return what may be the tables of a folder: the path that a spec would give each, what to call it, and its files.

    Files of numbered names are the parts of their folder; folders like ``year=2020`` are parts too.
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
    """Whether a file has no content at all, not even a header; so has a compressed file of nothing."""
    size = path.stat().st_size
    if size and (path.suffix.lower() != ".gz" or size > _LARGEST_EMPTY):
        return False
    try:
        return not size or not gzip.decompress(path.read_bytes())
    except (OSError, EOFError):
        return False  # damaged: whoever reads it says so


def _tables(spec: SourceSpec, folders: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    return {name: paths for name, table in spec.tables.items() if (paths := _find_all(folders, table.path))}


def _all_of(folders: Sequence[Path], table: DictionarySpec) -> tuple[Path, ...]:
    found = (_find(folders, path) for path in (table.path, *table.also))
    return tuple(path for path in found if path is not None)


def _expected(spec: SourceSpec, folders: Sequence[Path]) -> str:
    """Say what should be there."""
    empty = [path for path in _data_files(folders) if is_empty(path)]
    hint = f" (empty: {', '.join(sorted(path.name for path in empty)[:8])})" if empty else ""
    return f"expected files like {_example(spec)}{hint}"


def _releases(spec: SourceSpec, folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders below that hold tables, the upper ones. UserError: two of them hold the same table."""
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
    return f"{first.path}.parquet" if _is_pattern(first.path) else f"{first.path}.csv.gz"


def _is_pattern(path: str) -> bool:
    return "*" in path


def _find_all(folders: Sequence[Path], path: str) -> tuple[Path, ...]:
    if not _is_pattern(path):
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
    """Return the files in a folder of a table's name, or below it: all of one kind, those of writers' notes aside."""
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
    """Yield where a table may lie, without its suffix: in its module's folder, or beside the others."""
    for folder in folders:
        yield from dict.fromkeys((_module_folder(folder, path), folder / PurePosixPath(path).name))


def _module_folder(folder: Path, path: str) -> Path:
    *above, name = PurePosixPath(path).parts
    for part in above:
        folder = _names_in(folder).get(part.casefold(), folder / part)
    return folder / name


def _names_in(folder: Path) -> dict[str, Path]:
    """Return what lies in a folder by its name in small letters; of two that differ in case only, the first."""
    inside = sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []
    return {path.name.casefold(): path for path in inside}


def _is_data(path: Path) -> bool:
    return path.is_file() and not is_empty(path)


def _data_files(folders: Iterable[Path]) -> Iterable[Path]:
    for folder in folders:
        yield from (path for path in folder.rglob("*") if path.name.lower().endswith(DATA_SUFFIXES) and path.is_file())
