"""Targets of each step: the decisions made until the next bundle, each at its own time.

A decision's time is the moment at which it was made (the order, the start, the specimen), not that at which its result
became known. Trusted code only: a target is the future, and never part of a bundle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from wardround.clinical.bundles.events import HOUR, ActionType, BundleEvents, BundleStream, EventKind, Integers
from wardround.clinical.bundles.reading import KIND_OF_ROLE
from wardround.records import SourceSpec

DECIDED: Mapping[EventKind, ActionType] = {
    EventKind.MEDICATION_START: ActionType.MEDICATIONS,
    EventKind.LAB: ActionType.LABS,
    EventKind.CULTURE_TAKEN: ActionType.LABS,
    EventKind.CULTURE: ActionType.LABS,
    EventKind.PROCEDURE: ActionType.PROCEDURES,
}
"""By kind of event that is a decision: the type of decision."""
TYPES = tuple(ActionType)
_SHIFT = 1 << 26
"""Hours from the year -5686 to 9625, as part of a sorting key."""
Targets = Mapping[ActionType, tuple[str, ...]]
"""Targets of one step: concepts by type, in order of decision; a type without any is left out."""


@dataclass(frozen=True, kw_only=True)
class StepTargets:
    """The targets of a stream's steps, as columns of one length.

    Step k predicts the decisions after bundle k until the subject's next bundle.

    ``steps``: places of bundles; ``types``: places in ``TYPES``; ``concepts``: places in the stream's names.
    ``visible``: by type, decisions left out because they were already visible as ordered or pending.
    """

    stream: BundleStream = field(repr=False)
    steps: Integers
    types: npt.NDArray[np.int8]
    concepts: Integers
    visible: Mapping[ActionType, int]

    @cached_property
    def is_step(self) -> npt.NDArray[np.bool_]:
        """(b,) whether another bundle of the subject follows; after the last there is nothing to predict."""
        subjects = self.stream.subjects
        return np.append(subjects[1:] == subjects[:-1], [False])[: len(self.stream)]

    @cached_property
    def skipped(self) -> Mapping[ActionType, int]:
        """By type: the number of steps without a target."""
        steps = int(self.is_step.sum())
        with_targets = {place: len(np.unique(self.steps[self.types == place])) for place in range(len(TYPES))}
        return {name: steps - with_targets[place] for place, name in enumerate(TYPES)}

    def of(self, step: int) -> Targets:
        """Return the targets of one step."""
        first, last = np.searchsorted(self.steps, [step, step + 1])
        names = self.stream.columns.names
        found: dict[ActionType, tuple[str, ...]] = {}
        for place in range(first, last):
            kind = TYPES[self.types[place]]
            found[kind] = (*found.get(kind, ()), names[self.concepts[place]])
        return found


def step_targets(stream: BundleStream) -> StepTargets:
    """Return the targets of every step. Decisions known only to the day or the stay are not targets."""
    events = stream.columns
    rank = np.unique(events.subject, return_inverse=True)[1].astype(np.int64)
    chosen = np.flatnonzero(np.isin(events.kind, list(DECIDED)) & (events.revision == 0) & events.timed)
    decided = events.event[chosen] // HOUR
    bundles = _key(rank[stream.starts[:-1]], stream.hours)
    step = np.searchsorted(bundles, _key(rank[chosen], decided)) - 1
    inside = (step >= 0) & (stream.subjects[step] == events.subject[chosen]) if len(stream) else step >= 0
    chosen, step = chosen[inside], step[inside]
    types = _TYPE_OF_KIND[events.kind[chosen]]
    shown = _already_shown(events, rank, chosen, stream.hours[step])
    visible = {name: int(np.count_nonzero(shown & (types == place))) for place, name in enumerate(TYPES)}
    chosen, step, types = chosen[~shown], step[~shown], types[~shown]
    order = np.lexsort((chosen, events.event[chosen], types, step))
    keys = np.stack([step[order], types[order].astype(np.int64), events.concept[chosen[order]]])
    once = order[np.sort(np.unique(keys, axis=1, return_index=True)[1])]
    return StepTargets(
        stream=stream, steps=step[once], types=types[once], concepts=events.concept[chosen[once]], visible=visible
    )


_TYPE_OF_KIND = np.full(max(EventKind) + 1, -1, np.int8)
for _kind, _type in {**DECIDED, EventKind.MEDICATION_STOP: ActionType.MEDICATIONS}.items():
    _TYPE_OF_KIND[_kind] = TYPES.index(_type)


def _key(group: Integers, hour: Integers) -> Integers:
    return group * (2 * _SHIFT) + hour + _SHIFT


def _already_shown(events: BundleEvents, rank: Integers, chosen: Integers, hour: Integers) -> npt.NDArray[np.bool_]:
    """Return the decisions whose concept was already running or pending on the chart at the step's hour."""
    group = (rank * len(events.names) + events.concept) * len(TYPES) + np.maximum(_TYPE_OF_KIND[events.kind], 0)
    begins = np.isin(events.kind, (EventKind.MEDICATION_START, EventKind.CULTURE_TAKEN))
    ends = events.kind == EventKind.MEDICATION_STOP
    # Of a culture only the first result ends it: its organisms are in several rows
    rows = np.flatnonzero((events.kind == EventKind.CULTURE) & (events.revision == 0))
    ends[rows[np.unique(np.stack([group[rows], events.event[rows]]), axis=1, return_index=True)[1]]] = True
    left_open, discharged = _ended_by_discharge(events, rank)
    keys = np.r_[_key(group[ends], events.hour[ends]), _key(group[left_open], discharged)]
    running = _count(_key(group[begins], events.hour[begins]), group[chosen], hour) - _count(keys, group[chosen], hour)
    return running > 0


def _ended_by_discharge(events: BundleEvents, rank: Integers) -> tuple[Integers, Integers]:
    """Return the orders without a recorded stop that a discharge follows, and its hour."""
    rows = events.row_id.dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(events.kind == EventKind.MEDICATION_START)
    starts = starts[~np.isin(rows[starts], rows[events.kind == EventKind.MEDICATION_STOP])]
    left = np.flatnonzero(events.kind == EventKind.DISCHARGE)
    keys, hours = _key(rank[left], events.hour[left]), events.hour[left]
    place = np.searchsorted(keys, _key(rank[starts], events.hour[starts]))
    follows = place < len(left)
    follows[follows] = rank[left[place[follows]]] == rank[starts[follows]]
    return starts[follows], hours[place[follows]]


def _count(keys: Integers, wanted: Integers, until: Integers) -> Integers:
    """Count the keys of each wanted group up to and including an hour."""
    keys = np.sort(keys)
    before = np.searchsorted(keys, _key(wanted, np.full_like(wanted, -_SHIFT)))
    return np.searchsorted(keys, _key(wanted, until), side="right") - before


def untimed_types(spec: SourceSpec) -> Mapping[ActionType, str]:
    """Return the types without targets in a source, with the reason."""
    found = {}
    for wanted in TYPES:
        kinds = {kind for kind, its in DECIDED.items() if its == wanted}
        roles = [role for name, kind in KIND_OF_ROLE.items() if kind in kinds for role in spec.roles.rows(name)]
        if not roles:
            found[wanted] = "no table plays a role that gives such decisions"
        elif all(role.precision != "moment" for role in roles):
            found[wanted] = f"{roles[0].table}: known to the {roles[0].precision} only"
    return found
