"""The baselines: one prompt per step, with the newest history that fits, segments similar to the newest hour, or a
running summary; each with the protocol's rules if wanted (section 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from wardround.agents.loop.context import TokenCounter, cut_notice, cut_text
from wardround.agents.loop.episode import Episode
from wardround.agents.loop.steps import ChartScore, PredictedAction, StepPrediction
from wardround.agents.stays.model_roles import SUMMARISER, ask_reasoner, ask_role, predicted
from wardround.agents.stays.player import OFFLINE
from wardround.agents.stays.router import HeldRule, Router, due_actions, first_of_each_type
from wardround.agents.stays.settings import TraceSettings
from wardround.agents.stays.steward import Steward, newest_bundles, shown_rules
from wardround.clinical.bundles import NOTHING_KNOWN, Bundle, Carried, bundle_text
from wardround.clinical.bundles.targets import DECIDED
from wardround.clinical.protocols import RuleIndex
from wardround.tools.retrieval import Encoder, LexicalEncoder

SEGMENT_BUNDLES = 4
"""Bundles of a segment that static RAG retrieves (our choice: the paper prints no length)."""
SEGMENTS = 5
"""Retrieved segments (the paper's K, which it does not print)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The content of one step's prompt. ``bundles``: its raw bundles, oldest first."""

    history: str
    summary: str = ""
    segments: str = ""
    bundles: tuple[Bundle, ...] = ()


class StayMemory(Protocol):
    """A baseline's memory of the stay."""

    def take_in(self, bundle: Bundle) -> None:
        """Add a bundle."""
        ...

    async def context(self, episode: Episode, bundle: Bundle) -> Context:
        """Return the content of the next prompt."""
        ...


@dataclass(slots=True, kw_only=True)
class NewestHistory:
    """Long context: the newest bundles that fit into the whole budget."""

    settings: TraceSettings
    past: list[Bundle] = field(default_factory=list)

    def take_in(self, bundle: Bundle) -> None:
        self.past.append(bundle)

    async def context(self, episode: Episode, bundle: Bundle) -> Context:
        room = self.settings.buffer_tokens + self.settings.state_tokens
        return _newest(self.past, episode.counter, room)


@dataclass(slots=True, kw_only=True)
class SimilarSegments:
    """Static RAG: the newest bundles, and segments of the patient's own past similar to the newest bundle."""

    settings: TraceSettings
    encoder: Encoder = field(default_factory=LexicalEncoder)
    past: list[Bundle] = field(default_factory=list)
    segments: list[tuple[Bundle, ...]] = field(default_factory=list)
    vectors: list[Any] = field(default_factory=list)
    open: list[Bundle] = field(default_factory=list)

    def take_in(self, bundle: Bundle) -> None:
        self.past.append(bundle)
        self.open.append(bundle)
        if len(self.open) == SEGMENT_BUNDLES:
            self.segments.append(tuple(self.open))
            self.vectors.append(self.encoder.encode(["\n".join(map(bundle_text, self.open))])[0])
            self.open = []

    async def context(self, episode: Episode, bundle: Bundle) -> Context:
        newest = _newest(self.past, episode.counter, self.settings.buffer_tokens)
        shown = {bundle.hour for bundle in newest.bundles}
        found, room = [], self.settings.state_tokens
        for place in self._by_similarity(bundle)[:SEGMENTS]:
            segment = self.segments[place]
            text = "\n".join(map(bundle_text, segment))
            need = episode.counter.count(text) + 1
            if need <= room and shown.isdisjoint(bundle.hour for bundle in segment):
                found.append((place, text))
                room -= need
        segments = "\n".join(text for _, text in sorted(found))
        used = tuple(bundle for place, _ in sorted(found) for bundle in self.segments[place])
        return Context(history=newest.history, segments=segments, bundles=(*used, *newest.bundles))

    def _by_similarity(self, bundle: Bundle) -> list[int]:
        if not self.vectors:
            return []
        query = self.encoder.encode([bundle_text(bundle)])[0]
        return [int(place) for place in np.argsort(-(np.array(self.vectors) @ query), kind="stable")]


@dataclass(slots=True, kw_only=True)
class RunningSummary:
    """A free-text summary that the model rewrites at every step (MemGPT-like), and the newest bundle."""

    settings: TraceSettings
    summary: str = ""
    waiting: list[Bundle] = field(default_factory=list)

    def take_in(self, bundle: Bundle) -> None:
        self.waiting.append(bundle)

    async def context(self, episode: Episode, bundle: Bundle) -> Context:
        room = self.settings.buffer_tokens
        newest = _newest(self.waiting, episode.counter, room)
        if episode.model.name != OFFLINE:
            await self._rewrite(episode, newest.history)
        self.waiting = []
        return Context(history=newest.history, summary=self.summary, bundles=newest.bundles)

    async def _rewrite(self, episode: Episode, history: str) -> None:
        """Have the model rewrite the summary; an unreadable reply leaves the old one."""
        answered = await ask_role(
            episode,
            SUMMARISER,
            self.settings.prompt_tokens,
            summary=self.summary or "nothing yet",
            history=history,
            words=self.settings.state_tokens // 2,
        )
        if answered.problem is None:
            written = str(answered.value["summary"])
            self.summary = cut_text(written, episode.counter, self.settings.state_tokens, notice=cut_notice)


class PlainPlayer:
    """One baseline on one stay. With the ``offline`` model it repeats the last decisions in its context: a floor, and
    reported as one."""

    def __init__(
        self,
        history: Callable[..., StayMemory],
        index: RuleIndex,
        settings: TraceSettings,
        *,
        with_protocol: bool = False,
    ) -> None:
        self.history = history(settings=settings)
        self.settings = settings
        self.router = (
            Router(index=index, most=settings.rules, predictions=settings.predictions) if with_protocol else None
        )
        self.steward = Steward(window_hours=settings.window_hours)

    def begin(self, past: Sequence[Bundle], carried: Carried = NOTHING_KNOWN, score: ChartScore | None = None) -> None:
        """Begin a stay: earlier bundles, kinds of events of the source, and the function that computes scores."""
        if self.router is not None:
            self.router.carried, self.router.score = carried, score
        for bundle in past:
            self._take_in(bundle)

    def _take_in(self, bundle: Bundle) -> None:
        self.history.take_in(bundle)
        if self.router is not None:
            self.steward.take_in(bundle)

    async def predict(self, episode: Episode, bundle: Bundle) -> StepPrediction:
        """Add a bundle and return the predicted actions."""
        self._take_in(bundle)
        held = self._held(bundle)
        read = () if self.router is None else self.router.selected(held)
        context = await self.history.context(episode, bundle)
        notes: dict[str, Any] = {"read": [rule.id for rule in read], "held": [rule.id for rule in held]}
        most = self.settings.predictions
        if episode.model.name == OFFLINE:
            actions = (*due_actions(read, held, most=most), *_decided_last(context.bundles))
            return StepPrediction(actions=first_of_each_type(actions, most), notes=notes)
        answered = await ask_reasoner(
            episode,
            self.settings,
            rules=shown_rules(read, episode.counter, self.settings.rules_tokens),
            summary=context.summary,
            segments=context.segments,
            history=context.history,
            examples=", ".join(rule.id for rule in read),
        )
        return StepPrediction(actions=predicted(answered.value, most=most), notes=notes)

    def _held(self, bundle: Bundle) -> tuple[HeldRule, ...]:
        if self.router is None:
            return ()
        state = self.steward.state_at(bundle)
        return self.router.held(self.router.facts(state, bundle.hour, window_hours=self.settings.window_hours))


def _newest(past: Sequence[Bundle], counter: TokenCounter, room: int) -> Context:
    """Return the newest bundles that fit."""
    kept: list[Bundle] = []
    left = room
    for bundle in reversed(past):
        left -= counter.count(bundle_text(bundle)) + 1
        if left < 0 and kept:
            break
        kept.append(bundle)
    kept.reverse()
    return Context(history=newest_bundles(kept, counter, room), bundles=tuple(kept))


def _decided_last(bundles: Sequence[Bundle]) -> list[PredictedAction]:
    """Return the decisions in some bundles, newest first."""
    return [
        PredictedAction(kind=DECIDED[event.kind].value, name=event.concept)
        for bundle in reversed(bundles)
        for event in reversed(bundle.of_kind(*DECIDED))
    ]
