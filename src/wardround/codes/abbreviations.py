"""What clinicians and lay people write for what the dictionaries say: a table of our own (`data/abbreviations.tsv`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from wardround.codes.labels import normalise_label


@cache
def load_abbreviations() -> Mapping[str, tuple[str, ...]]:
    """Normalised phrase -> what it may stand for, likeliest first. Lines: phrase, tab, expansions split by `;`."""
    text = (files("wardround.codes") / "data" / "abbreviations.tsv").read_text(encoding="utf-8")
    table: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            phrase, _, expansions = line.partition("\t")
            meanings = tuple(part.strip() for part in expansions.split(";") if part.strip())
            key = normalise_label(phrase)
            table[key] = table.get(key, ()) + tuple(
                meaning for meaning in meanings if meaning not in table.get(key, ())
            )
    return MappingProxyType(table)
