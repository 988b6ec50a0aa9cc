"""Parts of a resource with their own time: each is known from that time on, not with the whole resource.

One table declares them. A part without a time, or not later than the whole, stays a cell of the whole; every other part
is a row of ``additions``, whose clock is the later of its own time and the whole's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from wardround.records.sources.fhir.elements import Json
from wardround.records.sources.fhir.values import coding, joined, labels, moment, part, parts, plain_texts, text

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
