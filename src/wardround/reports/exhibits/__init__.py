"""Exhibits: the tables and figures of the papers, each as the sweep of runs that shows it here. One file per paper.

A plug-in adds its own with ``EXHIBITS.add(name, Exhibit(...))``.
"""

from __future__ import annotations

from wardround.reports.exhibits.exhibit import (
    EXHIBITS,
    Exhibit,
    Point,
    published_figures,
    published_models,
    read_exhibits,
)
from wardround.reports.exhibits.merging import MergedRow, best_rows, drawn, merged_rows

__all__ = [
    "EXHIBITS",
    "Exhibit",
    "MergedRow",
    "Point",
    "best_rows",
    "drawn",
    "merged_rows",
    "published_figures",
    "published_models",
    "read_exhibits",
]
