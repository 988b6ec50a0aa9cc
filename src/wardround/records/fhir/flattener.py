"""Every resource of a FHIR export to the rows of its tables, counted and, where it is broken, set aside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wardround.records.fhir.files import read_resources
from wardround.records.flat_tables import FlatTables


def flatten_fhir(files: Sequence[Path], flat: FlatTables) -> None:
    """Write the rows of every resource."""
    for file in files:
        for found in read_resources(file):
            flat.read(file)
            if found.reason:
                flat.set_aside(file=file, line=found.line, reason=found.reason, raw=found.raw)
