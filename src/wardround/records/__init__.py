"""Records: source specs, ingest, the store and point-in-time charts.

An agent reaches a record only through a :class:`Chart`; ``Store.rows`` and ``Store.scan`` are for trusted code.
"""

from wardround.records.audit import LeakReport, audit_leaks
from wardround.records.chart import Chart, ChartTable, Event, Policy
from wardround.records.chart_differences import TableLeaks
from wardround.records.deletion import delete_future
from wardround.records.event_columns import EventColumns
from wardround.records.ingest import ingest
from wardround.records.outcome_swap import SwapReport, audit_swap
from wardround.records.plausibility import PlausibilityReport, audit_plausibility
from wardround.records.sections import admission_sections
from wardround.records.settings import IngestReport, IngestSettings
from wardround.records.spec import SourceSpec, TableSpec
from wardround.records.spec_file import list_sources, load_source_spec
from wardround.records.store import Store
from wardround.records.store_check import StoreCheck, check_store

__all__ = [
    "Chart",
    "ChartTable",
    "Event",
    "EventColumns",
    "IngestReport",
    "IngestSettings",
    "LeakReport",
    "PlausibilityReport",
    "Policy",
    "SourceSpec",
    "Store",
    "StoreCheck",
    "SwapReport",
    "TableLeaks",
    "TableSpec",
    "admission_sections",
    "audit_leaks",
    "audit_plausibility",
    "audit_swap",
    "check_store",
    "delete_future",
    "ingest",
    "list_sources",
    "load_source_spec",
]
