"""From logs to scored rows: one per finished episode, made again from the logs whenever they are asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from wardround.core import Progress, Reporter, is_read_only, silent, write_atomically
from wardround.log import EpisodeEntry, LogReader
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey
from wardround.runs.sources import open_benchmark
from wardround.scoring import EpisodeScore, EvidenceCut, events_left_out, evidence_cut, score_episode
from wardround.scoring.evidence_cuts import NOTE as EVIDENCE_NOTE
from wardround.tools import default_toolset

_FEW = 2_000
"""So many episodes are scored sooner than processes start."""


def finished_entries(folder: RunFolder) -> dict[str, EpisodeEntry]:
    """Return the entry of every finished episode, by key."""
    with LogReader(folder.logs, may_be_empty=True) as reader:
        return {entry.key: entry for entry in reader.episodes() if entry.state == "finished"}


def finished_keys(folder: RunFolder) -> set[str]:
    """Return the key of every episode that the logs hold the end of."""
    with LogReader(folder.logs, may_be_empty=True) as reader:
        return reader.finished()


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
    benchmark = open_benchmark(folder)
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


def evidence_cuts(folder: RunFolder) -> dict[str, EvidenceCut]:
    """Return, by agent, in how many episodes played so far the budget cut the evidence; from the notes alone."""
    details: dict[str, list[Mapping[str, Any]]] = {}
    with LogReader(folder.logs, may_be_empty=True) as reader:
        for episode, detail in reader.notes(EVIDENCE_NOTE):
            details.setdefault(episode, []).append(detail)
    lost: dict[str, list[int | None]] = {}
    for episode, some in details.items():
        lost.setdefault(EpisodeKey.parse(episode).agent, []).append(events_left_out(some))
    cuts = {agent: evidence_cut(events) for agent, events in sorted(lost.items())}
    return {agent: cut for agent, cut in cuts.items() if cut is not None}


def read_results(folder: RunFolder) -> list[EpisodeScore]:
    """Read ``results.jsonl`` back."""
    lines = folder.results.read_text(encoding="utf-8").splitlines()
    return [EpisodeScore.from_json(json.loads(line)) for line in lines]
