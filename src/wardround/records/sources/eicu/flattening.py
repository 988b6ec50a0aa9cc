"""eICU's files as tables: minutes since unit admission become times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import UserError, to_microseconds
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.reading.source_files import reason_kinds
from wardround.records.reading.table_reader import TableReader
from wardround.records.specs.spec import ColumnType, integers, valid

# Dates of eICU's stays. The source has only times of day and time differences within a hospital stay.
#
# Every hospital stay begins on the same invented day and is a record of its own: the order of a person's stays could be
# derived only from the outcome (a death is in the last one) and the year of discharge, so no order is assumed. Nothing
# here may read how a stay ended. Within a hospital stay all time differences are exact.


INVENTED_DAY = date(2014, 1, 1)
"""The day of every hospital admission. All stays of eICU-CRD ended in 2014 or 2015."""
OLDEST = 90
"""What ``> 89`` counts as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStay:
    """The part of a row of ``patient`` that gives its times: offsets in minutes since unit admission."""

    unit_stay: int
    hospital_stay: int
    person: str
    hospital_admit_time: time
    hospital_admit_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HospitalStay:
    """A hospital stay with its times, and the unit admissions in it, the first one first."""

    person: str
    admitted: datetime
    unit_admissions: Mapping[int, datetime]


def place_stays(stays: Iterable[UnitStay]) -> dict[int, HospitalStay]:
    """Return every hospital stay with its invented, deterministic times.

    Offsets count whole minutes from the minute of hospital admission; its seconds are ignored.
    """
    parts: dict[int, list[UnitStay]] = defaultdict(list)
    for stay in stays:
        parts[stay.hospital_stay].append(stay)
    return {number: _placed(units) for number, units in parts.items()}


def _placed(units: list[UnitStay]) -> HospitalStay:
    admitted = datetime.combine(INVENTED_DAY, units[0].hospital_admit_time)
    minute = admitted.replace(second=0, microsecond=0)
    admissions = {unit.unit_stay: minute - timedelta(minutes=unit.hospital_admit_offset) for unit in units}
    in_order = dict(sorted(admissions.items(), key=lambda item: (item[1], item[0])))
    return HospitalStay(person=units[0].person, admitted=admitted, unit_admissions=in_order)


# eICU's raw files as the tables of its spec: offsets become times, and each row gets its subject and hospital stay.
#
# A column of type time in the spec, ``labresulttime``, is made from raw ``labresultoffset``; ``x_number`` is the raw
# ``x`` if that is a number, ``x_text`` the number ``x`` with its name. Three tables are made from the raw ``patient``:
# ``person``, ``hospital_stay`` and ``patient``. A subject is a hospital stay (see above).


STAY = "patientunitstayid"
HOSPITAL_STAY = "patienthealthsystemstayid"
OPENED = "recordopentime"
"""When the record of a row's unit stay opens: at hospital admission for the first one of a hospital stay, at its own
admission for a later one, because an earlier row of it says that it will come."""
MADE_OF_PATIENT = ("person", "hospital_stay", "patient")
_MINUTE = 60_000_000
_NUMBER, _TEXT = "_number", "_text"
_NO_TIME_AT_ZERO = frozenset({"drugstopoffset", "ventstartoffset", "ventendoffset"})
_NO_TIME_AT_ZERO |= {"priorventstartoffset", "priorventendoffset"}
"""Offsets that are 0 where nothing was recorded."""
_NUMERIC = r"^\s*[-+]?\d+(\.\d*)?\s*$"
_LARGEST_OFFSET = 60 * 24 * 366 * 100


def flatten_eicu(files: Sequence[Path], flat: FlatTables) -> None:
    """Write the tables of the eICU spec. UserError: the file ``patient`` is missing."""
    found: dict[str, Path] = {}
    wanted = {name: name for name in ("patient", *flat.spec.tables, *flat.spec.dictionaries)}
    for path in files:
        name = wanted.get(path.name.partition(".")[0].lower())
        if name is None or name in found or name in MADE_OF_PATIENT[:2]:
            flat.unused_files.append(path)
        else:
            found[name] = path
    if "patient" not in found:
        raise UserError(
            "patient.csv or patient.csv.gz is missing: offsets of eICU cannot be converted to times without it"
        )
    flat.declare({*MADE_OF_PATIENT, *found})
    stays = _write_patients(found["patient"], flat)
    for name, path in found.items():
        if name in flat.spec.dictionaries:
            columns = dict(flat.spec.dictionaries[name].columns)
            for rows in _read(path, name, flat, columns, ()):
                _leave_out_cells(name, rows, columns, flat)
                flat.write(name, rows.select([column for column in rows.column_names if column in columns]))
        elif name not in MADE_OF_PATIENT:
            _write_table(name, path, flat, stays)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stays:
    """The unit stays as every other file needs them, sorted by their number."""

    units: npt.NDArray[np.int64]
    subjects: npt.NDArray[np.int64]
    hospital_stays: npt.NDArray[np.int64]
    admissions: npt.NDArray[np.int64]
    opened: npt.NDArray[np.int64]


def _write_table(name: str, path: Path, flat: FlatTables, stays: _Stays) -> None:
    spec = flat.spec.tables[name]
    made = {"subject_id", HOSPITAL_STAY, OPENED}
    raw = {_raw_name(column, kind): kind for column, kind in spec.columns.items() if column not in made}
    columns: dict[str, ColumnType] = {column: "int" if kind == "time" else kind for column, kind in raw.items()}
    columns |= {column: "text" for column in columns if f"{column}{_NUMBER}" in spec.columns}
    columns |= {column: "int" for column in columns if f"{column}{_TEXT}" in spec.columns}
    columns |= dict.fromkeys(spec.unique, "int")
    required = [_raw_name(column, spec.columns[column]) for column in spec.required]
    later = {_raw_name(column, spec.columns[column]) for column in spec.later_columns}
    for rows in _read(path, name, flat, columns, required, later=later):
        numbers = integers(rows.column(STAY).combine_chunks(), null=-1)
        places = np.minimum(np.searchsorted(stays.units, numbers), len(stays.units) - 1)
        known = stays.units[places] == numbers
        if not known.all():
            flat.leave_out(f"{name}: rows of stays that are not in patient", int(np.count_nonzero(~known)))
            rows, places = rows.filter(pa.array(known)), places[known]
        _leave_out_cells(name, rows, columns, flat)
        cells: dict[str, Any] = {"subject_id": stays.subjects[places], HOSPITAL_STAY: stays.hospital_stays[places]}
        cells[OPENED] = pa.array(stays.opened[places], pa.timestamp("us"))
        for column, kind in spec.columns.items():
            source = _raw_name(column, kind)
            if column in made or source not in rows.column_names:
                continue
            array = rows.column(source).combine_chunks()
            if kind == "time":
                array = _times(array, source, stays.admissions[places])
            elif column.endswith(_NUMBER):
                array = _as_numbers(array)
            elif column.endswith(_TEXT):
                array = pc.binary_join_element_wise(pa.scalar(source), array.cast(pa.string()), pa.scalar(" "))
            cells[column] = array
        cells |= {column: rows.column(column) for column in spec.unique if column in rows.column_names}
        flat.write(name, pa.table(cells))


def _raw_name(column: str, kind: ColumnType) -> str:
    """Return the raw column from which a column of the spec is made. Only a column of times is made from offsets."""
    for ending in (_NUMBER, _TEXT):
        if column.endswith(ending):
            return column.removesuffix(ending)
    return f"{column.removesuffix('time')}offset" if kind == "time" else column


def _times(offsets: Any, column: str, admissions: npt.NDArray[np.int64]) -> Any:
    minutes = integers(offsets, null=0)
    missing = ~valid(offsets) | (np.abs(minutes) > _LARGEST_OFFSET)
    if column in _NO_TIME_AT_ZERO:
        missing |= minutes == 0
    times = admissions + np.where(missing, 0, minutes) * _MINUTE
    return pa.array(times, pa.timestamp("us"), mask=missing)


def _as_numbers(texts: Any) -> Any:
    numeric = pc.fill_null(pc.match_substring_regex(texts, _NUMERIC), False)
    return pc.if_else(numeric, pc.utf8_trim_whitespace(texts), None).cast(pa.float64())


def _read(
    path: Path,
    name: str,
    flat: FlatTables,
    columns: dict[str, ColumnType],
    required: Sequence[str],
    *,
    later: Collection[str] = (),
) -> Any:
    """Yield the rows of a raw file; broken ones are set aside. Undeclared columns are text."""
    is_table = name not in flat.spec.dictionaries
    key = [STAY] if is_table else list(flat.spec.dictionaries[name].key)
    reader = TableReader(
        path=path,
        name=name,
        columns=columns,
        required=list(dict.fromkeys([*key, *required])),
        needed=key,
        ignored=flat.spec.ignored,
        later=later,
    )
    reader.header()
    undeclared: dict[str, ColumnType] = dict.fromkeys(reader.counts.unknown_columns, "text")
    for cells in replace(reader, columns={**columns, **undeclared}).read():
        for broken in cells.broken:
            flat.set_aside(file=path, line=broken.line, reason=broken.reason, raw=broken.raw)
        for reason, count in reason_kinds(cells.emptied).items():
            flat.leave_out(f"{name}: cells that cannot be read, {reason}", count)
        flat.read(path, cells.table.num_rows)
        yield cells.table


def _leave_out_cells(name: str, rows: pa.Table, columns: Mapping[str, ColumnType], flat: FlatTables) -> None:
    """Count the filled cells of columns that the spec does not have."""
    for column in rows.column_names:
        if column not in columns:
            flat.leave_out(f"{name}: cells of column {column}", rows.num_rows - rows.column(column).null_count)


_PATIENT: dict[str, ColumnType] = {
    STAY: "int",
    HOSPITAL_STAY: "int",
    "uniquepid": "text",
    "gender": "text",
    "age": "text",
    "ethnicity": "text",
    "hospitalid": "int",
    "wardid": "int",
    "apacheadmissiondx": "text",
    "admissionheight": "float",
    "hospitaladmittime24": "text",
    "hospitaladmitoffset": "int",
    "hospitaladmitsource": "text",
    "hospitaldischargeyear": "int",
    "hospitaldischargeoffset": "int",
    "hospitaldischargelocation": "text",
    "hospitaldischargestatus": "text",
    "unittype": "text",
    "unitadmitsource": "text",
    "unitvisitnumber": "int",
    "unitstaytype": "text",
    "admissionweight": "float",
    "dischargeweight": "float",
    "unitdischargeoffset": "int",
    "unitdischargelocation": "text",
    "unitdischargestatus": "text",
}
_LATER_OF_PATIENT = frozenset({name for name in _PATIENT if "discharge" in name})
_NEEDED = (STAY, HOSPITAL_STAY, "uniquepid", "hospitaladmittime24", "hospitaladmitoffset")


def _write_patients(path: Path, flat: FlatTables) -> _Stays:
    """Write the three tables made from ``patient``, and return the valid stays."""
    raw: dict[int, dict[str, Any]] = {}
    units: list[UnitStay] = []
    for rows in _read(path, "patient", flat, dict(_PATIENT), _NEEDED, later=_LATER_OF_PATIENT):
        _leave_out_cells("patient", rows, _PATIENT, flat)
        for row in rows.to_pylist():
            unit = _unit_stay(row)
            if isinstance(unit, str) or unit.unit_stay in raw:
                reason = unit if isinstance(unit, str) else f"{STAY} stands there twice"
                flat.set_aside(file=path, line=0, reason=reason, raw=str(row))
            else:
                raw[unit.unit_stay] = row
                units.append(unit)
    if not units:
        raise UserError(f"{path}: no row has a person, a hospital stay and an admission time")
    placed = place_stays(units)
    for number, stay in placed.items():
        first = raw[next(iter(stay.unit_admissions))]
        flat.add("person", _person(number, first, flat))
        flat.add("hospital_stay", _hospital_stay(number, stay, raw, flat))
        for name, admitted in stay.unit_admissions.items():
            flat.add("patient", _unit_row(raw[name], admitted, flat))
    order = sorted(raw)
    admissions = {name: to_microseconds(at) for stay in placed.values() for name, at in stay.unit_admissions.items()}
    opened = admissions | {next(iter(stay.unit_admissions)): to_microseconds(stay.admitted) for stay in placed.values()}
    return _Stays(
        units=np.array(order, np.int64),
        subjects=np.array([_subject(raw[name][HOSPITAL_STAY], flat) for name in order], np.int64),
        hospital_stays=np.array([raw[name][HOSPITAL_STAY] for name in order], np.int64),
        admissions=np.array([admissions[name] for name in order], np.int64),
        opened=np.array([opened[name] for name in order], np.int64),
    )


def _subject(hospital_stay: int, flat: FlatTables) -> int:
    return flat.subjects.number(str(hospital_stay))


def _unit_stay(row: dict[str, Any]) -> UnitStay | str:
    """Parse a row of ``patient``; a text says what is wrong with it."""
    missing = [name for name in _NEEDED if row.get(name) is None]
    if missing:
        return f"{missing[0]} is missing"
    try:
        admit_time = time.fromisoformat(row["hospitaladmittime24"])
        if admit_time.tzinfo is not None:
            raise ValueError(row["hospitaladmittime24"])
    except ValueError:
        return f"hospitaladmittime24: {row['hospitaladmittime24']!r} is no time of day"
    return UnitStay(
        unit_stay=row[STAY],
        hospital_stay=row[HOSPITAL_STAY],
        person=row["uniquepid"].strip(),
        hospital_admit_time=admit_time,
        hospital_admit_offset=row["hospitaladmitoffset"],
    )


def _age(text: str | None) -> int | None:
    text = (text or "").strip()
    return OLDEST if text.startswith(">") else int(text) if text.isdecimal() else None


def _after(admitted: datetime, minutes: int | None) -> datetime | None:
    return None if minutes is None else admitted + timedelta(minutes=minutes)


def _person(hospital_stay: int, row: dict[str, Any], flat: FlatTables) -> dict[str, Any]:
    return {
        "subject_id": _subject(hospital_stay, flat),
        "uniquepid": row["uniquepid"].strip(),
        "gender": row.get("gender"),
        "ethnicity": row.get("ethnicity"),
        "age_at_admission": _age(row.get("age")),
        "invented_year": INVENTED_DAY.year,
    }


def _over(stay: HospitalStay, raw: Mapping[int, dict[str, Any]]) -> datetime | None:
    """Return when a hospital stay ended: at its discharge, but not before any of its unit stays; None if unknown.

    Some people leave the hospital, or die, hours before they leave the unit, and treatment is still recorded there.
    """
    ends = [
        _after(admitted, raw[unit].get(f"{place}dischargeoffset"))
        for unit, admitted in stay.unit_admissions.items()
        for place in ("hospital", "unit")
    ]
    has_discharge = any(raw[unit].get("hospitaldischargeoffset") is not None for unit in stay.unit_admissions)
    return max((end for end in ends if end is not None), default=None) if has_discharge or _died(stay, raw) else None


def _died(stay: HospitalStay, raw: Mapping[int, dict[str, Any]]) -> bool:
    statuses = ("hospitaldischargestatus", "unitdischargestatus")
    return any(raw[unit].get(status) == "Expired" for unit in stay.unit_admissions for status in statuses)


def _hospital_stay(
    number: int, stay: HospitalStay, raw: Mapping[int, dict[str, Any]], flat: FlatTables
) -> dict[str, Any]:
    first, admitted = next(iter(stay.unit_admissions.items()))
    row, over = raw[first], _over(stay, raw)
    copied = ("hospitalid", "hospitaladmitsource", "hospitaldischargelocation", "hospitaldischargestatus")
    return {
        "subject_id": _subject(number, flat),
        HOSPITAL_STAY: number,
        "hospitaladmittime": stay.admitted,
        "hospitaldischargetime": _after(admitted, row.get("hospitaldischargeoffset")),
        "hospitaldischargeyear": row.get("hospitaldischargeyear"),
        "stayovertime": over,
        "deathtime": over if _died(stay, raw) else None,
        **{name: row.get(name) for name in copied},
    }


def _unit_row(row: dict[str, Any], admitted: datetime, flat: FlatTables) -> dict[str, Any]:
    names = flat.spec.tables["patient"].columns
    return {
        **{name: row.get(name) for name in names if name in row},
        "subject_id": _subject(row[HOSPITAL_STAY], flat),
        "unitadmittime": admitted,
        "unitdischargetime": _after(admitted, row.get("unitdischargeoffset")),
    }
