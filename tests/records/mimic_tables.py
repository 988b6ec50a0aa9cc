"""Tiny MIMIC-IV shaped folders for tests, written from rows given as dicts."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wardround.records import load_source_spec

SPEC = load_source_spec("mimiciv")


def write_folder(folder: Path, tables: Mapping[str, Iterable[Mapping[str, Any]]], *, every: bool = False) -> Path:
    """Write tables as CSV with the real columns; cells not given are empty. ``every``: also the tables not named."""
    for name in SPEC.tables if every else (name for name in tables if name in SPEC.tables):
        if name == "admission_note" and name not in tables:
            continue
        table = SPEC.tables[name]
        _write(folder / f"{table.path}.csv", list(table.columns), tables.get(name, ()))
    for name, dictionary in SPEC.dictionaries.items():
        if name in tables:
            _write(folder / f"{dictionary.path}.csv", list(dictionary.columns), tables[name])
    return folder


def _write(path: Path, header: list[str], rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
