"""Where in time the stays of eICU lie. Only the year of discharge and the time of day are known; the day is invented.

The first stay of a person begins on 1 January of its year. A later one begins on 1 January of its own year, or 30 days
after the one before has ended, if that is later. So the place of a stay depends on itself and on earlier ones only:
nothing of a later stay can be read off the date of an earlier one. Inside a hospital stay all distances are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta

GAP = timedelta(days=30)
"""Between the end of one hospital stay and the beginning of the next of the same person; invented."""
OLDEST = 90
"""What ``> 89`` counts as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStay:
    """One row of ``patient``: offsets in minutes since unit admission."""

    unit_stay: int
    hospital_stay: int
    person: str
    year: int
    hospital_admit_time: time
    hospital_admit_offset: int
    hospital_discharge_offset: int | None = None
    unit_discharge_offset: int | None = None
    age: int | None = None
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HospitalStay:
    """A hospital stay, placed in time, and the unit admissions in it."""

    person: str
    admitted: datetime
    unit_admissions: Mapping[int, datetime]


def place_stays(stays: Iterable[UnitStay]) -> dict[int, HospitalStay]:
    """Return every hospital stay with its invented, deterministic times; stays of one person never overlap.

    A person's hospital stays are ordered by year of discharge, age, death last, then number: the evidence there is.
    """
    parts: dict[int, list[UnitStay]] = defaultdict(list)
    for stay in stays:
        parts[stay.hospital_stay].append(stay)
    persons: dict[str, list[list[UnitStay]]] = defaultdict(list)
    for units in parts.values():
        persons[units[0].person].append(units)
    placed: dict[int, HospitalStay] = {}
    for person, hospital_stays in persons.items():
        free = datetime.min
        for units in sorted(hospital_stays, key=_evidence):
            first = units[0]
            day = max(datetime(first.year, 1, 1), free)
            admitted = datetime.combine(day.date(), first.hospital_admit_time)
            admissions = {unit.unit_stay: admitted - timedelta(minutes=unit.hospital_admit_offset) for unit in units}
            placed[first.hospital_stay] = HospitalStay(person=person, admitted=admitted, unit_admissions=admissions)
            last = max(admitted, *(_end(unit, admissions[unit.unit_stay]) for unit in units))
            free = datetime.combine(last.date(), time.min) + timedelta(days=1) + GAP
    return placed


def _evidence(units: list[UnitStay]) -> tuple[int, int, bool, int]:
    ages = [unit.age for unit in units if unit.age is not None]
    first = units[0]
    return first.year, min(ages, default=0), any(unit.expired for unit in units), first.hospital_stay


def _end(unit: UnitStay, admitted: datetime) -> datetime:
    offsets = (unit.hospital_discharge_offset, unit.unit_discharge_offset)
    return admitted + timedelta(minutes=max((offset for offset in offsets if offset is not None), default=0))
