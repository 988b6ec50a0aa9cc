"""Commands that documents quote beside their figures are commands there are."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from wardround.cli.commands import COMMANDS
from wardround.cli.parser import Parser

REPOSITORY = Path(__file__).resolve().parents[2]
QUOTED = [
    (page.name, line)
    for page in (*sorted((REPOSITORY / "docs" / "design").glob("*.md")), REPOSITORY / "docs" / "settings.md")
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("wardround ") and "--help" not in line
]


def test_there_are_some() -> None:
    assert any("--set budget.reply_tokens=1024 --set agent.retrosum.window=4" in line for _, line in QUOTED), (
        "the setting that went unsaid"
    )


@pytest.mark.parametrize(("page", "line"), QUOTED)
def test_a_quoted_command_has_only_options_there_are(page: str, line: str) -> None:
    _, command, *words = shlex.split(line)
    parser = Parser(prog=command)
    importlib.import_module(COMMANDS[command][0]).configure(parser)
    parser.parse_args(words)
