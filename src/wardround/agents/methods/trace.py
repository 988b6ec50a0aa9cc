"""TRACE: a frozen protocol, an exact patient state, audited decisions; and its ablations (Table 2)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jinja2

from wardround.agents.loop.agent import AgentSpec
from wardround.agents.method import Method
from wardround.agents.stays.player import Parts, TracePlayer
from wardround.agents.stays.settings import TraceSettings
from wardround.core import PromptFile
from wardround.protocols import GlobalProtocol, RuleIndex, read_protocol

NO_PROTOCOL = GlobalProtocol(name="none", rules=())


def trace(name: str, title: str, parts: Parts) -> Callable[[TraceSettings], AgentSpec]:
    """Return what makes the agent of some parts from its settings."""

    def make(settings: TraceSettings) -> AgentSpec:
        return AgentSpec(
            name=name,
            title=title,
            system="reasoner_system",
            tools="none",
            steps=partial(TracePlayer, rule_index(settings.protocol), settings, parts),
            prompts=("reasoner", "route", "audit", "keep"),
            files=protocol_file(settings.protocol) if parts.protocol else (),
        )

    return make


def rule_index(path: str | None) -> RuleIndex:
    """Return a protocol file's rules, compiled; none without a file. UserError: it cannot be read."""
    return RuleIndex(NO_PROTOCOL if path is None else read_protocol(Path(path)))


def protocol_file(path: str | None) -> tuple[PromptFile, ...]:
    """Return a protocol as a file that a run is hashed with, as prompts are: it is shown, and it is frozen."""
    if path is None:
        return ()
    protocol = read_protocol(Path(path))
    shown = jinja2.Environment(autoescape=False).from_string("")
    return (PromptFile(name=f"protocol/{protocol.name}", version=1, sha256=protocol.digest, template=shown),)


_ARMS = (
    ("trace", "TRACE: rules routed by trigger, an exact state, audited decisions", Parts()),
    ("trace-no-protocol", "Ablation: TRACE without the global protocol", Parts(protocol=False)),
    ("trace-no-state", "Ablation: TRACE without the state: it knows the last hours only", Parts(state=False)),
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
