"""Finding a source's files: ``<folder>/<path>.csv``, ``.csv.gz`` or ``.parquet``, with or without the module folder.

A table's path with a ``*`` in it stands for every file that matches: the table is all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from wardround.core import UserError
from wardround.records.spec import SourceSpec

_SUFFIXES = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """Which file holds which table or dictionary, what is missing, and what no table asked for."""

    folders: tuple[Path, ...]
    tables: dict[str, tuple[Path, ...]]
    dictionaries: dict[str, Path]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    raw: tuple[Path, ...] = ()
    """The files that the tables are made flat from: they, not the flat ones, are what a restart compares."""

    def name(self, path: Path) -> str:
        """Return a file's name relative to its folder, as reports show it."""
        for folder in self.folders:
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix()
        return path.name

    def fingerprint(self) -> list[list[object]]:
        """Return name, size and time of change of every used file: what a restart compares."""
        used = [(name, path) for name, paths in self.tables.items() for path in paths]
        used += self.dictionaries.items()
        if self.raw:
            used = [("raw", path) for path in self.raw]
        return [[name, self.name(path), path.stat().st_size, path.stat().st_mtime_ns] for name, path in sorted(used)]


def find_files(spec: SourceSpec, folder: Path | Sequence[Path]) -> SourceFiles:
    """Look for every table and dictionary of a source. UserError: a folder is missing, or no known table is there."""
    folders = (folder,) if isinstance(folder, Path) else tuple(folder)
    for each in folders:
        if not each.is_dir():
            raise UserError(f"{each}: no such folder; give the folder that holds {_example(spec)}")
    tables = {name: paths for name, table in spec.tables.items() if (paths := _find_all(folders, table.path))}
    if not tables:
        where = ", ".join(map(str, folders))
        raise UserError(f"{where}: no table of source {spec.name!r} is there; expected files like {_example(spec)}")
    dictionaries = {name: path for name, table in spec.dictionaries.items() if (path := _find(folders, table.path))}
    derived = {name for name, table in spec.tables.items() if table.derive and table.derive.source in tables}
    missing = sorted({*spec.tables, *spec.dictionaries} - {*tables, *dictionaries} - derived)
    files = SourceFiles(folders=folders, tables=tables, dictionaries=dictionaries, missing=tuple(missing), unknown=())
    used = {path for paths in tables.values() for path in paths} | {*dictionaries.values()}
    unknown = tuple(sorted(files.name(path) for path in _data_files(folders) if path not in used))
    return SourceFiles(
        folders=folders, tables=tables, dictionaries=dictionaries, missing=tuple(missing), unknown=unknown
    )


def _example(spec: SourceSpec) -> str:
    first = next(iter(spec.tables.values()))
    return f"{first.path}.parquet" if _is_pattern(first.path) else f"{first.path}.csv.gz"


def _is_pattern(path: str) -> bool:
    return "*" in path


def _find_all(folders: Sequence[Path], path: str) -> tuple[Path, ...]:
    if not _is_pattern(path):
        found = _find(folders, path)
        return () if found is None else (found,)
    matches = {file for folder in folders for suffix in _SUFFIXES for file in folder.glob(f"{path}{suffix}")}
    return tuple(sorted(file for file in matches if file.is_file() and not file.name.startswith(".")))


def _find(folders: Iterable[Path], path: str) -> Path | None:
    for folder in folders:
        for name in dict.fromkeys((path, PurePosixPath(path).name, path.lower(), path.upper())):
            for suffix in _SUFFIXES:
                found = folder / f"{name}{suffix}"
                if found.is_file():
                    return found
    return None


def _data_files(folders: Iterable[Path]) -> Iterable[Path]:
    for folder in folders:
        yield from (path for path in folder.rglob("*") if path.name.endswith(_SUFFIXES) and path.is_file())
