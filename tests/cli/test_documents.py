"""Commands that documents quote are commands there are."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from wardround.cli.commands import COMMANDS
from wardround.cli.parser import Parser

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = REPOSITORY / "docs"
PAGES = sorted(DOCUMENTS.rglob("*.md"))
_OF_EVERY_COMMAND = re.compile(r" --plugin \S+| --share-group\b")


def quoted(page: Path) -> Iterator[str]:
    """The commands of a page's shell blocks: continued lines as one, what follows ``&&`` apart, no comments."""
    fenced = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for block in (text for language, text in fenced if language in ("", "sh")):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            commands = (command.strip() for command in line.split(" && "))
            yield from (_OF_EVERY_COMMAND.sub("", command) for command in commands if command.startswith("wardround "))


QUOTED = [
    (page.relative_to(DOCUMENTS).as_posix(), line) for page in PAGES for line in quoted(page) if "--help" not in line
]


@cache
def parser_of(command: str) -> Parser:
    parser = Parser(prog=command)
    importlib.import_module(COMMANDS[command][0]).configure(parser)
    return parser


def test_there_are_some() -> None:
    assert any("--set budget.reply_tokens=1024 --set agent.retrosum.window=4" in line for _, line in QUOTED), (
        "the setting that went unsaid"
    )
    pages = {page for page, _ in QUOTED}
    assert {"tour.md", "outside-agents.md", "methods/gsem.md", "settings.md"} <= pages


@pytest.mark.parametrize(("page", "line"), QUOTED)
def test_a_quoted_command_has_only_options_there_are(page: str, line: str) -> None:
    _, command, *words = shlex.split(line.partition(" > ")[0], comments=True)
    parser_of(command).parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCUMENTS).as_posix())
def test_what_a_page_links_to_is_there(page: Path) -> None:
    linked = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert not [target for target in linked if not (page.parent / target).exists()]
