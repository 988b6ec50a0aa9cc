"""Commands that documents quote are commands there are."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from wardround.cli.main import COMMANDS, command_of
from wardround.cli.parser import Parser

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = REPOSITORY / "docs"
PAGES = sorted(
    [
        *DOCUMENTS.rglob("*.md"),
        REPOSITORY / "README.md",
        REPOSITORY / "CONTRIBUTING.md",
        *REPOSITORY.glob("src/wardround/records/sources/*/clocks.md"),
    ]
)
_FENCED = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SHELL = ("", "sh", "bash", "console")
_INLINE = re.compile(r"(?<!`)`(wardround\s[^`]+)`(?!`)")
_OF_EVERY_COMMAND = re.compile(r" --plugin \S+| --share-group\b")
_TASK_OF_A_PLUGIN = re.compile(r"(?<= --plugin )(\S+ .*?) --task \S+")  # its name exists when the file is loaded
_BETWEEN_COMMANDS = re.compile(r" && | \| ")


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def quoted(page: Path) -> Iterator[str]:
    """The commands of a page's shell blocks: continued lines as one, each command of a line apart, no comments."""
    fenced = _FENCED.findall(page.read_text(encoding="utf-8"))
    for block in (text for _, language, text in fenced if language.strip() in _SHELL):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            plain = _TASK_OF_A_PLUGIN.sub(r"\1", line)
            commands = (command.strip().removeprefix("$ ") for command in _BETWEEN_COMMANDS.split(plain))
            yield from (_OF_EVERY_COMMAND.sub("", command) for command in commands if command.startswith("wardround "))


def mentioned(page: Path) -> Iterator[str]:
    """The commands that a page's sentences and tables name in part."""
    prose = _FENCED.sub("", page.read_text(encoding="utf-8"))
    yield from (" ".join(found.split()) for found in _INLINE.findall(prose))


QUOTED = [(name_of(page), line) for page in PAGES for line in quoted(page) if "--help" not in line]
MENTIONED = sorted({(name_of(page), line) for page in PAGES for line in mentioned(page)})


@cache
def parser_of(command: str) -> Parser:
    parser = Parser(prog=command)
    command_of(command)[0].configure(parser)
    return parser


def test_there_are_some() -> None:
    assert any("--limit 3 --set agent.lookback.hours=48" in line for _, line in QUOTED), "an option after another"
    pages = {page for page, _ in QUOTED}
    assert {"README.md", "docs/tour.md", "docs/clusters.md", "docs/methods/gsem.md", "docs/settings.md"} <= pages
    assert len(MENTIONED) > 120


@pytest.mark.parametrize(("page", "line"), QUOTED)
def test_a_quoted_command_has_only_options_there_are(page: str, line: str) -> None:
    _, command, *words = shlex.split(line.partition(" > ")[0], comments=True)
    parser_of(command).parse_args(words)


@pytest.mark.parametrize("page", sorted({page for page, _ in MENTIONED}))
def test_a_command_in_a_sentence_is_one_with_options_there_are(page: str) -> None:
    assert [wrong for where, line in MENTIONED if where == page for wrong in unknown_words(line)] == []


def unknown_words(line: str) -> Iterator[str]:
    """What of a command named in part is neither a command, an action of it nor one of its options."""
    _, command, *words = line.split()
    if not command[0].islower():  # COMMAND, FOLDER: any
        return
    if command not in COMMANDS:
        yield f"{line}: no command {command!r}"
        return
    parser = parser_of(command)
    for word in words:
        actions = next((one for one in parser._actions if isinstance(one, argparse._SubParsersAction)), None)
        name = word.partition("=")[0].strip("[]")
        if name.startswith("--") and name not in {*parser._option_string_actions, "--help", "--plugin"}:
            yield f"{line}: no option {name}"
        elif actions is not None and re.fullmatch(r"[a-z-]+", word):
            if word not in actions.choices:
                yield f"{line}: no action {word!r}"
                return
            parser = actions.choices[word]


def test_what_a_sentence_may_not_say() -> None:
    assert list(unknown_words("wardround bench build agentehr --out bench --per-tusk 5")) == [
        "wardround bench build agentehr --out bench --per-tusk 5: no option --per-tusk"
    ]
    assert list(unknown_words("wardround bench bild agentehr")) == ["wardround bench bild agentehr: no action 'bild'"]
    assert list(unknown_words("wardround bunch"))
    assert not list(unknown_words("wardround bench build ehrshot --store S [--per-task N] ..."))


@cache
def makefile() -> dict[str, str]:
    """The recipes of the Makefile by target."""
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t[^\n]*\n)*)", text, re.MULTILINE))


def reached(*targets: str) -> str:
    """The recipes of some targets and of those that they make."""
    recipes = "".join(makefile().get(target, "") for target in targets)
    more = [name for name in re.findall(r"\$\(MAKE\) ([a-z-]+)", recipes) if name not in targets]
    return recipes + (reached(*more) if more else "")


BY_HAND = {
    "api": "a test compares what it writes",
    "declared": "a test compares what it writes",
    "demo": "the tour's commands, and tests/core/test_scripts.py its last step",
    "check": "lint, types, test: stages of CI",
    "test-busy": "the suite beside four busy loops, before a release",
    "doors": "needs Python 3.12 and four foreign packages",
    "long": "before a release",
    "release": "when a version is released",
}
"""Targets that pages name and neither CI nor ``make long`` runs by this name, and why."""
MEASURES = ("benchmarks/all.py", "_speed.py", "_quality.py", "scale.py", "evidence_retrieval.py", "prompt_tokens.py")
"""Scripts whose figures stand in docs/performance.md; a machine beside nothing else takes them, by hand."""


def test_a_target_that_a_page_names_is_there_and_is_run() -> None:
    named = {name for page in PAGES for name in re.findall(r"[`\n]make ([a-z-]+)", page.read_text(encoding="utf-8"))}
    assert len(named) > 15
    assert named <= makefile().keys()
    stages = set(re.findall(r"^stage ([a-z-]+)$", (REPOSITORY / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE))
    in_long = set(re.findall(r"\$\(MAKE\) ([a-z-]+)", reached("long")))
    assert named - stages - in_long == BY_HAND.keys()


def test_a_script_that_a_page_runs_is_there_and_long_ones_stand_in_make_long() -> None:
    script = re.compile(r"python3? ((?:benchmarks|scripts|examples)/\w+\.py)")
    named = {name for page in PAGES for name in script.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 5
    assert [name for name in sorted(named) if not (REPOSITORY / name).is_file()] == []
    recipes = "".join(makefile().values())
    unrun = [name for name in sorted(named) if name not in recipes and not name.endswith(MEASURES)]
    assert not unrun, f"call it in a recipe of the Makefile, or name it among MEASURES: {unrun}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    linked = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert not [target for target in linked if not (page.parent / target).exists()]


def test_what_the_makefile_and_the_scripts_run_is_there() -> None:
    recipes = "".join(makefile().values())
    named = set(re.findall(r"(?:tests|benchmarks|scripts)/[\w/.]+", recipes))
    for script in [*REPOSITORY.glob("benchmarks/*.py"), *REPOSITORY.glob("scripts/*.py")]:
        text = script.read_text(encoding="utf-8")
        named |= {f"tests/{folder}" for folder in re.findall(r'REPOSITORY / "tests" / "(\w+)"', text)}
    assert {"tests/learning", "tests/memory"} <= named
    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []
