"""Drug names as a pharmacy system prints them, brought to the substance: doses, salts, routes, forms and brands go."""

from __future__ import annotations

import re

from wardround.codes.labels import normalise_label

_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\*[^*]*\*")


def normalise_drug_name(name: str) -> str | None:
    """The substance in a prescription's name, None if nothing is left."""
    plain = normalise_label(_BRACKETS.sub(" ", name))
    return plain or None
