"""Training stays replayed in code: what was known at a step, and what some rules make of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wardround.agents.loop.tokens import EstimatedTokens
from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.player import Parts, TracePlayer
from wardround.agents.stays.reasoner import due_actions
from wardround.agents.stays.router import HeldRule
from wardround.agents.stays.settings import TraceSettings
from wardround.agents.stays.showing import newest_bundles, shown_state
from wardround.answers import StepAction
from wardround.benchmarks import Sample
from wardround.bundles import NOTHING_KNOWN, Bundle, Carried, carried_by
from wardround.protocols import RuleIndex
from wardround.records import Store
from wardround.runs.stays import played_bundles

Action = tuple[str, str]
"""Type and name of a decision."""
_MOST_SHOWN = 48
"""Bundles: two days of hours, more than any prompt has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStep:
    """What was known at the end of one step. ``held``: rules whose trigger held; ``newest``: the last bundles."""

    facts: StateFacts
    held: tuple[HeldRule, ...]
    newest: Sequence[Bundle]

    @property
    def foretold(self) -> tuple[Action, ...]:
        """What the rules foretell."""
        actions = due_actions(self.held, self.held, most=TraceSettings().predictions)
        return tuple((action.kind, action.name) for action in actions)

    def told(self, *, state_tokens: int, history_tokens: int) -> tuple[str, str]:
        """The state and the newest bundles as a prompt shows them, each within its tokens."""
        counter = EstimatedTokens()
        state = shown_state(self.facts.state, {}, counter, state_tokens)
        return state.text, newest_bundles(self.newest, counter, history_tokens)


def seen_steps(store: Store, sample: Sample, index: RuleIndex) -> Iterator[SeenStep]:
    """Yield the steps of a stay in order, as some rules read them."""
    yield from steps_of(*played_bundles(store, sample), index, carried_by(store).for_subject(sample.subject_id))


def steps_of(
    past: Sequence[Bundle],
    bundles: Iterable[Bundle],
    index: RuleIndex,
    carried: Carried = NOTHING_KNOWN,
) -> Iterator[SeenStep]:
    """The same of the bundles before a stay and those of its steps."""
    player = TracePlayer(index, TraceSettings(), Parts(auditor=False))
    player.begin(past, carried)
    newest = deque(past, maxlen=_MOST_SHOWN)
    for bundle in bundles:
        facts, held = player.read_on(bundle)
        newest.append(bundle)
        yield SeenStep(facts=facts, held=held, newest=tuple(newest))


def decisions_of(sample: Sample) -> Mapping[int, Sequence[Action]]:
    """Return what was decided at each step of a stay."""
    decided: dict[int, list[Action]] = {}
    for action in map(StepAction.parse, sample.target):
        decided.setdefault(action.step or 0, []).append((action.kind, action.name))
    return decided
