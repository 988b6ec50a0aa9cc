"""A method by name: a composition that is not made yet, and what making it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wardround.agents.agent import AgentSpec
from wardround.agents.graph_recollection import Walker, graph_prompts
from wardround.agents.settings import AgentSettings
from wardround.core import Registry
from wardround.memory import Kind

Paper = Literal["retrosum", "ehr-rag", "gsem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One agent by name, not made yet: a composition, and the experiences it reads.

    ``memory`` are the kinds it retrieves: it cannot be made without a bank, whatever is in it. ``uses`` names the
    settings that it heeds. ``tables`` are those of its ``paper`` that have it. ``evidence``: it answers from what it
    retrieves itself, so it cannot be given evidence. ``walker``: its experiences come through the bank's graph, walked
    by rule (``beam``) or by the model.
    """

    name: str
    title: str
    make: Callable[[AgentSettings], AgentSpec]
    memory: tuple[Kind, ...] = ()
    uses: tuple[str, ...] = ()
    tables: tuple[int, ...] = (2,)
    paper: Paper = "retrosum"
    evidence: bool = False
    walker: Walker | None = None

    @property
    def served(self) -> tuple[str, ...]:
        """The templates that show what it reads of a bank."""
        if self.walker is not None:
            return graph_prompts(self.walker)
        return tuple(f"memory/served_{kind}" for kind in self.memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What an agent can be given beside its method, by what stands after a ``+`` in its name; ``walker``: experiences
    of a bank's graph, walked so."""

    title: str
    give: Callable[[AgentSpec], AgentSpec] = lambda agent: agent
    walker: Walker | None = None


AGENTS: Registry[Method] = Registry("agents", one="agent", of=Method)
"""Every method by name, in the order of the papers' tables."""
ADDITIONS: Registry[Addition] = Registry("additions", one="addition to an agent", of=Addition)
"""What can be added to a method's name."""
