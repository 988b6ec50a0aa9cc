"""The baselines of TRACE (section 5): long context, static RAG, one running summary; each also ``+protocol``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from wardround.agents.loop.agent import AgentSpec
from wardround.agents.method import Addition, Method
from wardround.agents.methods.trace import protocol_file, rule_index
from wardround.agents.stays.plain import NewestHistory, PlainPlayer, RunningSummary, SimilarSegments, StayMemory
from wardround.agents.stays.settings import TraceSettings
from wardround.core import UserError


def baseline(name: str, title: str, history: Callable[..., StayMemory]) -> Callable[[TraceSettings], AgentSpec]:
    """Return what makes a baseline of a way to remember from its settings."""

    def make(settings: TraceSettings) -> AgentSpec:
        return AgentSpec(
            name=name,
            title=title,
            system="reasoner_system",
            tools="none",
            steps=partial(PlainPlayer, history, rule_index(settings.protocol), settings),
            prompts=("reasoner", "stay_summary") if history is RunningSummary else ("reasoner",),
            files=protocol_file(settings.protocol),
        )

    return make


def with_protocol(agent: AgentSpec) -> AgentSpec:
    """Return a baseline with the rules that its router selects in its prompts. UserError: it plays no stays."""
    if not isinstance(agent.steps, partial) or agent.steps.func is not PlainPlayer:
        raise UserError(f"{agent.name!r} cannot be given a protocol; long-context, static-rag and single-summary can")
    return replace(agent, steps=partial(agent.steps, with_protocol=True))


_BASELINES: tuple[tuple[str, str, Callable[..., StayMemory]], ...] = (
    ("long-context", "Long context: the newest hours of the record that fit", NewestHistory),
    ("static-rag", "Static RAG: parts of the patient's past that resemble the newest hour", SimilarSegments),
    ("single-summary", "One free-text summary, rewritten at every step (MemGPT-like)", RunningSummary),
)
STAY_BASELINES = tuple(
    Method(
        name=name,
        title=title,
        make=baseline(name, title, history),
        settings=TraceSettings,
        section="trace",
        paper="trace",
        tables=(1,),
    )
    for name, title, history in _BASELINES
)
PROTOCOL_ADDITIONS: Mapping[str, Addition] = {
    "protocol": Addition(title="with the rules that the protocol's router selects", give=with_protocol)
}
"""What a baseline can be given: the global protocol."""
