"""Convert one FHIR resource to rows, and resolve its references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir.files import Elements, Found, Json, once, read_resources
from wardround.records.sources.fhir.values import (
    NOTHING,
    CodedConcept,
    Malformed,
    coding,
    concept,
    joined,
    label,
    labels,
    moment,
    part,
    parts,
    plain_texts,
    system_name,
    text,
)

# Parts of a resource with their own time: each is known from that time on, not with the whole resource.
#
# One table declares them. A part without a time, or not later than the whole, stays a cell of the whole; every other
# part is a row of ``additions``, whose clock is the later of its own time and the whole's.


Words = tuple[str | None, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPart:
    """A repeated element: the paths of its time and its text. ``of``: the types that use it; the text comes with
    reasons why some could not be read."""

    time: Callable[[Json], datetime | None]
    words: Callable[[Json], Words]
    of: tuple[str, ...]


def _reaction(item: Json) -> Words:
    return joined([labels(item, "manifestation"), text(item, "severity"), text(item, "description")]), []


def _series(item: Json) -> Words:
    named = [coding(part(item, name)).label for name in ("modality", "bodySite")]
    return joined([*named, text(item, "description")]), []


_NOTED = (
    *("Condition", "AllergyIntolerance", "Procedure", "Immunization", "Specimen", "ImagingStudy", "Observation"),
    *("MedicationRequest", "MedicationAdministration", "MedicationDispense", "MedicationStatement"),
)
DATED_PARTS: Mapping[str, DatedPart] = {
    "note": DatedPart(time=lambda item: moment(item, "time"), words=lambda item: (text(item, "text"), []), of=_NOTED),
    "reaction": DatedPart(time=lambda item: moment(item, "onset"), words=_reaction, of=("AllergyIntolerance",)),
    "series": DatedPart(time=lambda item: moment(item, "started"), words=_series, of=("ImagingStudy",)),
    "presentedForm": DatedPart(
        time=lambda item: moment(item, "creation"), words=lambda item: plain_texts([item]), of=("DiagnosticReport",)
    ),
    "content": DatedPart(
        time=lambda item: moment(part(item, "attachment"), "creation"),
        words=lambda item: plain_texts([part(item, "attachment")]),
        of=("DocumentReference",),
    ),
}
"""Element -> how it is read. Elements that are not used (dated reactions to a vaccine, stages) needs no clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOffPart:
    """A part that is later than its whole."""

    element: str
    place: int
    time: datetime
    part: Json


def split(body: Json, element: str, whole: datetime | None) -> tuple[list[Json], list[SplitOffPart]]:
    """Return the parts that are known with the whole, not before ``whole``, and those that come later."""
    with_it, later = [], []
    for place, item in enumerate(parts(body, element)):
        time = DATED_PARTS[element].time(item)
        if time is None or (whole is not None and time <= whole):
            with_it.append(item)
        else:
            later.append(SplitOffPart(element=element, place=place, time=time, part=item))
    return with_it, later


# Resolving references: ``Type/id`` in all its spellings, and the few resources that only give names to others.


NAMING_TYPES = ("Medication", "Location", "Organization")
"""Resources of no subject that other resources refer to for a name."""
_MOST_HOLDERS = 8
"""An identifier of more Patients than this identifies nobody: it means "unknown"."""


@dataclass(slots=True)
class Names:
    """The names from an export's naming resources, held in memory: as large as the dictionaries, whatever the rest."""

    medications: dict[str, CodedConcept] = field(default_factory=dict)
    places: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    organizations: dict[str, str] = field(default_factory=dict)
    drug_names: dict[tuple[str | None, str], str] = field(default_factory=dict)
    """Names of codes that a Medication has as code or identifier."""
    _mixes: dict[str, list[str]] = field(default_factory=dict)
    _same: dict[str, str] = field(default_factory=dict)
    """Of Patients that are one person, each one's next."""
    _holders: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Sequence[Path]) -> Names:
        """Read the naming resources of every file; broken ones are reported later, when rows are made."""
        names, elements = cls(), Elements()
        for file in files:
            for found in read_resources(file, elements, of=(*NAMING_TYPES, "Patient")):
                try:
                    names._take(found)
                except Malformed:
                    continue
        names._mix()
        for holders in names._holders.values():
            if len(holders) <= _MOST_HOLDERS:
                for first, other in pairwise(sorted(holders)):
                    names._are_one(first, other)
        names._holders.clear()
        return names

    def person(self, key: str) -> str:
        """Return the id of a person who has several Patients (linked, or with a common identifier); else the Patient's
        own id."""
        while key in self._same:
            key = self._same[key]
        return key

    def _are_one(self, first_name: str, other: str) -> None:
        first, second = sorted((self.person(first_name), self.person(other)))
        if first != second:
            self._same[second] = first

    def _take_patient(self, found: Found, key: str) -> None:
        """Note the other Patients of a person: ``link`` of every type, and each identifier that has a system."""
        for link in parts(found.resource, "link"):
            other = target(found, part(link, "other"))
            if other is not None and other[0] in ("Patient", None):
                self._are_one(key, other[1])
        for identifier in parts(found.resource, "identifier"):
            system, value = text(identifier, "system"), text(identifier, "value")
            if system and value:
                self._holders.setdefault((system, value), set()).add(key)

    def learn(self, found: Found) -> None:
        """Read one naming resource. Malformed: it cannot be read."""
        self._take(found)
        self._mix()

    def _take(self, found: Found) -> None:
        resource = found.resource
        kind, key = resource.get("resourceType"), resource.get("id")
        if not isinstance(key, str):
            return
        if kind == "Patient":
            self._take_patient(found, key)
        elif kind == "Location":
            self.places[key] = (text(resource, "name"), label(resource, "physicalType"))
        elif kind == "Organization" and (name := text(resource, "name")):
            self.organizations[key] = name
        elif kind == "Medication":
            self.medications[key] = medication = read_medication(resource)
            for system, value in [*medication.codes, *_identifiers(resource)]:
                if medication.label and medication.label != value:
                    self.drug_names.setdefault((system, value), medication.label)
            if not medication:
                references = (part(item, "itemReference").get("reference") for item in parts(resource, "ingredient"))
                self._mixes[key] = [str(each).rpartition("/")[2] for each in references if each]

    def _mix(self) -> None:
        """Name a mixture by its ingredients."""
        for key, ingredients in self._mixes.items():
            parts_of = [self.medications.get(each, NOTHING) for each in ingredients]
            self.medications[key] = CodedConcept(
                label=" + ".join(each.label for each in parts_of if each.label) or None
            )
        self._mixes.clear()


def read_medication(resource: Json) -> CodedConcept:
    """Read a Medication: its code, else its ingredients; in MIMIC its name is among the identifiers."""
    found = concept(part(resource, "code"))
    if not found:
        words = joined(label(item, "itemCodeableConcept") for item in parts(resource, "ingredient"))
        return CodedConcept(label=words) if words else NOTHING
    if found.label == found.code:
        name = next((value for system, value in _identifiers(resource) if (system or "").endswith("-name")), None)
        if name:
            return CodedConcept(
                system=found.system, code=found.code, label=name, others=found.others, codes=found.codes
            )
    return found


def _identifiers(resource: Json) -> list[tuple[str | None, str]]:
    found = []
    for identifier in parts(resource, "identifier"):
        system, value = text(identifier, "system"), text(identifier, "value")
        if value:
            found.append((system_name(system), value))
    return found


def target(found: Found, reference: Json) -> tuple[str | None, str] | None:
    """Return (type, id) of a reference; the type may be unknown. None if it has no id."""
    return _resolved(reference, found.full_urls) if found.full_urls else _unresolved(reference)


@once
def _unresolved(reference: Json) -> tuple[str | None, str] | None:
    return _resolved(reference, {})


def _resolved(reference: Json, full_urls: Mapping[str, str]) -> tuple[str | None, str] | None:
    url = reference.get("reference")
    if not isinstance(url, str) or not url or "?" in url:
        return None
    url = full_urls.get(url, url)
    if url.startswith(("urn:uuid:", "urn:oid:")):
        return text(reference, "type"), url.rpartition(":")[2]
    url = url.partition("/_history/")[0].partition("|")[0]
    kind, _, key = url.rpartition("/")
    return (kind.rpartition("/")[2] or None), key


# One resource that becomes rows: its place, its subject, and its resolved references.


Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]


@dataclass(slots=True, kw_only=True)
class ResourceReading:
    """What the functions that make rows need besides the resource."""

    found: Found
    names: Names
    flat: FlatTables
    additions: list[SplitOffPart] = field(default_factory=list)
    """Parts that the makers found to be later than the resource itself."""
    resource: Json = field(init=False)

    def __post_init__(self) -> None:
        self.resource = self.found.resource

    @property
    def key(self) -> str:
        """Its id."""
        key = self.resource.get("id")
        if not isinstance(key, str) or not key:
            raise Malformed("id: missing")
        return key

    def subject(self) -> int | None:
        """Return the subject's number; None, and counted, if the resource is about something else."""
        reference = part(self.resource, "subject") or part(self.resource, "patient")
        if not reference:
            raise Malformed("subject: missing")
        named = target(self.found, reference)
        if named is None:
            raise Malformed(f"subject: the reference has no id: {str(reference)[:120]}")
        if named[0] != "Patient" and named[0] is not None:
            self.flat.leave_out(f"{self.resource['resourceType']} of a {named[0]}")
            return None
        return self.flat.subjects.number(named[1])

    def id_of(self, reference: Json) -> str | None:
        """Return the id of a reference."""
        named = target(self.found, reference) if reference else None
        return None if named is None else named[1]

    def encounter(self) -> str | None:
        """Return the id of the encounter, in whichever element this type of resource has it."""
        own = part(self.resource, "encounter")
        if "context" not in self.resource:
            return self.id_of(own) or None
        context = part(self.resource, "context")
        places = (own, context, *parts(context, "encounter"))
        return next((key for place in places if (key := self.id_of(place))), None)

    def medication(self) -> CodedConcept:
        """Return the medication, inline, contained or by reference."""
        inline = concept(part(self.resource, "medicationCodeableConcept"))
        if inline:
            return self._named(inline)
        reference = part(self.resource, "medicationReference")
        display = text(reference, "display")
        url = text(reference, "reference") or ""
        if url.startswith("#"):
            inside = (item for item in parts(self.resource, "contained") if item.get("id") == url[1:])
            found = next((read_medication(item) for item in inside), NOTHING)
        else:
            found = self.names.medications.get(self.id_of(reference) or "", NOTHING)
        if not found and display:
            return CodedConcept(label=display)
        if not found and reference:
            self.flat.leave_out("name of a medication whose Medication is not in the export")
        return self._named(found)

    def _named(self, found: CodedConcept) -> CodedConcept:
        """Add to a code without a name the name that a Medication of the export has for it."""
        if found.code is None or found.label != found.code:
            return found
        systems = dict.fromkeys(system for system, code in found.codes if code == found.code)
        name = next(
            (self.names.drug_names[s, found.code] for s in systems if (s, found.code) in self.names.drug_names), None
        )
        if name is None:
            return found
        return CodedConcept(system=found.system, code=found.code, label=name, others=found.others, codes=found.codes)

    def place(self, reference: Json) -> tuple[str | None, str | None]:
        """Return the name and the physical type of a location."""
        name, kind = self.names.places.get(self.id_of(reference) or "", (None, None))
        return text(reference, "display") or name, kind

    def organization(self, reference: Json) -> str | None:
        """Return the name of an organization."""
        return text(reference, "display") or self.names.organizations.get(self.id_of(reference) or "")

    def parts_with(self, element: str, whole: datetime | None) -> list[Json]:
        """Return the parts of a dated element that are known with the resource; later parts become additions."""
        with_it, later = split(self.resource, element, whole)
        self.additions.extend(later)
        return with_it

    def notes(self, whole: datetime | None) -> str | None:
        """Return the annotations that are known with the resource."""
        if "note" not in self.resource:
            return None
        return joined(text(note, "text") for note in self.parts_with("note", whole))

    def updated(self, *times: Any) -> datetime | None:
        """Return since when the resource is as it is: its last update. None if it has none, or one before its own
        ``times``, which must come from another clock."""
        meta = part(self.resource, "meta")
        found = moment(meta, "lastUpdated")
        if found is None:
            return None
        own = (moment({"time": time}, "time") for time in times)
        return None if any(time is not None and found < time for time in own) else found

    def added(self) -> Rows:
        """Yield the rows of what was added later."""
        if not self.additions:
            return
        about = self.about() | {"resource_type": self.resource["resourceType"], "resource_id": self.key}
        for each in self.additions:
            words, missing = DATED_PARTS[each.element].words(each.part)
            for why in missing:
                self.flat.leave_out(f"text of {self.resource['resourceType']}: {why}")
            if words is not None:
                named = {"element": each.element, "place": each.place, "added_time": each.time, "text": words}
                yield "additions", about | named

    def about(self) -> Row:
        """Return the cells that every row of a subject has. NobodysResource: it has no subject, which is counted."""
        subject = self.subject()
        if subject is None:
            raise NobodysResource
        return {"subject_id": subject, "encounter_id": self.encounter()}


Maker = Callable[[ResourceReading], Rows]


class NobodysResource(Exception):
    """A resource without a subject makes no rows."""


def coded(found: CodedConcept, name: str, *, done: bool = True) -> Row:
    """Return the cells of a coded element, called ``name`` in its table.

    A code means that something was done or is true; if it was not done, only the name is kept, marked as such.
    """
    if done:
        return {"code_system": found.system, "code": found.code, name: found.label, "other_codes": found.others}
    return {name: f"not done: {found.label}" if found.label else "not done"}
