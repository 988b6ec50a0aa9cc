"""Write the tables that tests hold settings and agents against, and the page of commands, as the code has them now.

    python scripts/write_declared.py        (make declared)

They are tests/declared_settings.tsv, tests/agents/declared_agents.tsv, the table of agents in docs/methods/README.md
and src/wardround/cli/commands.md, which `--help` prints. Then read the difference: every line of it is a default, a
bound, a part or an option that is another.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "agents"), str(TESTS / "cli")]

import test_declared_agents as agents  # noqa: E402
from test_help import COMMANDS_PAGE, commands_page  # noqa: E402

from declared import SAID, TABLE, settings_of  # noqa: E402
from wardround.agents import NoSettings, get_method  # noqa: E402
from wardround.agents.catalogue import list_agents  # noqa: E402
from wardround.learning.induction import InductionSettings  # noqa: E402
from wardround.learning.recipe import TrainingRecipe  # noqa: E402
from wardround.runs.settings import SECTIONS  # noqa: E402


def write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n", quotechar=None).writerows(rows)


def agent_row(name: str) -> Sequence[str]:
    """An agent as the table has it; an addition stands in no paper's table by itself."""
    head = (name, *[""] * (len(agents.LISTED) - 1)) if "+" in name else agents.listed(get_method(name))
    return (*head, *agents.described(agents.made(name)).values())


def main() -> None:
    """Write them."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    ).parse_args()
    methods = {f"agent.{one.section_name}": one.settings for one in list_agents() if one.settings is not NoSettings}
    sections = {**SECTIONS, **methods, "induction": InductionSettings, "train": TrainingRecipe}
    rows = [(name, *row) for name, section in sections.items() for row in settings_of(section)]
    write(TABLE, [("section", "name", "default", *SAID), *rows])
    head = (*agents.LISTED, *agents.described(agents.made("react")))
    write(agents.AGENT_TABLE, [head, *map(agent_row, agents.names_to_list())])
    agents.METHODS_PAGE.write_text(agents.methods_page(), encoding="utf-8")
    COMMANDS_PAGE.write_text(commands_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
