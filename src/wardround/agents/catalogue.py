"""The agents there are, by name: the methods and ablations of the RetroSum paper and of the EHR-RAG paper.

After a ``+`` a name may say what the agent is given beside its method: ``retrosum+ether``, ``react+rag``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from difflib import get_close_matches
from functools import partial

from wardround.agents.agent import AgentSpec, Hooks
from wardround.agents.evidence_methods import EVIDENCE_METHODS, SUFFIXES
from wardround.agents.method import Method, Paper
from wardround.agents.react import REACT
from wardround.agents.recollection import Memory, Recollection
from wardround.agents.reflectool import (
    REFINEMENT_PROMPTS,
    SELECTION_PROMPTS,
    CandidateSelection,
    IterativeRefinement,
)
from wardround.agents.reflexion import REFLEXION_PROMPTS, SelfCritique
from wardround.agents.settings import AgentSettings
from wardround.agents.summaries import SUMMARY_PROMPTS, Summarising
from wardround.core import UserError


def _react(settings: AgentSettings) -> AgentSpec:
    return REACT


def _reflexion(settings: AgentSettings) -> AgentSpec:
    return replace(REACT, hooks=(lambda: SelfCritique(trials=settings.trials),), prompts=REFLEXION_PROMPTS)


def _selection(settings: AgentSettings) -> AgentSpec:
    return replace(REACT, choose=CandidateSelection(candidates=settings.candidates), prompts=SELECTION_PROMPTS)


def _refinement(settings: AgentSettings) -> AgentSpec:
    return replace(REACT, choose=IterativeRefinement(refinements=settings.refinements), prompts=REFINEMENT_PROMPTS)


def _summing(*, actor: bool = True, summariser: bool = True) -> Callable[[AgentSettings], AgentSpec]:
    """Return the maker of one row of table 4: who looks back."""

    def make(settings: AgentSettings) -> AgentSpec:
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


DEFAULTS = AgentSettings()
_SUMMARISING = ("window", "window_share", "final_summary")
_METHODS = {
    method.name: method
    for method in (
        Method(name="react", title=REACT.title, make=_react),
        Method(
            name="reflexion",
            title="Reflexion: try, criticise without the truth, try again",
            make=_reflexion,
            uses=("trials",),
        ),
        Method(
            name="resum",
            title="ReSum: every w calls a summary replaces the history",
            make=_summing(actor=False, summariser=False),
            uses=_SUMMARISING,
            tables=(2, 4),
        ),
        Method(
            name="reflectool-cs",
            title="ReflecTool, candidate selection: one of n sampled actions is chosen, then run",
            make=_selection,
            memory=("tool",),
            uses=("candidates", "advice"),
        ),
        Method(
            name="reflectool-ir",
            title="ReflecTool, iterative refinement: the proposed action is reviewed before it is run",
            make=_refinement,
            memory=("tool",),
            uses=("refinements", "advice"),
        ),
        Method(
            name="reasoningbank",
            title="ReasoningBank: strategies of similar cases, judged without the truth",
            make=_react,
            memory=("reasoning",),
            uses=("k",),
        ),
        Method(
            name="retrosum",
            title="RetroSum: the summariser rereads everything, the actor keeps its history and the latest summary",
            make=_summing(),
            uses=_SUMMARISING,
            tables=(2, 4),
        ),
        Method(
            name="retrosum-evolved",
            title="RetroSum with experiences for the actor and for the summariser",
            make=_summing(),
            memory=("actor", "summariser"),
            uses=(*_SUMMARISING, "k"),
            tables=(2, 4),
        ),
        Method(
            name="retrosum-actor-only",
            title="Ablation: the actor keeps its history, the summariser reads only the last w calls",
            make=_summing(summariser=False),
            uses=_SUMMARISING,
            tables=(4,),
        ),
        Method(
            name="retrosum-summariser-only",
            title="Ablation: the summariser rereads everything, its summary replaces the actor's history",
            make=_summing(actor=False),
            uses=_SUMMARISING,
            tables=(4,),
        ),
        Method(
            name="retrosum-evolved-actor",
            title="Ablation: RetroSum with experiences for the actor only",
            make=_summing(),
            memory=("actor",),
            uses=(*_SUMMARISING, "k"),
            tables=(4,),
        ),
        Method(
            name="retrosum-evolved-summariser",
            title="Ablation: RetroSum with experiences for the summariser only",
            make=_summing(),
            memory=("summariser",),
            uses=(*_SUMMARISING, "k"),
            tables=(4,),
        ),
        *EVIDENCE_METHODS,
    )
}


def get_agent(name: str, settings: AgentSettings = DEFAULTS, *, memory: Memory | None = None) -> AgentSpec:
    """Return an agent, for example ``retrosum`` or ``retrosum+ether``. Raises UserError for an unknown name, which
    names those there are, or where a bank is needed."""
    method, suffixes = _parts(name)
    agent = method.make(settings)
    if method.memory:
        if memory is None:
            raise UserError(f"{name} needs a bank: make one with `wardround evolve`, then give --bank")
        recollection = partial(Recollection, memory, kinds=method.memory, k=settings.k, advice=settings.advice)
        served = (f"memory/served_{kind}" for kind in method.memory)
        agent = replace(agent, hooks=(recollection, *agent.hooks), prompts=(*agent.prompts, *served))
    for suffix in suffixes:
        agent = SUFFIXES[suffix].give(agent)
    held = asdict(settings)
    facts = {"settings": {used: held[used] for used in method.uses}, "memory": list(method.memory)}
    title = ", ".join((method.title, *(SUFFIXES[suffix].title for suffix in suffixes)))
    return replace(agent, name=name, title=title, prompts=tuple(dict.fromkeys(agent.prompts)), facts=facts)


def get_method(name: str) -> Method:
    """Return the method behind an agent's name; UserError names those there are."""
    return _parts(name)[0]


def list_agents(paper: Paper | None = None) -> tuple[Method, ...]:
    """Return all methods, or those of one paper, in the order of its tables."""
    return tuple(method for method in _METHODS.values() if paper in (None, method.paper))


def _parts(name: str) -> tuple[Method, tuple[str, ...]]:
    """Return a name's method and what is added to it."""
    base, *suffixes = name.split("+")
    if base not in _METHODS:
        near = get_close_matches(base, _METHODS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UserError(f"there is no agent {name!r}.{hint} There are: {', '.join(_METHODS)}")
    for suffix in suffixes:
        if suffix not in SUFFIXES:
            raise UserError(f"an agent can be given +{', +'.join(SUFFIXES)}, not {'+' + suffix!r}")
    if len(set(suffixes)) < len(suffixes):
        raise UserError(f"{name!r} names something twice")
    if suffixes and _METHODS[base].evidence:
        raise UserError(f"{base!r} retrieves its own evidence; +{suffixes[0]} is for agents that read with tools")
    return _METHODS[base], tuple(suffixes)
