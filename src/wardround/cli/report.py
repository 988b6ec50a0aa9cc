"""``wardround report``: score a run, print its table, write its HTML report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import fill

from wardround.audits import AuditResult
from wardround.cli.parser import Command
from wardround.cli.scores import (
    print_arms,
    print_card,
    print_comparisons,
    print_judge,
    print_no_difference,
    print_subgroups,
    print_warnings,
)
from wardround.cli.terminal import add_json_option, print_json
from wardround.core import UserError, changed_plugins, must_be_new, private_folder
from wardround.predictors import MANIFEST
from wardround.reports import (
    GROUPINGS,
    RunSummary,
)
from wardround.reports.analyses import sections
from wardround.reports.answer import answer_of
from wardround.reports.charts import figure_name, write_svg
from wardround.reports.checklists import CHECKLISTS, write_checklist
from wardround.reports.figures import prediction_figures, run_figures, without_figures, write_figures
from wardround.reports.paper_tables import paper_tables, write_tables
from wardround.reports.report import (
    MOST_PAGES,
    Pages,
    few_pages,
    fitted_benchmark,
    no_pages,
    report_predictors,
    report_run,
    run_points,
)
from wardround.reports.run_facts import RunFacts, methods_text
from wardround.reports.tidy import tidy_run, write_tidy
from wardround.runs import RunFolder, gate_notes, score_run
from wardround.runs.sources import open_benchmark
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import (
    EpisodeScore,
    render_classes,
    render_figures,
    render_stays,
    render_table,
)

EXAMPLES = """
  wardround report run
  wardround report run --json > figures.json
  wardround report run --no-episodes --by sex
  wardround report run --no-episodes
  wardround report run --no-episodes --tables paper
      tidy.csv, tidy.parquet: a row a figure, numbers only; results and differences as .tex, .plain.tex and .md
  wardround report run --no-episodes --figures paper
      forest, scores, score-against-cost ... as .pdf and .svg (extra [figures]), the charts of the report as .svg
  wardround report run --no-episodes --checklist tripod-llm mi-clear-llm --audit audit.json
      tripod-llm.md, mi-clear-llm.md beside the page: filled as far as the run knows; the rest is for the authors
  wardround report run --no-episodes --methods-text > methods.md
  wardround report run --share-safe report-to-share
      the page alone: figures, ids and settings, no record text
  wardround report run --episode diagnoses-12345678
  wardround report a-run-i-may-not-write --out report
  wardround report run-64k --beside run-32k run-16k run-8k
"""

_PAGE_BYTES = 30_000


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
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="write the figures as CSV and Parquet, the tables as LaTeX and Markdown",
    )
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="DIR",
        help="write figures for a paper (PDF, SVG; extra [figures]) and the charts of the report (SVG)",
    )
    parser.add_argument(
        "--checklist",
        choices=CHECKLISTS.names,
        nargs="+",
        default=[],
        help="write reporting checklists (NAME.md beside the page), filled as far as the run knows",
    )
    parser.add_argument(
        "--methods-text", action="store_true", help="print only the methods as a paragraph, and a BibTeX entry"
    )
    parser.add_argument(
        "--audit",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="records of audits (wardround audit leaks --record) for checklist and methods",
    )
    parser.add_argument("--wide", action="store_true", help="print strata and all columns, beyond 100 characters")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Score, print, write."""
    if (arguments.run / MANIFEST).is_file() and not (arguments.run / "manifest.json").is_file():
        return _report_predictors(arguments)
    folder = RunFolder.open(arguments.run)
    if arguments.share_safe is not None:
        must_be_new(arguments.share_safe)
    others = [RunFolder.open(path) for path in arguments.beside]
    plugins = (path for one in (folder, *others) for path in changed_plugins(one.manifest.get("plugins", ())))
    for path in dict.fromkeys(plugins):  # its scorers may score differently now
        print(f"wardround: note: {path} has changed since the run; scored with the present file", file=sys.stderr)
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
        write_tidy(tidy_run(summary, folder.path.resolve().name), arguments.tables)
    if arguments.figures is not None:
        private_folder(arguments.figures)
        _write_figures(folder, summary, others, arguments.figures)
    if arguments.json:
        print_json(summary)
        return 0
    checklists: list[tuple[Path, str]] = []
    if arguments.checklist or arguments.methods_text:
        audits = [AuditResult.read(file) for file in arguments.audit]
        facts = RunFacts.of(folder, score_run(folder), summary, audits)
        place = arguments.share_safe or arguments.out or folder.path / "report"
        checklists = [write_checklist(name, facts.texts(), place) for name in arguments.checklist]
        if arguments.methods_text:
            print(methods_text(facts), end="")
            return 0
    print_summary(folder, summary, is_wide=arguments.wide)
    if summary.by:
        print_subgroups(summary.subgroups, summary.by)
    made = {"tables": arguments.tables, "figures": arguments.figures}
    lines = [f"{what}: {place.resolve()}" for what, place in made.items() if place is not None]
    lines += [f"checklist: {file.resolve()} ({share})" for file, share in checklists]
    if lines:
        print("\n" + "\n".join(lines))
    print_place(page)
    return 0


def _write_figures(folder: RunFolder, summary: RunSummary, others: Sequence[RunFolder], target: Path) -> None:
    """Write the charts of the report as SVG, and figures for a paper if matplotlib is installed."""
    scores = score_run(folder)
    charts = [(figure_name(section.title), section.chart) for section in sections(scores, summary)]
    drawn = {name: chart for name, chart in charts if chart.startswith("<svg")}
    if not drawn:
        print("wardround: note: every chart is empty: none was written", file=sys.stderr)
        return
    for name, chart in drawn.items():
        write_svg(chart, target / f"{name}.svg")
    missing = without_figures()
    if missing is not None:
        print(f"wardround: note: only the charts of the report: {missing}", file=sys.stderr)
        return
    figures = run_figures(summary, run_points(folder, scores, others))
    write_figures(figures | prediction_figures(folder.path, partial(open_benchmark, folder)), target)


def _which_pages(arguments: argparse.Namespace) -> Pages:
    if arguments.no_episodes or arguments.share_safe:
        return no_pages
    if arguments.episode:
        return partial(_pages_of, arguments.episode)
    return list if arguments.all_episodes else pages_of_few


def pages_of_few(results: Sequence[EpisodeScore]) -> Sequence[EpisodeScore]:
    """Choose all episodes of a small run; none of a large one, with a note."""
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
    """Print where the report is."""
    if page is None:
        print("\nthe run's folder is read-only, so no report was written; name a folder with --out")
    else:
        print(f"\nreport: {page.resolve()}")


_OF_AGENTS = ("tables", "checklist", "methods_text", "by", "share_safe", "beside", "out")


def _report_predictors(arguments: argparse.Namespace) -> int:
    """Report a folder with fits of predictors and no run of agents."""
    path: Path = arguments.run
    asked = [f"--{name.replace('_', '-')}" for name in _OF_AGENTS if getattr(arguments, name)]
    if asked:
        raise UserError(f"{', '.join(asked)}: only for runs of agents; {path} has only fits of predictors")
    summary, page = report_predictors(path)
    if arguments.figures is not None:
        write_figures(prediction_figures(path, partial(_fitted_benchmark, path)), arguments.figures)
    if arguments.json:
        print_json(summary)
        return 0
    print(render_classes(summary.predictors))
    print_warnings(summary.card)
    if summary.card:
        print_card(summary.card)
        print_comparisons(summary.against_trivial, is_wide=False)
    print(f"\nreport: {page.resolve()}")
    return 0


def _fitted_benchmark(path: Path) -> Benchmark:
    benchmark = fitted_benchmark(path)
    if benchmark is None:
        raise UserError(f"no figures: the benchmark on which {path} was fitted is missing or has changed")
    return benchmark


def print_summary(folder: RunFolder, summary: RunSummary, *, is_wide: bool = False) -> None:
    """Print the answer, the table and the paired tests; ``is_wide``: strata and all columns too."""
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
    for sentence in answer_of(summary):
        print(fill(sentence, 100, subsequent_indent="    "))
    print()
    print(render_table(summary.rows, is_wide=is_wide))
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
    print_comparisons(summary.comparisons, is_wide=is_wide)
    print_no_difference(summary.comparisons, [folder])
    if summary.card:
        print_card(summary.card, is_wide=is_wide)
        print_comparisons(summary.against_trivial, is_wide=is_wide)


REPORT = Command(EXAMPLES, configure, run)
