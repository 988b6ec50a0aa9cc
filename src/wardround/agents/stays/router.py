"""The Router finds which rules hold; the Reasoner in code orders what is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from wardround.agents.loop.steps import ChartScore, PredictedAction
from wardround.agents.stays.charted import StateFacts, remember_counts, remember_courses
from wardround.clinical.bundles import NOTHING_KNOWN, Carried, PatientState
from wardround.clinical.protocols import (
    FORBIDDING,
    AndOr,
    CompiledRule,
    Condition,
    CourseReading,
    Negated,
    Node,
    RuleAction,
    RuleIndex,
    Stated,
    is_problem,
)

# The Router, in code: which rules hold, which of their actions are not done yet, and the few rules selected now.


PRIOR = "PRIOR"
"""Category of rules for frequent actions, without a condition; used by the filling arm only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRule:
    """A rule that holds.

    ``since``: the end of the hour in which it began to hold; ``due``: its actions not done since, in its own order;
    ``forbids``: the actions that it forbids."""

    compiled: CompiledRule
    since: datetime
    due: tuple[RuleAction, ...]
    forbids: tuple[RuleAction, ...]

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.compiled.rule.id

    @property
    def precision(self) -> float:
        """The share with which its most probable action followed in training."""
        return max(map(self.compiled.share, self.due), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """Why a problem is suspected: the first rule that held, and the rows that made its trigger hold."""

    rule: str
    row_ids: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class RuleMemory:
    """Memory of a stay beside its state.

    ``held_since``: by rule, the end of the hour in which it began to hold; ``suspected``: problems, with the reason of
    each; ``began``: the hour of the stay's first bundle; ``played``: of the first bundle of all; ``encounter``: actions
    after it belong to the stay; ``courses``: by name, the readings that rules look back on; ``counts``: by action that
    rules count, the time of each if recorded, and when it was known; ``counted``: the state's count of it."""

    held_since: dict[str, datetime] = field(default_factory=dict)
    suspected: dict[str, Suspicion] = field(default_factory=dict)
    began: datetime | None = None
    played: datetime | None = None
    encounter: datetime | None = None
    courses: dict[str, list[CourseReading]] = field(default_factory=dict)
    counts: dict[str, list[tuple[datetime | None, datetime]]] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Router:
    """Finds the rules of one stay.

    ``most``: limit of selected rules at a step (the paper's 3, appendix A.2); ``predictions``: limit of actions of a
    type at a step; ``carried``: what the source records; ``score``: computes a clinical score on the chart."""

    index: RuleIndex
    most: int = 3
    predictions: int = 5
    carried: Carried = NOTHING_KNOWN
    score: ChartScore | None = None
    memory: RuleMemory = field(default_factory=RuleMemory)

    def facts(self, state: PatientState, hour: datetime, *, window_hours: float) -> StateFacts:
        """Return the facts for rules after a bundle. A stay begins with the first bundle, and with a bundle in which
        another encounter begins: the memory of the stay before it ends."""
        memory = self.memory
        since = None if state.encounter is None else state.encounter.since
        if memory.encounter is not None and memory.encounter != since:
            memory.held_since, memory.suspected, memory.began = {}, {}, None
        memory.encounter = since
        memory.began = memory.began or hour
        memory.played = memory.played or hour
        remember_courses(memory.courses, state, self.index.courses)
        remember_counts(memory.counts, memory.counted, state, hour, self.index.counted)
        return StateFacts(
            state,
            hour,
            window_hours=window_hours,
            suspected=memory.suspected,
            began=memory.began,
            carried=self.carried,
            courses=memory.courses,
            counts=memory.counts,
            score=self.score,
        )

    def held(self, facts: StateFacts) -> tuple[HeldRule, ...]:
        """Return every rule that holds now, in the protocol's order, and forget those that no longer hold. None holds
        after the stay."""
        return tuple(self._held(compiled, facts) for compiled in self._holding(facts))

    def _holding(self, facts: StateFacts) -> list[CompiledRule]:
        if facts.is_over:
            self.memory.held_since = {}
            return []
        found = [each for each in self.index.find(facts, facts.names) if each.rule.category != PRIOR]
        since = self.memory.held_since
        self.memory.held_since = {each.rule.id: since.get(each.rule.id, facts.now) for each in found}
        return found

    def suspect(self, held: Iterable[HeldRule], facts: StateFacts) -> None:
        """Make the problems that rules suspect active, with the rule as the reason."""
        self._suspect((rule.compiled for rule in held), facts)

    def _suspect(self, holding: Iterable[CompiledRule], facts: StateFacts) -> None:
        suspected = self.memory.suspected
        known = dict(suspected)
        for one in holding:
            problem = one.rule.suspects
            if problem is not None and problem not in suspected:
                suspected[problem] = Suspicion(rule=one.rule.id, row_ids=stood_on(one, facts, known))

    def remember(self, state: PatientState, hour: datetime, *, window_hours: float) -> None:
        """Remember which rules hold after a bundle and the problems they suspect, without their actions."""
        facts = self.facts(state, hour, window_hours=window_hours)
        self._suspect(self._holding(facts), facts)

    def remember_afresh(self, before: Iterable[PatientState], *, window_hours: float) -> None:
        """Rebuild the memory of a stay as if amendments had always held. ``before``: the states of the record as it
        reads now; those from the first bundle of the stay count."""
        played = self.memory.played
        self.memory.held_since, self.memory.suspected = {}, {}
        self.memory.courses, self.memory.counts, self.memory.counted = {}, {}, {}
        self.memory.began, self.memory.encounter = played, None
        for state in before:
            if played is not None and state.hour is not None and state.hour >= played:
                self.remember(state, state.hour, window_hours=window_hours)

    def selected(self, held: Iterable[HeldRule]) -> tuple[HeldRule, ...]:
        """Select the rules for a prompt: rules with due actions first, the most precise and best supported first.

        A rule is skipped if earlier ones fill every type that it could add to; rules without due actions get the
        remaining places.
        """
        ranked = sorted(held, key=_rank)
        full: Counter[str] = Counter()
        read = [rule for rule in ranked if rule.due and self._adds(rule, full)][: self.most]
        done = [rule for rule in ranked if not rule.due]
        return tuple([*read, *done][: self.most])

    def _adds(self, rule: HeldRule, full: Counter[str]) -> bool:
        """Whether an action still fits its type's limit; if so, count it."""
        kinds = [str(action.kind) for action in rule.due if full[str(action.kind)] < self.predictions]
        full.update(kinds)
        return bool(kinds)

    def prior(self, facts: StateFacts) -> tuple[HeldRule, ...]:
        """Return the frequency prior as rules that always hold, without running drugs."""
        common = [rule for rule in self.index.rules if rule.rule.category == PRIOR]
        return tuple(
            HeldRule(
                compiled=one,
                since=facts.now,
                due=tuple(action for action in one.actions if not is_running(action, facts)),
                forbids=(),
            )
            for one in common
        )

    def read(self, compiled: CompiledRule, facts: StateFacts) -> HeldRule:
        """Return a rule with its due actions, whether it holds or not: the model selected it."""
        self.memory.held_since.setdefault(compiled.rule.id, facts.now)
        return self._held(compiled, facts)

    def _held(self, compiled: CompiledRule, facts: StateFacts) -> HeldRule:
        since = self.memory.held_since[compiled.rule.id]
        wanted = [action for action in compiled.actions if action.verb not in FORBIDDING]
        return HeldRule(
            compiled=compiled,
            since=since,
            due=tuple(action for action in wanted if not is_fulfilled(action, facts, since)),
            forbids=tuple(action for action in compiled.actions if action.verb in FORBIDDING),
        )


def is_fulfilled(action: RuleAction, facts: StateFacts, since: datetime) -> bool:
    """Whether an action was done since its rule began to hold, or the drug it starts is running."""
    if is_running(action, facts):
        return True
    last = facts.last_done(action.name, is_drug=action.kind == "MEDICATIONS")
    return last is not None and last >= since


def is_running(action: RuleAction, facts: StateFacts) -> bool:
    """Whether an action starts a drug that is running."""
    return action.verb == "start" and facts.taking(action.name) is True


def stood_on(compiled: CompiledRule, facts: StateFacts, suspected: Mapping[str, Suspicion]) -> tuple[str, ...]:
    """Return the rows that made a trigger hold; for a suspected problem those of its suspicion."""
    found: dict[str, None] = {}
    for condition in _deciding(compiled.trigger.node, facts):
        found |= dict.fromkeys(facts.rows(condition))
        if isinstance(condition, Stated) and condition.what == "problem":
            own = (each for name, each in suspected.items() if is_problem(name, condition.concept))
            found |= dict.fromkeys(row for each in own for row in each.row_ids)
    return tuple(found)


def _deciding(node: Node | None, facts: StateFacts, *, wanted: bool = True) -> Iterator[Condition]:
    """Yield the conditions that make a trigger hold; under NOT those that are known to be false."""
    if node is None or node.holds(facts) is not wanted:
        return
    if isinstance(node, Negated):
        yield from _deciding(node.part, facts, wanted=not wanted)
    elif isinstance(node, AndOr):
        for part in node.parts:
            yield from _deciding(part, facts, wanted=wanted)
    else:
        yield node


def _rank(rule: HeldRule) -> tuple[bool, float, int, str]:
    return not rule.due, -rule.precision, -rule.compiled.rule.support, rule.id


def with_due(held: Iterable[HeldRule]) -> tuple[HeldRule, ...]:
    """Return the rules with due actions; code reads all of them, since no prompt limits their number."""
    return tuple([rule for rule in held if rule.due])


# The Reasoner in code: actions of the rules that hold and that were not done yet, the most probable first.


def due_actions(rules: Sequence[HeldRule], held: Sequence[HeldRule], *, most: int) -> tuple[PredictedAction, ...]:
    """Return at most ``most`` due actions of each type, the most probable first; ties as in rules and actions.

    ``rules``: the selected ones; actions that a rule of ``held`` holds back are left out. Probability: the sum of the
    weights of all rules of ``held``; with a rule without weights, at least the share with which the action followed it
    in training."""
    withheld = [action for rule in held for action in rule.forbids]
    kept: dict[tuple[str, str], PredictedAction] = {}
    counts: dict[str, int] = {}
    looked: set[tuple[str, str]] = set()
    pairs = _due_pairs(rules)
    probable = _probabilities(pairs, held)
    for rule, action in sorted(
        pairs, key=lambda pair: (-probable[action_place(pair[1])], -pair[0].compiled.share(pair[1]))
    ):
        kind = str(action.kind)
        if counts.get(kind, 0) >= most or (action.verb, action.key) in looked:
            continue  # with hundreds of rules few actions are read, since a type is soon full
        if is_withheld(action, withheld):
            continue
        looked.add((action.verb, action.key))
        if (kind, action.name) not in kept:
            kept[kind, action.name] = predicted_of(action, rule.id)
            counts[kind] = counts.get(kind, 0) + 1
    return tuple(kept.values())


def _probabilities(
    pairs: Iterable[tuple[HeldRule, RuleAction]], held: Iterable[HeldRule]
) -> Mapping[tuple[str, str], float]:
    """Return by type and name the probability of each action of some rules."""
    total: dict[tuple[str, str], float] = {}
    for rule in held:
        for place, weight in rule.compiled.weights.items():
            total[place] = total.get(place, 0.0) + weight
    probable: dict[tuple[str, str], float] = {}
    for rule, action in pairs:
        place, compiled = action_place(action), rule.compiled
        own = total.get(place, 0.0) if compiled.weights else compiled.share(action)
        probable[place] = max(probable.get(place, own), own)
    return probable


def action_place(action: RuleAction) -> tuple[str, str]:
    """The type and name under which an action is predicted."""
    return str(action.kind), action.name


def shares_of(rules: Iterable[HeldRule], actions: Sequence[PredictedAction]) -> tuple[float, ...]:
    """Return by action the largest share with which it followed one of its rules in training."""
    surest: dict[tuple[str, str], float] = {}
    for rule, action in _due_pairs(rules):
        place = str(action.kind), action.name
        surest[place] = max(surest.get(place, 0.0), rule.compiled.share(action))
    return tuple(surest.get((action.kind, action.name), 0.0) for action in actions)


def first_of_each_type(actions: Iterable[PredictedAction], most: int) -> tuple[PredictedAction, ...]:
    """Return the first ``most`` distinct names of each type, in order."""
    kept: dict[tuple[str, str], PredictedAction] = {}
    counts: dict[str, int] = {}
    for action in actions:
        if counts.get(action.kind, 0) < most and (action.kind, action.name) not in kept:
            kept[action.kind, action.name] = action
            counts[action.kind] = counts.get(action.kind, 0) + 1
    return tuple(kept.values())


def _due_pairs(rules: Iterable[HeldRule]) -> list[tuple[HeldRule, RuleAction]]:
    return [(rule, action) for rule in rules for action in rule.due]


def predicted_of(action: RuleAction, rule: str) -> PredictedAction:
    """Return an action as a rule predicts it."""
    assert action.kind is not None  # forbidden actions are never due
    return PredictedAction(kind=action.kind, name=action.name, dose=action.dose, because=(rule,))


def is_withheld(action: RuleAction, forbidding: Iterable[RuleAction]) -> bool:
    """Whether one of these actions of rules is ``hold`` for this action."""
    return any(other.verb == "hold" and (other.key == action.key or other.names(action.name)) for other in forbidding)
