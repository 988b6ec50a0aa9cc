"""``wardround reproduce``: a table or figure of a paper, computed from runs, beside the paper's figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from wardround.cli.parser import Command
from wardround.cli.run import add_run_options, asked_settings, check_workers, play
from wardround.cli.terminal import print_json, print_rows
from wardround.core import UserError
from wardround.reports.exhibits import (
    EXHIBITS,
    IN_PER_CENT,
    Exhibit,
    MergedRow,
    agents_without_bank,
    reproduce_exhibit,
)
from wardround.runs import RunFolder
from wardround.runs.notes import notes_on

EXAMPLES = """
  wardround reproduce --list
  wardround reproduce --list --paper ehr-rag
  wardround reproduce retrosum-table-2 --benchmark bench --store store --bank bank.sqlite \\
      --model openai/qwen3-30b --base-url http://127.0.0.1:8000/v1 --out table-2
  wardround reproduce clinseek-table-2 --benchmark bench-clinseek --store store --model openai/qwen3-30b --out table-2
  wardround reproduce retrosum-figure-7 --benchmark bench --store store --limit 20 --out figure-7
      the same command again goes on where it stopped
  wardround reproduce ehr-rag-table-1 --benchmark bench-ehrshot --store store --limit 20 --out table-1 \\
      --set retrieval.encoder=lexical
      without weights and without a network; so is the bank: wardround memory evolve --preset retrosum --rules ...
"""


PAPERS = ("retrosum", "ehr-rag", "clinseek", "gsem", "trace-paper")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "exhibit", nargs="?", metavar="TABLE", help="the table or figure (wardround reproduce --list names them)"
    )
    add_run_options(parser)
    parser.add_argument("--list", action="store_true", help="list every table and figure, and whether it can be run")
    parser.add_argument("--paper", choices=PAPERS, help="with --list: of this paper only")
    parser.add_argument("--published-model", metavar="MODEL", help="the paper's model whose figures are printed too")


def run(arguments: argparse.Namespace) -> int:
    """List, or run the sweep, merge its tables, print."""
    if arguments.list:
        return _list(arguments.paper, as_json=arguments.json)
    if arguments.exhibit is None:
        raise UserError("name a table or figure: wardround reproduce TABLE; wardround reproduce --list names them")
    exhibit, asked = EXHIBITS.get(arguments.exhibit), asked_settings(arguments)
    if arguments.resume or arguments.out is None:
        raise UserError("reproduce needs --out FOLDER; with the same folder it continues the runs there")
    check_workers(arguments)
    without = agents_without_bank(exhibit, asked) if exhibit.is_played else ()
    if without:
        names = ", ".join(without)
        print(f"left out, because they need --bank or memory.banks (memory build, evolve): {names}", file=sys.stderr)

    def noted_play(folder: RunFolder) -> bool:
        for line in notes_on(folder):
            print(f"wardround: note: {line}", file=sys.stderr)
        counts = play(folder, arguments)
        return counts.done == counts.total

    found = reproduce_exhibit(
        exhibit.name,
        asked,
        arguments.out,
        play=noted_play,
        published_model=arguments.published_model,
    )
    if arguments.json:
        print_json(found.rows)
    else:
        _print(found.exhibit, found.rows, found.published_model)
        if found.picture is not None:
            print(f"picture: {found.picture.resolve()}")
        print(f"\n{found.methods.read_text(encoding='utf-8')}")
        print(f"methods: {found.methods.resolve()}")
    return 0


def _print(exhibit: Exhibit, rows: Sequence[MergedRow], model: str) -> None:
    varied = "K" if exhibit.kind == "best" else exhibit.varies or ", ".join(exhibit.sweep) or "point"
    header = (varied, "agent", "model", "task", "metric", "samples", "here", "95 % interval", "paper")
    print(f"\n{exhibit.name}: {exhibit.title}\n")
    print_rows(header, [_cells(row) for row in rows])
    if model:
        print(f"\npaper: printed for {model}, on the paper's data; here: your model, on your benchmark")
    if exhibit.missing:
        print(f"note: {exhibit.missing}")


def _cells(row: MergedRow) -> tuple[str, ...]:
    point = "–" if row.point is None else str(row.point)
    value = (
        f"{row.value:.2f}"
        if row.metric in ("accuracy", "mean of tasks", "macro_f1", IN_PER_CENT) or " of " in row.metric
        else f"{row.value:.4f}"
    )
    names = (row.agent, row.model, row.task, row.metric)
    return (point, *names, str(row.n), value, row.interval, row.published or "–")


def _list(paper: str | None, *, as_json: bool) -> int:
    exhibits = [EXHIBITS.get(name) for name in EXHIBITS.names]
    rows = [
        {
            "name": exhibit.name,
            "shows": exhibit.title,
            "played": "yes" if exhibit.is_played else "no",
            "how, or why not": exhibit.how,
        }
        for exhibit in exhibits
        if paper in (None, exhibit.paper)
    ]
    if as_json:
        print_json(rows)
    else:
        print_rows(tuple(rows[0]), [tuple(row.values()) for row in rows])
    return 0


REPRODUCE = Command(EXAMPLES, configure, run)
