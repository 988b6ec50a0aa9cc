"""Convert every resource of a FHIR export to rows; count them and set broken ones aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from wardround.core import UserError
from wardround.core.garbage import no_cycle_collection
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir import clinical, medications, people, results
from wardround.records.sources.fhir.context import NAMING_TYPES, Maker, Names, NobodysResource, ResourceReading, Row
from wardround.records.sources.fhir.files import Elements, Found, once, read_resources
from wardround.records.sources.fhir.values import Malformed, without_unread_ends
from wardround.records.specs.wall_clock import UndeclaredZone, WallClock, offsets

MAKERS: Mapping[str, Maker] = {
    "Patient": people.patient,
    "Encounter": people.encounter,
    "Condition": clinical.condition,
    "AllergyIntolerance": clinical.allergy,
    "Procedure": clinical.procedure,
    "Immunization": clinical.immunization,
    "Specimen": clinical.specimen,
    "ImagingStudy": clinical.imaging_study,
    "Observation": results.observation,
    "DiagnosticReport": results.report,
    "DocumentReference": results.document,
    "MedicationRequest": medications.request,
    "MedicationAdministration": medications.administration,
    "MedicationDispense": medications.dispense,
    "MedicationStatement": medications.statement,
}
"""The types that become rows. Those of ``NAMING_TYPES`` give names to others; the rest is counted as left out."""

_LOOKED_AT = 1_000
"""The number of resources of a file that are searched for offsets, for the error message."""


@no_cycle_collection()
def flatten_fhir(files: Sequence[Path], flat: FlatTables) -> None:
    """Write the rows of every resource. The files are read twice: first for the names of medications and places.
    UserError: times have UTC offsets, and no time zone of the hospital is given."""
    names = Names.read(files)
    clock = WallClock.named(flat.spec.time_zone) if flat.spec.time_zone else None
    elements = Elements(clock)
    flat.declare((*flat.spec.tables, *flat.spec.dictionaries))
    people_seen: set[str] = set()
    for file in files:
        used = False
        for found in read_resources(file, elements):
            used = True
            flat.read(file)
            if found.reason:
                flat.set_aside(file=file, line=found.line, reason=found.reason, raw=found.raw)
            elif not _is_repeated(found, people_seen, flat):
                if clock is None:
                    _require_local(file, found)
                _take(found, names, flat)
        if not used:
            flat.unused_files.append(file)
    unknown = len(flat.subjects) - len(people_seen)
    if unknown > 0:
        flat.leave_out("subjects without a Patient in the export", unknown)


def require_local_times(found: Found) -> None:
    """Raise UndeclaredZone if a resource that becomes rows has a time with an offset from UTC."""
    if found.resource["resourceType"] in MAKERS:
        for value in found.resource.values():
            offset = _first_offset(value)
            if offset is not None:
                raise UndeclaredZone(offset)


@once
def _first_offset(value: Any) -> str | None:
    return next(offsets(value), None)


def _require_local(file: Path, found: Found) -> None:
    try:
        require_local_times(found)
    except UndeclaredZone as error:
        raise UserError(_undeclared(file, str(error))) from None


def _undeclared(file: Path, first: str) -> str:
    looked_at = (each.resource for each in islice(read_resources(file, Elements()), _LOOKED_AT))
    found = sorted({first, *(offset for each in looked_at for offset in offsets(each))})
    return (
        f"{file}: its times have a UTC offset ({', '.join(found)}); say the hospital's zone, as --time-zone "
        f"America/New_York, or --time-zone={first.replace('Z', '+00:00')} for a clock that is never changed"
    )


def _is_repeated(found: Found, seen: set[str], flat: FlatTables) -> bool:
    """Return whether a Patient was read before: one person is one row."""
    if found.resource["resourceType"] != "Patient":
        return False
    key = found.resource.get("id")
    if not isinstance(key, str):
        return False
    if key in seen:
        flat.leave_out("Patient given again")
        return True
    seen.add(key)
    return False


def _take(found: Found, names: Names, flat: FlatTables) -> None:
    try:
        rows = resource_rows(found, names, flat)
    except Malformed as error:
        raw = json.dumps(found.resource, ensure_ascii=False)
        reason = f"{found.resource['resourceType']}: {error}"
        flat.set_aside(file=found.file, line=found.line, reason=reason, raw=raw)
        return
    for table, row in rows:
        flat.add(table, row)


def resource_rows(found: Found, names: Names, flat: FlatTables) -> Sequence[tuple[str, Row]]:
    """Return the rows of one resource; nothing is written here. A resource without rows is counted in ``flat``.

    An end that cannot be read is left out and counted: its spelling must not decide whether the resource exists before.
    Malformed: something else cannot be read.
    """
    left_out = dict(flat.left_out)
    try:
        return _rows(found, names, flat)
    except Malformed:
        flat.left_out = Counter(left_out)  # what is read again, or set aside whole, has left nothing out
        body, unread = without_unread_ends(found.resource)
        if not unread:
            raise
        flat.leave_out(f"{found.resource['resourceType']}: end times that cannot be read", unread)
        return _rows(replace(found, resource=body), names, flat)


def _rows(found: Found, names: Names, flat: FlatTables) -> Sequence[tuple[str, Row]]:
    kind = str(found.resource["resourceType"])
    maker = MAKERS.get(kind)
    if maker is None:
        if kind not in NAMING_TYPES:
            flat.leave_out(kind)
        return ()
    reading = ResourceReading(found=found, names=names, flat=flat)
    try:
        return [*maker(reading), *reading.added()]
    except NobodysResource:
        return ()
