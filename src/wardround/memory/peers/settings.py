"""What a person may set of the memories that GSEM is compared with: the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass

from wardround.core import check_settings, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """How much every peer stores of a case and gives an episode."""

    k: int = setting(
        50,
        "most texts that a peer's memory gives an episode, within memory.served_tokens; 5 as published",
        source="GSEM, section 5.1",
        least=1,
    )
    document_tokens: int = setting(
        600, "longest text of a training case that is stored or read as a whole", unit="tokens", source="ours", least=64
    )
    same_task: bool = setting(False, "only what was learnt from the same task (the paper's memory crosses tasks)")
    adapt: bool = setting(
        True, "ReMe: a model ranks and rewrites what was recalled, in one call; the offline policy does not"
    )

    def __post_init__(self) -> None:
        check_settings(self)
