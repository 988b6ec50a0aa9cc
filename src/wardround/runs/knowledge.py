"""The knowledge of a run: what its manifest says of its corpora, that these are the same, and its way to the web."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wardround.agents import AgentSpec
from wardround.core import UserError
from wardround.knowledge import Knowledge
from wardround.records import Store
from wardround.runs.folder import RunFolder
from wardround.runs.guard import data_use_guard
from wardround.runs.settings import RunSettings
from wardround.tools import TOOLS, open_toolset

_READING = frozenset({"knowledge", "web"})
"""The categories of tools that read corpora."""
_PAGES = "pages"
"""The folder of a run in which fetched pages are kept."""


def corpora_facts(settings: RunSettings, agents: Iterable[AgentSpec], store: Store) -> dict[str, Any] | None:
    """Return what the manifest says of the corpora that a run's tools may read; None where none of them does.

    Raises UserError for knowledge that cannot be opened, before anything is paid for.
    """
    more = {*settings.run.tools, *(name for agent in agents for name in agent.more_tools)}
    offered = (*open_toolset(settings.run.toolset).tools, *map(TOOLS.get, more))
    if not any(tool.category in _READING for tool in offered):
        return None
    knowledge = _opened(settings, store, None)
    try:
        return dict(knowledge.library.facts())
    finally:
        knowledge.close()


def open_knowledge(folder: RunFolder, store: Store) -> Knowledge:
    """Open what a run may read. UserError: its corpora are no longer those that its manifest describes."""
    facts: Mapping[str, Any] | None = folder.manifest.get("corpora")
    if facts is None:
        return Knowledge()
    knowledge = _opened(folder.settings, store, folder.path / _PAGES)
    now = knowledge.library.facts()
    changed = [name for name, fact in facts.items() if dict(now.get(name, {})) != dict(fact)]
    if changed:
        raise UserError(
            f"the corpus {changed[0]!r} is not what it was when this run began (documents were added, or it was "
            "removed): start a new run"
        )
    return knowledge


def _opened(settings: RunSettings, store: Store, pages: Path | None) -> Knowledge:
    guard, key = data_use_guard(settings, store), _key(settings.knowledge.provider_key_variable)
    return Knowledge.open(settings.knowledge, guard=guard, api_key=key, pages=pages)


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UserError(  # its name is not repeated: whoever misread the setting has put the key itself there
            "the environment variable that knowledge.provider_key_variable names is not set; it takes a variable's name"
        )
    return key
