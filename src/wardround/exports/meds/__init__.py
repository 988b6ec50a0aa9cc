"""MEDS out: any store as a MEDS 0.4 data set whose times are times of knowledge."""

from wardround.exports.meds.export import ExportReport, ExportSettings, LabelColumn, export_meds, write_labels
from wardround.exports.meds.futures import differing_exports

__all__ = [
    "ExportReport",
    "ExportSettings",
    "LabelColumn",
    "differing_exports",
    "export_meds",
    "write_labels",
]
