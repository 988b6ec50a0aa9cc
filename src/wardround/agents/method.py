"""A method by name: a composition that is not made yet, and what making it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wardround.agents.agent import AgentSpec
from wardround.agents.settings import AgentSettings
from wardround.core import Registry
from wardround.memory import Kind

Paper = Literal["retrosum", "ehr-rag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One agent by name, not made yet: a composition, and the experiences it reads.

    ``memory`` are the kinds it retrieves: it cannot be made without a bank, whatever is in it. ``uses`` names the
    settings that it heeds. ``tables`` are those of its ``paper`` that have it. ``evidence``: it answers from what it
    retrieves itself, so it cannot be given evidence.
    """

    name: str
    title: str
    make: Callable[[AgentSettings], AgentSpec]
    memory: tuple[Kind, ...] = ()
    uses: tuple[str, ...] = ()
    tables: tuple[int, ...] = (2,)
    paper: Paper = "retrosum"
    evidence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What an agent can be given beside its method, by what stands after a ``+`` in its name."""

    title: str
    give: Callable[[AgentSpec], AgentSpec]


AGENTS: Registry[Method] = Registry("agents", one="agent", of=Method)
"""Every method by name, in the order of the papers' tables."""
ADDITIONS: Registry[Addition] = Registry("additions", one="addition to an agent", of=Addition)
"""What can be added to a method's name."""
