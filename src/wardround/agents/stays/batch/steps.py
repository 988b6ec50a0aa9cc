"""Steps of TRACE's coded roles over whole stores: rules that hold, due actions, predictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress, pairwise

import numpy as np
import pyarrow as pa

from wardround.agents.stays.auditor import AuditRecord, Unchecked
from wardround.agents.stays.batch.audits import BatchAudits
from wardround.agents.stays.batch.due import Holding, asked_of, due_actions_of, due_of, order_of
from wardround.agents.stays.batch.facts import NEVER, BatchFacts, Truths
from wardround.agents.stays.batch.onward import Mask, afterwards
from wardround.agents.stays.batch.over_time import at_rate, counted, meets, over_time, within
from wardround.agents.stays.charted import LEVELS, meanings_of_action
from wardround.agents.stays.player import NO_ROWS, NOTHING_HELD, CodedRoles, CodedStep
from wardround.agents.stays.router import PRIOR, HeldRule, RuleMemory
from wardround.agents.stays.steward import Steward
from wardround.clinical.bundles import BatchStates, Bundle, BundleStream, ValueLevel, batch_states, bundle_texts
from wardround.clinical.bundles.events import HOUR, EventKind, Integers, amends, is_amendment
from wardround.clinical.bundles.state import STEADY_SHARE
from wardround.clinical.protocols import (
    FORBIDDING,
    HOUR_OF_DAY,
    AndOr,
    AtLevel,
    AtRate,
    AtScore,
    AtValue,
    ChangedBy,
    CompiledRule,
    CountedActions,
    HeldFor,
    HoursSince,
    InWindow,
    Moving,
    Negated,
    Node,
    RuleAction,
    RuleIndex,
    Stated,
    TimesBaseline,
    conditions_of,
)
from wardround.clinical.vocabulary import RELATIONS
from wardround.core import canonical_json, from_microseconds

# Triggers over every bundle of a stream at once: where each is known to be true or false (Kleene logic).


_LEVELS = np.array([LEVELS.get(level, "") for level in ValueLevel])


def truths(node: Node, facts: BatchFacts, where: Mask | None = None, *, wanted: bool = True) -> Truths:
    """Return the bundles after which a trigger holds (``node.holds`` is true).

    ``wanted`` False: the bundles after which it is known not to hold; ``where``: the bundles to evaluate. Elsewhere
    clinical scores, which are expensive, are left unknown."""
    where = np.ones(len(facts.stream), bool) if where is None else where
    match node:
        case Negated(part=part):
            return ~truths(part, facts, where, wanted=not wanted)
        case AndOr():
            return _joined(node, facts, where, wanted=wanted)
        case AtValue():
            return _at_value(node, facts)
        case AtLevel():
            return _at_level(node, facts)
        case Moving():
            return _moving(node, facts)
        case HoursSince():
            return _hours_since(node, facts)
        case Stated():
            return _stated(node, facts)
        case HeldFor() | TimesBaseline() | ChangedBy():
            return over_time(node, facts)
        case InWindow():
            return within(node, facts)
        case CountedActions():
            return counted(node, facts)
        case AtRate():
            return at_rate(node, facts)
        case AtScore():
            return _at_score(node, facts, where)


def _joined(node: AndOr, facts: BatchFacts, where: Mask, *, wanted: bool) -> Truths:
    """Combine parts by ``all`` or ``any``; clinical scores are evaluated last, only where others leave it open."""
    is_and = node.how == "AND"
    combined = Truths(np.full(len(where), is_and), np.full(len(where), not is_and))
    for part in sorted(node.parts, key=_asks_for_scores):
        open_ = (combined.yes if is_and else ~combined.yes) if wanted else (~combined.no if is_and else combined.no)
        found = truths(part, facts, where & open_, wanted=wanted)
        combined = combined & found if is_and else combined | found
    return combined


def _at_score(node: AtScore, facts: BatchFacts, where: Mask) -> Truths:
    """Equal to ``Bounds.holds``."""
    least, most = facts.scores(node.score, node.hours, where)
    relation, known = RELATIONS[node.relation], ~np.isnan(least)
    low, high = relation(least, node.threshold), relation(most, node.threshold)
    if node.relation == "=":
        return Truths(known & low & high, known & ((least > node.threshold) | (most < node.threshold)))
    return Truths(known & low & high, known & ~low & ~high)


def _asks_for_scores(node: Node) -> bool:
    return any(isinstance(condition, AtScore) for condition in conditions_of(node))


def _at_value(node: AtValue, facts: BatchFacts) -> Truths:
    if node.concept == HOUR_OF_DAY:
        holds = RELATIONS[node.relation](facts.stream.hours % 24, node.threshold)
        return Truths.where(np.ones(len(holds), dtype=bool), holds)
    last, _ = facts.reading(node.concept)
    bundle = np.flatnonzero(last >= 0)
    found, truths = Truths.unknown(len(last)), meets(node, last[bundle], bundle, facts)
    found.yes[bundle], found.no[bundle] = truths.yes, truths.no
    return found


def _at_level(node: AtLevel, facts: BatchFacts) -> Truths:
    last, _ = facts.reading(node.concept)
    level = _LEVELS[facts.stream.columns.level[last]]
    holds = level != "normal" if node.level == "abnormal" else level == node.level
    return Truths.where((last >= 0) & (level != ""), holds)


def _moving(node: Moving, facts: BatchFacts) -> Truths:
    last, first = facts.reading(node.concept)
    value = facts.stream.columns.value
    change, least = value[last] - value[first], np.abs(value[first]) * STEADY_SHARE
    size = np.abs(change)
    # equal to math.isclose
    is_steady = (size < least) | (np.abs(size - least) <= 1e-9 * np.maximum(size, least))
    direction = np.where(is_steady, "steady", np.where(change > 0, "rising", "falling"))
    return Truths.where((last >= 0) & (last != first), direction == node.direction)


def _hours_since(node: HoursSince, facts: BatchFacts) -> Truths:
    hours = facts.hours_since(node.concept)
    return Truths.where(~np.isnan(hours), RELATIONS[node.relation](hours, node.threshold))


def _stated(node: Stated, facts: BatchFacts) -> Truths:
    match node.what:
        case "on":
            return Truths(*facts.taking(node.concept))
        case "done":
            meanings = meanings_of_action(node.concept)
            found = [_done_as(node, kinds, facts, is_drug=is_drug) for kinds, is_drug in meanings]
            yes, no = (np.logical_and.reduce(masks) for masks in ([f.yes for f in found], [f.no for f in found]))
            return Truths(yes, no)
        case "problem":
            return Truths(facts.has_problem(node.concept, ever=node.ever), np.zeros(len(facts.stream), dtype=bool))
        case "allergy":
            return Truths(*facts.allergic_to(node.concept))


def _done_as(node: Stated, kinds: frozenset[EventKind], facts: BatchFacts, *, is_drug: bool | None) -> Truths:
    since = NEVER + 1 if node.hours is None else facts.now - int(node.hours * HOUR)
    done = facts.last_done(node.concept, is_drug=is_drug, ever=node.ever or node.hours is not None) >= since
    return Truths(done, ~done & facts.carries(kinds))


# Which rules hold after which bundles, since when, and their due actions, as columns.


def holding(index: RuleIndex, facts: BatchFacts) -> Holding:
    """Find the rules that hold. A problem that a rule suspects counts for other rules from the next bundle on."""
    holding = _held(index, facts)
    bundles = [np.flatnonzero(mask) for mask in holding.values()]
    rule = np.repeat(np.array([*holding], np.int64), [len(own) for own in bundles])
    bundle = np.concatenate(bundles) if bundles else rule
    since = _since(rule, bundle, facts)
    due = due_of(index, rule, bundle, since, facts)
    return Holding(rule=rule, bundle=bundle, since=since, due=due)


def _held(index: RuleIndex, facts: BatchFacts) -> dict[int, Mask]:
    """Return by rule the bundles after which it holds; rules that never hold are left out."""
    holding = {place: _holds(one, facts) for place, one in enumerate(index.rules) if _is_asked(one)}
    suspecting = {one.rule.suspects for place, one in enumerate(index.rules) if place in holding} - {None}
    asking = [place for place in holding if suspecting and _asks_of_problems(index.rules[place])]
    while asking:
        suspected = _suspected(index, holding, facts)
        if all(np.array_equal(mask, facts.suspected.get(name, ())) for name, mask in suspected.items()):
            break
        facts.suspected = suspected
        holding |= {place: _holds(index.rules[place], facts) for place in asking}
    return {place: mask for place, mask in holding.items() if mask.any()}


def _is_asked(compiled: CompiledRule) -> bool:
    return compiled.trigger.node is not None and compiled.rule.category != PRIOR


def _holds(compiled: CompiledRule, facts: BatchFacts) -> Mask:
    assert compiled.trigger.node is not None  # other rules are not evaluated
    return truths(compiled.trigger.node, facts).yes & ~facts.is_over


def _asks_of_problems(compiled: CompiledRule) -> bool:
    conditions = conditions_of(compiled.trigger.node) if compiled.trigger.node is not None else ()
    return any(isinstance(condition, Stated) and condition.what == "problem" for condition in conditions)


def _suspected(index: RuleIndex, holding: Mapping[int, Mask], facts: BatchFacts) -> dict[str, Mask]:
    """Return by problem the bundles before which a rule that suspects it had held."""
    found: dict[str, Mask] = {}
    for place, mask in holding.items():
        problem = index.rules[place].rule.suspects
        if problem is not None:
            found[problem] = found.get(problem, False) | afterwards(mask, facts.stay)
    return found


def _since(rule: Integers, bundle: Integers, facts: BatchFacts) -> Integers:
    """Return for pairs, by rule and bundle, the end of the hour of the first of consecutive bundles."""
    stay = facts.stay[bundle]
    follows = (rule[1:] == rule[:-1]) & (np.diff(bundle) == 1) & (stay[1:] == stay[:-1])
    own = np.arange(len(rule))
    own[1:][follows] = 0
    return facts.now[bundle[np.maximum.accumulate(own)]]


# Steps of TRACE's roles in code after every bundle of a stream, equal to ``CodedRoles.play``.


def batch_steps(stream: BundleStream, roles: CodedRoles) -> BatchSteps:
    """Return the steps of all subjects of a stream, with memory from each one's first bundle on."""
    facts = BatchFacts(
        stream=stream,
        window_hours=roles.settings.window_hours,
        carried=roles.carried,
        courses=roles.index.courses,
        score=roles.score,
    )
    after = batch_states(stream)
    return BatchSteps(
        roles=roles, facts=facts, states=after, holding=holding(roles.index, facts), folded=_folded(roles, facts, after)
    )


@dataclass(frozen=True, kw_only=True)
class BatchSteps:
    """Steps, one for each bundle, in order.

    ``states``: of every subject after the last bundle; ``folded``: by bundle, steps of subjects whose record was
    amended or has more entries than a state keeps: these are computed one by one."""

    roles: CodedRoles
    facts: BatchFacts = field(repr=False)
    states: BatchStates = field(repr=False)
    holding: Holding = field(repr=False)
    folded: Mapping[int, CodedStep] = field(repr=False)

    def __len__(self) -> int:
        return len(self.facts.stream)

    def __iter__(self) -> Iterator[CodedStep]:
        asks = due_actions_of(self.roles.index, self.roles.settings.predictions)
        due = asks.after_all(self.holding, len(self))
        audits = BatchAudits.of(due, asks, self.holding, self.facts)
        by_hand = audits.by_hand | self.roles.settings.unsure_by_shares
        actions = [asks.predicted[ask] for ask in due.ask.tolist()]
        of_each = zip(
            by_hand.tolist(), audits.risky.tolist(), _parts(due.bundle, len(self)), *self._held_rules(), strict=True
        )
        for bundle, (is_looked_at, is_risky, own, held, read) in enumerate(of_each):
            if bundle in self.folded:
                yield self.folded[bundle]
            elif not held:
                yield NOTHING_HELD
            elif is_looked_at:
                yield self.roles.answered(_DrugsAfter(self.facts, bundle), held, tuple(actions[own]))
            else:
                audit = _passed(audits.unchecked(own, actions), is_risky=is_risky)
                yield CodedStep(actions=tuple(actions[own]), read=read, held=held, audit=audit, rows=NO_ROWS)

    def _held_rules(self) -> tuple[Iterator[tuple[HeldRule, ...]], Iterator[tuple[HeldRule, ...]]]:
        """Return for each bundle the rules that hold and those with due actions; consecutive bundles share equal
        objects."""
        holding, found = self.holding, list[HeldRule]()
        number, asking = np.zeros(len(holding.rule), np.int64), np.zeros(len(holding.rule), bool)
        for place, own in enumerate(holding.of_rules(len(holding.due))):
            since, due = holding.since[own], holding.due[place]
            another = (since[1:] != since[:-1]) | (due[1:] != due[:-1]).any(axis=1)
            firsts = np.append([True], another)[: len(since)]
            number[own] = np.cumsum(firsts) + (len(found) - 1)
            asking[own] = due.any(axis=1)
            found += self._held(place, since[firsts], due[firsts])
        by_bundle = order_of(holding.bundle, len(self))
        number, asking, bundle = number[by_bundle], asking[by_bundle], holding.bundle[by_bundle]
        held = [found[each] for each in number.tolist()]
        read = [*compress(held, asking.tolist())]
        return (
            (tuple(held[own]) for own in _parts(bundle, len(self))),
            (tuple(read[own]) for own in _parts(bundle[asking], len(self))),
        )

    def _held(self, place: int, since: Integers, due: Mask) -> Iterator[HeldRule]:
        """Yield a rule that holds for each of some times; equal due actions share one tuple."""
        compiled = self.roles.index.rules[place]
        actions, by_flags = asked_of(compiled), dict[bytes, tuple[RuleAction, ...]]()
        forbids = tuple(action for action in compiled.actions if action.verb in FORBIDDING)
        for moment, flags in zip(since.view("datetime64[us]").tolist(), map(bytes, due), strict=True):
            if flags not in by_flags:
                by_flags[flags] = tuple(compress(actions, flags))
            yield HeldRule(compiled=compiled, since=moment, due=by_flags[flags], forbids=forbids)


def _parts(bundle: Integers, bundles: int) -> Iterator[slice]:
    """Yield for each bundle its slice of sorted places."""
    starts = np.searchsorted(bundle, np.arange(bundles + 1)).tolist()
    return (slice(start, stop) for start, stop in pairwise(starts))


def _passed(unchecked: tuple[Unchecked, ...], *, is_risky: bool) -> AuditRecord:
    """Return an audit without objections."""
    if unchecked:
        return AuditRecord(fired=("risk",) if is_risky else (), unchecked=unchecked)
    return _RISKY if is_risky else _PASSED


_PASSED, _RISKY = AuditRecord(), AuditRecord(fired=("risk",))


@dataclass(frozen=True, slots=True)
class _DrugsAfter:
    """The facts for the Auditor after one bundle."""

    facts: BatchFacts
    bundle: int

    @property
    def now(self) -> datetime:
        return from_microseconds(int(self.facts.now[self.bundle]))

    def taking(self, drug: str) -> bool | None:
        return self._truth(*self.facts.taking(drug))

    def allergic_to(self, substance: str) -> bool | None:
        return self._truth(*self.facts.allergic_to(substance))

    def unclear_allergies(self, substance: str) -> tuple[str, ...]:
        unclear = self.facts.unclear_allergies(substance)
        return tuple(sorted(name for name, mask in unclear.items() if mask[self.bundle])) if unclear else ()

    def _truth(self, yes: Mask, no: Mask) -> bool | None:
        return True if yes[self.bundle] else False if no[self.bundle] else None


def _folded(roles: CodedRoles, facts: BatchFacts, after: BatchStates) -> dict[int, CodedStep]:
    """Compute the steps of subjects whose states the columns do not have."""
    stream = facts.stream
    found: dict[int, CodedStep] = {}
    for subject in _to_be_folded(roles, facts, after).tolist():
        start, stop = np.searchsorted(stream.subjects, [subject, subject + 1]).tolist()
        found.update(enumerate(_one_by_one(roles, [*stream.between(start, stop)]), start))
    return found


def _one_by_one(roles: CodedRoles, bundles: Iterable[Bundle]) -> Iterator[CodedStep]:
    """Compute the steps of one subject, bundle by bundle."""
    memory, steward = RuleMemory(), Steward()
    for bundle in bundles:
        steward.take_in(bundle)
        before = steward.states_before(bundle) if any(map(amends, bundle.events)) else None
        yield roles.play(steward.state_at(bundle), bundle.hour, memory, before)


def _to_be_folded(roles: CodedRoles, facts: BatchFacts, after: BatchStates) -> Integers:
    """Return the subjects with amended rows, or with more entries of a section than a state keeps (of actions only if
    rules count them)."""
    events, limits = facts.stream.columns, after.limits
    over = [events.subject[is_amendment(events)]]
    for name in ("problems", "trends", "allergies", *(("actions",) if roles.index.counted else ())):
        owners, counts = np.unique(after.events.subject[getattr(after, name).last], return_counts=True)
        over.append(owners[counts > getattr(limits, name)])
    running = facts.runs.count(np.ones(len(facts.runs.concept), dtype=bool))
    return np.unique(np.concatenate([*over, facts.stream.subjects[running > limits.medications]]))


# Texts and steps of a whole store as a table: a row per bundle, beside the events and targets of ``write_bundles``.


STEPS = pa.schema(
    [("subject_id", pa.int64()), ("hour", pa.timestamp("us")), ("text", pa.string()), ("step", pa.string())]
)
"""``text``: the bundle in words; ``step``: predictions of the roles after it, rules, and audit, as JSON."""


@dataclass(frozen=True, slots=True)
class StepsTable:
    """The table ``steps`` of a store under one protocol."""

    roles: CodedRoles
    name: str = "steps"
    schema: pa.Schema = STEPS

    def of(self, stream: BundleStream) -> pa.Table:
        """Return the rows of some subjects."""
        columns = {
            "subject_id": pa.array(stream.subjects),
            "hour": pa.array((stream.hours * HOUR).view("datetime64[us]"), pa.timestamp("us")),
            "text": pa.array(bundle_texts(stream), pa.string()),
            "step": pa.array([canonical_json(step.to_json()) for step in batch_steps(stream, self.roles)], pa.string()),
        }
        return pa.table(columns, schema=STEPS)
