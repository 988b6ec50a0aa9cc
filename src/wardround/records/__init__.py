"""Records: from a source's files to a point-in-time chart.

The folders are the steps: ``sources`` (a folder each: spec, clocks page, reader), in the language of ``specs`` and
``rules``; ``reading`` (files to typed rows), ``ingest`` (rows to shards), ``shards`` (a store's files), ``store.py``,
``chart``.
An agent reaches a record only through a :class:`Chart`; ``Store.rows`` and ``Store.scan`` are for trusted code.
"""

from wardround.records.chart.censor import ChartTable
from wardround.records.chart.chart import Chart, Event, Policy, Withheld
from wardround.records.chart.events import EventColumns
from wardround.records.ingest.ingest import ingest
from wardround.records.ingest.plan import IngestReport, IngestSettings
from wardround.records.ingest.sections import admission_sections
from wardround.records.specs.roles import ImageRole, MomentRole, PersonRole, Roles, RowRole, SpanRole, unplayed
from wardround.records.specs.spec import SourceSpec, TableSpec
from wardround.records.specs.spec_file import SOURCES, list_sources, load_source_spec
from wardround.records.store import TEXT_CASE_SOURCE, NoRecords, Store, TextCaseRecord

__all__ = [
    "SOURCES",
    "TEXT_CASE_SOURCE",
    "Chart",
    "ChartTable",
    "Event",
    "EventColumns",
    "ImageRole",
    "IngestReport",
    "IngestSettings",
    "MomentRole",
    "NoRecords",
    "PersonRole",
    "Policy",
    "Roles",
    "RowRole",
    "SourceSpec",
    "SpanRole",
    "Store",
    "TableSpec",
    "TextCaseRecord",
    "Withheld",
    "admission_sections",
    "ingest",
    "list_sources",
    "load_source_spec",
    "unplayed",
]
