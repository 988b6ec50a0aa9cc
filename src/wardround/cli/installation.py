"""``wardround doctor`` and ``--completion``: what is installed here, and a script for the shell."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from wardround.audits import check_installation
from wardround.cli.main import COMMANDS, command_of
from wardround.cli.parser import Command, Parser
from wardround.cli.terminal import print_rows

# ``wardround doctor``: what is installed, what is missing, how to get it.


DOCTOR_EXAMPLES = """
  wardround doctor
  wardround doctor --json
"""


def configure_doctor(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run_doctor(arguments: argparse.Namespace) -> int:
    """Check and print; status 1 if a needed part is broken."""
    findings = check_installation()
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        sizes = [("" if f.megabytes is None else f"{f.megabytes:,}") for f in findings]
        rows = [(f.what, f.state, size, f.detail) for f, size in zip(findings, sizes, strict=True)]
        print_rows(("what", "state", "MB", "detail"), rows)
    return 1 if any(finding.state == "broken" for finding in findings) else 0


# ``wardround --completion``: a script that completes commands, options and their choices in a shell.


COMPLETION_EXAMPLES = """
  wardround --completion bash > ~/.local/share/bash-completion/completions/wardround
  wardround --completion zsh > ~/.zfunc/_wardround
  wardround --completion --plugin my_plugin.py bash
      the names that a plug-in registers too
"""
SHELLS = ("bash", "zsh", "tcsh")


def configure_completion(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    print(shtab.complete(whole_parser(), arguments.shell))
    return 0


def whole_parser() -> Parser:
    """Return one parser of every command with all its options."""
    parser = Parser(prog="wardround")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name in COMMANDS:
        command, summary = command_of(name)
        command.configure(commands.add_parser(name, help=summary))
    return parser


DOCTOR = Command(DOCTOR_EXAMPLES, configure_doctor, run_doctor)
COMPLETION = Command(COMPLETION_EXAMPLES, configure_completion, run_completion)
