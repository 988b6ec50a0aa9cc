"""The Steward: the exact state after every bundle, and the raw bundles that prompts still show (mitosis)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from wardround.agents.loop.tokens import TokenCounter
from wardround.agents.stays.settings import When
from wardround.agents.stays.showing import since
from wardround.bundles import Bundle, PatientState, bundle_text, fold
from wardround.bundles.fold import as_they_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorbed:
    """The bundles that the state has just taken in, and the state ``before`` them."""

    before: PatientState | None
    bundles: tuple[Bundle, ...]


@dataclass(slots=True, kw_only=True)
class Steward:
    """Keeps a subject's state. ``keeps_all``: without it (the ablation) there is no memory beyond the window: the state
    is that of the bundles of the last ``window_hours`` alone.

    ``when``: with ``every_bundle`` a prompt shows the state after the newest bundle and that bundle, so that nothing of
    the record is shown twice; with ``at_limit`` the state as it was when the buffer last passed ``limit_tokens``, and
    every bundle since. The ablation has no state to rely on: it is shown the bundles of the window.
    """

    keeps_all: bool = True
    window_hours: float = 6.0
    when: When = "every_bundle"
    limit_tokens: int = 1_200
    state: PatientState | None = None
    absorbed: PatientState | None = None
    past: list[Bundle] = field(default_factory=list)
    buffer: list[Bundle] = field(default_factory=list)
    buffered_tokens: int = 0
    mitoses: int = 0

    def take_in(self, bundle: Bundle, counter: TokenCounter | None = None) -> Absorbed | None:
        """Fold a bundle into the state; return what the state absorbed. Without a counter it always absorbs."""
        if self.keeps_all:
            before = PatientState(subject_id=bundle.subject_id) if self.state is None else self.state
            self.state = fold(before, bundle, self.past)
        self.past.append(bundle)
        self.buffer.append(bundle)
        self.buffered_tokens += 0 if counter is None else counter.count(bundle_text(bundle)) + 1
        if counter is None or self.when == "every_bundle" or self.buffered_tokens > self.limit_tokens:
            return self._absorb()
        return None

    def _absorb(self) -> Absorbed:
        absorbed = Absorbed(before=self.absorbed, bundles=tuple(self.buffer))
        self.absorbed = self.state
        self.buffer = []
        self.buffered_tokens = 0
        self.mitoses += 1
        return absorbed

    def state_at(self, bundle: Bundle) -> PatientState:
        """Return the state after a bundle that was taken in."""
        if self.keeps_all and self.state is not None:
            return self.state
        state = PatientState(subject_id=bundle.subject_id)
        recent = since(self.past, bundle.hour - timedelta(hours=self.window_hours))
        for place, one in enumerate(recent):
            state = fold(state, one, recent[:place])
        return state

    def states_before(self, bundle: Bundle) -> Iterator[PatientState]:
        """Yield the states after each bundle before one that was taken in, as if what it amends had always been so."""
        again = Steward(keeps_all=self.keeps_all, window_hours=self.window_hours)
        read = {one.hour: one for one in as_they_read(self.past)}
        for told in self.past:
            if told.hour < bundle.hour:
                if told.hour in read:
                    again.take_in(read[told.hour])
                yield replace(again.state_at(told), hour=told.hour)

    def shown(self, bundle: Bundle) -> tuple[PatientState | None, Sequence[Bundle]]:
        """Return the state and the bundles that a prompt shows; no state without one."""
        if not self.keeps_all:
            return None, since(self.past, bundle.hour - timedelta(hours=self.window_hours))
        return self.absorbed, self.buffer or [bundle]
