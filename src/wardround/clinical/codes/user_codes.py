"""Code tables that wardround may not ship and that users add themselves, with checksum and provenance.

A home folder holds, per kind, `<kind>.tsv` (the rows in our own plain form) and `<kind>.json` (which file it came from,
its sha256, when, how many rows). Formats are recognised by their header, gzipped or not.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from wardround.core import UserError

SCHEMA = 1
Row = tuple[str, ...]


def _filled(*cells: str) -> Row | None:
    stripped = tuple(cell.strip() for cell in cells)
    return stripped if all(stripped) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFormat:
    """One layout we can read. ``header`` marks it; ``row`` makes one of our rows of the cells of the columns ``of`` (by
    default all of the header), None to skip the line."""

    name: str
    header: Row
    of: Row = ()
    row: Callable[..., Row | None] = _filled


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeKind:
    """One kind of table users may add. ``columns`` is our own form; ``hint`` says where the file comes from."""

    name: str
    title: str
    columns: Row
    formats: tuple[CodeFormat, ...]
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCodes:
    """What was added: the provenance record beside the table."""

    schema: int
    kind: str
    format: str
    file: str
    sha256: str
    rows: int
    added: str


def _icd9_procedure(code: str, number: str, label: str = "") -> Row | None:
    code, number = code.strip("' "), number.strip("' ")
    return (code, number, label.strip("' ")) if code and number.isdigit() and number != "0" else None


def _ndc(code: str, atc: str) -> Row | None:
    return _filled(code.zfill(11), atc)


_PRREF = ("'ICD-9-CM CODE'", "'CCS CATEGORY'", "'CCS CATEGORY DESCRIPTION'")

KINDS: Mapping[str, CodeKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            CodeKind(
                name="icd9-procedures",
                title="ICD-9-CM procedures to CCS (HCUP single level, 2015)",
                columns=("code", "category", "label"),
                formats=(
                    CodeFormat(name="prref", header=_PRREF, of=_PRREF[:2], row=_icd9_procedure),
                    CodeFormat(
                        name="ccs-csv",
                        header=("ICD", "CCS_CATEGORY", "CCS_CATEGORY_DESCRIPTION"),
                        row=_icd9_procedure,
                    ),
                ),
                hint="HCUP offers it as Single_Level_CCS_2015.zip ($prref 2015.csv) on hcup-us.ahrq.gov, CCS for "
                "ICD-9-CM",
            ),
            CodeKind(
                name="icd9-procedure-gem",
                title="ICD-9-CM procedures to ICD-10-PCS (CMS general equivalence mapping)",
                columns=("icd9", "icd10"),
                formats=(CodeFormat(name="gem-csv", header=("icd_9", "icd_10")),),
                hint="a csv with the columns icd_9, icd_10, from CMS's gem_i9pcs.txt; only if HCUP's file is not to be "
                "had",
            ),
            CodeKind(
                name="drug-atc",
                title="drug names to ATC codes",
                columns=("drug", "atc_code"),
                formats=(CodeFormat(name="drug-csv", header=("drug", "atc_code")),),
                hint="a csv with the columns drug, atc_code (ATC codes are the property of the WHO Collaborating "
                "Centre)",
            ),
            CodeKind(
                name="ndc-atc",
                title="NDC codes to ATC codes",
                columns=("ndc", "atc_code"),
                formats=(
                    CodeFormat(name="gsn-csv", header=("gsn", "atc", "ndc"), of=("ndc", "atc"), row=_ndc),
                    CodeFormat(name="ndc-csv", header=("ndc", "atc_code"), row=_ndc),
                ),
                hint="a csv with the columns ndc, atc_code (11-digit NDC), or gsn, atc, ndc",
            ),
            CodeKind(
                name="atc-names",
                title="ATC codes to names",
                columns=("atc_code", "atc_name"),
                formats=(CodeFormat(name="atc-csv", header=("atc_code", "atc_name")),),
                hint="a csv with the columns atc_code, atc_name (licensed by the WHO Collaborating Centre)",
            ),
        )
    }
)


def add_user_codes(kind: str, file: Path, home: Path) -> UserCodes:
    """Read ``file``, keep its rows under ``home`` in our own form, and record where they came from.

    Raises:
        UserError: unknown kind, missing or unreadable file, a header of no known format, no usable row.
    """
    spec = code_kind(kind)
    raw = _read(file)
    layout, rows = _rows(spec, _decode(raw, file), file)
    kept = sorted(set(rows))
    if not kept:
        raise UserError(f"{file}: no usable row for {kind!r} in it; expected {spec.hint}")
    record = UserCodes(
        schema=SCHEMA,
        kind=kind,
        format=layout.name,
        file=file.name,
        sha256=hashlib.sha256(raw).hexdigest(),
        rows=len(kept),
        added=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    _write(home, record, spec.columns, kept)
    return record


def user_codes(home: Path | None) -> Mapping[str, UserCodes]:
    """Return the tables added under ``home``, by kind."""
    found = (home / f"{kind}.json" for kind in KINDS) if home else ()
    records = (json.loads(path.read_text(encoding="utf-8")) for path in found if path.is_file())
    return {record["kind"]: UserCodes(**record) for record in records if record.get("schema") == SCHEMA}


def read_user_codes(kind: str, home: Path | None) -> list[Row] | None:
    """Return the rows added for ``kind``, or None if there are none. Raises UserError if the file was changed since."""
    spec = code_kind(kind)
    record = user_codes(home).get(kind)
    if home is None or record is None:
        return None
    lines = (home / f"{kind}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [tuple(line.split("\t")) for line in lines[1:]]
    if len(rows) != record.rows or any(len(row) != len(spec.columns) for row in rows):
        raise UserError(f"{home / kind}.tsv is not what was added; add it again: {how_to_add(kind)}")
    return rows


def how_to_add(kind: str) -> str:
    """Return one line for messages about a missing table."""
    spec = code_kind(kind)
    return f"wardround codes add {kind} FILE ({spec.title}: {spec.hint})"


def code_kind(kind: str) -> CodeKind:
    """Return the declaration of a kind. Raises UserError with the known kinds."""
    if kind not in KINDS:
        raise UserError(f"unknown kind of codes {kind!r}; known: {', '.join(KINDS)}")
    return KINDS[kind]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise UserError(f"cannot read {file}: {problem.strerror}") from problem


def _decode(raw: bytes, file: Path) -> str:
    try:
        plain = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, OSError, zlib.error) as problem:
        raise UserError(f"{file} is a broken gzip file ({problem}); fetch it again") from problem
    try:
        return plain.decode("utf-8-sig")
    except UnicodeDecodeError:
        return plain.decode("latin-1")


def _rows(spec: CodeKind, text: str, file: Path) -> tuple[CodeFormat, Iterator[Row]]:
    """Return the layout whose header is in one of the first three lines, and the rows below it."""
    lines = text.splitlines()
    for number, line in enumerate(lines[:3]):
        header = [cell.strip() for cell in next(csv.reader([line]), [])]
        for layout in spec.formats:
            if set(layout.header) <= set(header):
                return layout, _read_rows(layout, header, lines[number + 1 :])
    wanted = " or ".join(", ".join(layout.header) for layout in spec.formats)
    raise UserError(f"{file}: its first lines name none of the layouts of {spec.name!r} (columns {wanted})")


def _read_rows(layout: CodeFormat, header: list[str], lines: Iterable[str]) -> Iterator[Row]:
    for cells in csv.reader(lines):
        if len(cells) >= len(header):
            line = dict(zip(header, cells, strict=False))
            row = layout.row(*(line[name] for name in layout.of or layout.header))
            if row is not None:
                yield tuple(" ".join(cell.split()) for cell in row)


def _write(home: Path, record: UserCodes, columns: Row, rows: Iterable[Row]) -> None:
    """Write the table first and its record last, each in one rename. A record never exists without its table."""
    home.mkdir(parents=True, exist_ok=True)
    table = "\n".join("\t".join(row) for row in [columns, *rows]) + "\n"
    for name, text in ((f"{record.kind}.tsv", table), (f"{record.kind}.json", json.dumps(asdict(record), indent=1))):
        draft = home / f".{name}.part"
        draft.write_text(text, encoding="utf-8")
        draft.replace(home / name)
