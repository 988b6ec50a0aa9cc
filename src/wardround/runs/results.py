"""From logs to scored rows: one per finished episode, made again from the logs whenever they are asked for."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from wardround.benchmarks import Benchmark
from wardround.core import Progress, Reporter, is_read_only, silent, write_atomically
from wardround.log import EpisodeEntry, LogReader
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey
from wardround.scoring import EpisodeScore, score_episode
from wardround.tools import default_toolset

_FEW = 2_000
"""So many episodes are scored sooner than processes start."""


def finished_entries(folder: RunFolder) -> dict[str, EpisodeEntry]:
    """Return the entry of every finished episode, by key."""
    with LogReader(folder.logs, may_be_empty=True) as reader:
        return {entry.key: entry for entry in reader.episodes() if entry.state == "finished"}


def score_run(folder: RunFolder, *, workers: int = 1, report: Reporter = silent) -> list[EpisodeScore]:
    """Score every finished episode and write ``results.jsonl``; sorted by key, so the file depends on nothing else.

    Of a large run ``workers`` processes score a share each.
    """
    if workers > 1 and int(folder.manifest["episodes"]) > _FEW:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            parts = pool.map(partial(_score_part, folder.path, parts=workers), range(workers))
            scores = [score for part in parts for score in part]
    else:
        scores = _score_part(folder.path, 0, parts=1, report=report)
    scores.sort(key=lambda score: EpisodeKey.parse(score.episode))
    lines = (json.dumps(score.to_json(), ensure_ascii=False) for score in scores)
    try:
        write_atomically(folder.results, "".join(line + "\n" for line in lines))
    except OSError as error:
        if not is_read_only(error):
            raise  # where nobody may write, the figures are shown all the same
    return scores


def _score_part(path: Path, part: int, *, parts: int, report: Reporter = silent) -> list[EpisodeScore]:
    folder = RunFolder.open(path)
    benchmark = Benchmark.open(Path(folder.settings.benchmark))
    samples = {sample.id: sample for sample in benchmark.all_samples}
    labels = {task.name: benchmark.labels(task) for task in benchmark.tasks}
    candidate_tools = [tool.name for tool in default_toolset().tools if tool.category == "candidate"]
    scores: list[EpisodeScore] = []
    with LogReader(folder.logs, may_be_empty=True) as reader:
        for done, trajectory in enumerate(reader.outlines(part, parts)):
            key = EpisodeKey.parse(trajectory.episode)
            scores.append(
                score_episode(trajectory, samples[key.sample], labels[key.task], candidate_tools, benchmark.spaces)
            )
            report(Progress(label="scoring", done=done + 1, total=int(folder.manifest["episodes"]), unit="episodes"))
    return scores


def read_results(folder: RunFolder) -> list[EpisodeScore]:
    """Read ``results.jsonl`` back."""
    lines = folder.results.read_text(encoding="utf-8").splitlines()
    return [EpisodeScore.from_json(json.loads(line)) for line in lines]
