"""Words for the codes of a MEDS data set, out of dictionaries that its owner has: many data sets come without them.

A method that reads events as text can do nothing with ``LAB//51222//g/dL``. The dictionaries are told by their columns:

    code, description                            any code, as it is written
    itemid, label                                MIMIC's items (d_labitems, d_items): a part of the code is the number
    icd_code, icd_version, long_title            MIMIC's ICD titles; the file's name says diagnoses or procedures
    vocabulary_id, concept_code, concept_name    an OMOP vocabulary (Athena's CONCEPT.csv): VOCABULARY/CODE

Nothing is guessed: a code that no dictionary has keeps no description, and is counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from wardround.core import UserError

_SEPARATOR = "//"
_NO_UNIT = ("", "UNK")
_MOMENTS = ("START", "END")
Describe = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionCounts:
    """How many codes of a data set have descriptions: before, and after; and the file written."""

    codes: int
    before: int
    after: int
    path: Path


def describe_codes(folder: Path, dictionaries: Sequence[Path], out: Path) -> DescriptionCounts:
    """Write ``out/metadata/codes.parquet``: the codes of a MEDS folder, with descriptions for those without.

    Give ``out`` before the data set's own folder at ingest. UserError: no codes there, or a dictionary of unknown kind.
    """
    source = folder / "metadata" / "codes.parquet"
    if not source.is_file():
        raise UserError(f"{source} is missing; give the folder of a MEDS data set")
    target = out / "metadata" / "codes.parquet"
    if target.exists():
        raise UserError(f"{target} exists already; choose another folder")
    table = pq.read_table(source)
    describers = [_describer(path) for path in dictionaries]
    codes = table.column("code").to_pylist()
    described = table.column("description").to_pylist() if "description" in table.schema.names else [None] * len(codes)
    words = [text or _first(describers, code) for code, text in zip(codes, described, strict=True)]
    column = pa.array(words, pa.string())
    place = table.schema.get_field_index("description")
    table = table.append_column("description", column) if place < 0 else table.set_column(place, "description", column)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".tmp")
    pq.write_table(table, unfinished)
    os.replace(unfinished, target)
    return DescriptionCounts(
        codes=len(codes), before=sum(map(bool, described)), after=sum(map(bool, words)), path=target
    )


def _first(describers: Sequence[Describe], code: str) -> str | None:
    return next((text for describe in describers if (text := describe(code))), None)


def _describer(path: Path) -> Describe:
    """Read a dictionary and return a function from a code to its description."""
    names = set(_columns(path))
    if {"itemid", "label"} <= names:
        return _Items(_mapping(path, "itemid", "label")).describe
    if {"icd_code", "icd_version", "long_title"} <= names:
        return _Titles(path).describe
    if {"vocabulary_id", "concept_code", "concept_name"} <= names:
        rows = _rows(path, ("vocabulary_id", "concept_code", "concept_name"))
        return {f"{vocabulary}/{code}": name for vocabulary, code, name in rows}.get
    if {"code", "description"} <= names:
        return _mapping(path, "code", "description").get
    raise UserError(
        f"{path}: not a dictionary of codes; expected columns code, description; itemid, label; icd_code, icd_version, "
        f"long_title; or vocabulary_id, concept_code, concept_name; found {', '.join(sorted(names))}"
    )


class _Items:
    """MIMIC's items: ``LAB//51222//g/dL``, ``INFUSION_START//225158``, ``PROCEDURE//END//225401``."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def describe(self, code: str) -> str | None:
        parts = code.split(_SEPARATOR)
        for place, part in enumerate(parts[1:], start=1):
            label = self._labels.get(part) if part.isdecimal() and not parts[0].startswith(("DIAG", "DRG")) else None
            if label is None:
                continue
            moment = next((m.lower() for m in _MOMENTS for before in parts[:place] if before.endswith(m)), None)
            unit = parts[place + 1] if place + 1 < len(parts) and parts[place + 1] not in _NO_UNIT else None
            return label + (f", {moment}" if moment else "") + (f" ({unit})" if unit else "")
        return None


class _Titles:
    """ICD titles: ``DIAGNOSIS//ICD//10//I214``, ``PROCEDURE//ICD//9//3893``."""

    def __init__(self, path: Path) -> None:
        kinds = {"diagnos": "DIAGNOSIS", "proced": "PROCEDURE"}
        found = [prefix for word, prefix in kinds.items() if word in path.name.lower()]
        if len(found) != 1:
            raise UserError(f"{path}: the file's name must say whether these are diagnoses or procedures")
        self._prefix = found[0]
        rows = _rows(path, ("icd_code", "icd_version", "long_title"))
        self._titles = {(code.strip(), version): title for code, version, title in rows}

    def describe(self, code: str) -> str | None:
        parts = code.split(_SEPARATOR)
        if parts[0] != self._prefix or len(parts) < 4 or parts[1] != "ICD":
            return None
        return self._titles.get((parts[3].strip(), parts[2]))


def _mapping(path: Path, key: str, value: str) -> dict[str, str]:
    return {row[0]: row[1] for row in _rows(path, (key, value))}


def _columns(path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if path.suffix == ".parquet":
        return [name.lower() for name in pq.read_schema(path).names]
    with pa.input_stream(path, compression="detect") as stream:
        header = stream.read(1 << 16).split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    return [name.strip().strip('"').lower() for name in header.split("\t" if "\t" in header else ",")]


def _rows(path: Path, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of some columns as texts; rows with an empty cell are left out."""
    table = _read(path)
    table = table.rename_columns([name.strip().lower() for name in table.column_names])
    columns = [table.column(name).cast(pa.string()).to_pylist() for name in names]
    yield from (row for row in zip(*columns, strict=True) if all(row))


def _read(path: Path) -> Any:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    head = _columns(path)
    with pa.input_stream(path, compression="detect") as stream:
        first = stream.read(1 << 16).split(b"\n", 1)[0]
    tabs = b"\t" in first
    try:
        return pa_csv.read_csv(
            path,
            # Athena writes tabs and quotes nothing: a quotation mark there is part of a name.
            parse_options=pa_csv.ParseOptions(delimiter="\t" if tabs else ",", quote_char=False if tabs else '"'),
            convert_options=pa_csv.ConvertOptions(
                column_types={name: pa.string() for column in head for name in (column, column.upper())}
            ),
        )
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a readable CSV file: {error}") from error
