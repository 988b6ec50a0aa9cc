"""MEDS out: any store as a MEDS 0.4 data set whose times are times of knowledge. (MEDS in is a spec like any other.)"""

from wardround.records.meds.descriptions import Described, describe_codes
from wardround.records.meds.export import ExportReport, ExportSettings, export_meds
from wardround.records.meds.write import LabelColumn, write_labels

__all__ = [
    "Described",
    "ExportReport",
    "ExportSettings",
    "LabelColumn",
    "describe_codes",
    "export_meds",
    "write_labels",
]
