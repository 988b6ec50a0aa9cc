"""What a person may set of memory: which bank, and how much of it is served."""

from __future__ import annotations

from dataclasses import dataclass, field

from wardround.core import check_settings, setting
from wardround.memory.graph_recall import GraphRecallSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The bank of a run and how much of it an episode is served."""

    bank: str | None = setting(
        None, "bank of experiences (wardround evolve), for methods that read one", unit="file", flag="--bank"
    )
    k: int = setting(
        1,
        "episodes whose experiences are retrieved",
        source="RetroSum, top-1 of appendix D.2",
        least=1,
        was=("--k",),
    )
    advice: int = setting(3, "pieces of advice per tool", least=1, was=("--advice",))
    graph: GraphRecallSettings = field(default_factory=GraphRecallSettings)

    def __post_init__(self) -> None:
        check_settings(self)
