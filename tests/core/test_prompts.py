"""A prompt that is not there is one clear line: of a plug-in that is one file, of one that is a package, of none."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from wardround.agents import get_agent
from wardround.core import UserError


@pytest.mark.parametrize("package", ["my_plugin", "wardround.agents", "no_such_module"])
def test_an_agent_without_its_prompt_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    plugin = ModuleType("my_plugin")
    plugin.__spec__ = ModuleSpec("my_plugin", None)  # of one file: not a package
    monkeypatch.setitem(sys.modules, "my_plugin", plugin)
    agent = replace(get_agent("react"), package=package, system="my_system")
    with pytest.raises(UserError, match=rf"{package} has no prompt 'my_system': .*prompts/my_system.jinja nor add_pro"):
        agent.prompt_files()
