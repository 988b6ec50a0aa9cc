"""What the name of a care unit says: its class (intensive care, ward ...), its services; the class of a service."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

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
