"""TRACE, its ablations (table 2) and its baselines (section 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import jinja2

from wardround.agents.catalogue import Addition, Method
from wardround.agents.loop.loop import AgentSpec
from wardround.agents.loop.steps import StepPlayer
from wardround.agents.stays.plain import NewestHistory, PlainPlayer, RunningSummary, SimilarSegments, StayMemory
from wardround.agents.stays.player import Parts, TracePlayer
from wardround.agents.stays.settings import TraceSettings
from wardround.clinical.protocols import GlobalProtocol, RuleIndex, read_protocol
from wardround.core import PromptFile, UserError

NO_PROTOCOL = GlobalProtocol(name="none", rules=())


def stay_method(
    name: str,
    title: str,
    player: Callable[..., StepPlayer],
    *,
    tables: tuple[int, ...],
    shows_rules: bool = True,
) -> Method:
    """Return a method for stays.

    ``player`` gets the ``index`` of the protocol's rules and the ``settings`` of ``agent.trace``. ``shows_rules``: the
    agent shows the protocol's file to models, and the file is hashed into its run."""

    def make(settings: TraceSettings) -> AgentSpec:
        return AgentSpec(
            name=name,
            title=title,
            system="trace.system",
            tools="none",
            steps=partial(player, index=rule_index(settings.protocol), settings=settings),
            files=protocol_file(settings.protocol) if shows_rules else (),
        )

    return Method(
        name=name, title=title, make=make, settings=TraceSettings, section="trace", paper="trace", tables=tables
    )


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


def _arm(name: str, title: str, parts: Parts, *tables: int) -> Method:
    player = partial(TracePlayer, parts=parts)
    return stay_method(name, title, player, tables=tables, shows_rules=parts.protocol)


# The baselines of TRACE (section 5): long context, static RAG, one running summary; each also ``+protocol``.


def with_protocol(agent: AgentSpec) -> AgentSpec:
    """Return a baseline with the rules that its router selects in its prompts. Raises UserError if it does not run on
    stays."""
    if not isinstance(agent.steps, partial) or agent.steps.func is not PlainPlayer:
        raise UserError(f"{agent.name!r} cannot be given a protocol; long-context, static-rag and single-summary can")
    return replace(agent, steps=partial(agent.steps, with_protocol=True))


def _baseline(name: str, title: str, history: Callable[..., StayMemory]) -> Method:
    player = partial(PlainPlayer, history=history)
    return stay_method(name, title, player, tables=(1,))


METHODS = (
    _arm("trace", "TRACE: rules routed by trigger, an exact state, audited decisions", Parts(), 1, 2),
    _arm("trace-no-protocol", "Ablation: TRACE without the global protocol", Parts(protocol=False), 2),
    _arm("trace-no-state", "Ablation: TRACE without the state: it knows the last hours only", Parts(state=False), 2),
    _arm("trace-no-auditor", "Ablation: TRACE without the Auditor", Parts(auditor=False), 2),
    _baseline("long-context", "Long context: the newest hours of the record that fit", NewestHistory),
    _baseline("static-rag", "Static RAG: parts of the patient's past that resemble the newest hour", SimilarSegments),
    _baseline(
        "single-summary",
        "One free-text summary, rewritten at every step (MemGPT-like)",
        RunningSummary,
    ),
)
ADDITIONS: Mapping[str, Addition] = {
    "protocol": Addition(title="with the rules that the protocol's router selects", give=with_protocol)
}
"""What a baseline can be given: the global protocol."""
