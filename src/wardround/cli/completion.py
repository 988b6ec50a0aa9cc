"""``wardround --completion``: a script that completes commands, options and their choices in a shell."""

from __future__ import annotations

import argparse
import importlib

from wardround.cli.main import COMMANDS
from wardround.cli.parser import Parser

EXAMPLES = """
  wardround --completion bash > ~/.local/share/bash-completion/completions/wardround
  wardround --completion zsh > ~/.zfunc/_wardround
  wardround --completion --plugin my_plugin.py bash
      the names that a plug-in registers too
"""
SHELLS = ("bash", "zsh", "tcsh")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    print(shtab.complete(whole_parser(), arguments.shell))
    return 0


def whole_parser() -> Parser:
    """Return one parser of every command with all its options."""
    parser = Parser(prog="wardround")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        importlib.import_module(module).configure(commands.add_parser(name, help=summary))
    return parser
