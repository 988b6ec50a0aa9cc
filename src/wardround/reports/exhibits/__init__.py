"""Exhibits: tables and figures of the papers, each as the runs that produce it here. One file per paper. A plug-in adds
its own with ``EXHIBITS.add(name, Exhibit(...))``."""

from __future__ import annotations

from wardround.reports.exhibits.exhibit import (
    EXHIBITS,
    Exhibit,
    Point,
    published_figures,
    published_models,
    read_exhibits,
)
from wardround.reports.exhibits.merging import IN_PER_CENT, MergedRow, best_rows, drawn, merged_rows
from wardround.reports.exhibits.reproducing import Reproduction, agents_without_bank, reproduce, reproduce_exhibit

__all__ = [
    "EXHIBITS",
    "IN_PER_CENT",
    "Exhibit",
    "MergedRow",
    "Point",
    "Reproduction",
    "agents_without_bank",
    "best_rows",
    "drawn",
    "merged_rows",
    "published_figures",
    "published_models",
    "read_exhibits",
    "reproduce",
    "reproduce_exhibit",
]
