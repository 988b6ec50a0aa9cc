"""The baselines of TRACE (section 5): long context, static RAG, one running summary; each also ``+protocol``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from wardround.agents.loop.agent import AgentSpec
from wardround.agents.method import Addition, Method
from wardround.agents.methods.trace import stay_method
from wardround.agents.stays.plain import NewestHistory, PlainPlayer, RunningSummary, SimilarSegments, StayMemory
from wardround.core import UserError


def with_protocol(agent: AgentSpec) -> AgentSpec:
    """Return a baseline with the rules that its router selects in its prompts. UserError: it plays no stays."""
    if not isinstance(agent.steps, partial) or agent.steps.func is not PlainPlayer:
        raise UserError(f"{agent.name!r} cannot be given a protocol; long-context, static-rag and single-summary can")
    return replace(agent, steps=partial(agent.steps, with_protocol=True))


def _baseline(name: str, title: str, history: Callable[..., StayMemory], *more_prompts: str) -> Method:
    player = partial(PlainPlayer, history=history)
    return stay_method(name, title, player, prompts=("reasoner", *more_prompts), tables=(1,))


STAY_BASELINES = (
    _baseline("long-context", "Long context: the newest hours of the record that fit", NewestHistory),
    _baseline("static-rag", "Static RAG: parts of the patient's past that resemble the newest hour", SimilarSegments),
    _baseline(
        "single-summary",
        "One free-text summary, rewritten at every step (MemGPT-like)",
        RunningSummary,
        "stay_summary",
    ),
)
PROTOCOL_ADDITIONS: Mapping[str, Addition] = {
    "protocol": Addition(title="with the rules that the protocol's router selects", give=with_protocol)
}
"""What a baseline can be given: the global protocol."""
