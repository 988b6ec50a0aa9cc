"""The stays of a store as ranges of bundles, and what of them the paper counts (section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wardround.answers import StepAction
from wardround.benchmarks.columns import NO_TIME, event_times
from wardround.benchmarks.spans import Spans, read_spans
from wardround.bundles import BundleStream, EventKind, StepTargets, step_targets, store_bundles
from wardround.bundles.events import HOUR
from wardround.bundles.targets import DECIDED
from wardround.core import UserError
from wardround.records import SpanRole, Store, unplayed
from wardround.records.specs.coded_rows import CodedRows

Unit = Literal["icu", "hospital"]
FEWEST_BUNDLES = 2
"""A stay of fewer has no step: nothing follows that could be foretold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStay:
    """One stay: the bundles from ``first`` on and before ``stop``, as places in its subject's own stream.

    ``start``: the hour of the first of them, in hours since 1970; ``target``: what was decided, step by step; ``last``:
    at each step the newest names of each type that were on the chart.
    """

    subject_id: int
    start: int
    first: int
    stop: int
    target: tuple[StepAction, ...]
    last: tuple[StepAction, ...]
    events: int
    by_kind: Mapping[EventKind, int]

    @property
    def bundles(self) -> int:
        """How many bundles it has, one more than steps."""
        return self.stop - self.first


def stay_role(store: Store, unit: Unit) -> SpanRole:
    """Return what plays the unit of a cohort. UserError: nothing does, or its table is not in the store."""
    name = "stay" if unit == "icu" else "admission"
    role: SpanRole | None = getattr(store.spec.roles, name)
    other = "hospital" if unit == "icu" else "icu"
    if role is None:
        raise UserError(f"no stay to play: {unplayed(name)}; try --unit {other}, or see docs/roles.md")
    if role.table not in store.table_names:
        raise UserError(f"no stay to play: the store has no table {role.table!r}; try --unit {other}")
    return role


def played_stays(store: Store, unit: Unit, *, most: int, dropped: dict[str, int]) -> Iterator[PlayedStay]:
    """Yield every stay with a step and a target, subject by subject. ``most``: names of a type in ``last``; ``dropped``
    counts the others by reason."""
    role = stay_role(store, unit)
    spans = {subject: _spans(role, batch) for subject, batch in store.scan(role.table)}
    for stream in store_bundles(store):
        targets = step_targets(stream)
        subjects = stream.subjects
        edges = np.flatnonzero(np.r_[True, subjects[1:] != subjects[:-1], True])
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            subject = int(subjects[begin])
            for start, stop in _ranges(stream, begin, end, spans.get(subject, Spans.none())):
                stay = _stay(stream, targets, begin, start, stop, most)
                if stay.bundles < FEWEST_BUNDLES:
                    dropped["of fewer than two bundles"] = dropped.get("of fewer than two bundles", 0) + 1
                elif not stay.target:
                    dropped["without a decision to foretell"] = dropped.get("without a decision to foretell", 0) + 1
                else:
                    yield stay


def _spans(role: SpanRole, batch: object) -> Spans:
    return read_spans(role, event_times(batch), CodedRows(batch=batch))


def _ranges(stream: BundleStream, begin: int, end: int, spans: Spans) -> Iterator[tuple[int, int]]:
    """Yield the places of each stay's bundles: from the hour in which it begins to that in which it ends."""
    hours = stream.hours[begin:end]
    for start, stop in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
        last = hours[-1] if stop == NO_TIME else stop // HOUR
        yield begin + int(np.searchsorted(hours, start // HOUR)), begin + int(np.searchsorted(hours, last, "right"))


def _stay(stream: BundleStream, targets: StepTargets, begin: int, start: int, stop: int, most: int) -> PlayedStay:
    events = stream.columns.slice(int(stream.starts[start]), int(stream.starts[stop])) if stop > start else None
    kinds = np.bincount(events.kind, minlength=max(EventKind) + 1) if events is not None else np.zeros(1, np.int64)
    steps = range(start, stop - 1)
    return PlayedStay(
        subject_id=int(stream.subjects[begin]),
        start=int(stream.hours[start]) if stop > start else 0,
        first=start - begin,
        stop=max(stop, start) - begin,
        target=tuple(action for place in steps for action in _target(targets, place, place - start)),
        last=tuple(_last(stream, begin, start, stop, most)),
        events=int(kinds.sum()),
        by_kind={EventKind(kind): int(count) for kind, count in enumerate(kinds) if count},
    )


def _target(targets: StepTargets, place: int, step: int) -> Iterator[StepAction]:
    for kind, names in targets.of(place).items():
        yield from (StepAction(step=step, kind=str(kind), name=name) for name in names)


def _last(stream: BundleStream, begin: int, start: int, stop: int, most: int) -> Iterator[StepAction]:
    """Yield, for every step of a stay, what was last decided of each type as the chart showed it, the newest first."""
    columns = stream.columns
    decided = np.isin(columns.kind, list(DECIDED))
    newest: dict[str, dict[str, None]] = {}
    for place in range(begin, stop - 1):
        rows = slice(int(stream.starts[place]), int(stream.starts[place + 1]))
        kinds, concepts = columns.kind[rows][decided[rows]], columns.concept[rows][decided[rows]]
        for kind, concept in zip(kinds.tolist(), concepts.tolist(), strict=True):
            names = newest.setdefault(str(DECIDED[EventKind(kind)]), {})
            names.pop(columns.names[concept], None)
            names[columns.names[concept]] = None
        if place >= start:
            yield from _newest(newest, place - start, most)


def _newest(newest: Mapping[str, Mapping[str, None]], step: int, most: int) -> Iterator[StepAction]:
    for kind, names in newest.items():
        yield from (StepAction(step=step, kind=kind, name=name) for name in list(names)[: -most - 1 : -1])
