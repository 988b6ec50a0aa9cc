"""From logs to scored rows: one per episode, made again from the logs whenever they are asked for.

An episode that failed scores 0 and says so; one that is not finished has no row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wardround.benchmarks import Benchmark, Sample, get_task
from wardround.core import Progress, Reporter, silent
from wardround.log import EpisodeEntry, LogReader, Trajectory
from wardround.runs.folder import RunFolder, write_atomically
from wardround.runs.settings import EpisodeKey
from wardround.scoring import classify_errors, set_scores
from wardround.tools import default_toolset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """One scored episode. ``grounding`` is the share of citations that hold, None where nothing was cited; ``cost``
    is in US dollars, None where no price is known; token counts are None where an endpoint reports none."""

    agent: str
    model: str
    task: str
    sample: str
    epoch: int
    subject_id: int
    stratum: str
    prediction_time: str
    answer: tuple[str, ...] | None
    target: tuple[str, ...]
    unwinnable: tuple[str, ...]
    precision: float
    recall: float
    f1: float
    hits: int
    answered: int
    wanted: int
    outside: tuple[str, ...]
    finish: str
    error: str | None
    turns: int
    model_calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    prefix_share: float | None
    cost: float | None
    seconds: float
    citations: int
    grounding: float | None
    errors: tuple[str, ...]
    tools: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> EpisodeKey:
        """The episode's key."""
        return EpisodeKey(agent=self.agent, model=self.model, task=self.task, sample=self.sample, epoch=self.epoch)

    @property
    def contender(self) -> str:
        """Who answered: agent and model."""
        return f"{self.agent} · {self.model}"


def finished_entries(folder: RunFolder) -> dict[str, EpisodeEntry]:
    """Return the entry of every finished episode, by key."""
    with LogReader(folder.logs) as reader:
        return {entry.key: entry for entry in reader.episodes() if entry.state == "finished"}


def score_run(folder: RunFolder, *, report: Reporter = silent) -> list[EpisodeResult]:
    """Score every finished episode and write ``results.jsonl``; sorted by key, so the file depends on nothing else."""
    benchmark = Benchmark.open(Path(folder.settings.benchmark))
    samples = {sample.id: sample for sample in benchmark.all_samples}
    candidate_tools = [tool.name for tool in default_toolset().tools if tool.category == "candidate"]
    results: list[EpisodeResult] = []
    if any(folder.logs.iterdir()):
        with LogReader(folder.logs) as reader:
            entries = [entry for entry in reader.episodes() if entry.state == "finished"]
            for done, entry in enumerate(entries):
                key = EpisodeKey.parse(entry.key)
                trajectory = reader.trajectory(entry.key)
                results.append(score_episode(key, samples[key.sample], trajectory, benchmark, candidate_tools))
                report(Progress(label="scoring", done=done + 1, total=len(entries), unit="episodes"))
    results.sort(key=lambda result: result.key)
    lines = (json.dumps(asdict(result), ensure_ascii=False) for result in results)
    write_atomically(folder.results, "".join(line + "\n" for line in lines))
    return results


def score_episode(
    key: EpisodeKey, sample: Sample, trajectory: Trajectory, benchmark: Benchmark, candidate_tools: Iterable[str]
) -> EpisodeResult:
    """Score one finished episode against its sample."""
    outcome: Mapping[str, Any] = trajectory.outcome or {}
    answer = None if outcome.get("answer") is None else tuple(outcome["answer"])
    score = set_scores(answer, sample.target, benchmark.space(get_task(sample.task)).labels)
    citations = outcome.get("citations", ())
    held = [all(citation[name] for name in ("exists", "read", "supports")) for citation in citations]
    records = [record for turn in trajectory.turns for record in turn.results]
    unreported = {name for turn in trajectory.turns for name in turn.unreported}
    usage = asdict(trajectory.usage)
    return EpisodeResult(
        **asdict(key),
        subject_id=sample.subject_id,
        stratum=sample.stratum,
        prediction_time=sample.prediction_time.isoformat(sep=" "),
        answer=answer,
        target=sample.target,
        unwinnable=sample.unwinnable,
        precision=score.precision,
        recall=score.recall,
        f1=score.f1,
        hits=score.hits,
        answered=score.answered,
        wanted=score.wanted,
        outside=score.outside,
        finish=str(outcome.get("finish")),
        error=outcome.get("error"),
        turns=int(outcome.get("turns", 0)),
        model_calls=int(outcome.get("model_calls", 0)),
        input_tokens=None if "input_tokens" in unreported else usage["input_tokens"],
        output_tokens=None if "output_tokens" in unreported else usage["output_tokens"],
        cached_tokens=None if "cached_tokens" in unreported else usage["cached_tokens"],
        prefix_share=outcome.get("prefix_share"),
        cost=outcome.get("cost"),
        seconds=float(outcome.get("seconds", 0.0)),
        citations=len(held),
        grounding=sum(held) / len(held) if held else None,
        errors=tuple(sorted(classify_errors(trajectory, candidate_tools))),
        tools=dict(sorted(Counter(record.call.name for record in records).items())),
        tables=dict(sorted(Counter(record.table for record in records if record.table).items())),
    )


def read_results(folder: RunFolder) -> list[EpisodeResult]:
    """Read ``results.jsonl`` back."""
    return [_result(json.loads(line)) for line in folder.results.read_text(encoding="utf-8").splitlines()]


def _result(row: Mapping[str, Any]) -> EpisodeResult:
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    return EpisodeResult(**values)
