"""The room's public face."""

from __future__ import annotations

import inspect

import pytest

import wardround.agents as agents
from wardround.core import UserError


def test_all_is_sorted_and_exact() -> None:
    public = [name for name, held in vars(agents).items() if not name.startswith("_") and not inspect.ismodule(held)]
    assert agents.__all__ == sorted(agents.__all__)
    assert set(agents.__all__) == set(public) - {"annotations"}


def test_agents_are_found_by_name_and_unknown_ones_name_the_known() -> None:
    for method in agents.list_agents():
        assert agents.get_agent(method.name).name == method.name
        assert agents.get_agent(method.name).title == method.title
    with pytest.raises(UserError, match=r"did you mean react\? There are: react, reflexion"):
        agents.get_agent("reac")
