"""The steps of TRACE's roles in code after every bundle of a stream: what ``CodedRoles.play`` says of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import compress, pairwise

import numpy as np

from wardround.agents.loop.steps import PredictedAction
from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.batch.holding import Holding, asked_of, holding
from wardround.agents.stays.batch.onward import Mask
from wardround.agents.stays.coded import CodedRoles, CodedStep
from wardround.agents.stays.reasoner import due_actions
from wardround.agents.stays.router import HeldRule, RuleMemory, asking
from wardround.agents.stays.steward import Steward
from wardround.bundles import BatchStates, Bundle, BundleStream, batch_states
from wardround.bundles.events import Integers, amends, is_amendment
from wardround.core import from_microseconds
from wardround.protocols import FORBIDDING, RuleAction

_ANSWERS = 65_536
"""So many sets of rules and what is due of them are remembered with their actions."""


def batch_steps(stream: BundleStream, roles: CodedRoles) -> BatchSteps:
    """Return the steps of all subjects of a stream, each remembered from the first bundle on."""
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
    """Steps, one for each bundle, in order. ``states``: of every subject after the last; ``folded``: by bundle those of
    subjects whose record was amended or has more entries than a state keeps: they are played one by one."""

    roles: CodedRoles
    facts: BatchFacts = field(repr=False)
    states: BatchStates = field(repr=False)
    holding: Holding = field(repr=False)
    folded: Mapping[int, CodedStep] = field(repr=False)

    def __len__(self) -> int:
        return len(self.facts.stream)

    def __iter__(self) -> Iterator[CodedStep]:
        answers: dict[tuple[tuple[int, bytes], ...], tuple[PredictedAction, ...]] = {}
        starts = np.searchsorted(self.holding.bundle, np.arange(len(self) + 1)).tolist()
        pairs = list(zip(self.holding.rule.tolist(), map(bytes, self.holding.due), strict=True))
        since = self.holding.since.view("datetime64[us]").tolist()
        for bundle, (start, stop) in enumerate(pairwise(starts)):
            if bundle in self.folded:
                yield self.folded[bundle]
                continue
            own = pairs[start:stop]
            held = tuple(map(self._held, own, since[start:stop]))
            key = tuple(own)
            if key not in answers:
                if len(answers) >= _ANSWERS:
                    answers.clear()
                answers[key] = due_actions(asking(held), held, most=self.roles.settings.predictions)
            yield self.roles.answered(_DrugsAfter(self.facts, bundle), held, answers[key])

    def _held(self, pair: tuple[int, bytes], since: datetime) -> HeldRule:
        rule, due = pair
        asked, forbids = self._actions[rule]
        return HeldRule(
            compiled=self.roles.index.rules[rule], since=since, due=tuple(compress(asked, due)), forbids=forbids
        )

    @cached_property
    def _actions(self) -> list[tuple[tuple[RuleAction, ...], tuple[RuleAction, ...]]]:
        """By rule what it asks for, and what it says is not to be done."""
        return [
            (asked_of(one), tuple(action for action in one.actions if action.verb in FORBIDDING))
            for one in self.roles.index.rules
        ]


@dataclass(frozen=True, slots=True)
class _DrugsAfter:
    """What the Auditor asks of a patient after one bundle."""

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
        return tuple(
            sorted(name for name, mask in self.facts.unclear_allergies(substance).items() if mask[self.bundle])
        )

    def _truth(self, yes: Mask, no: Mask) -> bool | None:
        return True if yes[self.bundle] else False if no[self.bundle] else None


def _folded(roles: CodedRoles, facts: BatchFacts, after: BatchStates) -> dict[int, CodedStep]:
    """Play those whose state the columns do not have."""
    stream = facts.stream
    found: dict[int, CodedStep] = {}
    for subject in _to_be_folded(facts, after).tolist():
        start, stop = np.searchsorted(stream.subjects, [subject, subject + 1]).tolist()
        found.update(enumerate(_one_by_one(roles, [*stream.between(start, stop)]), start))
    return found


def _one_by_one(roles: CodedRoles, bundles: Iterable[Bundle]) -> Iterator[CodedStep]:
    """Play one subject's bundles."""
    memory, steward = RuleMemory(), Steward()
    for bundle in bundles:
        steward.take_in(bundle)
        before = steward.states_before(bundle) if any(map(amends, bundle.events)) else None
        yield roles.play(steward.state_at(bundle), bundle.hour, memory, before)


def _to_be_folded(facts: BatchFacts, after: BatchStates) -> Integers:
    """Return the subjects of whom rows were amended, or who have more entries of a kind than a state keeps."""
    events, limits = facts.stream.columns, after.limits
    over = [events.subject[is_amendment(events)]]
    for name in ("problems", "trends", "allergies", "actions"):
        owners, counts = np.unique(after.events.subject[getattr(after, name).last], return_counts=True)
        over.append(owners[counts > getattr(limits, name)])
    running = facts.runs.count(np.ones(len(facts.runs.concept), dtype=bool))
    return np.unique(np.concatenate([*over, facts.stream.subjects[running > limits.medications]]))
