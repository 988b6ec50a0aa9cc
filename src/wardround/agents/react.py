"""ReAct: the loop with nothing added. The model sees its whole history and acts on it (Yao et al., 2023)."""

from __future__ import annotations

from wardround.agents.agent import AgentSpec

REACT = AgentSpec(name="react", title="ReAct: reason and act on the whole history", system="react_system")
