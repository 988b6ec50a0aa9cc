"""A grid: every method of a paper's tables as one run, classical predictors beside them, one report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from wardround.agents import Paper, list_agents
from wardround.core import Reporter, UserError, how_to_install, silent
from wardround.core.settings import merged
from wardround.predictors import PredictorSettings, fit_predictors, missing_packages
from wardround.reports.summary import named_contenders
from wardround.runs.banks import has_bank
from wardround.runs.folder import RunFolder
from wardround.runs.queue import WorkQueue
from wardround.runs.settings import EpisodeKey
from wardround.runs.sources import open_benchmark, open_store
from wardround.tasks.benchmarks import Benchmark

Ablations = Literal["none", "only", "too"]


def grid_settings(
    asked: Mapping[str, Any], *, paper: Paper | None = None, ablations: Ablations = "none"
) -> tuple[dict[str, Any], list[str]]:
    """Return settings with the methods to run, and the methods left out because no bank was given for them.

    ``paper``: by default that of the benchmark's tasks. ``ablations``: the rows of its ablation table instead of its
    methods (``only``), or in addition (``too``).
    """
    if paper is None:
        paper = _paper_of(asked.get("run", {}).get("benchmark"))
    tables = {"none": {2}, "only": {4}, "too": {2, 4}}[ablations]
    rows = [method for method in list_agents(paper) if tables & set(method.tables)]
    memory = asked.get("memory", {})
    left_out = [method.name for method in rows if method.memory and not has_bank(memory, method.name)]
    methods = [method.name for method in rows if method.name not in left_out]
    return merged(asked, {"run": {"agents": methods}}), left_out


def _paper_of(benchmark: str | None) -> Paper:
    """Return the paper whose methods were made for a benchmark's tasks."""
    families = {task.family for task in Benchmark.open(Path(benchmark)).tasks} if benchmark else set()
    return "ehr-rag" if "ehrshot" in families else "retrosum"


def grid_baseline(asked: str | None, ablations: Ablations, folder: RunFolder) -> str | None:
    """Return the baseline of the comparisons: the requested one, else that of the paper (ReSum for RetroSum's table 2,
    the whole method for EHR-RAG's ablations). An unknown name is refused before any cost arises."""
    agents = folder.settings.run.agents
    asked = asked or folder.settings.scoring.baseline
    if asked is None:
        papers = "ehr-rag" if ablations == "only" else "resum"
        return papers if papers in agents else None
    names = named_contenders(folder.settings)
    if asked not in (*agents, *names):
        raise UserError(
            f"no contender {asked!r}; there are {', '.join(names)}. "
            f"The run is made; go on with: wardround grid --resume {folder.path} --baseline NAME"
        )
    return asked


def fit_beside(folder: RunFolder, own: PredictorSettings, *, processes: int, report: Reporter = silent) -> str | None:
    """Fit predictors on a run's samples, if its tasks have classes. Return why none was fitted; None if they were, or
    if there is nothing to fit. The run does not need them."""
    benchmark = open_benchmark(folder)
    with_classes = [task.name for task in benchmark.tasks if task.answer.views]
    names = tuple(name for name in with_classes if name in (folder.settings.run.tasks or with_classes))
    if not names:
        return None
    if missing_packages():
        return f"{', '.join(missing_packages())} missing; {how_to_install('predictors')}"
    queue = WorkQueue(folder.queue)
    samples = tuple(sorted({EpisodeKey.parse(key).sample for key in queue.listed()}))
    queue.close()
    settings = replace(own, tasks=names, split=folder.settings.run.split, samples=samples)
    try:
        fit_predictors(open_store(folder), benchmark, folder.path, settings, processes=processes, report=report)
    except UserError as error:
        return str(error)
    return None
