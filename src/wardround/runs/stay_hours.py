"""The hours of a stay for its page, out of the store: the bundle, what it changed in the state, what it amended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from wardround.benchmarks import Sample
from wardround.bundles import Bundle, BundleEvent, PatientState, bundle_text, event_text, states
from wardround.bundles.events import amends
from wardround.bundles.kinds import EventKind
from wardround.records import Store
from wardround.runs.stays import played_bundles

_LONGEST = 4_000
"""Characters of a bundle in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StayHour:
    """One hour in words. ``changes``: entries of the state that came, went or changed; ``amended``: rows that were
    told before and read differently from now on, or are withdrawn."""

    bundle: str
    changes: tuple[str, ...]
    amended: tuple[str, ...]


def stay_hours(store: Store, sample: Sample) -> tuple[StayHour, ...]:
    """Return the hours of a stay's steps, in order. Raises UserError where the store cannot tell."""
    past, bundles = played_bundles(store, sample)
    every = [*past, *bundles]
    before = PatientState(subject_id=sample.subject_id)
    hours = []
    for bundle, after in zip(every, states(every), strict=True):
        hours.append(_hour(bundle, before, after))
        before = after
    return tuple(hours[len(past) :])


def _hour(bundle: Bundle, before: PatientState, after: PatientState) -> StayHour:
    return StayHour(
        bundle=_cut(bundle_text(bundle)),
        changes=tuple(_changes(before, after)),
        amended=tuple(dict.fromkeys(_amendment(event) for event in bundle.events if amends(event))),
    )


def _changes(before: PatientState, after: PatientState) -> Iterator[str]:
    """Yield what the state holds otherwise than before: by name, and trends by where they now stand."""
    for section in ("problems", "allergies"):
        old, new = getattr(before, section), getattr(after, section)
        yield from (f"{section} + {name}" for name in new if name not in old)
        yield from (f"{section} − {name}" for name in old if name not in new)
    running, ran = (Counter(one.concept for one in state.medications.values()) for state in (after, before))
    yield from (f"given now + {name}" for name in running - ran)
    yield from (f"given now − {name}" for name in ran - running)
    for key, trend in after.trends.items():
        known = before.trends.get(key)
        if known is None or known.last != trend.last:
            value = f"{trend.last.value:g} {trend.unit or ''}".rstrip()
            moving = f", {trend.direction}" if len(trend.readings) > 1 else ""
            yield f"{trend.concept} {value}{moving}"
    yield from (f"trend − {key[1]}" for key in before.trends if key not in after.trends)


def _amendment(event: BundleEvent) -> str:
    if event.kind is EventKind.RETRACTION:
        return f"{event.concept or event.row_id} withdrawn"
    return f"{event_text(event)}, version {event.revision + 1}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text) - _LONGEST:,} characters more)"
