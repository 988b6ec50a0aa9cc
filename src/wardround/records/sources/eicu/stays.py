"""Where in time the stays of eICU lie. Only times of day and distances within a hospital stay are known.

Every hospital stay begins on one invented day and is a record of its own: which of a person's stays came first is told
by nothing but the outcome (who died was there last) and the year of discharge, so none is put before another. Nothing
here may read how a stay ended. Inside a hospital stay all distances are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

INVENTED_DAY = date(2014, 1, 1)
"""The day of every hospital admission. All stays of eICU-CRD ended in 2014 or 2015."""
OLDEST = 90
"""What ``> 89`` counts as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStay:
    """What of a row of ``patient`` places it: the offset in minutes since unit admission."""

    unit_stay: int
    hospital_stay: int
    person: str
    hospital_admit_time: time
    hospital_admit_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HospitalStay:
    """A hospital stay, placed in time, and the unit admissions in it, the first one first."""

    person: str
    admitted: datetime
    unit_admissions: Mapping[int, datetime]


def place_stays(stays: Iterable[UnitStay]) -> dict[int, HospitalStay]:
    """Return every hospital stay with its invented, deterministic times.

    Offsets count whole minutes from the minute of hospital admission; its seconds, where there are any, are left out.
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
