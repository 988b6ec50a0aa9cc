"""The corpora of a run: what its manifest says of them, and that they are still the same where it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wardround.agents import AgentSpec
from wardround.core import UserError
from wardround.knowledge import Knowledge
from wardround.runs.settings import RunSettings
from wardround.tools import TOOLS

_READING = frozenset({"knowledge", "web"})
"""The categories of tools that read corpora."""


def corpora_facts(settings: RunSettings, agents: Iterable[AgentSpec]) -> dict[str, Any] | None:
    """Return what the manifest says of the corpora that a run's tools may read; None where none of them does."""
    named = {*settings.run.tools, *(name for agent in agents for name in agent.more_tools)}
    if not any(TOOLS.get(name).category in _READING for name in named):
        return None
    return dict(Knowledge.open(settings.knowledge).library.facts())


def open_knowledge(settings: RunSettings, facts: Mapping[str, Any] | None) -> Knowledge:
    """Open a run's corpora. UserError: they are no longer those that its manifest describes."""
    knowledge = Knowledge.open(settings.knowledge)
    if facts is None:
        return knowledge
    now = knowledge.library.facts()
    changed = [name for name, fact in facts.items() if dict(now.get(name, {})) != dict(fact)]
    if changed:
        raise UserError(
            f"the corpus {changed[0]!r} is not what it was when this run began (documents were added, or it was "
            "removed): start a new run"
        )
    return knowledge
