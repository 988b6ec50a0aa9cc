"""From logs to scored rows: one per finished episode, made again from the logs whenever they are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self

from wardround.core import Progress, Reporter, is_read_only, silent, write_atomically
from wardround.core.executors import starting
from wardround.core.garbage import no_cycle_collection
from wardround.log import EpisodeEntry, LogReader, Outline
from wardround.runs.folder import RunFolder
from wardround.runs.judging import Grades, Verdicts
from wardround.runs.settings import EpisodeKey
from wardround.runs.sources import open_benchmark
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import EpisodeScore, EvidenceCut, events_left_out, evidence_cut, score_episode
from wardround.tasks.scoring.episodes import NOTES
from wardround.tools import TOOLS

_FEW = 2_000
"""So many episodes are scored sooner than processes start."""
_SHARE = 256
"""So many episodes are scored at once: few enough that no process waits long for another's last."""

_Share = tuple[str, str]
_as_json = json.JSONEncoder(ensure_ascii=False).encode


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

    Of a large run ``workers`` processes, this one among them, score a share each.
    """
    keys = sorted(finished_keys(folder))
    shares = [(keys[start], keys[min(start + _SHARE, len(keys)) - 1]) for start in range(0, len(keys), _SHARE)]
    scored: list[EpisodeScore] = []
    for done in _score_shares(folder, shares, workers if len(keys) > _FEW else 1):
        scored.extend(done)
        report(Progress(label="scoring", done=len(scored), total=int(folder.manifest["episodes"]), unit="episodes"))
    scored.sort(key=lambda one: EpisodeKey.parse(one.episode))
    try:
        write_atomically(folder.results, (f"{_as_json(score.to_json())}\n" for score in scored))
    except OSError as error:
        if not is_read_only(error):
            raise  # where nobody may write, the figures are shown all the same
    return scored


def _score_shares(folder: RunFolder, shares: Sequence[_Share], workers: int) -> Iterator[list[EpisodeScore]]:
    """Yield the rows of every share. This process takes those that no other has begun, from the end; it begins while
    the others start, which takes a second or two."""
    if workers < 2:
        with _Scorer(folder) as scorer:
            yield from map(scorer.score, shares)
        return
    with (
        ProcessPoolExecutor(workers - 1, starting(_score_there), initializer=_set_up, initargs=(folder,)) as pool,
        ThreadPoolExecutor(1) as aside,
        _Scorer(folder) as scorer,
    ):
        first, *rest = shares
        started = aside.submit(pool.submit, _score_there, first)
        try:
            while rest and not started.done():
                yield scorer.score(rest.pop())
            asked = [started.result(), *(pool.submit(_score_there, share) for share in rest)]
            for share, future in zip(reversed(rest), reversed(asked), strict=False):
                if not future.cancel():
                    break
                yield scorer.score(share)
            yield from (future.result() for future in asked if not future.cancelled())
        finally:
            pool.shutdown(cancel_futures=True)


class _Scorer:
    """Scores shares of a run; what all of its episodes need is read once."""

    def __init__(self, folder: RunFolder) -> None:
        benchmark = open_benchmark(folder)
        self._samples = {sample.id: sample for sample in benchmark.all_samples}
        self._labels = {task.name: benchmark.labels(task) for task in benchmark.tasks}
        self._spaces = benchmark.spaces
        self._candidate_tools = [tool.name for tool in map(TOOLS.get, TOOLS.names) if tool.category == "candidate"]
        self._verdicts = Verdicts(folder)
        self._grades = Grades(folder)
        self._reader = LogReader(folder.logs, may_be_empty=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def score(self, share: _Share) -> list[EpisodeScore]:
        """Return the rows from one key to another."""
        with no_cycle_collection():
            found = (self._score(outline) for outline in self._reader.outlines(*share))
            return [one for one in found if one is not None]

    def _score(self, outline: Outline) -> EpisodeScore | None:
        """One row; None of an answer that has yet to be judged: it has no score."""
        key = EpisodeKey.parse(outline.episode)
        sample, labels, verdict = self._samples[key.sample], self._labels[key.task], None
        answer = (outline.outcome or {}).get("answer")
        if answer and get_task(sample.task).answer.judged:
            verdict = self._verdicts.of(outline.episode)
            if verdict is None:
                return None
            labels = verdict.labels(answer, sample.target[0])
        reasoning = None if verdict is None else verdict.figures
        tools = self._candidate_tools
        score = score_episode(outline, sample, labels, tools, self._spaces, reasoning=reasoning)
        if score.steps is not None:
            score = replace(score, steps=replace(score.steps, grades=self._grades.of(outline.episode)))
        return score


_THERE: list[_Scorer] = []
"""What the shares of a worker process need."""


def _set_up(folder: RunFolder) -> None:
    _THERE.append(_Scorer(folder))


def _score_there(share: _Share) -> list[EpisodeScore]:
    return _THERE[0].score(share)


def evidence_cuts(folder: RunFolder) -> dict[str, EvidenceCut]:
    """Return, by agent, in how many episodes played so far the budget cut the evidence; from the notes alone."""
    details: dict[str, list[Mapping[str, Any]]] = {}
    with LogReader(folder.logs, may_be_empty=True) as reader:
        for episode, detail in (one for kind in NOTES for one in reader.notes(kind)):
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
