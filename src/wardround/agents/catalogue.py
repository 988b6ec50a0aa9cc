"""The agents there are, by name."""

from __future__ import annotations

from wardround.agents.agent import AgentSpec
from wardround.agents.react import REACT
from wardround.core import UserError

_AGENTS = {agent.name: agent for agent in (REACT,)}


def get_agent(name: str) -> AgentSpec:
    """Return an agent; UserError names those there are."""
    if name not in _AGENTS:
        raise UserError(f"there is no agent {name!r}; there are: {', '.join(sorted(_AGENTS))}")
    return _AGENTS[name]


def list_agents() -> tuple[AgentSpec, ...]:
    """Return all agents, by name."""
    return tuple(_AGENTS[name] for name in sorted(_AGENTS))
