"""Settings of ETHER and its baselines; the defaults are those of the EHR-RAG paper, appendix A."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from wardround.core import UserError, check_settings, setting

ChunkTime = Literal["middle", "first", "last", "nearest"]
Indicator = Literal["name", "code"]
Embedded = Literal["lines", "names"]
Likeness = Literal["auto", "cosine", "scaled"]
Spread = Literal["auto", "none", "periods"]
Lines = Literal["telling", "all"]


def _own(default: Any, help: str, **metadata: Any) -> Any:
    """Declare a setting of the paper, unless another source is given."""
    return setting(default, help, **{"source": "EHR-RAG, appendix A"} | metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSettings:
    """Settings of retrieval. ``rounds`` and ``fine`` are for the caller (AIR, the model's choice of indicators).

    Choices that the paper leaves open, with the module that gives the reason:

    ``likeness``: eq. 3 uses the cosine, or the cosine scaled over the pool to 0..1 (``chunks.stretched``); auto
    scales only the lexical encoder's cosines, which span a tenth of a time score. ``chunk_time``: the time of a chunk
    in eq. 2 (``chunks.chunk_times``). ``indicator``: numeric events are one indicator if they share name and unit, or
    code and unit (``evidence_index.py``). ``embedded``: a chunk's vector is that of its lines, or the mean of its event
    names' vectors (``chunks.mean_name_vectors``). ``births``: whether a birth may be the earliest time of a record
    (``chunks.first_time``). ``coarse_lexical``: more indicators for the lexical encoder, which does not relate troponin
    to infarction, so that the model can choose. ``spread``: at most some passages of each period
    (``chunks.spread_out``); auto only with the lexical encoder. ``lines``: leave out rows without content of
    their own (``order - Lab``) and rows shown in another row's line (``chunks.tells``), or none. ``panels``: direct
    generation joins lines of one moment and kind, since two days of panels use up the paper's budget of events.
    ``line_characters``: longer text values are cut, with a notice (``event_lines.py``).
    """

    encoder: str = setting("lexical", "makes keys of experiences, vectors of charts")
    encoder_url: str | None = setting(None, "with encoder embeddings/<name>: its endpoint", unit="URL")
    candidate_encoder: str | None = setting(
        None,
        "an encoder, spelt like retrieval.encoder, whose vectors join the search of candidates by meaning",
        source="released code of AgentEHR: BioLORD-2023",
        flag="--candidate-encoder",
    )
    chunk_rows: int = _own(100, "events in a chunk", unit="events", least=1)
    overlap: int = _own(5, "events that a chunk shares with the one before", unit="events", least=0)
    candidates: int = _own(100, "chunks in the pool that time re-orders", least=1)
    final: int = _own(5, "chunks kept of a round", least=1)
    alpha: float = _own(0.75, "weight of likeness against time", source="EHR-RAG, eq. 3", unit="share", least=0, most=1)
    recent_days: float = _own(180.0, "width of the recent arm", source="EHR-RAG, eq. 2", unit="days", above=0)
    early_days: float = _own(3650.0, "width of the early arm", source="EHR-RAG, eq. 2", unit="days", above=0)
    coarse: int = _own(30, "indicators by likeness of names", least=1)
    coarse_lexical: int = _own(150, "the same with the lexical encoder", source="ours", least=1)
    fine: int = _own(10, "indicators kept by the model", least=1)
    recent_values: int = _own(5, "latest values shown of an indicator", least=1)
    rounds: int = _own(3, "retrievals per query path, the first one included", least=1)
    top_passages: int = _own(10, "chunks of vanilla and uniform RAG", least=1)
    recent_events: int = _own(1000, "events of direct generation and rule-based RAG", least=1)
    likeness: Likeness = _own(
        "auto",
        "cosines in eq. 3 as they are or scaled over the pool; auto scales those of the lexical encoder",
        source="ours",
    )
    chunk_time: ChunkTime = _own("middle", "which time stands for a chunk in eq. 2", source="ours")
    indicator: Indicator = _own("name", "what makes numeric events one indicator", source="ours")
    embedded: Embedded = _own("lines", "what a chunk's vector is made of", source="ours")
    births: bool = _own(False, "let a birth begin the record in eq. 2", source="ours")
    spread: Spread = _own(
        "auto",
        "passages of one period make room for others; auto: with the lexical encoder",
        source="ours",
    )
    lines: Lines = _own(
        "telling",
        "rows that have a line: those that say something of their own, or all",
        source="ours",
    )
    panels: bool = _own(
        True,
        "direct generation: events of one moment and kind are one event and one line; false: a line each, as printed",
        source="ours",
    )
    line_characters: int = _own(600, "longest text value in a line", unit="characters", source="ours", least=40)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.overlap >= self.chunk_rows:
            raise UserError(f"overlap must be less than chunk_rows ({self.chunk_rows}), not {self.overlap}")
