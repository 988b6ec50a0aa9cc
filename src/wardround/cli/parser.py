"""The argument parser of every command and action: examples in its help, wrong use as one clear line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from wardround.core import UserError


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose errors are a UserError; parsers of actions are of the same class."""

    def __init__(self, *, examples: str = "", **options: Any) -> None:
        if examples:
            options["epilog"] = "examples:\n" + examples.strip("\n")
        super().__init__(formatter_class=_Formatter, **options)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is; nothing else."""
        raise UserError(f"{message} ({self.prog} --help)")


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the examples' line breaks and shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False or action.default in ((), []):
            return action.help
        if isinstance(action.default, list):
            return f"{action.help} (default: {' '.join(map(str, action.default))})"
        return super()._get_help_string(action)
