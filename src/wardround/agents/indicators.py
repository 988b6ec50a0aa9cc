"""The numeric side of ETHER: coarse by likeness of names, fine by the model's choice, then the latest values.

The model answers with a JSON list of exact names. A name it invents is dropped and counted; where no name can be read
at all, the coarse ones stand in, the nearest first, and that is counted too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from wardround.agents.answers import parse_answer
from wardround.agents.beside import prompt_text
from wardround.agents.desk import Desk
from wardround.agents.evidence import Evidence


async def numeric_evidence(desk: Desk) -> Evidence:
    """Return the trajectories of the indicators that matter for the question's factual query."""
    query, settings = desk.question.factual_query, desk.settings
    coarse = await asyncio.to_thread(lambda: tuple(desk.index.coarse_indicators(query, settings.coarse)))
    chosen, facts = await _chosen(desk, coarse)
    recent = settings.recent_values
    trajectories = await asyncio.to_thread(lambda: tuple(desk.index.trajectories(chosen, recent=recent)))
    desk.note("indicators", query=query, coarse=len(coarse), chosen=list(chosen), **facts)
    return Evidence(trajectories=trajectories)


async def _chosen(desk: Desk, coarse: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    most = desk.settings.fine
    if len(coarse) <= most:
        return tuple(coarse), {"by": "all there are"}
    written = await desk.ask(prompt_text("rerank", names=coarse, most=most), purpose="rerank")
    if written.problem is not None:
        return tuple(coarse[:most]), {"by": "likeness", "failed": written.problem}
    named = parse_answer(written.text) or ()
    exact = {_plain(name): name for name in coarse}
    known = tuple(dict.fromkeys(exact[_plain(name)] for name in named if _plain(name) in exact))
    invented = sum(_plain(name) not in exact for name in named)
    if not known:
        return tuple(coarse[:most]), {"by": "likeness", "failed": "no name of the list was given", "invented": invented}
    return known[:most], {"by": "the model", "invented": invented, "too_many": max(0, len(known) - most)}


def _plain(name: str) -> str:
    return " ".join(name.split()).strip("*`").casefold()
