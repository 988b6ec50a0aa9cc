"""What every agent is held to, and what a method that has nothing to set is given."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import check_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Every agent's budget, so that all rows of a table have one."""

    turns: int = setting(
        100, "turn limit of an episode", unit="model calls", source="RetroSum", least=1, flag="--turns"
    )
    context_tokens: int | None = setting(
        None,
        "context budget; by default that of the benchmark's paper (64,000; EHRSHOT: 128,000)",
        unit="tokens",
        source="RetroSum, appendix D.2; EHR-RAG, appendix A",
        least=1,
        flag="--context-tokens",
    )
    result_tokens: int = setting(2_000, "budget of one tool result", unit="tokens", least=1)
    reply_tokens: int = setting(4_096, "longest reply", unit="tokens", least=1)
    forced_finish: bool = setting(
        True,
        "at a limit, one more call that offers only finish; without it the episode ends there",
        source="released code of RetroSum",
    )
    steps: int = setting(1_000, "step limit of a stay that is played bundle by bundle", unit="bundles", least=1)
    episode_seconds: float | None = setting(
        None,
        "wall time after which an episode ends; none: all it takes",
        unit="seconds",
        above=0,
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSettings:
    """The settings of a method that has none."""
