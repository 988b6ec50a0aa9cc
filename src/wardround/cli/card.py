"""The honesty card in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.cli.table import print_rows
from wardround.runs.honesty import CONTENDERS, CardRow


def print_card(rows: Sequence[CardRow]) -> None:
    """Print what no reading at all scores, a row per task; the best of each is marked."""
    print("\nhonesty card: what answers without reading score on these samples (* the best of a task)")
    print_rows(("task", "n", "in", *CONTENDERS), [(row.task, str(row.n), row.metric, *_cells(row)) for row in rows])
    for reason, names in _reasons(rows).items():
        print(f"–: {reason} ({', '.join(names)})")


def _cells(row: CardRow) -> list[str]:
    marked = {name: "*" if name == row.best else "" for name in CONTENDERS}
    return ["–" if (mean := row.means[name]) is None else f"{mean:.3f}{marked[name]}" for name in CONTENDERS]


def _reasons(rows: Sequence[CardRow]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.unavailable.items():
            found.setdefault(reason, []).append(f"{name} of {row.task}")
    return found
