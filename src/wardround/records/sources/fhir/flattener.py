"""Every resource of a FHIR export to the rows of its tables, counted and, where it is broken, set aside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir import clinical, medications, people, results
from wardround.records.sources.fhir.context import Maker, NobodysResource, ResourceReading, Row
from wardround.records.sources.fhir.files import Found, read_resources
from wardround.records.sources.fhir.offsets import OffsetCounts
from wardround.records.sources.fhir.references import NAMING_TYPES, Names
from wardround.records.sources.fhir.values import Malformed, without_unread_ends
from wardround.records.specs.wall_clock import WallClock

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


_SEVERAL_OFFSETS = "offsets of times that no clock of one place explains (say which with --time-zone)"


def flatten_fhir(files: Sequence[Path], flat: FlatTables) -> None:
    """Write the rows of every resource. Reads the files twice: what medications and places are called comes first."""
    names = Names.read(files)
    clock = WallClock.named(flat.spec.time_zone) if flat.spec.time_zone else None
    flat.declare((*flat.spec.tables, *flat.spec.dictionaries))
    people_seen: set[str] = set()
    for file in files:
        used, offsets = False, OffsetCounts()
        for found in read_resources(file):
            used = True
            flat.read(file)
            if found.reason:
                flat.set_aside(file=file, line=found.line, reason=found.reason, raw=found.raw)
            elif not _is_repeated(found, people_seen, flat):
                offsets.add(found.resource)
                _take(replace(found, resource=clock.read(found.resource)) if clock else found, names, flat)
        if not used:
            flat.unused_files.append(file)
        if clock is None and offsets.unexplained:
            flat.leave_out(_SEVERAL_OFFSETS, offsets.unexplained)
    unknown = len(flat.subjects) - len(people_seen)
    if unknown > 0:
        flat.leave_out("subjects without a Patient in the export", unknown)


def _is_repeated(found: Found, seen: set[str], flat: FlatTables) -> bool:
    """Say whether a Patient was there before: one person is one row."""
    key = found.resource.get("id")
    if found.resource["resourceType"] != "Patient" or not isinstance(key, str):
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
    """Return the rows of one resource, of which none are written; what has none is counted in ``flat``.

    An end that cannot be read is left out and counted: how it is written must not decide whether the resource is there
    before. Malformed: something else cannot be read.
    """
    left_out = flat.left_out.copy()
    try:
        return _rows(found, names, flat)
    except Malformed:
        flat.left_out = left_out  # what is read again, or set aside whole, has left nothing out
        body, unread = without_unread_ends(found.resource)
        if not unread:
            raise
        flat.leave_out(f"{found.resource['resourceType']}: ends that cannot be read", unread)
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
