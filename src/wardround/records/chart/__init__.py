"""The chart: the part of a subject's record that was known at a moment, as tables and as a list of events."""

from wardround.records.chart.censor import Mask, birth_dates, clock, holds
from wardround.records.chart.chart import stored_rows
from wardround.records.chart.events import event_columns
from wardround.records.chart.revisions import Revisions, first_known, last_revisions, read_revisions

__all__ = [
    "Mask",
    "Revisions",
    "birth_dates",
    "clock",
    "event_columns",
    "first_known",
    "holds",
    "last_revisions",
    "read_revisions",
    "stored_rows",
]
