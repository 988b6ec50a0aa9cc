"""The catalogue of agents by name: the ``METHODS`` and ``ADDITIONS`` of every module in ``methods/``, paper by paper.

After a ``+`` a name may add inputs to the method: ``retrosum+ether``, ``react+rag``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import Any, get_args

from wardround.agents import methods
from wardround.agents.graph_recall import with_graph
from wardround.agents.loop.agent import AgentSpec
from wardround.agents.loop.context import CONTEXT_POLICIES
from wardround.agents.method import ADDITIONS, AGENTS, Addition, AgentName, Method, Paper
from wardround.agents.recall import Memory, Recalling, with_peer
from wardround.core import Sealed, UserError
from wardround.memory import POLARITIES, Kind, MemorySettings

DEFAULT_RECALL = MemorySettings()
_PAPERS = (*get_args(Paper), None)
_MODULES = [import_module(f"{methods.__name__}.{found.name}") for found in iter_modules(methods.__path__)]
for _method in sorted(chain(*(module.METHODS for module in _MODULES)), key=lambda one: _PAPERS.index(one.paper)):
    AGENTS.add(_method.name, _method)
for _name, _addition in chain(*(getattr(module, "ADDITIONS", {}).items() for module in _MODULES)):
    ADDITIONS.add(_name, _addition)


def get_agent(
    name: str,
    settings: Any = None,
    *,
    memory: Memory | None = None,
    recall: MemorySettings = DEFAULT_RECALL,
    context_policy: str | None = None,
) -> AgentSpec:
    """Return an agent, for example ``retrosum`` or ``retrosum+ether``.

    Raises UserError for an unknown name, with the known names, or if the agent needs a bank.

    ``settings`` are of its method's own class; ``recall`` says how much of the bank it is served; ``context_policy``
    is another one than the agent's own, by name.
    """
    method, additions = _parts(name)
    own = method.settings() if settings is None else settings
    method.must_fit(own)
    agent = method.make(own)
    if method.memory or any(one.walker or one.peer for one in additions):
        agent = _remembering(agent, name, (method, *additions), recall, memory)
    for addition in additions:
        agent = addition.give(agent)
    if context_policy is not None:
        agent = replace(agent, context=CONTEXT_POLICIES.get(context_policy))
    facts = {"settings": asdict(own) | _served(method, recall), "memory": list(kinds_read(name))}
    title = ", ".join((method.title, *(addition.title for addition in additions)))
    return replace(agent, name=name, title=title, prompts=tuple(dict.fromkeys(agent.prompts)), facts=facts)


def _served(method: Method, recall: MemorySettings) -> dict[str, int]:
    """Return what a manifest records about how much a method is served."""
    if method.peer:
        return {"k": recall.peers.k}
    return {"k": recall.k, "advice": recall.advice} if method.memory else {}


def _remembering(
    agent: AgentSpec,
    name: str,
    parts: Sequence[Method | Addition],
    recall: MemorySettings,
    memory: Memory | None,
) -> AgentSpec:
    """Put what an agent reads of a bank before its first turn."""
    if memory is None:
        raise UserError(
            f"{name} needs a bank: make one with `wardround memory evolve` or `memory build`, then give --bank"
        )
    for part in parts:
        if isinstance(part, Method) and part.memory and not (part.walker or part.peer):
            recollection = partial(Recalling, Sealed(memory), kinds=part.memory, k=recall.k, advice=recall.advice)
            agent = replace(agent, hooks=(recollection, *agent.hooks), prompts=(*agent.prompts, *part.served))
        if part.walker is not None:
            agent = with_graph(agent, memory, part.walker, recall.graph)
        if part.peer:
            agent = with_peer(agent, memory, part.peer, recall.peers)
    return agent


def kinds_read(name: str) -> tuple[Kind, ...]:
    """Return the kinds of experiences that an agent reads, by its method or by its inputs; none if it needs no bank."""
    method, additions = _parts(name)
    graph = POLARITIES if any(addition.walker for addition in additions) else ()
    notes: tuple[Kind, ...] = ("note",) if any(addition.peer for addition in additions) else ()
    return tuple(dict.fromkeys((*method.memory, *graph, *notes)))


def get_method(name: str) -> Method:
    """Return the method of an agent's name. Raises UserError with the known names."""
    return _parts(name)[0]


def list_agents(paper: Paper | None = None) -> tuple[Method, ...]:
    """Return all methods, or those of one paper, in the order of its tables."""
    return tuple(method for method in AGENTS.registered if paper in (None, method.paper))


def _parts(name: str) -> tuple[Method, tuple[Addition, ...]]:
    """Return a name's method and its additions."""
    parsed = AgentName.parse(name)
    method = AGENTS.get(parsed.method)
    additions = tuple(ADDITIONS.get(addition) for addition in parsed.additions)
    if method.evidence and not all(addition.for_every_method for addition in additions):
        raise UserError(f"{method.name!r} retrieves its own evidence; {name!r} is for agents that read with tools")
    return method, additions
