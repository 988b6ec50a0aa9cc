"""``wardround grid``: every method on every task under every seed as one run, its tables, paired tests and report.

On tasks with classes the classical predictors are fitted beside the agents.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wardround.agents import Paper, list_agents
from wardround.cli.report import pages_of_few, print_place, print_summary
from wardround.cli.run_options import add_run_options, asked_settings, open_run, play
from wardround.core import TerminalProgress, UserError, how_to_install, strict
from wardround.predictors import PredictorSettings, fit_predictors, missing_packages
from wardround.reports.report import no_pages, report_run
from wardround.runs import EpisodeKey, RunFolder, WorkQueue, open_benchmark, open_store
from wardround.runs.banks import has_bank
from wardround.runs.names import merged
from wardround.tasks.benchmarks import Benchmark

EXAMPLES = """
  wardround grid --benchmark bench --store store --out grid
      all methods that need no bank, all tasks, the offline model
  wardround grid --benchmark bench --store store --bank bank.sqlite --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --epochs 3 --out grid
  wardround grid --benchmark bench --store store --bank bank.sqlite --ablations --task diagnoses --out grid
  wardround grid --benchmark bench-ehrshot --store store --ablations too --out grid-ehrshot
      EHR-RAG's six methods, its ablations and both count baselines, with the few-shot figure in the report;
      --set predictors.shots=8,all and the like say how those are fitted
  wardround grid --resume grid
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser)
    parser.add_argument("--paper", choices=["retrosum", "ehr-rag"], help="whose tables; by default the benchmark's")
    parser.add_argument(
        "--ablations",
        nargs="?",
        const="only",
        default="none",
        choices=["none", "only", "too"],
        help="the rows of table 4 instead of the methods of table 2 (only, where just --ablations is given), or too",
    )
    parser.add_argument("--no-episodes", action="store_true", help="leave the pages with every turn out of the report")
    parser.add_argument("--no-predictors", action="store_true", help="fit none, where the tasks have classes")


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, play to the end, fit the predictors, score, print, write the report."""
    asked = asked_settings(arguments)
    baseline_asked = asked.pop("scoring", {}).get("baseline")  # of a run that is resumed it may be another one
    changed = asked.pop("predictors", {})  # what was fitted has a manifest of its own
    played = asked.get("run", {})
    if not arguments.resume and "agents" not in played:  # of a run that is resumed they are settled
        memory = asked.get("memory", {})
        methods = _methods(_paper(arguments, played), ablations=arguments.ablations, memory=memory)
        asked = merged(asked, {"run": {"agents": methods}})
    folder = open_run(arguments, asked, scoring={"baseline": baseline_asked}, predictors=changed)
    held = folder.settings.to_json()["predictors"]
    predictors = strict(PredictorSettings, merged(held, changed), "[predictors]")
    baseline = _baseline(baseline_asked, arguments.ablations, folder)
    counts = play(folder, arguments)
    if not arguments.no_predictors:
        _fit_predictors(folder, predictors, processes=arguments.workers)
    summary, page = report_run(folder, baseline=baseline, pages=no_pages if arguments.no_episodes else pages_of_few)
    if arguments.json:
        print(json.dumps(asdict(summary), indent=2, ensure_ascii=False))
    else:
        print_summary(folder, summary)
        print_place(page)
    return 0 if counts.done == counts.total else 1


def _baseline(asked: str | None, ablations: str, folder: RunFolder) -> str | None:
    """Return whom the others are compared with; a name that nobody has is refused before anything is paid for."""
    agents = folder.settings.run.agents
    asked = asked or folder.settings.scoring.baseline
    if asked is None:
        return "ehr-rag" if ablations == "only" and "ehr-rag" in agents else None
    names = [f"{agent} · {model}" for agent in agents for model in folder.settings.run.models]
    if asked not in (*agents, *names):
        raise UserError(
            f"no contender {asked!r}; there are {', '.join(names)}. "
            f"The run is made; go on with: wardround grid --resume {folder.path} --baseline NAME"
        )
    return asked


def _fit_predictors(folder: RunFolder, own: PredictorSettings, *, processes: int) -> None:
    """Fit them on the tasks with classes; a missing extra costs the predictors, not the run, and is said."""
    benchmark = open_benchmark(folder)
    with_classes = [task.name for task in benchmark.tasks if task.answer.views]
    names = tuple(name for name in with_classes if name in (folder.settings.run.tasks or with_classes))
    if not names:
        return
    if missing_packages():
        print(f"predictors left out: {', '.join(missing_packages())} missing; {how_to_install('predictors')}")
        return
    queue = WorkQueue(folder.queue)
    samples = tuple(sorted({EpisodeKey.parse(key).sample for key in queue.listed()}))  # those that agents are asked
    queue.close()
    settings = replace(own, tasks=names, split=folder.settings.run.split, samples=samples)
    progress = TerminalProgress()
    try:
        fit_predictors(open_store(folder), benchmark, folder.path, settings, processes=processes, report=progress)
    except UserError as error:  # the episodes are played, and their report does not need predictors
        print(f"predictors left out: {error}")
    progress.close()


def _methods(paper: Paper, *, ablations: str, memory: Mapping[str, Any]) -> list[str]:
    """Return the methods of the tables; without a bank those that need none, and say which are left out."""
    tables = {"none": {2}, "only": {4}, "too": {2, 4}}[ablations]
    rows = [method for method in list_agents(paper) if tables & set(method.tables)]
    left_out = [method.name for method in rows if method.memory and not has_bank(memory, method.name)]
    if left_out:
        print(f"left out for want of --bank or memory.banks (wardround memory evolve makes one): {', '.join(left_out)}")
    return [method.name for method in rows if method.name not in left_out]


def _paper(arguments: argparse.Namespace, played: Mapping[str, Any]) -> Paper:
    """Return whose methods play: those that were made for the benchmark's tasks, unless a paper is named."""
    if arguments.paper is None and played.get("benchmark"):
        families = {task.family for task in Benchmark.open(Path(played["benchmark"])).tasks}
        return "ehr-rag" if "ehrshot" in families else "retrosum"
    return arguments.paper or "retrosum"
