"""Suspicion of infection and Sepsis-3: antibiotics and cultures near each other, and organs failing about then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

AFTER_CULTURE = timedelta(hours=72)
AFTER_ANTIBIOTIC = timedelta(hours=24)
BEFORE_SUSPICION = timedelta(hours=48)
AFTER_SUSPICION = timedelta(hours=24)
SEPSIS_POINTS = 2


def suspected_infection(antibiotics: Sequence[datetime], cultures: Sequence[datetime]) -> datetime | None:
    """When infection was first suspected (Seymour 2016): the earlier of a culture and of an antibiotic within 72 hours
    after it, or of an antibiotic and of a culture within 24 hours after it."""
    moments = [
        min(drug, culture)
        for drug in antibiotics
        for culture in cultures
        if timedelta(0) <= drug - culture <= AFTER_CULTURE or timedelta(0) <= culture - drug <= AFTER_ANTIBIOTIC
    ]
    return min(moments, default=None)


def is_sepsis(suspected: datetime | None, scores: Sequence[tuple[datetime, int]]) -> bool | None:
    """Sepsis-3 (Singer 2016): a SOFA of 2 or more from 48 hours before to 24 hours after the suspicion; that before
    counts as 0, as in the MIMIC Code Repository. Unknown where no score is charted in that time."""
    if suspected is None:
        return False
    near = [points for when, points in scores if suspected - BEFORE_SUSPICION <= when <= suspected + AFTER_SUSPICION]
    return any(points >= SEPSIS_POINTS for points in near) if near else None
