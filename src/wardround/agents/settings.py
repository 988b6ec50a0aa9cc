"""What a person may set of the methods: one flat set, of which each method uses its part."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Settings of the methods; the defaults are those of the RetroSum paper (appendix D.2) where it names them.

    ``window``: tool calls between two summaries (w of eq. 3-5; the paper's turn has one call). ``window_share``: a
    summary is due earlier where what was read since the last one fills this share of the actor's room. ``k``: episodes
    whose experiences are retrieved. ``advice``: pieces of advice per tool. ``candidates``: actions sampled before one
    is chosen. ``refinements``: how often at most a proposed action is reviewed. ``trials``: attempts of Reflexion, the
    first one included. ``final_summary``: write one more summary when the answer is in (S_final of eq. 7; nobody reads
    it but reflection).
    """

    window: int = 10
    window_share: float = 0.7
    k: int = 1
    advice: int = 3
    candidates: int = 2
    refinements: int = 2
    trials: int = 2
    final_summary: bool = False

    def __post_init__(self) -> None:
        for name in ("window", "k", "advice", "candidates", "refinements", "trials"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        if not 0 < self.window_share <= 1:
            raise UserError(f"window_share is a share of the room, above 0 and at most 1, not {self.window_share!r}")
