"""The command line. Every subcommand is one module that turns arguments into a call of the packages below it."""

from wardround.cli.main import main

__all__ = ["main"]
