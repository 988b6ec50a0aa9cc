"""Every subcommand explains itself, and lists say what exists."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from forking import commands
from wardround import __version__
from wardround.cli import main
from wardround.cli.main import COMMANDS, loaded_command

REPOSITORY = Path(__file__).parents[2]
COMMANDS_PAGE = REPOSITORY / "src/wardround/cli/commands.md"
COMMANDS_HEAD = """# Commands

What `wardround COMMAND --help` prints, for every command and action. `make declared` writes this page from the parsers.
"""
ACTIONS = {
    "bench": ["build", "show"],
    "export": ["bundles"],
    "memory": ["evolve"],
    "serve": ["play"],
    "train": ["predictors"],
    "audit": ["leaks", "plausibility"],
    "codes": ["add", "show"],
    "models": ["serve"],
    "protocol": ["lint", "show", "test", "diff", "merge"],
}


def commands_page() -> str:
    """Every command's help from its parser, and every action's, as `make declared` writes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        parsers = [one for name in (*COMMANDS, "--completion") for one in _with_actions(loaded_command(name)[1])]
        texts = [f"\n## {one.prog}\n\n```text\n{one.format_help()}```\n" for one in parsers]
    return COMMANDS_HEAD + "".join(texts)


def _with_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in dict.fromkeys(action.choices.values()):  # an action of two names is one
                yield from _with_actions(inner)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="later versions of Python lay help out in another way")
def test_the_written_help_is_that_of_the_parsers(tmp_path: Path) -> None:
    """In a process of its own: what other tests register would stand among the choices."""
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    program += "from test_help import commands_page; sys.stdout.write(commands_page())"
    process = commands().start_program(program, [], out=str(tmp_path / "page"))
    assert commands().status(process) == 0
    assert (tmp_path / "page").read_text(encoding="utf-8") == COMMANDS_PAGE.read_text(encoding="utf-8"), (
        "make declared writes it again"
    )


def test_a_narrow_terminal_gets_lines_that_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    widths = {}
    for columns in (60, 80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit):
            main(["ingest", "--help"])
        widths[columns] = max(map(len, capsys.readouterr().out.partition("examples:")[0].splitlines()))
    assert widths[60] < 70 < widths[80] <= 80
    assert widths[200] == widths[80]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_parses(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert "default: None" not in text
    examples = re.findall(rf"^  wardround {name}([^\n\\]*(?:\\\n[^\n\\]*)*)", text, re.MULTILINE)
    assert examples
    options = set(re.findall(r"--[a-z][a-z-]+", text))
    for action in ACTIONS.get(name, []):
        with pytest.raises(SystemExit):
            main([name, action, "--help"])
        text = capsys.readouterr().out
        assert f"examples:\n  wardround {name}" in text
        assert "default: None" not in text
        options |= set(re.findall(r"--[a-z][a-z-]+", text))
    for example in examples:
        words = shlex.split(example.replace("\\\n", " ").split(" > ")[0])
        assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("name", COMMANDS)
def test_every_action_says_what_it_is_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    if not text.partition("\n\n")[0].endswith(" ..."):
        return  # it has no actions
    assert main([name, "no-such-action"]) == 2
    actions = re.findall(r"'([a-z-]+)'", capsys.readouterr().err.partition("choose from")[2])
    assert actions
    said = re.findall(r"^    ([a-z-]+)(?: \(([a-z-]+)\))?(?: +|\n {8,})\S", text, re.MULTILINE)
    assert set(actions) == {name for names in said for name in names if name}
    for action in actions:
        with pytest.raises(SystemExit):
            main([name, action, "--help"])
        assert _without_words(capsys.readouterr().out) == [], f"{name} {action}"


def _without_words(text: str) -> list[str]:
    """The arguments of which a help says nothing."""
    listed = text.partition("\n\n")[2].partition("examples:")[0]
    entries = re.findall(r"^  ((?:-|[A-Za-z_]+(?:  |\n)).*\n?(?: {3,}.*\n)*)", listed, re.MULTILINE)
    assert entries
    return [entry for entry in entries if not re.search(r"(?: {2,}|\n {3,})\w", entry)]


def test_the_overview_fits_a_screen_and_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 110
    assert {name for name in COMMANDS if any(re.search(rf"  {name}  ", line) for line in lines)} == set(COMMANDS)


@pytest.mark.parametrize("words", [["serve"], ["serve", "play"]])
def test_help_needs_no_extra(words: list[str], tmp_path: Path) -> None:
    hidden = (
        "import sys; assert not {'mcp', 'wardround.serve'} & {*sys.modules}; sys.modules['mcp'] = None\n"
        "from wardround.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    process = commands().start_program(hidden, [*words, "--help"], out=str(tmp_path / "said"))
    assert commands().status(process) == 0
    assert "examples:" in (tmp_path / "said").read_text()


def test_a_default_of_nought_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "seed of everything random (default: 0)" in " ".join(capsys.readouterr().out.split())


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"wardround {__version__}"


@pytest.mark.parametrize("what", ["sources", "tables", "tools", "agents", "benchmarks", "tasks", "models"])
def test_lists_print_as_text_and_as_json(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    text = capsys.readouterr().out
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    for row in rows:
        assert next(iter(row.values())) in text


def test_doctor_names_what_is_there_and_how_to_get_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert found["numpy"]["state"] == "ok"
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = {name.removeprefix("extra "): row for name, row in found.items() if name.startswith("extra ")}
    assert set(extras) == set(declared)
    assert all(row["detail"] for row in extras.values())
    assert extras["view"]["megabytes"] > 0
    missing = [row for row in found.values() if row["state"] == "missing"]
    assert all("pip install" in row["detail"] or "wardround codes add" in row["detail"] for row in missing)
