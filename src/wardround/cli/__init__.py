"""The command line: thin. Every subcommand is one module that turns arguments into a call of the rooms below."""

from wardround.cli.main import main

__all__ = ["main"]
