"""Suspicion of infection and Sepsis-3: antibiotics and cultures near each other, and organs failing about then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from wardround.vocabulary import Bounds, any_of, is_drug

AFTER_CULTURE = timedelta(hours=72)
AFTER_ANTIBIOTIC = timedelta(hours=24)
BEFORE_SUSPICION = timedelta(hours=48)
AFTER_SUSPICION = timedelta(hours=24)
SEPSIS_POINTS = 2
_LOCAL_ROUTES = frozenset({"ou", "os", "od", "au", "as", "ad", "tp", "topical", "vag", "vaginal"})
_LOCAL_WORDS = ("ear", "eye", "ophth")
_LOCAL_FORMS = ("cream", "gel", "ointment", "ophth", "desensitization", "rifaximin", "neomycin", "sulfasalazine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Culture:
    """A culture taken. ``time`` is None where only the day is known."""

    day: date
    time: datetime | None = None


def suspected_infection(antibiotics: Iterable[datetime], cultures: Sequence[Culture]) -> datetime | None:
    """When infection was suspected (Seymour 2016), the newest time: the first culture of the 72 hours before an
    antibiotic, or an antibiotic that a culture followed within 24 hours. By days where a culture's hour is unknown."""
    found = (_suspected(antibiotic, cultures) for antibiotic in antibiotics)
    return max((moment for moment in found if moment is not None), default=None)


def is_sepsis(suspected: datetime | None, scores: Iterable[tuple[datetime, Bounds]]) -> bool | None:
    """Sepsis-3 (Singer 2016): a SOFA of 2 or more from 48 hours before to 24 hours after the suspicion; that before
    counts as 0, as in the MIMIC Code Repository. ``scores``: by time the least and the most points; where they leave it
    open, and without a score near it, the answer is unknown."""
    if suspected is None:
        return False
    near = [points for when, points in scores if suspected - BEFORE_SUSPICION <= when <= suspected + AFTER_SUSPICION]
    return any_of(points.holds(">=", SEPSIS_POINTS) for points in near) if near else None


def is_antibiotic(drug: str, route: str | None) -> bool:
    """Whether a drug is an antibiotic for the whole body: none for the skin, an eye, an ear or the gut, and none given
    to desensitize."""
    if any(form in drug.lower() for form in _LOCAL_FORMS):
        return False
    said = (route or "").lower()
    local = said in _LOCAL_ROUTES or any(word in said for word in _LOCAL_WORDS)
    return not local and is_drug(drug, "antibiotics")


def _suspected(antibiotic: datetime, cultures: Sequence[Culture]) -> datetime | None:
    """The first culture before an antibiotic, those with a known hour first of a day; else the antibiotic itself."""
    before = []
    after = False
    for culture in cultures:
        if culture.time is None:
            days = (antibiotic.date() - culture.day).days
            is_before, is_after = 0 <= days <= 3, days == -1
        else:
            wait = antibiotic - culture.time
            is_before, is_after = timedelta(0) <= wait <= AFTER_CULTURE, timedelta(0) < -wait <= AFTER_ANTIBIOTIC
        before += [(culture.day, culture.time or datetime.max)] if is_before else []
        after = after or is_after
    if before:
        day, time = min(before)
        return datetime.combine(day, datetime.min.time()) if time == datetime.max else time
    return antibiotic if after else None
