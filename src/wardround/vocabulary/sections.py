"""The headed sections of a clinical text: whose statements they are (the family's), and of what (allergies)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

SectionKind = Literal["", "family", "allergies", "history", "medications"]

_NAMES: dict[SectionKind, str] = {
    "family": "family history|family medical history|family hx|fhx?|fam hx|fam/sochx|family|genetic history",
    "allergies": "allergies|allergy|drug allergies|medication allergies|known allergies|adverse reactions|"
    "allergies and adverse reactions|allergy history|allergies/intolerances|drug intolerances",
    "history": "past medical history|pmhx?|past history|medical history|past surgical history|pshx?|surgical history|"
    "past medical/surgical history|past medical and surgical history|pastmedicalhx|pastsurgical|comorbidities|"
    "previous history|prior history|past hx|medical hx|pertinent medical history",
    "medications": "medications|current medications|home medications|meds|medications on admission|medication|"
    "discharge medications|drug history|medication history|current meds|admission medications|outpatient medications",
    "": "chief complaint|complaint|cc|reason for visit|history of present illness|present illness|hpi|genhx|social "
    "history|shx?|social hx|personal history|personal and social history|review of systems|ros|system review|physical "
    "exam|physical examination|exam|examination|vital signs|vitals|assessment|assessment and plan|a/p|plan|impression|"
    "labs|laboratory|laboratory data|laboratory results|laboratory tests|laboratory findings|results|pertinent results|"
    "imaging|studies|ancillary tests|diagnosis|diagnoses|hospital course|brief hospital course|patient information|"
    "patient|procedures|procedure|recommendations|instructions|discharge instructions|disposition|follow up|follow-up|"
    "medical decision making|emergency department course|code status|diet|immunizations|developmental history|"
    "obstetric history|gynecologic history|gynaecological history|obstetrical history|birth history|treatment|course|"
    "clinical course|radiology|ecg|ekg|echocardiogram|pathology|subjective|objective|subjective:|question|options|"
    "differential diagnosis|age|sex|gender|occupation|travel history|exposure history|occupational history|mental "
    "status|general|gynhx|edcourse|assessment & plan",
}
_KIND_OF: dict[str, SectionKind] = {name: kind for kind, names in _NAMES.items() for name in names.split("|")}
_ANY_NAME = "|".join(re.escape(name).replace(r"\ ", " +") for name in sorted(_KIND_OF, key=len, reverse=True))
_HEADING = re.compile(
    rf"^[ \t]*(?:[-*•+]|\d+[.)])?[ \t]*(?:\*\*|__)[ \t]*(?P<bold>[^*\n:]{{2,60}}?)[ \t]*:?[ \t]*(?:\*\*|__)[ \t]*:?"
    r"|^[ \t]*#{1,6}[ \t]*(?P<hash>[^\n:]{2,60}?)[ \t]*:?[ \t]*$"
    rf"|^[ \t]*(?:[-*•+]|\d+[.)])?[ \t]*(?P<known>(?i:{_ANY_NAME}))[ \t]*(?::|[ \t][-–—][ \t])"
    rf"|(?<=[.;!?,])[ \t]*(?P<inline>(?i:{_ANY_NAME}))[ \t]*:"
    rf"|^[ \t]*(?P<bare>(?i:{_ANY_NAME}))[ \t]*$"
    r"|^[ \t]*(?P<loud>[A-Z][A-Z /&()'-]{3,50}):"
    r"(?![ \t]*(?i:none|no|denie[sd]|negative|yes|positive|absent|present)\b\W*$)"
    r"|(?<=[.,;])[ \t]?(?P<shout>[A-Z][A-Z /&()'-]{3,50}):",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class NoteSection:
    """One section: its kind and the place of its text, the heading left out."""

    kind: SectionKind
    start: int
    end: int


def section_kind(name: str) -> SectionKind:
    """Return what kind of section a heading opens; "" for every one without a meaning of its own."""
    plain = " ".join(name.casefold().replace("_", " ").strip(" :*#-").split())
    return _KIND_OF.get(plain, "family" if plain.startswith("family") else "")


def sections_of(text: str, kind: SectionKind = "") -> Iterator[NoteSection]:
    """Cut a text at its headings: markdown's, upper case ones, and known names before a colon or on a line alone.

    ``kind`` is that of the text before the first heading.
    """
    start = 0
    for found in _HEADING.finditer(text):
        if found.start() > start:
            yield NoteSection(kind, start, found.start())
        name = next(part for part in found.groups() if part is not None)
        kind, start = section_kind(name), found.end()
    if start < len(text):
        yield NoteSection(kind, start, len(text))
