"""FHIR R4 made flat: NDJSON bulk exports and bundles to the rows of the source ``fhir``.

Shapes only: which element becomes which cell. When a row or a cell was known is the spec's business.
"""

from wardround.records.sources.fhir.flattener import flatten_fhir

__all__ = ["flatten_fhir"]
