"""What agents are made of and what may be set of them, held against tables: a default decides a run's results.

Where a change is meant, ``make declared`` writes the tables anew."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from declared import declared, defaults_of, plainly, settings_of
from wardround.agents import AGENTS, AgentSpec, Budget, LoopSettings
from wardround.agents.catalogue import ADDITIONS, Method, NoSettings, get_agent, list_agents
from wardround.agents.recall import Memory
from wardround.agents.stays.player import Parts

SECTIONS = {"budget": Budget, **{f"agent.{one.section_name}": one.settings for one in AGENTS.registered}}
AGENT_TABLE = Path(__file__).with_name("declared_agents.tsv")
LISTED = ("agent", "section", "memory", "tables", "paper", "evidence", "walker")


@pytest.mark.parametrize("name", [name for name, kind in SECTIONS.items() if kind is not NoSettings])
def test_a_section_has_the_settings_of_the_table(name: str) -> None:
    assert settings_of(SECTIONS[name]) == declared().get(name), "run `make declared` and read the difference"


def test_the_loop_helps_and_a_method_has_all_its_parts_unless_it_says_so() -> None:
    assert defaults_of(LoopSettings) == {
        "forced_finish": True,
        "reminders": 1,
        "repeat_guard": None,
        "written_calls": True,
        "bound_labels": True,
    }
    assert defaults_of(Parts) == {"protocol": True, "state": True, "auditor": True}


def rows() -> list[dict[str, str]]:
    with AGENT_TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def hook_of(made: Any) -> str:
    """A hook's kind and what it was made with."""
    if isinstance(made, partial):
        return f"{cast(Any, made.func).__name__}({plainly(made.keywords)})"
    hook = made()
    return f"{type(hook).__name__}({plainly(vars(hook))})"


def described(agent: AgentSpec) -> dict[str, str]:
    """An agent as a row of the table."""
    steps = agent.steps
    return {
        "system": agent.system,
        "tools": agent.tools,
        "more_tools": " ".join(agent.more_tools),
        "needs": agent.needs,
        "loop": " ".join(f"{value}" for value in agent.manifest()["loop"].values()),
        "prompts": " ".join(agent.prompts),
        "context": plainly(agent.context),
        "choose": plainly(agent.choose),
        "hooks": "; ".join(map(hook_of, agent.hooks)),
        "steps": plainly([steps.func, *steps.args, *steps.keywords.values()]) if isinstance(steps, partial) else "",
    }


def made(name: str) -> AgentSpec:
    """An agent of ours with a bank that nobody asks."""
    return get_agent(name, memory=Memory(bank=cast(Any, None), encoder=cast(Any, None)))


def names_to_list() -> list[str]:
    """Every method, and every addition at an agent that takes it."""
    added = [f"{'long-context' if name == 'protocol' else 'react'}+{name}" for name in ADDITIONS.names]
    return [*(one.name for one in list_agents()), *added]


@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row["agent"]))
def test_an_agent_is_made_of_what_the_table_says(row: dict[str, str]) -> None:
    found = described(made(row["agent"]))
    assert found == {name: row[name] for name in found}


def listed(one: Method) -> tuple[str, ...]:
    return (
        one.name,
        one.section_name,
        " ".join(one.memory),
        " ".join(map(str, one.tables)),
        one.paper or "",
        "evidence" if one.evidence else "",
        one.walker or "",
    )


METHODS_PAGE = Path(__file__).parents[2] / "docs/methods/README.md"
_ALL_AGENTS = "| agent | what it is | paper | tables | reads of a bank |\n|---|---|---|---|---|\n"


def methods_page(number: int | None = None) -> str:
    """The page of methods with its table of all agents (the first ``number``) as ``make declared`` writes it, at its
    end."""
    rows = (
        (f"`{one.name}`", one.title, one.paper or "", ", ".join(map(str, one.tables)), ", ".join(one.memory))
        for one in list_agents()[:number]
    )
    head = METHODS_PAGE.read_text(encoding="utf-8").partition(_ALL_AGENTS)[0]
    return head + _ALL_AGENTS + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_page_of_methods_lists_every_agent_as_it_describes_itself() -> None:
    ours = sum("+" not in row["agent"] for row in rows())
    assert METHODS_PAGE.read_text(encoding="utf-8") == methods_page(ours), "make declared writes it again"


def test_methods_stand_in_the_tables_of_their_papers() -> None:
    expected = [tuple(row[name] for name in LISTED) for row in rows() if "+" not in row["agent"]]
    assert [listed(one) for one in list_agents()][: len(expected)] == expected  # plug-ins come behind


def test_additions_are_for_agents_that_read_with_tools_unless_they_say_so() -> None:
    expected = {
        "rag": (None, False),
        "ether": (None, False),
        "tool": (None, False),
        "gsem": ("model", False),
        "gsem-walk": ("beam", False),
        "probabilities": (None, True),
        "protocol": (None, False),
    }
    found = {name: ADDITIONS.get(name) for name in expected}
    assert {name: (one.walker, one.for_every_method) for name, one in found.items()} == expected
