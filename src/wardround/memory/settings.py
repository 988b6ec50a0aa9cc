"""What a person may set of memory: which bank, and how much of it is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wardround.core import check_settings, setting
from wardround.memory.extract import MAXIMUM_ITEMS, MAXIMUM_REASONING_ITEMS, MAXIMUM_TOOL_ITEMS, REFLECTION_SETTINGS
from wardround.memory.graph_recall import GraphRecallSettings
from wardround.memory.learning import EvolutionSettings
from wardround.memory.peer import PeerSettings
from wardround.memory.rows import GateUse
from wardround.models import ModelSettings
from wardround.tools.retrieval.recent import MAX_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The bank of a run and how much of it an episode is served."""

    bank: str | None = setting(
        None, "bank of experiences (wardround memory evolve), for methods that read one", unit="file", flag="--bank"
    )
    banks: Mapping[str, str] = setting(
        dict,
        "banks of single agents, by agent (memory.banks.mem0=mem0.sqlite); the others read the bank of the run",
        unit="files",
    )
    bank_revision: str | None = setting(
        None, "serve the bank as of this revision, by its number or its name; none: its last"
    )
    gate: GateUse = setting(
        "heed",
        "a task whose gate (wardround memory gate) is not open is served nothing; require: nor one never judged",
        source="ours",
    )
    served_tokens: int | None = setting(
        1_600,
        "most tokens of a graph's experiences, or of a peer's texts, that an episode is served: the same for every "
        "memory that is compared; none: a fifth of the room",
        unit="tokens",
        source="ours",
        least=64,
    )
    k: int = setting(
        1,
        "episodes whose experiences are retrieved",
        source="RetroSum, top-1 of appendix D.2",
        least=1,
    )
    advice: int = setting(3, "pieces of advice per tool", least=1)
    max_items: int = setting(
        MAXIMUM_ITEMS,
        "actor or summariser experiences that one reflection may give",
        source="RetroSum, max_items of its prompts; no value is printed",
        least=1,
    )
    max_reasoning_items: int = setting(
        MAXIMUM_REASONING_ITEMS, "experiences that one reflection of ReasoningBank may give", least=1
    )
    max_tool_items: int = setting(
        MAXIMUM_TOOL_ITEMS, "pieces of advice that one reflection on a tool may give", least=1
    )
    reflection_temperature: float | None = setting(
        REFLECTION_SETTINGS.temperature, "sampling temperature of reflections", source="ours", least=0
    )
    reflection_tokens: int = setting(
        REFLECTION_SETTINGS.max_output_tokens or 2_048,
        "longest reply of a reflection or of construction",
        unit="tokens",
        source="ours",
        least=1,
    )
    key_tokens: int = setting(
        MAX_TOKENS,
        "how much of a chart's latest events makes its key; a bank has keys of one length",
        unit="tokens",
        source="ours; RetroSum, eq. 8, names none",
        least=1,
    )
    graph: GraphRecallSettings = field(default_factory=GraphRecallSettings)
    peers: PeerSettings = field(default_factory=PeerSettings)
    evolution: EvolutionSettings = field(default_factory=EvolutionSettings)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def reflection(self) -> ModelSettings:
        """The model settings of a reflection."""
        return replace(
            REFLECTION_SETTINGS, temperature=self.reflection_temperature, max_output_tokens=self.reflection_tokens
        )
