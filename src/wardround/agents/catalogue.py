"""Agents by name: how a name is spelled, which settings it takes, and how the agent is built.

Registered are the ``METHODS`` and ``ADDITIONS`` of every module in ``methods/``, paper by paper. After a ``+`` a name
may add inputs to the method: ``retrosum+ether``, ``react+rag``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from wardround.agents.graph_recall import Walker, graph_prompts, with_graph
from wardround.agents.loop.context import CONTEXT_POLICIES
from wardround.agents.loop.loop import AgentSpec
from wardround.agents.recall import Memory, Recalling, with_peer
from wardround.core import Registry, Sealed, UserError, check_settings, setting
from wardround.memory import POLARITIES, Kind, MemorySettings

# How an agent's name is spelt: ``<method>``, and after every ``+`` something it is given: ``retrosum+ether+tool``.


_PLUS = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentName:
    """The parts of a name: the method and its additions, in this order and each once."""

    method: str
    additions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AgentName:
        """Split a name into parts. Raises UserError for a part that occurs twice. It is not checked whether parts
        exist."""
        method, *additions = text.split(_PLUS)
        if len(set(additions)) < len(additions):
            raise UserError(f"{text!r} names something twice")
        return cls(method=method, additions=tuple(additions))

    def __str__(self) -> str:
        return _PLUS.join((self.method, *self.additions))


# The settings of every agent, and those of a method without settings of its own.


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Every agent's budget, so that all rows of a table have one."""

    turns: int = setting(
        100, "turn limit of an episode", unit="model calls", source="RetroSum", least=1, flag="--turns"
    )
    context_tokens: int | None = setting(
        None,
        "context budget; by default that of the benchmark's paper (64,000; EHRSHOT: 128,000)",
        unit="tokens",
        source="RetroSum, appendix D.2; EHR-RAG, appendix A",
        least=1,
        flag="--context-tokens",
    )
    result_tokens: int = setting(2_000, "budget of one tool result", unit="tokens", least=1)
    reply_tokens: int = setting(4_096, "longest reply", unit="tokens", least=1)
    forced_finish: bool = setting(
        True,
        "at a limit, one more call that offers only finish; without it the episode ends there",
        source="released code of RetroSum",
    )
    steps: int = setting(1_000, "step limit of a stay that is run bundle by bundle", unit="bundles", least=1)
    episode_seconds: float | None = setting(
        None,
        "wall time after which an episode ends; none: all it takes",
        unit="seconds",
        above=0,
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSettings:
    """The settings of a method that has none."""


# A method by name: a composition that is not made yet, and what making it takes.


Paper = Literal["retrosum", "ehr-rag", "gsem", "clinseek", "trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One agent by name, not made yet: a composition, and the experiences it reads.

    ``settings`` is the section of what may be set of it, which ``make`` is given; in a file it is ``agent.<section>``,
    by default under its own name, and ablations share that of their method. ``memory`` are the kinds it retrieves: it
    cannot be made without a bank, whatever is in it. ``tables`` are those of its ``paper`` that have it; a method that
    is in none has no paper. ``evidence``: it answers from what it retrieves itself, so it cannot be given evidence.
    ``walker``: its experiences come through the bank's graph, walked by rule (``beam``) or by the model.
    ``peer``: they are the notes of another published memory, by its name.
    """

    name: str
    title: str
    make: Callable[[Any], AgentSpec]
    settings: type = NoSettings
    section: str = ""
    memory: tuple[Kind, ...] = ()
    tables: tuple[int, ...] = ()
    paper: Paper | None = None
    evidence: bool = False
    walker: Walker | None = None
    peer: str = ""

    @property
    def served(self) -> tuple[str, ...]:
        """The templates that show what it reads of a bank."""
        if self.walker is not None:
            return graph_prompts(self.walker)
        return tuple(f"memory/served_{kind}" for kind in self.memory)

    @property
    def section_name(self) -> str:
        """The name of its section of settings."""
        return self.section or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """An addition to a method, by the part after a ``+`` in an agent's name.

    ``walker``: experiences of a bank's graph, found by this walk. ``peer``: notes of this memory.
    ``for_every_method``: also for methods that retrieve their own evidence.
    """

    title: str
    give: Callable[[AgentSpec], AgentSpec] = lambda agent: agent
    walker: Walker | None = None
    peer: str = ""
    for_every_method: bool = False


AGENTS: Registry[Method] = Registry("agents", one="agent", of=Method)
"""Every method by name, in the order of the papers' tables."""
ADDITIONS: Registry[Addition] = Registry("additions", one="addition to an agent", of=Addition)
"""What can be added to a method's name."""


# An agent, made.


DEFAULT_RECALL = MemorySettings()


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
    section: Any = method.settings
    own = section() if settings is None else settings
    if not isinstance(own, section):
        raise UserError(f"{method.name} takes {section.__name__}, not {type(own).__name__}")
    agent = method.make(own)
    if method.memory or any(one.walker or one.peer for one in additions):
        agent = _remembering(agent, name, (method, *additions), recall, memory)
    for addition in additions:
        agent = addition.give(agent)
    if context_policy is not None:
        agent = replace(agent, context=CONTEXT_POLICIES.get(context_policy))
    served = {"k": recall.k, "advice": recall.advice} if method.memory else {}
    if method.peer:
        served = {"k": recall.peers.k}
    facts = {"settings": asdict(own) | served, "memory": list(kinds_read(name))}
    title = ", ".join((method.title, *(addition.title for addition in additions)))
    return replace(agent, name=name, title=title, prompts=tuple(dict.fromkeys(agent.prompts)), facts=facts)


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
