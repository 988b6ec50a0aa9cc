"""A prompt that is not there is one clear line: of a plug-in that is one file, of one that is a package, of none."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType

import jinja2
import pytest

from wardround.agents import get_agent
from wardround.core import UserError, add_prompt, load_prompt


@pytest.mark.parametrize("package", ["my_plugin", "wardround.agents", "no_such_module"])
def test_an_agent_without_its_prompt_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    plugin = ModuleType("my_plugin")
    plugin.__spec__ = ModuleSpec("my_plugin", None)  # of one file: not a package
    monkeypatch.setitem(sys.modules, "my_plugin", plugin)
    agent = replace(get_agent("react"), package=package, system="my_system")
    with pytest.raises(UserError, match=rf"{package} has no prompt 'my_system': .*prompts/my_system.jinja nor add_pro"):
        agent.prompt_files()


def test_a_file_holds_several_templates_as_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.core.prompts._WRITTEN", {})
    source = "{# version: 4 #}\n{% block system %}\nYou plan.\n{% endblock %}\n"
    source += "\n{% block ask %}\nPlan for {{ who }}.\n{% endblock %}\n"
    add_prompt("my_plugin", "plan", source)
    system, ask = load_prompt("my_plugin", "plan.system"), load_prompt("my_plugin", "plan.ask")
    assert (system.render(), ask.render(who="Ann")) == ("You plan.", "Plan for Ann.")
    assert (ask.name, ask.version) == ("my_plugin/plan", 4)
    assert ask.sha256 == hashlib.sha256(source.encode()).hexdigest()
    with pytest.raises(jinja2.UndefinedError):
        ask.render()
    with pytest.raises(UserError, match=r"my_plugin/plan.jinja has no block 'other'; it has system, ask"):
        load_prompt("my_plugin", "plan.other")
