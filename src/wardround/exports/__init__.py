"""Exports: a store's records in the forms of others: MEDS 0.4 (:mod:`wardround.exports.meds`) and Parquet."""

from wardround.exports.meds import (
    ExportReport,
    ExportSettings,
    LabelColumn,
    differing_exports,
    export_meds,
    write_labels,
)
from wardround.exports.parquet import write_chart_tables, write_store_tables

__all__ = [
    "ExportReport",
    "ExportSettings",
    "LabelColumn",
    "differing_exports",
    "export_meds",
    "write_chart_tables",
    "write_labels",
    "write_store_tables",
]
