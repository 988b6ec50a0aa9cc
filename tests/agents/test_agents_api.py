"""The room's public face."""

from __future__ import annotations

import inspect
from dataclasses import asdict, replace
from importlib import resources

import pytest

import wardround.agents as agents
from wardround.agents.catalogue import ADDITIONS
from wardround.agents.stays.model_roles import REFLECTOR
from wardround.core import UserError
from wardround.memory import Recall
from wardround.tools.retrieval import LexicalEncoder


def test_all_is_exact() -> None:
    public = [name for name, held in vars(agents).items() if not name.startswith("_") and not inspect.ismodule(held)]
    assert set(agents.__all__) == set(public) - {"annotations"}


class NoBank:
    """Nothing is asked of it: only episodes search."""

    def search(self, *given: object, **named: object) -> Recall:
        raise AssertionError

    recall = search


def test_agents_are_found_by_name_and_say_what_they_are_made_of() -> None:
    memory = agents.Memory(bank=NoBank(), encoder=LexicalEncoder())
    for method in agents.list_agents():
        agent = agents.get_agent(method.name, memory=memory)
        facts = agent.manifest()
        assert (agent.name, agent.title) == (method.name, method.title)
        served = {"k": 50} if method.peer else {"k": 1, "advice": 3} if method.memory else {}
        assert facts["settings"] == asdict(method.settings()) | served
        assert facts["memory"] == list(method.memory)
        assert set(method.served) <= {name.removeprefix("agents/") for name in facts["prompts"]}


def test_every_template_of_the_room_is_hashed_into_the_manifest_of_a_method() -> None:
    memory = agents.Memory(bank=NoBank(), encoder=LexicalEncoder())
    of_charts = [f"react+{name}" for name in ADDITIONS.names if name != "protocol"]
    names = [*(method.name for method in agents.list_agents()), *of_charts, "long-context+protocol"]
    made = [agents.get_agent(name, memory=memory) for name in names]
    made.append(agents.get_agent("direct").for_text_cases())
    hashed = {name for agent in made for name in agent.manifest()["prompts"]}
    hashed.add(f"agents/{REFLECTOR.template}")  # asked by protocol induce, in no episode
    files = resources.files("wardround.agents").joinpath("prompts").iterdir()
    assert {f"agents/{file.name.removesuffix('.jinja')}" for file in files} <= hashed


def test_an_unknown_agent_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"Did you mean react\? There are: react, reflexion"):
        agents.get_agent("reac")


def test_a_method_that_reads_experiences_says_that_it_needs_a_bank() -> None:
    with pytest.raises(UserError, match="retrosum-evolved needs a bank"):
        agents.get_agent("retrosum-evolved")


def test_settings_below_one_are_refused() -> None:
    with pytest.raises(UserError, match="window must be at least 1"):
        agents.SummarySettings(window=0)


def test_the_name_of_a_context_policy_is_none() -> None:
    with pytest.raises(UserError, match="agent 'react': context = 'full' is no context policy"):
        replace(agents.get_agent("react"), context="full")  # type: ignore[arg-type]
