"""What a person may set of scoring."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import check_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """How a run's figures are compared."""

    baseline: str | None = setting(
        None, "contender (an agent, or 'agent · model') that the others are compared with", flag="--baseline"
    )

    def __post_init__(self) -> None:
        check_settings(self)
