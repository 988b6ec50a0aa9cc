"""What a protocol's rules meet in a store: names never seen there, other units, and where each would have held."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow.compute as pc

from wardround.agents.stays import TraceSettings
from wardround.agents.stays.batch import BatchFacts, holding
from wardround.clinical.bundles import BundleStream, carried_by, store_bundles
from wardround.clinical.bundles.events import ALLERGIC, DIAGNOSED, HOUR
from wardround.clinical.bundles.fold import DRUGS, PROCEDURES, TESTS, TRENDS
from wardround.clinical.definitions.charted import items_of
from wardround.clinical.protocols import (
    HOUR_OF_DAY,
    STAY,
    AtScore,
    AtValue,
    ChangedBy,
    Condition,
    GlobalProtocol,
    HeldFor,
    InWindow,
    RuleIndex,
    Stated,
    TimesBaseline,
    conditions_of,
    done_keys,
    is_allergy,
    is_problem,
    lookup_done_keys,
)
from wardround.clinical.vocabulary import clinical_name, comparison
from wardround.core import from_microseconds
from wardround.records import Store
from wardround.runs.stays import store_score

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartInStore:
    """One condition of a rule. ``seen``: how often what it asks for is in the store, None where that is not counted (a
    score); ``units``: of measurements the units there, with how often each; ``other_units``: those among them that
    cannot be brought to the condition's."""

    part: str
    seen: int | None
    units: Mapping[str, int] = field(default_factory=dict)
    other_units: tuple[str, ...] = ()
    is_unknown: bool = False
    """A score that is not known for the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInStore:
    """One rule. ``held``: hours after which it would have held, in so many ``patients``; ``first``: the first five of
    them, as the source calls the patient, and the hour."""

    rule: str
    parts: tuple[PartInStore, ...]
    held: int = 0
    patients: int = 0
    first: tuple[tuple[str, datetime], ...] = ()


def lint_in_store(protocol: GlobalProtocol, store: Store) -> tuple[RuleInStore, ...]:
    """Return what each compiled rule meets in a store. Trusted: the whole record is read."""
    index = RuleIndex(protocol)
    seen = _Seen(has_definitions=bool(items_of(store.spec.name)))
    held: dict[int, int] = Counter()
    patients: dict[int, set[int]] = defaultdict(set)
    first: dict[int, list[tuple[int, int]]] = defaultdict(list)
    carried = carried_by(store)
    for stream in store_bundles(store):
        seen.add(stream)
        window = TraceSettings().window_hours
        facts = BatchFacts(
            stream=stream, window_hours=window, carried=carried, courses=index.courses, score=store_score(store)
        )
        found = holding(index, facts)
        for rule, bundle in zip(found.rule.tolist(), found.bundle.tolist(), strict=True):
            held[rule] += 1
            subject = int(stream.subjects[bundle])
            patients[rule].add(subject)
            if len(first[rule]) < SHOWN:
                first[rule].append((subject, int(stream.hours[bundle])))
    return tuple(
        RuleInStore(
            rule=one.rule.id,
            parts=tuple(map(seen.part, dict.fromkeys(conditions_of(one.trigger.node)))),
            held=held[place],
            patients=len(patients[place]),
            first=tuple((store.subject_key(who), from_microseconds(hour * HOUR)) for who, hour in first[place]),
        )
        for place, one in enumerate(index.rules)
        if one.trigger.node is not None
    )


def faults_in_store(found: Iterable[RuleInStore]) -> Iterator[tuple[str, str]]:
    """Yield what is to be said of rules, as (rule, words): parts never seen, and units that cannot be compared."""
    for rule in found:
        for part in rule.parts:
            if part.is_unknown:
                yield (
                    rule.rule,
                    f"{part.part!r} is worked out on a chart of MIMIC-IV: of this source it is unknown",
                )
            elif part.seen == 0:
                yield rule.rule, f"{part.part!r} was never seen in this store"
            elif part.other_units:
                units = ", ".join(f"{unit or 'no unit'} ({part.units[unit]:,})" for unit in part.other_units)
                yield rule.rule, f"{part.part!r} is charted here in units that cannot be compared: {units}"


@dataclass(slots=True)
class _Seen:
    """The names of a store: how often each was measured, by unit, done, diagnosed or charted as an allergy."""

    has_definitions: bool
    units: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    names: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, stream: BundleStream) -> None:
        """Count the events of a stream."""
        columns = stream.columns
        units = pc.fill_null(columns.unit, "").dictionary_encode()
        spelt, code = units.dictionary.to_pylist(), np.asarray(units.indices, np.int64)
        measured = np.isin(columns.kind, TRENDS) & ~np.isnan(columns.value)
        pairs, counts = np.unique(np.stack([columns.concept[measured], code[measured]]), axis=1, return_counts=True)
        for (name, unit), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            self.units[clinical_name(columns.names[name])][spelt[unit]] += count
        groups = {"drug": DRUGS, "other": TESTS | PROCEDURES, "problem": DIAGNOSED, "allergy": ALLERGIC}
        for group, kinds in groups.items():
            numbers, times = np.unique(columns.concept[np.isin(columns.kind, list(kinds))], return_counts=True)
            for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
                self.names[group][columns.names[number]] += count

    def part(self, condition: Condition) -> PartInStore:
        """Say how often what a condition asks for was seen."""
        said = str(condition)
        if isinstance(condition, AtScore) or condition.concept in (HOUR_OF_DAY, STAY):
            of_score = isinstance(condition, AtScore) and condition.score != "age"
            return PartInStore(part=said, seen=None, is_unknown=of_score and not self.has_definitions)
        if isinstance(condition, Stated) and condition.what in ("problem", "allergy"):
            fits = is_problem if condition.what == "problem" else is_allergy
            names = self.names[condition.what].items()
            return PartInStore(part=said, seen=sum(count for name, count in names if fits(name, condition.concept)))
        values = {HeldFor: "value", InWindow: "value"}.get(type(condition))
        number = getattr(condition, values) if values else condition
        units = self.units.get(clinical_name(condition.concept), Counter[str]())
        if isinstance(number, AtValue):
            other = tuple(unit for unit in units if not _comparable(unit, number, frozenset(units)))
            return PartInStore(part=said, seen=sum(units.values()), units=dict(units), other_units=other)
        if isinstance(number, TimesBaseline | ChangedBy) or (units and not isinstance(number, Stated)):
            return PartInStore(part=said, seen=sum(units.values()), units=dict(units))
        keys, done = lookup_done_keys(condition.concept), 0
        for group, is_drug in (("drug", True), ("other", False)):
            found = self.names[group].items()
            done += sum(count for name, count in found if not keys.isdisjoint(done_keys(name, is_drug=is_drug)))
        return PartInStore(part=said, seen=done)


def _comparable(unit: str, number: AtValue, charted: frozenset[str]) -> bool:
    way = comparison(unit or None, number.relation, number.threshold, number.unit, number.concept, charted)
    return bool(way.groups)
