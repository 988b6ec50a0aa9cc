"""The agents there are, by name: every method of table 2 and every row of table 4 of the RetroSum paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches

from wardround.agents.agent import AgentSpec, Hooks
from wardround.agents.react import REACT
from wardround.agents.reflexion import REFLEXION_PROMPTS, SelfCritique
from wardround.agents.settings import AgentSettings
from wardround.agents.summaries import SUMMARY_PROMPTS, Summarising
from wardround.core import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One agent by name, not made yet. ``uses`` names the settings that it heeds."""

    name: str
    title: str
    make: Callable[[AgentSettings], AgentSpec]
    uses: tuple[str, ...] = ()


def _react(settings: AgentSettings) -> AgentSpec:
    return REACT


def _reflexion(settings: AgentSettings) -> AgentSpec:
    return replace(REACT, hooks=(lambda: SelfCritique(trials=settings.trials),), prompts=REFLEXION_PROMPTS)


def _summing(*, actor: bool, summariser: bool) -> Callable[[AgentSettings], AgentSpec]:
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
_SUMMARY_SETTINGS = ("window", "final_summary")
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
            uses=_SUMMARY_SETTINGS,
        ),
        Method(
            name="retrosum",
            title="RetroSum: the summariser rereads everything, the actor keeps its history and the latest summary",
            make=_summing(actor=True, summariser=True),
            uses=_SUMMARY_SETTINGS,
        ),
        Method(
            name="retrosum-actor-only",
            title="Ablation: the actor keeps its history, the summariser sees only the last w turns",
            make=_summing(actor=True, summariser=False),
            uses=_SUMMARY_SETTINGS,
        ),
        Method(
            name="retrosum-summariser-only",
            title="Ablation: the summariser rereads everything, its summary replaces the actor's history",
            make=_summing(actor=False, summariser=True),
            uses=_SUMMARY_SETTINGS,
        ),
    )
}


def get_agent(name: str, settings: AgentSettings = DEFAULTS) -> AgentSpec:
    """Return an agent; UserError names those there are."""
    method = _METHODS.get(name)
    if method is None:
        near = get_close_matches(name, _METHODS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UserError(f"there is no agent {name!r}{hint} There are: {', '.join(_METHODS)}")
    held = asdict(settings)
    facts = {"settings": {used: held[used] for used in method.uses}}
    return replace(method.make(settings), name=method.name, title=method.title, facts=facts)


def list_agents() -> tuple[Method, ...]:
    """Return all agents, in the order of the paper's tables."""
    return tuple(_METHODS.values())
