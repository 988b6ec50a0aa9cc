"""Printing of all commands: plain tables and JSON. Imports no package below ``core``; ``scores`` prints scores."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any

from wardround.core.table import Table, as_text

# Plain text tables for the terminal.


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; columns of numbers align right."""
    print(as_text(Table(header=header, rows=rows)))


# Figures as JSON, with ``--json``. Notes and progress go to standard error.


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def print_json(figures: Any) -> None:
    """Print a report (a dataclass, tables or lists of them) as JSON."""
    print(json.dumps(plain(figures), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return JSON-ready tables, lists, texts and numbers; other values become their text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name[0] != "_"}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(plain, value), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
