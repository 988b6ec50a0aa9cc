"""TRACE: a frozen protocol, an exact patient state, audited decisions; and its ablations (Table 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from wardround.agents.loop.agent import AgentSpec
from wardround.agents.method import Method
from wardround.agents.stays.player import Parts, TracePlayer
from wardround.agents.stays.settings import TraceSettings
from wardround.protocols import GlobalProtocol, RuleIndex, read_protocol

NO_PROTOCOL = GlobalProtocol(name="none", rules=())


def trace(name: str, title: str, parts: Parts) -> Callable[[TraceSettings], AgentSpec]:
    """Return what makes the agent of some parts from its settings."""

    def make(settings: TraceSettings) -> AgentSpec:
        protocol = NO_PROTOCOL if settings.protocol is None else read_protocol(Path(settings.protocol))
        index = RuleIndex(protocol)
        return AgentSpec(
            name=name,
            title=title,
            system="reasoner_system",
            tools="none",
            steps=partial(TracePlayer, index, settings, parts),
        )

    return make


_ARMS = (
    ("trace", "TRACE: rules routed by trigger, an exact state, audited decisions", Parts()),
    ("trace-no-protocol", "Ablation: TRACE without the global protocol", Parts(protocol=False)),
    (
        "trace-no-state",
        "Ablation: TRACE without the structured state: it knows the last hours only",
        Parts(state=False),
    ),
    ("trace-no-auditor", "Ablation: TRACE without the Auditor", Parts(auditor=False)),
)
TRACE_METHODS = tuple(
    Method(
        name=name,
        title=title,
        make=trace(name, title, parts),
        settings=TraceSettings,
        section="trace",
        paper="trace",
        tables=(1, 2) if name == "trace" else (2,),
    )
    for name, title, parts in _ARMS
)
