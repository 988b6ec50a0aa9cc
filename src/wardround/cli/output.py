"""What every command prints with: plain tables and JSON. It imports no room below; scores are printed by ``scores``."""

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


# Figures as JSON: ``--json`` of every command that prints some. Notes and progress go to standard error.


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def print_json(figures: Any) -> None:
    """Print a report (a dataclass, tables or lists of them) as JSON."""
    print(json.dumps(plain(figures), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return JSON-ready tables, lists, texts and numbers; what is none of these becomes its text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.name[0] != "_"}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(plain, value), key=str)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
