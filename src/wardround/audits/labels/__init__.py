"""Labels by a second path: answers worked out again from raw files in MIMIC-IV's form, row by row, without our records.

What is shared with the builders is the names of things (CCS categories, normalised drug names); files, clocks, stays,
sessions and thresholds are read and written down here once more.
"""

from wardround.audits.labels.check import LabelReport, TaskLabels, check_labels

__all__ = ["LabelReport", "TaskLabels", "check_labels"]
