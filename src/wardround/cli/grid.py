"""``wardround grid``: every method on every task under every seed as one run, its tables, paired tests and report.

On tasks with classes the classical predictors are fitted beside the agents.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from wardround.agents import Paper, list_agents
from wardround.benchmarks import Benchmark
from wardround.cli.predict import add_predictor_options, predictor_settings
from wardround.cli.progress import TerminalProgress
from wardround.cli.report import no_pages, pages_of_few, print_place, print_summary, report_run
from wardround.cli.run_options import add_run_options, open_run, play
from wardround.core import UserError, how_to_install
from wardround.predictors import fit_predictors, missing_packages
from wardround.runs import EpisodeKey, RunFolder, WorkQueue, open_benchmark, open_store

EXAMPLES = """
  wardround grid --benchmark bench --store store --out grid
      all methods that need no bank, all tasks, the offline model
  wardround grid --benchmark bench --store store --bank bank.sqlite --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --epochs 3 --out grid
  wardround grid --benchmark bench --store store --bank bank.sqlite --ablations --task diagnoses --out grid
  wardround grid --benchmark bench-ehrshot --store store --ablations too --out grid-ehrshot
      EHR-RAG's six methods, its ablations and both count baselines, with the few-shot figure in the report
  wardround grid --resume grid
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser, agents=())
    parser.set_defaults(agent=None)
    parser.add_argument("--paper", choices=["retrosum", "ehr-rag"], help="whose tables; by default the benchmark's")
    parser.add_argument(
        "--ablations",
        nargs="?",
        const="only",
        default="none",
        choices=["none", "only", "too"],
        help="the rows of table 4 instead of the methods of table 2 (only, where just --ablations is given), or too",
    )
    parser.add_argument("--baseline", help="agent (or 'agent · model') the others are compared with; default: resum")
    parser.add_argument("--no-episodes", action="store_true", help="leave the pages with every turn out of the report")
    add_predictor_options(parser)
    parser.add_argument("--no-predictors", action="store_true", help="fit none, where the tasks have classes")


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, play to the end, fit the predictors, score, print, write the report."""
    if arguments.agent is None and arguments.resume:
        arguments.agent = []  # who plays was settled when the run was made
    elif arguments.agent is None:
        arguments.agent = _methods(_paper(arguments), ablations=arguments.ablations, bank=arguments.bank is not None)
    folder = open_run(arguments)
    baseline = _baseline(arguments, folder)
    counts = play(folder, arguments)
    if not arguments.no_predictors:
        _fit_predictors(folder, arguments)
    summary, page = report_run(folder, baseline=baseline, pages=no_pages if arguments.no_episodes else pages_of_few)
    print_summary(folder, summary)
    print_place(page)
    return 0 if counts.done == counts.total else 1


def _baseline(arguments: argparse.Namespace, folder: RunFolder) -> str | None:
    """Return whom the others are compared with; a name that nobody has is refused before anything is paid for."""
    agents = folder.settings.agents
    if arguments.baseline is None:
        return "ehr-rag" if arguments.ablations == "only" and "ehr-rag" in agents else None
    names = [f"{agent} · {model}" for agent in agents for model in folder.settings.models]
    if arguments.baseline not in (*agents, *names):
        raise UserError(
            f"no contender {arguments.baseline!r}; there are {', '.join(names)}. "
            f"The run is made; go on with: wardround grid --resume {folder.path} --baseline NAME"
        )
    return str(arguments.baseline)


def _fit_predictors(folder: RunFolder, arguments: argparse.Namespace) -> None:
    """Fit them on the tasks with classes; a missing extra costs the predictors, not the run, and is said."""
    benchmark = open_benchmark(folder)
    with_classes = [task.name for task in benchmark.tasks if task.answer.views]
    names = tuple(name for name in with_classes if name in (folder.settings.tasks or with_classes))
    if not names:
        return
    if missing_packages():
        print(f"predictors left out: {', '.join(missing_packages())} missing; {how_to_install('predictors')}")
        return
    queue = WorkQueue(folder.queue)
    samples = tuple(sorted({EpisodeKey.parse(key).sample for key in queue.listed()}))  # those that agents are asked
    queue.close()
    settings = replace(predictor_settings(arguments), tasks=names, split=folder.settings.split, samples=samples)
    progress = TerminalProgress()
    try:
        fit_predictors(
            open_store(folder), benchmark, folder.path, settings, processes=arguments.workers, report=progress
        )
    except UserError as error:  # the episodes are played, and their report does not need predictors
        print(f"predictors left out: {error}")
    progress.close()


def _methods(paper: Paper, *, ablations: str, bank: bool) -> list[str]:
    """Return the methods of the tables; without a bank those that need none, and say which are left out."""
    tables = {"none": {2}, "only": {4}, "too": {2, 4}}[ablations]
    rows = [method for method in list_agents(paper) if tables & set(method.tables)]
    left_out = [method.name for method in rows if method.memory and not bank]
    if left_out:
        print(f"left out for want of --bank (wardround evolve makes one): {', '.join(left_out)}")
    return [method.name for method in rows if method.name not in left_out]


def _paper(arguments: argparse.Namespace) -> Paper:
    """Return whose methods play: those that were made for the benchmark's tasks, unless a paper is named."""
    if arguments.paper is None and arguments.benchmark is not None:
        families = {task.family for task in Benchmark.open(arguments.benchmark).tasks}
        return "ehr-rag" if "ehrshot" in families else "retrosum"
    return arguments.paper or "retrosum"
