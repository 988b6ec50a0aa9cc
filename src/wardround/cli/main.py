"""The command line: find the command, import only its module, turn errors into one clear line."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from wardround import __version__

if TYPE_CHECKING:
    from wardround.cli.parser import Command, Parser

STORIES: dict[str, dict[str, tuple[str, str]]] = {
    "make data": {
        "synth": ("wardround.cli.synth", "write a synthetic hospital (CSV files as MIMIC-IV has them)"),
        "spec": ("wardround.cli.sources", "draft, check or show the spec of a source of your own"),
        "ingest": ("wardround.cli.sources", "read source files into a point-in-time store"),
        "images": ("wardround.cli.resources", "make tables of a release of images, to ingest with its records"),
        "export": ("wardround.cli.export", "write stores, charts, labels, answers or bundles for other tools"),
    },
    "ask and run": {
        "bench": ("wardround.cli.bench", "build, show, share or rebuild a benchmark"),
        "run": ("wardround.cli.run", "run agents on a benchmark, or continue a run"),
        "grid": ("wardround.cli.compare", "run every method as one run; tables with paired tests"),
        "reproduce": ("wardround.cli.reproduce", "run a paper's table or figure and print it beside the paper's"),
    },
    "look": {
        "report": ("wardround.cli.report", "score a run and write its HTML report"),
        "compare": ("wardround.cli.compare", "compare runs sample by sample, with paired tests"),
        "study": ("wardround.cli.compare", "several runs of one file: comparison, tables and figures"),
        "view": ("wardround.cli.view", "look at runs, episodes and records in a browser"),
        "list": ("wardround.cli.listing", "list sources, tables, tools, agents, tasks, settings and more"),
    },
    "learn": {
        "memory": ("wardround.cli.memory", "fill, check, read and correct banks of experiences"),
        "protocol": ("wardround.cli.protocol", "check, read, merge and compare files of clinical rules"),
        "train": ("wardround.cli.train", "training data of runs, fine-tuning, classical predictors"),
    },
    "follow live": {
        "stream": ("wardround.cli.stream", "follow live patients in a growing folder of JSON lines"),
        "serve": ("wardround.cli.serve", "serve a chart or episodes over MCP, answers as CDS Hooks cards"),
    },
    "check": {
        "audit": ("wardround.cli.audit", "look for leaks: anything on a chart that was not known yet"),
        "doctor": ("wardround.cli.installation", "show what is installed, what is missing and how to get it"),
    },
    "add": {
        "codes": ("wardround.cli.sources", "code tables that wardround may not ship"),
        "corpus": ("wardround.cli.resources", "corpora of medical text"),
        "models": ("wardround.cli.resources", "imaging weights; a small language model, served here"),
    },
}
"""The commands by story: module, where each is a ``Command`` under its name in capitals, and one line of help."""
COMMANDS = {name: said for commands in STORIES.values() for name, said in commands.items()}
_COMPLETION = "--completion"


# Finds the subcommand, imports only its module, runs it, and turns errors into one clear line and an exit status.
#
# Exit status: 0 done; 1 done, but something failed and was counted; 2 wrong use or bad input; 130 interrupted; 143 by
# SIGTERM; 141 the reader of the output went away.


_SHARE = "--share-group"
_PLUGIN = "--plugin"
_HELP = ("-h", "--help")
_WIDTH = 80
"""Columns of the written help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        return _print(_overview()) or (0 if words else 2)
    if words[0] in ("-V", "--version"):
        return _print(f"wardround {__version__}")
    if words[-1] in _HELP and (text := _written_help(words[:-1])):
        raise SystemExit(_print(text))  # as a parser does
    from wardround.cli.terminal import ended  # all else is imported where a command runs

    return ended(_dispatch, words, is_process=argv is None)


def _print(text: str) -> int:
    """Print; return the exit status, 141 where the reader of the output has gone away."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to write at the end
        return 141
    return 0


def _dispatch(words: list[str], *, is_process: bool) -> int:
    from wardround.core import UserError, keep_private, load_plugins

    name, *rest = words
    if name not in COMMANDS and name != _COMPLETION:
        raise UserError(f"no command {name!r}; the commands are {', '.join(COMMANDS)} (wardround --help)")
    rest, plugins = _without_plugins(rest)
    load_plugins(plugins)
    command, parser = loaded_command(name)
    if is_process:
        gc.freeze()  # loaded objects stay: collecting garbage at the end would take a third as long as the start
    parser.set_defaults(plugin=plugins)
    arguments = parser.parse_args([*(word for word in rest if word != _SHARE)])  # also after an action
    with keep_private(share_group=_SHARE in rest):
        return command.run(arguments)


def _written_help(words: Sequence[str]) -> str | None:
    """Return the help of a command or action as commands.md has it; None where it has none, or the terminal is narrow.

    A command's parser takes a second: its module, and every setting there is. `make declared` writes the file."""
    if get_terminal_size().columns < _WIDTH:
        return None
    page = Path(__file__).with_name("commands.md").read_text(encoding="utf-8")
    _, found, rest = page.partition(f"\n## wardround {' '.join(words)}\n\n```text\n")
    return rest.partition("\n```\n")[0] if found else None


def command_of(name: str) -> tuple[Command, str]:
    """Import a command; return it and its line of help."""
    from wardround.core.garbage import no_cycle_collection

    module, summary = COMMANDS.get(name, ("wardround.cli.installation", "print a completion script for your shell"))
    with no_cycle_collection():  # collecting again and again takes a sixth of the start
        return getattr(importlib.import_module(module), name.lstrip("-").upper()), summary


def loaded_command(name: str) -> tuple[Command, Parser]:
    """Return a command and its parser, with the options that every command has."""
    from wardround.cli.parser import Parser

    command, summary = command_of(name)
    description = summary[0].upper() + summary[1:] + "."
    parser = Parser(prog=f"wardround {name}", description=description, examples=command.examples)
    command.configure(parser)
    parser.add_argument(_SHARE, action="store_true", help="what is made is for your group too, not only for you")
    parser.add_argument(_PLUGIN, metavar="FILE", help="a Python file that registers what is named; may be repeated")
    return command, parser


def _without_plugins(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words without ``--plugin FILE``, and the files, also if given after an action.

    Plug-ins add choices to other options, so they are imported before options are declared.
    """
    rest, files = [], []
    waiting = iter(words)
    for word in waiting:
        name, equals, value = word.partition("=")
        if name != _PLUGIN:
            rest.append(word)
            continue
        file = value if equals else next(waiting, "")
        if not file:
            from wardround.core import UserError

            raise UserError("--plugin names a Python file, for example --plugin my_plugin.py")
        files.append(file)
    return rest, files


def _overview() -> str:
    story, width = max(map(len, STORIES)), max(map(len, COMMANDS))
    lines = [
        f"{title if not place else '':<{story}}  {name:<{width}}  {summary}"
        for title, commands in STORIES.items()
        for place, (name, (_, summary)) in enumerate(commands.items())
    ]
    return "\n".join(
        [
            f"wardround {__version__}: language-model clinicians over raw health records, who see only what was known.",
            "usage: wardround COMMAND [OPTIONS]    (COMMAND --help: options, examples; --completion SHELL; --version)",
            "",
            *lines,
            "first steps  wardround synth hospital && wardround ingest mimiciv hospital --store store",
            "             wardround bench build agentehr --store store --out bench",
            "             wardround run --benchmark bench --store store --out run && wardround report run",
        ]
    )
