"""FHIR R4 made flat: NDJSON bulk exports and bundles become rows of the source ``fhir``.

This code decides only which element becomes which cell; the spec says when a row or a cell was known.
"""

from wardround.records.sources.fhir.context import NAMING_TYPES, Names, ResourceReading
from wardround.records.sources.fhir.files import Elements, Found, parsed_resources
from wardround.records.sources.fhir.flattener import flatten_fhir, require_local_times, resource_rows
from wardround.records.sources.fhir.values import Malformed

__all__ = [
    "NAMING_TYPES",
    "Elements",
    "Found",
    "Malformed",
    "Names",
    "ResourceReading",
    "flatten_fhir",
    "parsed_resources",
    "require_local_times",
    "resource_rows",
]
