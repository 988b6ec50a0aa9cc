"""How charts are searched for evidence, as arguments: one per field of RetrievalSettings."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import get_args, get_type_hints

from wardround.retrieval import RetrievalSettings

DEFAULTS = RetrievalSettings()
_HELP = {
    "chunk_rows": "events in a chunk",
    "overlap": "events that a chunk shares with the one before",
    "candidates": "chunks in the pool that time re-orders",
    "final": "chunks kept of a round",
    "alpha": "weight of likeness against time (eq. 3)",
    "recent_days": "width of the recent arm of eq. 2",
    "early_days": "width of the early arm of eq. 2",
    "coarse": "indicators by likeness of names",
    "coarse_lexical": "the same with the lexical encoder",
    "spread": "passages of one period make room for others; auto: with the lexical encoder",
    "lines": "text events that chunks are made of: those that say something, or all",
    "fine": "indicators kept by the model",
    "recent_values": "latest values shown of an indicator",
    "rounds": "retrievals per query path, the first one included",
    "top_passages": "chunks of vanilla and uniform RAG",
    "recent_events": "events of direct generation and rule-based RAG",
    "likeness": "cosines in eq. 3 as they are or scaled over the pool; auto scales those of the lexical encoder",
    "chunk_time": "which time stands for a chunk in eq. 2",
    "indicator": "what makes numeric events one indicator",
    "embedded": "what a chunk's vector is made of",
    "births": "let a birth begin the record in eq. 2",
    "line_characters": "longest text value in a line",
}


def add_retrieval_options(group: argparse._ArgumentGroup) -> None:
    """Declare them; the defaults are those of the EHR-RAG paper (appendix A)."""
    kinds = get_type_hints(RetrievalSettings)
    for field in fields(RetrievalSettings):
        option, default = f"--{_option(field.name)}", getattr(DEFAULTS, field.name)
        said = _HELP.get(field.name, field.name.replace("_", " "))
        if isinstance(default, bool):
            group.add_argument(option, action="store_true", default=default, help=said)
        else:
            group.add_argument(
                option,
                type=type(default),
                default=default,
                choices=get_args(kinds[field.name]) or None,
                help=said,
            )


def retrieval_settings(arguments: argparse.Namespace) -> RetrievalSettings:
    """Return what was asked for; UserError where it is out of range."""
    names = [field.name for field in fields(RetrievalSettings)]
    return RetrievalSettings(**{name: getattr(arguments, _option(name).replace("-", "_")) for name in names})


def _option(name: str) -> str:
    return "retrieval-" + name.replace("_", "-")
