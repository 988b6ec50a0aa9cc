"""Reporting guidelines as files: their items by number, in our words, and the facts of a run that answer them."""

from wardround.reports.checklists.filling import (
    CHECKLISTS,
    FilledItem,
    write_checklist,
)

__all__ = ["CHECKLISTS", "FilledItem", "write_checklist"]
