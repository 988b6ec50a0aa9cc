"""ReAct: the loop with nothing added. The model sees its whole history and acts on it (Yao et al., 2023)."""

from __future__ import annotations

from wardround.agents.loop.agent import AgentSpec
from wardround.agents.method import Method
from wardround.agents.settings import NoSettings

REACT = AgentSpec(name="react", title="ReAct: reason and act on the whole history", system="react_system")


def make_react(settings: NoSettings) -> AgentSpec:
    """ReAct has nothing to set."""
    return REACT


REACT_METHODS = (Method(name="react", title=REACT.title, make=make_react, paper="retrosum", tables=(2,)),)
