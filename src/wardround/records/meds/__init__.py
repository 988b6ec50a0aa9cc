"""MEDS out: any store as a MEDS 0.4 data set whose times are times of knowledge. (MEDS in is a spec like any other.)"""

from wardround.records.meds.export import ExportReport, ExportSettings, export_meds
from wardround.records.meds.write import LabelColumn, write_labels

__all__ = ["ExportReport", "ExportSettings", "LabelColumn", "export_meds", "write_labels"]
