"""What is declared, as users meet it: every default, bound and unit stands in ``declared_settings.tsv`` too, so that a
change of one is read as a line of its own. ``make declared`` writes the table; an empty cell says nothing is said."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any

from wardround.core import leaves

TABLE = Path(__file__).with_name("declared_settings.tsv")
SAID = ("unit", "source", "flag", "least", "above", "most")

Row = tuple[str, ...]
"""A setting's name, its default and what is said of it."""


@cache
def declared() -> Mapping[str, list[Row]]:
    """The table by section."""
    found: dict[str, list[Row]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for section, *row in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]:
            found.setdefault(section, []).append(tuple(row))
    return found


def settings_of(section: type) -> list[Row]:
    """The rows of a section as the code has it."""
    return [
        (one.name, plainly(one.default), *map(_cell, map(one.setting.__getattribute__, SAID)))
        for one in leaves(section)
    ]


def defaults_of(kind: type) -> dict[str, Any]:
    """The defaults of a dataclass whose fields are no settings; MISSING of one that has to be said."""
    return {one.name: _default(one) for one in fields(kind)}


def beginnings_of(kind: type) -> dict[str, Any]:
    """What of a dataclass that counts does not begin at nothing."""
    return {name: value for name, value in defaults_of(kind).items() if value is MISSING or value}


def plainly(value: Any) -> str:
    """A value as text, without the places of objects in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _cell(value: Any) -> str:
    return "" if value in (None, "", ()) else str(value)
