"""``wardround reproduce``: a table or figure of a paper, played as runs and shown beside the paper's own figures."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from wardround.agents import kinds_read
from wardround.cli.output import print_rows
from wardround.cli.report import write_pdfs_too
from wardround.cli.run_options import add_run_options, asked_settings, open_run, play
from wardround.core import UserError
from wardround.reports.charts import write_svg
from wardround.reports.exhibits import (
    EXHIBITS,
    Exhibit,
    MergedRow,
    Point,
    best_rows,
    drawn,
    merged_rows,
    published_figures,
    published_models,
)
from wardround.reports.exhibits.merging import IN_PER_CENT, Played
from wardround.reports.report import no_pages, report_run
from wardround.runs import RunFolder, RunSettings, read_results
from wardround.runs.banks import has_bank
from wardround.runs.names import merged

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
    parser.add_argument("--list", action="store_true", help="list every table and figure, and whether it can be played")
    parser.add_argument("--paper", choices=PAPERS, help="with --list: of this paper only")
    parser.add_argument("--published-model", metavar="MODEL", help="the paper's model whose figures stand beside ours")


def run(arguments: argparse.Namespace) -> int:
    """List, or play every run of the sweep, merge, print."""
    if arguments.list:
        return _list(arguments.paper, as_json=arguments.json)
    exhibit = _asked(arguments)
    model = _published_model(exhibit, arguments.published_model)
    asked = asked_settings(arguments)
    played = [_play(exhibit, point, asked, arguments) for point in exhibit.points_of(_models(exhibit, asked))]
    rows = _rows(exhibit, played, published_figures(exhibit.name, model))
    picture = drawn(exhibit, rows, played)
    if picture is not None:
        write_pdfs_too([write_svg(picture, arguments.out / f"{exhibit.name}.svg")])
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
    else:
        _print(exhibit, rows, model)
        if picture is not None:
            print(f"picture: {(arguments.out / f'{exhibit.name}.svg').resolve()}")
    return 0


def _asked(arguments: argparse.Namespace) -> Exhibit:
    """Return the exhibit to play; UserError where none is named, or it is not played, or there is no folder for it."""
    if arguments.exhibit is None:
        raise UserError("name a table or figure: wardround reproduce TABLE; wardround reproduce --list names them")
    exhibit = EXHIBITS.get(arguments.exhibit)
    if not exhibit.is_played:
        raise UserError(f"{exhibit.name} is not played: {exhibit.how}")
    if arguments.resume or arguments.out is None:
        raise UserError("reproduce needs --out FOLDER; given the same folder again, it goes on with the runs there")
    return exhibit


def _published_model(exhibit: Exhibit, asked: str | None) -> str:
    models = published_models(exhibit.name)
    if asked is not None and asked not in models:
        raise UserError(f"{exhibit.name} prints no figures of {asked!r}; of {', '.join(models) or 'no model'}")
    return asked or exhibit.reference


def _models(exhibit: Exhibit, asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the models that will play, as they are asked for."""
    return RunSettings.read(merged(exhibit.body(), asked)).run.models


def _play(exhibit: Exhibit, point: Point, asked: Mapping[str, Any], arguments: argparse.Namespace) -> Played:
    """Play, or go on with, the run at one point, and score it."""
    place = arguments.out / ("run" if point is None else f"run-{_as_folder(str(point))}")
    agents = _agents(exhibit, asked.get("memory", {}))
    body = merged(merged(merged(exhibit.body(), {"run": {"agents": agents}}), asked), exhibit.varied(point))
    begun = place if (place / "manifest.json").is_file() else None
    arguments = argparse.Namespace(**{**vars(arguments), "out": place, "resume": begun})
    folder: RunFolder = open_run(arguments, body)
    counts = play(folder, arguments)
    if counts.done != counts.total:
        raise UserError(f"{counts.total - counts.done:,} episodes of {place} are not done; give the command again")
    summary, _ = report_run(folder, pages=no_pages)
    return point, read_results(folder), summary


def _as_folder(point: str) -> str:
    """A point's name as that of a folder: a model's has slashes in it."""
    return re.sub(r"[^\w.+-]", "-", point)


def _agents(exhibit: Exhibit, memory: Mapping[str, Any]) -> list[str]:
    """Return who plays: without a bank only those that need none, and say which are left out."""
    left_out = [name for name in exhibit.agents if kinds_read(name) and not has_bank(memory, name)]
    if left_out:
        names = ", ".join(left_out)
        print(f"left out for want of --bank or memory.banks (memory build, evolve): {names}", file=sys.stderr)
    return [name for name in exhibit.agents if name not in left_out]


def _rows(exhibit: Exhibit, played: Sequence[Played], published: Mapping[tuple[str, str, str], str]) -> list[MergedRow]:
    if exhibit.kind == "best":
        return [row for _, _, summary in played for row in best_rows(summary)]
    return merged_rows(exhibit, played, published)


def _print(exhibit: Exhibit, rows: Sequence[MergedRow], model: str) -> None:
    varied = "K" if exhibit.kind == "best" else exhibit.varies or ", ".join(exhibit.sweep) or "point"
    header = (varied, "agent", "model", "task", "metric", "samples", "here", "95 % interval", "paper")
    print(f"\n{exhibit.name}: {exhibit.title}\n")
    print_rows(header, [_cells(row) for row in rows])
    if model:
        print(f"\npaper: as it prints them of {model}, on its own data; here: of your model, on your benchmark")
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
        {"name": one.name, "shows": one.title, "played": "yes" if one.is_played else "no", "how, or why not": one.how}
        for one in exhibits
        if paper in (None, one.paper)
    ]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        print_rows(tuple(rows[0]), [tuple(row.values()) for row in rows])
    return 0
