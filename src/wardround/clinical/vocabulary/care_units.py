"""Care units and services: what their names say, where a patient is by a record, and conditions on such places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from wardround.clinical.vocabulary.tables import cell_parts, table_rows

INTENSIVE_CARE = "intensive care"
INTERMEDIATE_CARE = "intermediate care"
_WARD, _OBSERVATION = "ward", "observation"
_ASIDE = re.compile(r"\s*\(([^()]*)\)")
_ICU = re.compile(r"[a-z]{1,4}icu")


@dataclass(frozen=True, slots=True, kw_only=True)
class CareUnit:
    """The meaning of a unit's name. ``level``: the class of the unit, None if the name does not show it; ``services``:
    the services of its patients, empty if the name does not show them."""

    level: str | None
    services: frozenset[str]


@cache
def read_care_unit(name: str) -> CareUnit:
    """Read the name of a care unit. A name of services alone is a ward's; a name of several classes settles none.

    >>> read_care_unit("Neuro Stepdown").level, sorted(read_care_unit("Medicine/Cardiology").services)
    ('intermediate care', ['cardiology', 'medicine'])
    >>> read_care_unit("5 West")
    CareUnit(level=None, services=frozenset())
    """
    text = name.casefold()
    outside = _named("class", _words(_ASIDE.sub(" ", text)))
    if outside:  # the text in brackets is then a short form of the rest
        text = _ASIDE.sub(" ", text)
    words = _words(text)
    levels, services = _named("class", words), _named("service", words)
    if len(levels) > 1:
        levels -= {_OBSERVATION, _WARD}
    if not levels and services:
        levels = {_WARD}
    return CareUnit(level=levels.pop() if len(levels) == 1 else None, services=frozenset(services))


def service_class(code: str) -> str | None:
    """Return the class of a hospital service by its code in MIMIC, None where MIMIC's documentation names none.

    Source: mimic.mit.edu/docs/iv/modules/hosp/services: what calls itself medical or non-surgical, surgical,
    obstetric, newborn or psychiatric there. Of ENT, GU, GYN, DENT, EYE and TRAUM it does not say whether they operate.

    >>> service_class("CMED"), service_class("ORTHO"), service_class("ENT")
    ('medical', 'surgical', None)
    """
    wanted = code.strip().casefold()
    rows = table_rows("care_units", 3)
    return next((name for kind, name, cell in rows if kind == "code" and wanted in cell_parts(cell)), None)


def _words(text: str) -> str:
    words = re.findall(r"[a-z0-9]+", text.replace("step-down", "stepdown"))
    return f" {' '.join(f'{word} icu' if _ICU.fullmatch(word) else word for word in words)} "


def _named(kind: str, words: str) -> set[str]:
    rows = table_rows("care_units", 3)
    return {name for one, name, cell in rows if one == kind and any(f" {part} " in words for part in cell_parts(cell))}


# Where a patient is, by the record's names of services and units, and conditions on such places.


PLACES = ("service", "unit")
_UNIT_KINDS = frozenset({"transfer", "intensive care stay", "unit stay"})
_GONE = frozenset({"discharge", "discharged"})
_SERVICES = frozenset(
    "cmed csurg dent ent eye gu gyn med nb nbb nmed nsurg obs omed ortho psurg psych surg traum tsurg vsurg".split()  # noqa: SIM905
)
"""MIMIC's codes of services: two different codes are different services."""
_PLACE_PHRASE = re.compile(
    r"^(?:(?:in|on|at|under|admitted to|transferred to|cared for by|location)\s*:?\s+)?(?:the\s+)?"
    r"(?:(?P<kind>service|unit)\s*(?::|is|=)\s*(?P<named>.+)"
    r"|(?P<before>.*(?:care|stepdown|step-down|icu))\s+unit|(?P<service>[a-z]+(?: [a-z]+)?)\s+service"
    r"|(?P<short>(?:[a-z]+ )?[a-z]{0,3}icu|ccu))$"
)


def places_of(events: Iterable[Any]) -> dict[str, str]:
    """Return the latest service and unit that events in order of time name; who was discharged is in no unit."""
    places: dict[str, str] = {}
    for event in events:
        name = str(event.description)
        if event.kind == "service":
            places["service"] = name
        elif event.kind in _UNIT_KINDS:
            if str(event.text_value or "").casefold() in _GONE:
                places.pop("unit", None)
            else:
                places["unit"] = name
    return places


def read_place(text: str) -> tuple[str, str] | None:
    """Return the kind of place and the name that a phrase asks for; None if it asks for none.

    >>> read_place("unit: coronary care unit (ccu)"), read_place("in the micu"), read_place("the cardiology service")
    (('unit', 'coronary care unit (ccu)'), ('unit', 'micu'), ('service', 'cardiology'))
    """
    match = _PLACE_PHRASE.match(text)
    if match is None:
        return None
    if match["kind"]:
        return match["kind"], match["named"].strip()
    return ("service", match["service"]) if match["service"] else ("unit", match["short"] or match["before"].strip())


def is_in(places: Mapping[str, str], kind: str, name: str) -> bool | None:
    """Return whether a patient is where a phrase asks.

    True: the column's own name, without its bracket, or its abbreviation. False: the phrase asks for intensive or
    intermediate care and the unit has another class or other services; or the phrase names another service code. None:
    all other cases, a unit whose name does not show its class, or no place on record.
    """
    known = places.get(kind, "").casefold()
    if not known:
        return None
    if not _names(known).isdisjoint(_names(name)):
        return True
    if kind == "service":
        return False if {known, name} <= _SERVICES else None
    wanted, known_unit = read_care_unit(name), read_care_unit(known)
    if wanted.level not in (INTENSIVE_CARE, INTERMEDIATE_CARE) or known_unit.level is None:
        return None
    if wanted.level != known_unit.level:
        return False
    if not wanted.services or wanted.services == known_unit.services:
        return True
    return False if known_unit.services and wanted.services.isdisjoint(known_unit.services) else None


def _names(text: str) -> frozenset[str]:
    """Return a place's names: "Coronary Care Unit (CCU)" is "coronary care unit", "coronary care" and "ccu"."""
    whole = " ".join(text.casefold().split())
    aside = re.fullmatch(r"(.+?)\s*\(([^()]+)\)", whole)
    names = {whole, *((aside[1], *aside[2].split("/")) if aside else ())}
    return frozenset(names | {name.removesuffix(" unit").removesuffix(" service") for name in names})
