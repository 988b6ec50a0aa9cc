"""The baseline card in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.cli.table import print_rows
from wardround.runs.honesty import CONTENDERS, CardRow, auc_text


def print_card(rows: Sequence[CardRow]) -> None:
    """Print what no reading at all scores, a row per task; the best of each is marked."""
    print("\nbaseline card: scores of trivial baselines on these samples (* the best of a task)")
    print_rows(("task", "n", "in", *CONTENDERS), [(row.task, str(row.n), row.metric, *_cells(row)) for row in rows])
    for reason, names in _reasons(rows).items():
        print(f"–: {reason} ({', '.join(names)})")
    told = [row for row in rows if row.by_moment]
    if told:
        print("\nwithout reading (AUC over the whole benchmark; fitted on training people, answered for others)")
        print_rows(("task", "moment alone", "most by", "existence alone: the best five"), [_told(row) for row in told])


def print_warnings(rows: Sequence[CardRow]) -> None:
    """Print beside the scores which tasks are answered by when they are asked, or by which rows exist."""
    for row in rows:
        if row.warning is not None:
            print(f"! {row.warning}")


def _told(row: CardRow) -> tuple[str, ...]:
    existence = "; ".join(f"{one['what']} {auc_text(one)}" for one in row.by_existence)
    return row.task, auc_text(row.by_moment), str(row.by_moment["most_by"]), existence


def _cells(row: CardRow) -> list[str]:
    marked = {name: "*" if name == row.best else "" for name in CONTENDERS}
    return ["–" if (mean := row.means[name]) is None else f"{mean:.3f}{marked[name]}" for name in CONTENDERS]


def _reasons(rows: Sequence[CardRow]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.unavailable.items():
            found.setdefault(reason, []).append(f"{name} of {row.task}")
    return found
