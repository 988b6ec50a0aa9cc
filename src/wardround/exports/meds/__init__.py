"""MEDS out: any store as a MEDS 0.4 data set whose times are times of knowledge."""

from wardround.exports.meds.export import ExportReport, ExportSettings, LabelColumn, export_meds, write_labels

__all__ = [
    "ExportReport",
    "ExportSettings",
    "LabelColumn",
    "export_meds",
    "write_labels",
]
