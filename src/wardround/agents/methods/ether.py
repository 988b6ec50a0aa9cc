"""The numeric side of ETHER: coarse by likeness of names, fine by the model's choice, then the latest values.

The model answers with a JSON list of exact names. A name it invents is dropped and counted; where no name can be read
at all, the coarse ones stand in, the nearest first, and that is counted too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from wardround.agents.evidence.chart_search import ChartSearch
from wardround.agents.evidence.evidence import Evidence
from wardround.agents.loop.side_reader import prompt_text
from wardround.answers import parse_answer

_NO_NAME = "no name of the list was given"


async def numeric_evidence(search: ChartSearch) -> Evidence:
    """Return the trajectories of the indicators that matter for the question's factual query."""
    query, settings = search.question.factual_query, search.settings
    coarse = await asyncio.to_thread(lambda: tuple(search.index.coarse_indicators(query)))
    chosen, facts = await _chosen(search, coarse)
    recent = settings.recent_values
    trajectories = await asyncio.to_thread(lambda: tuple(search.index.trajectories(chosen, recent=recent)))
    search.note("indicators", query=query, coarse=len(coarse), chosen=list(chosen), **facts)
    return Evidence(trajectories=trajectories)


async def _chosen(search: ChartSearch, coarse: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    most = search.settings.fine
    if len(coarse) <= most:
        return tuple(coarse), {"by": "all there are"}
    instruction = prompt_text("rerank", names=coarse, most=most)
    written = await search.ask(
        instruction, purpose="rerank", flaw=lambda text: "" if any(_meant(text, coarse)) else _NO_NAME
    )
    if written.problem is not None:
        return tuple(coarse[:most]), {"by": "likeness", "failed": written.problem}
    meant = _meant(written.text, coarse)
    known = tuple(dict.fromkeys(name for name in meant if name is not None))
    return known[:most], {"by": "the model", "invented": meant.count(None), "too_many": max(0, len(known) - most)}


def _meant(text: str, coarse: Sequence[str]) -> list[str | None]:
    """Return which of the names each one given means: as it is spelt, else whatever its case; None for no name."""
    named = parse_answer(text) or ()
    exact = {_spelt(name): name for name in reversed(coarse)}
    folded = {_spelt(name).casefold(): name for name in reversed(coarse)}
    return [exact.get(_spelt(name)) or folded.get(_spelt(name).casefold()) for name in named]


def _spelt(name: str) -> str:
    return " ".join(name.split()).strip("*`")
