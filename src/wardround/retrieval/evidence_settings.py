"""What ETHER and the baselines around it are set to; the defaults are those of the EHR-RAG paper, appendix A."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from wardround.core import UserError

ChunkTime = Literal["middle", "first", "last", "nearest"]
Indicator = Literal["name", "code"]
Embedded = Literal["lines", "names"]
Likeness = Literal["auto", "cosine", "scaled"]
Spread = Literal["auto", "none", "periods"]
Lines = Literal["telling", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSettings:
    """Settings of retrieval. ``rounds`` and ``fine`` are for whoever asks (AIR, the model's choice of indicators).

    What the paper leaves open is decided here, and argued where it is used:
    ``likeness``: eq. 3 takes the cosine as it is, or scaled: stretched over the pool to 0..1
    (``time_relevance.stretched``); auto scales only those of the lexical encoder, which span a tenth of a time score;
    ``chunk_time``: which time of its rows stands for a chunk in eq. 2 (``chunks.chunk_times``);
    ``indicator``: numeric events are one indicator if they share name and unit, or code and unit (``indicators.py``);
    ``embedded``: a chunk's vector is that of its lines, or the mean of its event names' vectors (``chunk_vectors.py``);
    ``births``: whether a birth may be the earliest time of a record (``chunks.first_time``);
    ``coarse_lexical``: so many indicators by likeness of names for the lexical encoder, which knows no troponin from an
    infarction: the model, which does, chooses among more;
    ``spread``: passages of one period make room for those of others (``time_relevance.spread_out``); auto spreads those
    of the lexical encoder only, those of others are ranked as printed;
    ``lines``: text events that say nothing (``order - Lab``; ``telling.py``) are left out of ETHER's chunks, or not;
    ``line_characters``: a longer text value is cut, with a notice (``event_lines.py``).
    """

    chunk_rows: int = 100
    overlap: int = 5
    candidates: int = 100
    final: int = 5
    alpha: float = 0.75
    recent_days: float = 180.0
    early_days: float = 3650.0
    coarse: int = 30
    coarse_lexical: int = 150
    fine: int = 10
    recent_values: int = 5
    rounds: int = 3
    top_passages: int = 10
    recent_events: int = 1000
    likeness: Likeness = "auto"
    chunk_time: ChunkTime = "middle"
    indicator: Indicator = "name"
    embedded: Embedded = "lines"
    births: bool = False
    spread: Spread = "auto"
    lines: Lines = "telling"
    line_characters: int = 600

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < self.chunk_rows:
            raise UserError(f"chunks of {self.chunk_rows} rows cannot share {self.overlap}; the overlap must be less")
        if not 0.0 <= self.alpha <= 1.0:
            raise UserError(f"alpha weighs likeness against time and lies between 0 and 1, not {self.alpha:g}")
        if not (self.recent_days > 0 and self.early_days > 0):
            raise UserError("recent_days and early_days are lengths of time and must be above 0")
        for name in (
            "candidates",
            "final",
            "coarse",
            "coarse_lexical",
            "fine",
            "recent_values",
            "top_passages",
            "recent_events",
        ):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.rounds < 1:
            raise UserError(f"rounds counts retrievals, the first one too, and must be at least 1, not {self.rounds}")
        if self.line_characters < 40:
            raise UserError(f"line_characters must be at least 40, not {self.line_characters}")
        choices = {"chunk_time": ChunkTime, "indicator": Indicator, "embedded": Embedded, "likeness": Likeness}
        choices |= {"spread": Spread, "lines": Lines}
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise UserError(f"{name} must be one of {', '.join(get_args(kind))}, not {getattr(self, name)!r}")
