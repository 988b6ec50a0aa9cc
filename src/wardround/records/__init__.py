"""Records: source specs, ingest, the store and point-in-time charts."""

from wardround.records.spec import SourceSpec, TableSpec
from wardround.records.spec_file import list_sources, load_source_spec

__all__ = ["SourceSpec", "TableSpec", "list_sources", "load_source_spec"]
