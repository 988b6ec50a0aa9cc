"""``wardround report``: score a run, print its table, write its HTML report."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from wardround.cli.compare import print_no_difference
from wardround.cli.output import print_arms, print_card, print_judge, print_rows, print_subgroups, print_warnings
from wardround.core import UserError, changed_plugins, must_be_new
from wardround.predictors import MANIFEST
from wardround.reports import (
    GROUPINGS,
    Comparison,
    RunSummary,
)
from wardround.reports.charts import without_glyph, without_pdf, write_pdfs
from wardround.reports.figures import write_figures
from wardround.reports.paper_tables import paper_tables, write_tables
from wardround.reports.report import MOST_PAGES, Pages, few_pages, no_pages, report_predictors, report_run
from wardround.runs import RunFolder, gate_notes, score_run
from wardround.tasks.scoring import (
    EpisodeScore,
    render_classes,
    render_figures,
    render_stays,
    render_table,
)
from wardround.tasks.scoring.tables import ALL

EXAMPLES = """
  wardround report run
  wardround report run --json > figures.json
  wardround report run --no-episodes --by sex
  wardround report run --no-episodes
  wardround report run --no-episodes --tables paper
      paper/results.tex, differences.tex and the same as .csv and .md, with marks of significance
  wardround report run --no-episodes --figures paper
      paper/task-labevents.svg and .pdf and so on: the methods on each task, then the charts of the report
  wardround report run --share-safe report-to-share
      the page alone: figures, ids and settings, no record text
  wardround report run --episode diagnoses-12345678
  wardround report a-run-i-may-not-write --out report
  wardround report run-64k --beside run-32k run-16k run-8k
"""

_PAGE_BYTES = 30_000
_WIDEST_WHOLE, _WIDEST = 7, 4
"""Tasks beside each other: the six of one paper and their mean, or of more (EHRSHOT has fifteen) so many at a time."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run", type=Path, help="folder of a run, finished or not")
    parser.add_argument("--baseline", help="contender the others are compared with, e.g. 'react · offline'")
    parser.add_argument(
        "--beside",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="runs of the same benchmark that differ in a budget: adds charts of the score against it",
    )
    pages = parser.add_mutually_exclusive_group()
    pages.add_argument("--no-episodes", action="store_true", help="leave out the pages with every turn")
    pages.add_argument(
        "--all-episodes", action="store_true", help=f"write them all, also of a run of more than {MOST_PAGES}"
    )
    pages.add_argument(
        "--share-safe", type=Path, metavar="DIR", help="write the page into a new folder, without any record text"
    )
    pages.add_argument("--episode", nargs="+", metavar="SAMPLE", help="write those of these samples")
    parser.add_argument("--by", choices=tuple(GROUPINGS), help="show the results by subgroup too, as known at the time")
    parser.add_argument("--out", type=Path, help="folder for the HTML (default: report/ in the run)")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="write the tables as LaTeX, CSV and Markdown, too")
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="DIR",
        help="write the charts and one of the methods on each task: SVG, PDF",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Score, print, write."""
    if (arguments.run / MANIFEST).is_file() and not (arguments.run / "manifest.json").is_file():
        return _report_predictors(arguments.run, as_json=arguments.json)
    folder = RunFolder.open(arguments.run)
    if arguments.share_safe is not None:
        must_be_new(arguments.share_safe)
    others = [RunFolder.open(path) for path in arguments.beside]
    _note_other_plugins((folder, *others))
    summary, page = report_run(
        folder,
        others,
        baseline=arguments.baseline,
        pages=_which_pages(arguments),
        out=arguments.share_safe or arguments.out,
        by=arguments.by,
    )
    if arguments.tables is not None:
        write_tables(paper_tables(summary), arguments.tables)
    if arguments.figures is not None:
        write_pdfs_too(write_figures(summary, score_run(folder), arguments.figures))
    if arguments.json:
        print(json.dumps(asdict(summary), indent=2, ensure_ascii=False))
        return 0
    print_summary(folder, summary)
    if summary.by:
        print_subgroups(summary.subgroups, summary.by)
    print_place(page)
    return 0


def write_pdfs_too(charts: Sequence[Path]) -> None:
    """Write the PDF of each SVG chart beside it, or say what that needs. Without a chart it says none."""
    if not charts:
        print("wardround: note: no chart has anything in it: none was written", file=sys.stderr)
        return
    missing = without_pdf()
    if missing is not None:
        print(f"wardround: note: the charts are SVG alone: {missing}", file=sys.stderr)
        return
    write_pdfs(charts)
    boxes = without_glyph(charts)
    if boxes:
        print(f"wardround: note: the PDFs' font lacks {boxes}: boxes there, whole in the SVG files", file=sys.stderr)


def _note_other_plugins(folders: Sequence[RunFolder]) -> None:
    """Say so where a plug-in is not what it was when a run was played: its scorers may score otherwise now."""
    for path in dict.fromkeys(path for one in folders for path in changed_plugins(one.manifest.get("plugins", ()))):
        print(f"wardround: note: {path} is not as it was when the run was played; scored as it is now", file=sys.stderr)


def _which_pages(arguments: argparse.Namespace) -> Pages:
    if arguments.no_episodes or arguments.share_safe:
        return no_pages
    if arguments.episode:
        return partial(_pages_of, arguments.episode)
    return list if arguments.all_episodes else pages_of_few


def pages_of_few(results: Sequence[EpisodeScore]) -> Sequence[EpisodeScore]:
    """Choose all episodes of a run that has not many; of a large one none, and say so."""
    pages = few_pages(results)
    if len(pages) < len(results):
        size = len(results) * _PAGE_BYTES / 1e6
        print(
            f"wardround: note: {len(results):,} episode pages (about {size:,.0f} MB) are left out; --all-episodes "
            "writes them, --episode SAMPLE those of a sample",
            file=sys.stderr,
        )
    return pages


def _pages_of(samples: Sequence[str], results: Sequence[EpisodeScore]) -> Sequence[EpisodeScore]:
    unknown = sorted(set(samples) - {result.sample for result in results})
    if unknown:
        raise UserError(f"no finished episode of sample {', '.join(unknown)}; the report's table lists the samples")
    return [result for result in results if result.sample in samples]


def print_place(page: Path | None) -> None:
    """Say where the report is."""
    if page is None:
        print("\nthe run's folder cannot be written, so no report was; name a folder for it with --out")
    else:
        print(f"\nreport: {page.resolve()}")


def _report_predictors(path: Path, *, as_json: bool) -> int:
    """Report a folder that holds the fits of predictors and no run of agents."""
    summary, page = report_predictors(path)
    if as_json:
        print(json.dumps(asdict(summary), indent=2, ensure_ascii=False))
        return 0
    print(render_classes(summary.predictors))
    print_warnings(summary.card)
    if summary.card:
        print_card(summary.card)
        _print_comparisons(summary.against_trivial)
    print(f"\nreport: {page.resolve()}")
    return 0


def print_summary(folder: RunFolder, summary: RunSummary) -> None:
    """Print the table and the paired tests."""
    label = "" if folder.manifest["policy"] == "known_at" else f"   clock policy: {folder.manifest['policy']}"
    print(f"{folder.manifest['benchmark']} · {folder.settings.run.split} split{label}")
    assumptions, variants = folder.manifest.get("assumptions", ()), folder.settings.variant_notes().values()
    notes = (*gate_notes(folder), *assumptions, *folder.settings.model_notes().values(), *variants)
    for line in notes:
        print(line)
    print_judge(folder)
    print()
    if not summary.rows:
        print(f"no finished episode yet: wardround run --resume {folder.path} goes on")
        return
    print(render_table(summary.rows))
    print_warnings(summary.card)
    print_arms(summary.arms)
    if summary.classes or summary.predictors:
        print("\n" + render_classes((*summary.classes, *summary.predictors)) + "\n")
    if summary.figures:
        print("\n" + render_figures(summary.figures) + "\n")
    if summary.recall:
        print("\n" + render_stays(summary.recall, summary.adherence) + "\n")
    for best in summary.best:
        values = "  ".join(f"K={k} {value:.3f}" for k, value in enumerate(best.values, start=1))
        print(f"{best.contender}, {best.task}, Best@K F1: {values}")
        passes = "  ".join(f"k={k} {value:.3f}" for k, value in enumerate(best.passes, start=1))
        print(f"{best.contender}, {best.task}, pass^k: {passes}")
    _print_comparisons(summary.comparisons)
    print_no_difference(summary.comparisons, [folder])
    if summary.card:
        print_card(summary.card)
        _print_comparisons(summary.against_trivial)


def _print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """Print a table per metric and stratum: a row per contender, a column per task, differences with their p-values."""
    for metric, baseline, stratum in dict.fromkeys((row.metric, row.baseline, row.stratum) for row in comparisons):
        some = [row for row in comparisons if (row.metric, row.baseline, row.stratum) == (metric, baseline, stratum)]
        tasks = list(dict.fromkeys(row.task for row in some))
        cells = {(row.contender, row.task): _difference(row) for row in some}
        of = "" if stratum == ALL else f", {stratum} stratum"
        print(
            f"\n{metric} less that of {baseline}{of}, and p (max-T over contenders and tasks; of all tasks, contenders)"
        )
        names = list(dict.fromkeys(row.contender for row in some))
        wide = _WIDEST if len(tasks) > _WIDEST_WHOLE else len(tasks)
        for start in range(0, len(tasks), wide):
            part = tasks[start : start + wide]
            print_rows(("", *part), [(name, *(cells.get((name, task), "") for task in part)) for name in names])
        _print_detectable(some)


def _print_detectable(comparisons: Sequence[Comparison]) -> None:
    """Say how small a difference these samples would still show: what is smaller may be there and was not seen."""
    known = [(row, row.test.difference.detectable) for row in comparisons]
    found = {
        row.contender: [
            f"{one.task}={least:.3f}" for one, least in known if least is not None and one.contender == row.contender
        ]
        for row, _ in known
    }
    for name, parts in found.items():
        if parts:
            line = f"detectable (80 % power), {name}: " + " ".join(parts)
            print(textwrap.fill(line, 140, subsequent_indent="    "))


def _difference(row: Comparison) -> str:
    """A difference with its p-value; intervals over fewer patients than tell anything are left out, as in the table."""
    found = row.test.difference
    interval = f" ({found.low:+.3f} to {found.high:+.3f})" if found.is_telling else ""
    return f"{found.estimate:+.3f}{interval} {'–' if row.adjusted_p is None else f'{row.adjusted_p:.4f}'}"
