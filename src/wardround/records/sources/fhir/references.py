"""Who a reference names: ``Type/id`` in all its spellings, and the few resources that only give others their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from wardround.records.sources.fhir.files import Found, Json, read_resources
from wardround.records.sources.fhir.values import (
    NOTHING,
    CodedConcept,
    Malformed,
    concept,
    joined,
    label,
    part,
    parts,
    system_name,
    text,
)

NAMING_TYPES = ("Medication", "Location", "Organization")
"""Resources of no subject that other resources refer to for a name."""
_MARKS = re.compile(rb'"resourceType"\s*:\s*"(?:%s|Patient|Bundle)"' % "|".join(NAMING_TYPES).encode())
_MOST_HOLDERS = 8
"""An identifier that more Patients have names nobody: it stands for "unknown"."""


@dataclass(slots=True)
class Names:
    """What the naming resources of an export say, held in memory: as large as the dictionaries, whatever the rest."""

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
        """Read every file for naming resources; broken ones are dealt with when the rows are made."""
        names = cls()
        for file in files:
            for found in read_resources(file, holding=_MARKS):
                try:
                    names._take(found)
                except Malformed:
                    continue
        names._mix()
        for holders in names._holders.values():
            if len(holders) <= _MOST_HOLDERS:
                for one, other in pairwise(sorted(holders)):
                    names._are_one(one, other)
        names._holders.clear()
        return names

    def person(self, key: str) -> str:
        """Return the id by which a person goes who has several Patients, linked or of one identifier; its own else."""
        while key in self._same:
            key = self._same[key]
        return key

    def _are_one(self, one: str, other: str) -> None:
        first, second = sorted((self.person(one), self.person(other)))
        if first != second:
            self._same[second] = first

    def _take_patient(self, found: Found, key: str) -> None:
        """Note who else a Patient is: ``link`` of every type, and each identifier that says its system."""
        for link in parts(found.resource, "link"):
            other = target(found, part(link, "other"))
            if other is not None and other[0] in ("Patient", None):
                self._are_one(key, other[1])
        for identifier in parts(found.resource, "identifier"):
            system, value = text(identifier, "system"), text(identifier, "value")
            if system and value:
                self._holders.setdefault((system, value), set()).add(key)

    def learn(self, found: Found) -> None:
        """Take in one naming resource of many that come one by one. Malformed: it cannot be read."""
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
        """Name a mixture by what is in it."""
        for key, ingredients in self._mixes.items():
            parts_of = [self.medications.get(each, NOTHING) for each in ingredients]
            self.medications[key] = CodedConcept(
                label=" + ".join(each.label for each in parts_of if each.label) or None
            )
        self._mixes.clear()


def read_medication(resource: Json) -> CodedConcept:
    """Read a Medication: its code, else what it is made of; MIMIC keeps its name among the identifiers."""
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
    """Return (type, id) of what a reference names; the type may be unknown. None if it names nothing by an id."""
    url = reference.get("reference")
    if not isinstance(url, str) or not url or "?" in url:
        return None
    url = found.full_urls.get(url, url)
    if url.startswith(("urn:uuid:", "urn:oid:")):
        return text(reference, "type"), url.rpartition(":")[2]
    url = url.partition("/_history/")[0].partition("|")[0]
    kind, _, key = url.rpartition("/")
    return (kind.rpartition("/")[2] or None), key
