"""Which files of a folder may be one table: their names differ by a number or a month, and they have one header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.core import UserError
from wardround.records.drafts.first_rows import first_rows
from wardround.records.reading.source_files import DATA_SUFFIXES, is_empty, matching_files, table_files

_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december|"
    "januar|februar|märz|maerz|mai|juni|juli|oktober|dezember|"
    "janvier|février|fevrier|mars|avril|juin|juillet|août|aout|septembre|octobre|novembre|décembre|decembre|"
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|"
    "jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|okt|nov|dec|dez|mrz|mär|ene|abr|ago|dic"
)
_TURN = re.compile(rf"\d+|(?<![^\W\d_])(?:{_MONTHS})(?![^\W\d_])", re.IGNORECASE)
"""What differs between the files of one table: a number, or a month that stands alone."""
_ROWS_COMPARED = 5
_ALIKE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """Files that may be one table, what a spec calls them, and what to call them in words. ``note``: what somebody
    should look at."""

    path: str
    shown: str
    files: tuple[Path, ...]
    note: str = ""


def grouped_files(folder: Path) -> tuple[list[TableFiles], dict[str, str]]:
    """Return the tables that a folder may hold, and every file that is in none of them, with the reason."""
    left_out = {
        path.relative_to(folder).as_posix(): _why(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (not path.name.lower().endswith(DATA_SUFFIXES) or is_empty(path) or _is_hidden(path))
    }
    tables: list[TableFiles] = []
    for path, shown, files in table_files(folder):
        try:
            for file in files:
                first_rows(file, _ROWS_COMPARED)
        except UserError as error:
            left_out |= {file.relative_to(folder).as_posix(): str(error).rpartition(": ")[2] for file in files}
            continue
        tables.append(TableFiles(path=path, shown=shown, files=files))
    return list(_together(folder, tables)), left_out


def _is_hidden(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def _why(path: Path) -> str:
    if not path.name.lower().endswith(DATA_SUFFIXES):
        endings = ", ".join(DATA_SUFFIXES)
        return f"its name ends in none of {endings}; a table of text: call it .csv"
    return "its name begins with a point or a line" if _is_hidden(path) else "it is empty"


def _together(folder: Path, tables: Sequence[TableFiles]) -> Iterable[TableFiles]:
    """Yield one table for files that differ by a number or a month in the name and have one header, else each alone."""
    by_form: dict[str, list[TableFiles]] = {}
    for table in tables:
        by_form.setdefault(_TURN.sub("#", table.path.casefold()), []).append(table)
    for several in by_form.values():
        one = _one(folder, several) if len(several) > 1 else None
        yield from several if one is None else (one,)


def _one(folder: Path, several: Sequence[TableFiles]) -> TableFiles | None:
    """Return several files as one table; None where their headers differ much, or no pattern has just them."""
    files = tuple(file for table in several for file in table.files)
    heads = [first_rows(file, _ROWS_COMPARED) for file in files]
    headers = [frozenset(name.strip().lower() for name in head.header) for head in heads]
    every, shared = frozenset().union(*headers), headers[0].intersection(*headers)
    marks = {head.delimiter for head in heads}
    encodings = {head.encoding for head in heads if head.encoding}
    if len(shared) < _ALIKE * len(every) or len(marks) > 1 or len(encodings) > 1:
        return None
    for pattern in _patterns([table.path for table in several]):
        if set(matching_files([folder], pattern)) == set(files):
            some = sorted(every - shared)
            note = f"not in all of these files: {', '.join(some)}" if some else ""
            shown = f"{several[0].shown} and {len(files) - 1} more of such names"
            return TableFiles(path=pattern, shown=shown, files=files, note=note)
    return None


def _patterns(paths: Sequence[str]) -> Iterable[str]:
    """Yield patterns for some names, the widest first: next month's file should fit as well."""
    first = paths[0]
    turns = list(_TURN.finditer(first))
    begin, end = turns[0].start(), turns[-1].end()
    if "/" not in first[begin:end]:
        yield f"{first[:begin]}*{first[end:]}"
    yield _TURN.sub("*", first)
    if not any(turn[0].isalpha() for turn in turns):
        yield _TURN.sub("[0-9]*", first)


def plain_name(pattern: str) -> str:
    """Return what is left of a pattern as a name: ``labor`` of ``Labor_*``."""
    return re.sub(r"[\W_]+", " ", pattern.replace("[0-9]*", " ").replace("*", " ")).strip()
