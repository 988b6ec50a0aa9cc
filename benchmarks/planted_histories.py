"""Histories of about 10,000 events with known rows planted in their raw files, out of the synthetic hospital.

The records of several invented patients who lived are laid end to end as those of one person: days are moved, nothing
else. Needles are rows written into the raw files (with their dictionary entries) before ingest, so that they pass
through everything a real row does. Each comes with two questions a clinician might ask: one in the words of the
needle's label, one that shares no word of four letters or more with it (checked).
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

_TIME, _DATE = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", r"^\d{4}-\d\d-\d\d$"
_PER_KIND = 2
KINDS = (
    "rare diagnosis years ago",
    "onset in the first stay",
    "procedure in the last stay",
    "last value of a laboratory test",
    "drug in mid-history",
)
Tables = dict[str, pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """A planted row: what it is called on the chart, and how it is asked for."""

    subject_id: int
    kind: str
    label: str
    questions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Choice:
    """What may be planted: a code, its label, the question in the label's words, the question in other words."""

    code: str
    label: str
    same_words: str
    other_words: str


def _pools() -> dict[str, list[_Choice]]:
    """What may be planted, by kind, from ``planted_needles.tsv``."""
    pools: dict[str, list[_Choice]] = {kind: [] for kind in KINDS}
    for line in Path(__file__).with_name("planted_needles.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        kind, *cells = line.split("\t")
        pools[kind].append(_Choice(*cells))
    return pools


def make_histories(raw: Path, folder: Path, *, events: int, seed: int) -> tuple[Needle, ...]:
    """Write raw files of long histories into ``folder``; return what was planted in them."""
    dice = np.random.default_rng(seed)
    tables = {str(file.relative_to(raw)): _read(file) for file in sorted(raw.rglob("*.csv.gz"))}
    histories = _pack(tables, events, dice)
    moved = {name: _join_lives(table, histories, patients="patients" in name) for name, table in tables.items()}
    pools = _pools()
    needles = [needle for owner in histories for needle in _plant(moved, owner[0][0], pools, dice)]
    for name, table in moved.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(file, "wb", compresslevel=1) as stream:
            pacsv.write_csv(table, stream)
    return tuple(needles)


def _read(file: Path) -> pa.Table:
    with gzip.open(file) as stream:
        names = stream.readline().decode().strip().replace('"', "").split(",")
    return pacsv.read_csv(
        file,
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def _pack(tables: Tables, events: int, dice: np.random.Generator) -> list[list[tuple[int, int]]]:
    """Choose whose records follow each other: for each history (subject, days moved), until it is long enough."""
    rows: dict[int, int] = {}
    for table in tables.values():
        if "subject_id" in table.column_names:
            for entry in pc.value_counts(table["subject_id"]).to_pylist():
                rows[int(entry["values"])] = rows.get(int(entry["values"]), 0) + entry["counts"]
    patients = tables["hosp/patients.csv.gz"]
    died = {int(subject) for subject, dod in zip(*_columns(patients, "subject_id", "dod"), strict=True) if dod}
    spans = _spans(tables["hosp/admissions.csv.gz"])
    donors = sorted(
        subject for subject, count in rows.items() if count >= 900 and subject in spans and subject not in died
    )
    histories: list[list[tuple[int, int]]] = []
    chain: list[tuple[int, int]] = []
    length, free = 0, datetime.min
    for subject in dice.permutation(donors).tolist():
        first, last = spans[subject]
        days = 0 if not chain else (free - first).days + 1 + int(dice.integers(150, 900))
        chain.append((subject, days))
        free = last + timedelta(days=days)
        length += rows[subject]
        if length >= events:
            histories.append(chain)
            chain, length = [], 0
    return histories


def _columns(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]


def _spans(admissions: pa.Table) -> dict[int, tuple[datetime, datetime]]:
    spans: dict[int, tuple[datetime, datetime]] = {}
    for subject, start, end in zip(*_columns(admissions, "subject_id", "admittime", "dischtime"), strict=True):
        moments = datetime.fromisoformat(start), datetime.fromisoformat(end)
        known = spans.get(int(subject), moments)
        spans[int(subject)] = min(known[0], moments[0]), max(known[1], moments[1])
    return spans


def _join_lives(table: pa.Table, histories: Sequence[Sequence[tuple[int, int]]], *, patients: bool) -> pa.Table:
    """Keep the rows of the chosen, under the first one's number, every time moved by whole days."""
    if "subject_id" not in table.column_names:
        return table
    owner = {subject: chain[0][0] for chain in histories for subject, _ in chain}
    days = {subject: moved for chain in histories for subject, moved in chain}
    subjects = [int(subject) for subject in table["subject_id"].to_pylist()]
    kept = pa.array([subject in owner and (not patients or owner[subject] == subject) for subject in subjects])
    table = table.filter(kept)
    subjects = [int(subject) for subject in table["subject_id"].to_pylist()]
    seconds = pa.array([days[subject] * 86_400 for subject in subjects], pa.int64()).cast(pa.duration("s"))
    columns = {name: _moved(table[name].combine_chunks(), seconds) for name in table.column_names}
    columns["subject_id"] = pa.array([str(owner[subject]) for subject in subjects])
    return pa.table(columns)


def _moved(column: Any, seconds: pa.Array) -> Any:
    values = column.drop_null()
    if not len(values) or column.type != pa.string():
        return column
    if pc.all(pc.match_substring_regex(values, _TIME)).as_py():
        return pc.add(pc.strptime(column, "%Y-%m-%d %H:%M:%S", "s"), seconds).cast(pa.string())
    if pc.all(pc.match_substring_regex(values, _DATE)).as_py():
        moved = pc.add(pc.strptime(column, "%Y-%m-%d", "s"), seconds).cast(pa.string())
        return pc.utf8_slice_codeunits(moved, 0, 10)
    return column


def _plant(
    tables: Tables, subject: int, pools: Mapping[str, Sequence[_Choice]], dice: np.random.Generator
) -> list[Needle]:
    """Plant two needles of each kind in one history."""
    admissions = tables["hosp/admissions.csv.gz"]
    columns = _columns(admissions, "subject_id", "hadm_id", "admittime", "dischtime")
    stays = sorted(
        (start, end, stay) for owner, stay, start, end in zip(*columns, strict=True) if int(owner) == subject
    )
    last = len(stays) - 1
    needles = []
    for number in range(_PER_KIND):
        years_ago = stays[int(dice.integers(1, max(2, int(0.6 * last))))]
        middle = stays[int(dice.integers(max(1, int(0.35 * last)), max(2, int(0.65 * last) + 1)))]
        tested = [stays[place] for place in sorted(dice.integers(last // 3, last + 1, size=3).tolist())]
        chosen = [pool[_drawn(dice, pool, subject, number)] for pool in pools.values()]
        rare, onset, procedure, lab, drug = chosen
        _diagnosis(tables, subject, years_ago, rare, 60 + number)
        _diagnosis(tables, subject, stays[0], onset, 70 + number)
        _procedure(tables, subject, stays[last], procedure, 60 + number)
        for place, stay in enumerate(tested):
            _lab(tables, subject, stay, lab, value=round(float(dice.uniform(40, 90)), 1), hours=5 + place)
        _drug(tables, subject, middle, drug)
        needles += [_needle(subject, kind, choice) for kind, choice in zip(KINDS, chosen, strict=True)]
    return needles


def _drawn(dice: np.random.Generator, pool: Sequence[_Choice], subject: int, number: int) -> int:
    """Two different members of a pool for one history."""
    half = len(pool) // _PER_KIND
    return int(dice.integers(half)) * _PER_KIND + (number + subject) % _PER_KIND


def _needle(subject: int, kind: str, choice: _Choice) -> Needle:
    shared = _long_words(choice.label) & _long_words(choice.other_words)
    if shared:
        raise AssertionError(f"{choice.other_words!r} is to be in other words, but shares {shared}")
    questions = {"same words": choice.same_words, "other words": choice.other_words}
    return Needle(subject_id=subject, kind=kind, label=choice.label, questions=questions)


def _long_words(text: str) -> set[str]:
    return set(re.findall(r"\w{4,}", text.casefold()))


def _add(tables: Tables, name: str, row: Mapping[str, object]) -> None:
    table = tables[name]
    cells = {column: [None if row.get(column) is None else str(row[column])] for column in table.column_names}
    added = pa.table({column: pa.array(cell, pa.string()) for column, cell in cells.items()})
    tables[name] = pa.concat_tables([table.cast(added.schema), added])


def _known(tables: Tables, name: str, **row: str) -> None:
    """Put an entry into a dictionary, unless it is there."""
    key = next(iter(row))
    if row[key] not in tables[name][key].to_pylist():
        _add(tables, name, row)


def _diagnosis(tables: Tables, subject: int, stay: tuple[str, str, str], choice: _Choice, number: int) -> None:
    _known(tables, "hosp/d_icd_diagnoses.csv.gz", icd_code=choice.code, icd_version="10", long_title=choice.label)
    row = {"subject_id": subject, "hadm_id": stay[2], "seq_num": number, "icd_code": choice.code, "icd_version": 10}
    _add(tables, "hosp/diagnoses_icd.csv.gz", row)


def _procedure(tables: Tables, subject: int, stay: tuple[str, str, str], choice: _Choice, number: int) -> None:
    _known(tables, "hosp/d_icd_procedures.csv.gz", icd_code=choice.code, icd_version="10", long_title=choice.label)
    row = {"subject_id": subject, "hadm_id": stay[2], "seq_num": number, "icd_code": choice.code, "icd_version": 10}
    _add(tables, "hosp/procedures_icd.csv.gz", row | {"chartdate": stay[0][:10]})


def _lab(
    tables: Tables, subject: int, stay: tuple[str, str, str], choice: _Choice, *, value: float, hours: int
) -> None:
    _known(
        tables, "hosp/d_labitems.csv.gz", itemid=choice.code, label=choice.label, fluid="Blood", category="Chemistry"
    )
    time = datetime.fromisoformat(stay[0]) + timedelta(hours=hours)
    number = 9_000_000_000 + tables["hosp/labevents.csv.gz"].num_rows
    row = {"labevent_id": number, "subject_id": subject, "hadm_id": stay[2], "specimen_id": number}
    row |= {"itemid": choice.code, "charttime": time, "storetime": time, "value": value, "valuenum": value}
    _add(tables, "hosp/labevents.csv.gz", row | {"valueuom": "units/mL", "flag": "abnormal"})


def _drug(tables: Tables, subject: int, stay: tuple[str, str, str], choice: _Choice) -> None:
    start = datetime.fromisoformat(stay[0]) + timedelta(hours=3)
    row = {"subject_id": subject, "hadm_id": stay[2], "starttime": start, "stoptime": stay[1], "drug_type": "MAIN"}
    _add(tables, "hosp/prescriptions.csv.gz", row | {"drug": choice.code, "dose_val_rx": "1", "dose_unit_rx": "TAB"})
