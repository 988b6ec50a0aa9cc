"""From label events to samples: splits, common and rare strata, seeded draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from wardround.core import Progress, Reporter, UserError, derive_seed, format_time, from_microseconds
from wardround.records import Policy, SpanRole, Store
from wardround.records.specs import CodedRows
from wardround.tasks.benchmarks.encounters import Encounters, count_kinds
from wardround.tasks.benchmarks.label_events import EventFinder, LabelEvent
from wardround.tasks.benchmarks.sample import SPLITS, STRATA, Sample, Split, Stratum
from wardround.tasks.benchmarks.task import Task
from wardround.tools.candidates import CandidateSpace

# The split of a person depends on its number and the seed only, so that no person is in two splits.


Fractions = tuple[float, float, float]
"""Shares of subjects in train, dev and test."""

DEFAULT_FRACTIONS: Fractions = (0.7, 0.1, 0.2)
TRAINING_GROUPS = 10
"""Number of groups of training people; counts are also made without each group."""
_SEED_RANGE = 2**63


def unit_draw(*parts: object) -> float:
    """Return a number in (0, 1) that depends on the parts and nothing else."""
    return (derive_seed(*parts) + 0.5) / _SEED_RANGE


def check_fractions(fractions: Fractions) -> None:
    """Raise UserError unless the shares are not negative and add up to 1."""
    if len(fractions) != 3 or not min(fractions) >= 0 or not abs(sum(fractions) - 1) <= 1e-9:  # not a number is neither
        raise UserError(f"the shares of train, dev and test must be three that add up to 1, not {fractions!r}")


def person_id(store: Store, subject_id: int) -> int | None:
    """Return the person of a sample, for its record; None where subjects are people."""
    return None if store.spec.person is None else store.person_of(subject_id)


def split_of(person: int, seed: int, fractions: Fractions) -> Split:
    """Return the split of a person: the same in every task and every benchmark of one seed."""
    draw = unit_draw(seed, "split", person)
    train, dev, _ = fractions
    return SPLITS[0] if draw < train else SPLITS[1] if draw < train + dev else SPLITS[2]


def group_of(person: int, seed: int) -> int:
    """Return the group of a training person: its questions use the candidates of the other groups."""
    return derive_seed(seed, "group", person) % TRAINING_GROUPS


# Common and rare: the weights of AgentEHR eq. 11, the two pools they make, and the draw within a pool.


def label_counts(targets: Sequence[Sequence[str]]) -> Counter[str]:
    """Return Count(y): the number of candidate samples of the task with each label."""
    return Counter(label for target in targets for label in target)


def sample_weights(targets: Sequence[Sequence[str]]) -> list[float]:
    """Return w_S = mean over the labels of S of 1 / Count(y) (eq. 11), counted over these candidate samples."""
    counts = label_counts(targets)
    return [math.fsum(1 / counts[label] for label in target) / len(target) for target in targets]


def strata_of(weights: Sequence[float]) -> list[Stratum]:
    """Return the strata: common up to the mean weight, rare above it."""
    if not weights:
        return []
    mean = math.fsum(weights) / len(weights)
    return ["common" if weight <= mean else "rare" for weight in weights]


def draw_key(weight: float, *seed: object) -> float:
    """Return the key of Efraimidis and Spirakis (2006): log(u) / w.

    The largest k keys are a draw of k without replacement, each next one with probability proportional to its weight.
    ``u`` depends on the seed parts only, so a sample's key does not depend on the rest of the pool.
    """
    return math.log(unit_draw(*seed)) / weight


# From a task's label events to its samples: one event per subject, weights, strata, draw.


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawSettings:
    """What all tasks of one build share.

    ``groups``: of training subjects. ``direct``: every candidate is equally likely, without strata.
    """

    store: Store
    seed: int
    policy: Policy
    per_task: int
    splits: Mapping[int, Split]
    groups: Mapping[int, int]
    encounters: Mapping[int, Encounters]
    report: Reporter
    direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedEvent:
    """One subject's event of a task, with its weight (eq. 11), its stratum and its key in the draw."""

    event: LabelEvent
    split: Split
    weight: float
    stratum: Stratum
    key: float


def read_encounters(store: Store, admission: SpanRole, policy: Policy) -> dict[int, Encounters]:
    """Read every subject's hospital stays.

    A stay ends at the latest of its ends, discharge or death: for a person who died the discharge may be the midnight
    before, and questions about the last day would exist only for survivors. A stay without an end on record is open.
    The published rule uses the discharge only.
    """
    role = admission if policy == "known_at" else replace(admission, ends=admission.ends[:1])
    whole = policy == "known_at"
    return {subject: Encounters.read(role, batch, open_ended=whole) for subject, batch in store.scan(role.table)}


def kinds_of_stays(store: Store, admission: SpanRole) -> dict[str, dict[str, int]]:
    """Count the rows of each kind: stays, declared non-stays, and others."""
    kinds: dict[str, Counter[str]] = {}
    for _, batch in store.scan(admission.table) if admission.kind else ():
        count_kinds(admission, CodedRows(batch=batch), kinds)
    return {kind: dict(counts) for kind, counts in sorted(kinds.items())}


def choose_events(recipe: DrawSettings, task: Task, finder: EventFinder) -> list[LabelEvent]:
    """Return one eligible event per subject, each equally likely, decided by seed, task and subject alone."""
    chosen = []
    total = len(recipe.splits)
    for done, (subject, batch) in enumerate(label_rows(recipe.store, finder)):
        events = finder.events(subject, batch, recipe.encounters.get(subject, Encounters.none()))
        if events:
            chosen.append(choose_event(events, recipe.seed, task.name))
        recipe.report(Progress(label=f"label events: {task.name}", done=done + 1, total=total, unit="subjects"))
    return chosen


def choose_event(events: Sequence[LabelEvent], seed: int, task: str) -> LabelEvent:
    """Return the event with the lowest random number.

    The number of later events then has no influence on the choice among earlier ones.
    """
    return min(
        events, key=lambda event: derive_seed(seed, task, event.subject_id, "event", event.event_us, event.encounter)
    )


def candidates_for(recipe: DrawSettings, space: CandidateSpace, event: LabelEvent) -> CandidateSpace | None:
    """Return the candidates of an event's question; for a training subject, those of the other groups.

    None where the other groups have none.
    """
    group = recipe.groups.get(event.subject_id)
    return space if group is None else space.without.get(group)


def training_sizes(recipe: DrawSettings, candidates: Sequence[WeighedEvent]) -> list[tuple[int, int]]:
    """Return the group and the number of names of every possible training question.

    All possible questions count, because the drawn ones depend on everybody's answers.
    """
    return [
        (recipe.groups[candidate.event.subject_id], len(candidate.event.target))
        for candidate in candidates
        if candidate.split == "train"
    ]


def weigh(recipe: DrawSettings, task: Task, events: Sequence[LabelEvent]) -> list[WeighedEvent]:
    """Compute every event's weight, stratum and key in the draw."""
    weights = [1.0] * len(events) if recipe.direct else sample_weights([event.target for event in events])
    strata: Sequence[Stratum] = ["other-source"] * len(events) if recipe.direct else strata_of(weights)
    return [
        WeighedEvent(
            event=event,
            split=recipe.splits[event.subject_id],
            weight=weight,
            stratum=stratum,
            key=draw_key(weight, recipe.seed, task.name, event.subject_id, "draw"),
        )
        for event, weight, stratum in zip(events, weights, strata, strict=True)
    ]


def draw(recipe: DrawSettings, candidates: Sequence[WeighedEvent]) -> list[WeighedEvent]:
    """Draw at most ``per_task`` of every stratum of every split, weighted, without replacement."""
    drawn: list[WeighedEvent] = []
    for split in SPLITS:
        for stratum in STRATA:
            pool = [event for event in candidates if event.split == split and event.stratum == stratum]
            drawn.extend(sorted(pool, key=lambda event: (-event.key, event.event.subject_id))[: recipe.per_task])
    return sorted(drawn, key=lambda event: event.event.subject_id)


def make_samples(
    recipe: DrawSettings, task: Task, finder: EventFinder, space: CandidateSpace, drawn: Sequence[WeighedEvent]
) -> list[Sample]:
    """Build samples from the drawn candidates; row ids are read for these only."""
    return [
        Sample(
            id=f"{task.name}-{candidate.event.subject_id}",
            task=task.name,
            subject_id=candidate.event.subject_id,
            person_id=person_id(recipe.store, candidate.event.subject_id),
            prediction_time=from_microseconds(candidate.event.prediction_us),
            target=candidate.event.target,
            split=candidate.split,
            stratum=candidate.stratum,
            unwinnable=_unwinnable(candidates_for(recipe, space, candidate.event) or space, candidate.event.target),
            facts={
                "encounter": candidate.event.encounter,
                "event_time": format_time(from_microseconds(candidate.event.event_us)),
                "row_ids": _row_ids(recipe, finder, candidate.event),
                "unmapped_rows": candidate.event.unmapped,
                "weight": candidate.weight,
                **({"prompt": finder.source.prompt} if finder.source.prompt else {}),
            },
        )
        for candidate in drawn
    ]


def _unwinnable(space: CandidateSpace, target: Sequence[str]) -> tuple[str, ...]:
    return tuple(label for label in target if space.labels.resolve(label) is None)


def label_rows(store: Store, finder: EventFinder) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield every subject's rows of a task's table, with the columns that finding events reads."""
    needed = finder.source.needed_columns(finder.policy)
    for subject, batch in store.scan(finder.source.table):
        yield subject, batch.select([name for name in needed if name in batch.schema.names])


def _row_ids(recipe: DrawSettings, finder: EventFinder, event: LabelEvent) -> list[str]:
    """Return the record rows of an event."""
    batch = recipe.store.rows(event.subject_id, finder.source.table)
    encounters = recipe.encounters[event.subject_id]
    dropped_before, finder.dropped = finder.dropped, Counter()
    rows = finder.rows(batch, encounters)
    finder.dropped = dropped_before
    ids = batch.column("row_id").to_pylist()
    for part in rows.parts():
        admission = int(rows.position[part].max())
        if int(rows.keys[part.start, 0]) == event.event_us and encounters.name(admission) == event.encounter:
            return sorted(ids[index] for index in rows.index[part])
    return []
