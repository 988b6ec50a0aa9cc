"""Evidence: what was retrieved from a chart, joined over queries and fitted into the room there is for it.

The policy, where not everything fits: numeric trajectories first, in their order, up to a share; then passages, best
first, whole; the first that does not fit keeps its latest events; the others are left out. What is shown is merged in
time order, each event once (EHR-RAG, eq. 5). What was left out is counted, for the model and for the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from wardround.agents.loop.side_reader import prompt_text
from wardround.agents.loop.tokens import MESSAGE_OVERHEAD_TOKENS, TokenCounter
from wardround.retrieval import IndicatorTrajectory, Passage, merge

_NUMERIC_SHARE = 0.4
_FRAME_TOKENS = 120
"""What the headings and counts around the evidence may take."""
_FEWEST_LINES = 3
"""A passage of which fewer events fit is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``passages`` and ``trajectories``, best first, and the ``queries`` that found them."""

    passages: tuple[Passage, ...] = ()
    trajectories: tuple[IndicatorTrajectory, ...] = ()
    queries: tuple[str, ...] = ()

    @property
    def events(self) -> int:
        """How many events the passages hold, each counted once."""
        return len({row for passage in self.passages for row in passage.rows})

    def joined(self, other: Evidence) -> Evidence:
        """Return the union; the best of both come first, then the second best."""
        pairs = zip_longest(self.passages, other.passages)
        passages = {one.id: one for pair in pairs for one in pair if one is not None}
        trajectories = {(one.name, one.unit): one for one in (*self.trajectories, *other.trajectories)}
        return Evidence(
            passages=tuple(passages.values()),
            trajectories=tuple(trajectories.values()),
            queries=tuple(dict.fromkeys((*self.queries, *other.queries))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Evidence as text; empty where nothing fits. ``facts`` count what is in it and what is not."""

    text: str
    facts: dict[str, Any] = field(default_factory=dict)


def best_first(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Order passages by score; retrieval gives some of them in time order."""
    return tuple(sorted(passages, key=lambda passage: -passage.score))


def fit(evidence: Evidence, counter: TokenCounter, limit_tokens: int, *, tools: bool = False) -> Fitted:
    """Return evidence as a text of at most ``limit_tokens``. ``tools``: the reader may also look for itself."""
    room = limit_tokens - _FRAME_TOKENS - counter.count("; ".join(evidence.queries)) - MESSAGE_OVERHEAD_TOKENS
    numeric = room if not evidence.passages else int(room * _NUMERIC_SHARE)
    trajectories, used = _whole(evidence.trajectories, counter, numeric)
    passages, cut = _fitting(evidence.passages, counter, room - used)
    shown = merge(*passages)
    facts: dict[str, Any] = {
        "indicators": len(trajectories),
        "indicators_left_out": len(evidence.trajectories) - len(trajectories),
        "passages": len(passages),
        "passages_cut": cut,
        "passages_left_out": len(evidence.passages) - len(passages),
        "events": len(shown),
        "events_left_out": evidence.events - len(shown),
        "limit": limit_tokens,
    }
    if not trajectories and not shown.rows:
        return Fitted(text="", facts={**facts, "tokens": 0})
    text = prompt_text(
        "evidence",
        trajectories=[one.text for one in trajectories],
        lines=shown.lines,
        queries=evidence.queries,
        facts=facts,
        tools=tools,
    )
    return Fitted(text=text, facts={**facts, "tokens": counter.count(text)})


def _whole(
    trajectories: Sequence[IndicatorTrajectory], counter: TokenCounter, room: int
) -> tuple[tuple[IndicatorTrajectory, ...], int]:
    """Return the first trajectories that fit, and the tokens they take."""
    used = 0
    for place, one in enumerate(trajectories):
        size = counter.count(one.text) + 1
        if used + size > room:
            return tuple(trajectories[:place]), used
        used += size
    return tuple(trajectories), used


def _fitting(passages: Sequence[Passage], counter: TokenCounter, room: int) -> tuple[list[Passage], int]:
    """Return the passages that fit, the last of them perhaps cut, and how many were cut."""
    kept: list[Passage] = []
    seen: set[int] = set()
    for passage in passages:
        fresh = _without(passage, seen)
        size = counter.count(fresh.text) + 1 if fresh.rows else 0
        if size > room:
            latest = _latest(fresh, counter, room)
            return ([*kept, latest], 1) if latest is not None else (kept, 0)
        kept.append(fresh)
        seen.update(fresh.rows)
        room -= size
    return kept, 0


def _without(passage: Passage, seen: set[int]) -> Passage:
    if seen.isdisjoint(passage.rows):
        return passage
    return _of(passage, [place for place, row in enumerate(passage.rows) if row not in seen])


def _latest(passage: Passage, counter: TokenCounter, room: int) -> Passage | None:
    """Return a passage's latest events that fit, or None where hardly any do."""
    start = len(passage.lines)
    while start and (size := counter.count(passage.lines[start - 1]) + 1) <= room:
        room -= size
        start -= 1
    if len(passage.lines) - start < _FEWEST_LINES:
        return None
    return _of(passage, range(start, len(passage.lines)))


def _of(passage: Passage, places: Sequence[int]) -> Passage:
    lines = tuple(passage.lines[place] for place in places)
    return replace(passage, lines=lines, rows=tuple(passage.rows[place] for place in places))
