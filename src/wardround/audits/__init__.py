"""Audits: does a store or a chart show what was not known yet, or what cannot be? Is every byte as it was written?

Leaks (times, and the future deleted), the outcome swap, plausibility, labels by a second path, the check of a store.
Nothing of the records imports this room.
"""

from wardround.audits.deletion import delete_future
from wardround.audits.installation import InstallationFinding, check_installation
from wardround.audits.labels import LabelReport, TaskLabels, check_labels
from wardround.audits.leaks import LeakReport, ShownTable, TableLeaks, audit_leaks
from wardround.audits.outcome_swap import Compared, SwapReport, audit_swap, random_moments
from wardround.audits.plausibility import PlausibilityReport, audit_plausibility
from wardround.audits.record import AuditResult
from wardround.audits.store_check import StoreCheck, check_store

__all__ = [
    "AuditResult",
    "Compared",
    "InstallationFinding",
    "LabelReport",
    "LeakReport",
    "PlausibilityReport",
    "ShownTable",
    "StoreCheck",
    "SwapReport",
    "TableLeaks",
    "TaskLabels",
    "audit_leaks",
    "audit_plausibility",
    "audit_swap",
    "check_installation",
    "check_labels",
    "check_store",
    "delete_future",
    "random_moments",
]
