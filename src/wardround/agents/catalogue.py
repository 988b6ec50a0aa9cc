"""The agents there are, by name: the methods and ablations of the RetroSum paper and of the EHR-RAG paper.

After a ``+`` a name may say what the agent is given beside its method: ``retrosum+ether``, ``react+rag``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from wardround.agents.agent import AgentSpec, Hooks
from wardround.agents.context import CONTEXT_POLICIES
from wardround.agents.evidence_methods import EVIDENCE_ADDITIONS, EVIDENCE_METHODS
from wardround.agents.graph_methods import GRAPH_ADDITIONS, GRAPH_METHODS
from wardround.agents.graph_recollection import Walker, with_graph
from wardround.agents.method import ADDITIONS, AGENTS, Addition, Method, Paper
from wardround.agents.names import AgentName
from wardround.agents.react import REACT
from wardround.agents.recollection import Memory, Recollection
from wardround.agents.reflectool import (
    REFINEMENT_PROMPTS,
    SELECTION_PROMPTS,
    CandidateSelection,
    IterativeRefinement,
    RefinementSettings,
    SelectionSettings,
)
from wardround.agents.reflexion import REFLEXION_PROMPTS, ReflexionSettings, SelfCritique
from wardround.agents.settings import NoSettings
from wardround.agents.summaries import SUMMARY_PROMPTS, Summarising, SummarySettings
from wardround.core import UserError
from wardround.memory import POLARITIES, Kind, MemorySettings


def _react(settings: NoSettings) -> AgentSpec:
    return REACT


def _reflexion(settings: ReflexionSettings) -> AgentSpec:
    return replace(REACT, hooks=(lambda: SelfCritique(trials=settings.trials),), prompts=REFLEXION_PROMPTS)


def _selection(settings: SelectionSettings) -> AgentSpec:
    return replace(REACT, choose=CandidateSelection(candidates=settings.candidates), prompts=SELECTION_PROMPTS)


def _refinement(settings: RefinementSettings) -> AgentSpec:
    return replace(REACT, choose=IterativeRefinement(refinements=settings.refinements), prompts=REFINEMENT_PROMPTS)


def _summing(*, actor: bool = True, summariser: bool = True) -> Callable[[SummarySettings], AgentSpec]:
    """Return the maker of one row of table 4: who looks back."""

    def make(settings: SummarySettings) -> AgentSpec:
        def hook() -> Hooks:
            return Summarising(
                window=settings.window,
                share=settings.window_share,
                actor_retrospect=actor,
                summariser_retrospect=summariser,
                final=settings.final_summary,
            )

        return replace(REACT, hooks=(hook,), prompts=SUMMARY_PROMPTS)

    return make


DEFAULT_RECALL = MemorySettings()
for _method in (
    Method(name="react", title=REACT.title, make=_react, paper="retrosum", tables=(2,)),
    Method(
        name="reflexion",
        title="Reflexion: try, criticise without the truth, try again",
        make=_reflexion,
        settings=ReflexionSettings,
        tables=(2,),
        paper="retrosum",
    ),
    Method(
        name="resum",
        title="ReSum: every w calls a summary replaces the history",
        make=_summing(actor=False, summariser=False),
        settings=SummarySettings,
        tables=(2, 4),
        paper="retrosum",
    ),
    Method(
        name="reflectool-cs",
        title="ReflecTool, candidate selection: one of n sampled actions is chosen, then run",
        make=_selection,
        memory=("tool",),
        settings=SelectionSettings,
        tables=(2,),
        paper="retrosum",
    ),
    Method(
        name="reflectool-ir",
        title="ReflecTool, iterative refinement: the proposed action is reviewed before it is run",
        make=_refinement,
        memory=("tool",),
        settings=RefinementSettings,
        tables=(2,),
        paper="retrosum",
    ),
    Method(
        name="reasoningbank",
        title="ReasoningBank: strategies of similar cases, judged without the truth",
        make=_react,
        memory=("reasoning",),
        tables=(2,),
        paper="retrosum",
    ),
    Method(
        name="retrosum",
        title="RetroSum: the summariser rereads everything, the actor keeps its history and the latest summary",
        make=_summing(),
        settings=SummarySettings,
        tables=(2, 4),
        paper="retrosum",
    ),
    Method(
        name="retrosum-evolved",
        title="RetroSum with experiences for the actor and for the summariser",
        make=_summing(),
        memory=("actor", "summariser"),
        settings=SummarySettings,
        tables=(2, 4),
        section="retrosum",
        paper="retrosum",
    ),
    Method(
        name="retrosum-actor-only",
        title="Ablation: the actor keeps its history, the summariser reads only the last w calls",
        make=_summing(summariser=False),
        settings=SummarySettings,
        tables=(4,),
        section="retrosum",
        paper="retrosum",
    ),
    Method(
        name="retrosum-summariser-only",
        title="Ablation: the summariser rereads everything, its summary replaces the actor's history",
        make=_summing(actor=False),
        settings=SummarySettings,
        tables=(4,),
        section="retrosum",
        paper="retrosum",
    ),
    Method(
        name="retrosum-evolved-actor",
        title="Ablation: RetroSum with experiences for the actor only",
        make=_summing(),
        memory=("actor",),
        settings=SummarySettings,
        tables=(4,),
        section="retrosum",
        paper="retrosum",
    ),
    Method(
        name="retrosum-evolved-summariser",
        title="Ablation: RetroSum with experiences for the summariser only",
        make=_summing(),
        memory=("summariser",),
        settings=SummarySettings,
        tables=(4,),
        section="retrosum",
        paper="retrosum",
    ),
    *GRAPH_METHODS,
    *EVIDENCE_METHODS,
):
    AGENTS.add(_method.name, _method)
for _name, _addition in (*EVIDENCE_ADDITIONS.items(), *GRAPH_ADDITIONS.items()):
    ADDITIONS.add(_name, _addition)


def get_agent(
    name: str,
    settings: Any = None,
    *,
    memory: Memory | None = None,
    recall: MemorySettings = DEFAULT_RECALL,
    context_policy: str | None = None,
) -> AgentSpec:
    """Return an agent, for example ``retrosum`` or ``retrosum+ether``. Raises UserError for an unknown name, which
    names those there are, or where a bank is needed.

    ``settings`` are of its method's own class; ``recall`` says how much of the bank it is served; ``context_policy``
    is another one than the agent's own, by name.
    """
    method, additions = _parts(name)
    own = method.settings() if settings is None else settings
    method.must_fit(own)
    agent = method.make(own)
    walkers = [walker for walker in (method.walker, *(one.walker for one in additions)) if walker is not None]
    if method.memory or walkers:
        agent = _remembering(agent, name, method, walkers, recall, memory)
    for addition in additions:
        agent = addition.give(agent)
    if context_policy is not None:
        agent = replace(agent, context=CONTEXT_POLICIES.get(context_policy))
    served = {"k": recall.k, "advice": recall.advice} if method.memory else {}
    facts = {"settings": asdict(own) | served, "memory": list(kinds_read(name))}
    title = ", ".join((method.title, *(addition.title for addition in additions)))
    return replace(agent, name=name, title=title, prompts=tuple(dict.fromkeys(agent.prompts)), facts=facts)


def _remembering(
    agent: AgentSpec,
    name: str,
    method: Method,
    walkers: Sequence[Walker],
    recall: MemorySettings,
    memory: Memory | None,
) -> AgentSpec:
    """Put what an agent reads of a bank before its first turn."""
    if memory is None:
        raise UserError(f"{name} needs a bank: make one with `wardround evolve`, then give --bank")
    if method.memory and method.walker is None:
        recollection = partial(Recollection, memory, kinds=method.memory, k=recall.k, advice=recall.advice)
        agent = replace(agent, hooks=(recollection, *agent.hooks), prompts=(*agent.prompts, *method.served))
    for walker in walkers:
        agent = with_graph(agent, memory, walker, recall.graph)
    return agent


def kinds_read(name: str) -> tuple[Kind, ...]:
    """The kinds of experiences an agent reads, by its method or by what it is given; none where it needs no bank."""
    method, additions = _parts(name)
    given = POLARITIES if any(one.walker for one in additions) else ()
    return tuple(dict.fromkeys((*method.memory, *given)))


def get_method(name: str) -> Method:
    """Return the method behind an agent's name; UserError names those there are."""
    return _parts(name)[0]


def list_agents(paper: Paper | None = None) -> tuple[Method, ...]:
    """Return all methods, or those of one paper, in the order of its tables."""
    return tuple(method for method in AGENTS.registered if paper in (None, method.paper))


def _parts(name: str) -> tuple[Method, tuple[Addition, ...]]:
    """Return a name's method and what is added to it."""
    parsed = AgentName.parse(name)
    method = AGENTS.get(parsed.method)
    additions = tuple(ADDITIONS.get(addition) for addition in parsed.additions)
    if additions and method.evidence:
        raise UserError(f"{method.name!r} retrieves its own evidence; {name!r} is for agents that read with tools")
    return method, additions
