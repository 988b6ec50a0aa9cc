"""The agents there are, by name: every method of table 2 and every row of table 4 of the RetroSum paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from functools import partial

from wardround.agents.agent import AgentSpec, Hooks
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
from wardround.memory import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One agent by name, not made yet: a composition, and the experiences it reads.

    ``memory`` are the kinds it retrieves: it cannot be made without a bank, whatever is in it. ``uses`` names the
    settings that it heeds. ``tables`` are those of the RetroSum paper that have it.
    """

    name: str
    title: str
    make: Callable[[AgentSettings], AgentSpec]
    memory: tuple[Kind, ...] = ()
    uses: tuple[str, ...] = ()
    tables: tuple[int, ...] = (2,)


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
                actor_retrospect=actor,
                summariser_retrospect=summariser,
                final=settings.final_summary,
            )

        return replace(REACT, hooks=(hook,), prompts=SUMMARY_PROMPTS)

    return make


DEFAULTS = AgentSettings()
_SUMMARISING = ("window", "final_summary")
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
            title="ReSum: every w turns a summary replaces the history",
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
            title="Ablation: the actor keeps its history, the summariser reads only the last w turns",
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
    )
}


def get_agent(name: str, settings: AgentSettings = DEFAULTS, *, memory: Memory | None = None) -> AgentSpec:
    """Return an agent. Raises UserError for an unknown name, which names those there are, or where a bank is needed."""
    method = get_method(name)
    agent = method.make(settings)
    hooks, prompts = agent.hooks, agent.prompts
    if method.memory:
        if memory is None:
            raise UserError(f"{name} needs a bank: make one with `wardround evolve`, then give --bank")
        hooks = (partial(Recollection, memory, kinds=method.memory, k=settings.k, advice=settings.advice), *hooks)
        prompts = tuple(dict.fromkeys((*prompts, *(f"memory/served_{kind}" for kind in method.memory))))
    held = asdict(settings)
    facts = {"settings": {used: held[used] for used in method.uses}, "memory": list(method.memory)}
    return replace(agent, name=name, title=method.title, hooks=hooks, prompts=prompts, facts=facts)


def get_method(name: str) -> Method:
    """Return a method; UserError names those there are."""
    if name not in _METHODS:
        near = get_close_matches(name, _METHODS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UserError(f"there is no agent {name!r}.{hint} There are: {', '.join(_METHODS)}")
    return _METHODS[name]


def list_agents() -> tuple[Method, ...]:
    """Return all methods, in the order of the paper's tables."""
    return tuple(_METHODS.values())
