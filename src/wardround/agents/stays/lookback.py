"""What rules look back on beyond a state's window: readings by name, and how often something was done when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from wardround.bundles import PatientState
from wardround.protocols import CourseReading, keys_of
from wardround.vocabulary import clinical_name

KEPT_HOURS = 24.0
"""Readings are kept so much longer than rules look back."""
Counts = dict[str, list[tuple[datetime | None, datetime]]]


def remember_courses(courses: dict[str, list[CourseReading]], state: PatientState, hours: Mapping[str, float]) -> None:
    """Add a state's new readings of the names that rules look back on, and forget those older than they look."""
    if not hours:
        return
    for trend in state.trends.values():
        name = clinical_name(trend.concept)
        if name not in hours:
            continue
        held = courses.get(name, [])
        known = {(one.row_id, one.time) for one in held}
        new = [each for each in trend.readings if (each.row_id, each.time) not in known]
        if new:
            read = (CourseReading(each.time, each.value, trend.unit, each.row_id) for each in new)
            held = sorted([*held, *read], key=lambda one: (one.time, one.row_id))
            oldest = held[-1].time - timedelta(hours=hours[name] + KEPT_HOURS)
            courses[name] = [one for one in held if one.time >= oldest]


def remember_counts(
    counts: Counts, counted: dict[str, int], state: PatientState, hour: datetime, hours: Mapping[str, float]
) -> None:
    """Note what was done since the last bundle, by the keys that rules count. The state tells how often and when last:
    the time of any other is unknown, but for the hour in which it became known."""
    if not hours:
        return
    for (kind, concept), action in state.actions.items():
        key = f"{int(kind)} {concept}"
        new = action.count - counted.get(key, 0)
        if new <= 0 or keys_of(concept).isdisjoint(hours):
            continue
        counted[key] = action.count
        held = counts.get(concept, [])
        is_newest = all(time is None or time < action.last for time, _ in held)
        counts[concept] = [*held, *((action.last if is_newest and place == 0 else None, hour) for place in range(new))]
