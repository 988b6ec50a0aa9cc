"""From runs to rows to train on: filtered by outcome, compressed, each once, and what was dropped counted by reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from wardround.core import Progress, Reporter, content_hash, silent
from wardround.log import LogReader
from wardround.runs import RunFolder, open_benchmark, open_store, score_run
from wardround.scoring import EpisodeScore
from wardround.training.held_out import HeldOut
from wardround.training.masking import RowTokenizer
from wardround.training.recipe import DataSettings
from wardround.training.redundant_calls import without_redundant_calls
from wardround.training.rows import TrainingRow, training_rows


@dataclass(slots=True, kw_only=True)
class ExportCounts:
    """What an export kept and what it dropped, by reason. ``tokens`` and ``learnt_tokens`` are None without a
    tokenizer. ``not_in_parquet`` counts the rows with pictures, which only the JSON lines hold."""

    episodes: int = 0
    rows: int = 0
    learnt_replies: int = 0
    redundant_calls: int = 0
    pictures: int = 0
    not_in_parquet: int = 0
    tokens: int | None = None
    learnt_tokens: int | None = None
    dropped: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self) | {"dropped": dict(sorted(self.dropped.items()))}


def export_rows(
    folders: Sequence[RunFolder],
    settings: DataSettings,
    *,
    held_out: Sequence[HeldOut] = (),
    row_tokenizer: RowTokenizer | None = None,
    counts: ExportCounts | None = None,
    report: Reporter = silent,
) -> Iterator[TrainingRow]:
    """Yield the rows of some runs, in the order of their episodes; ``counts`` is filled on the way.

    Raises LeakError before the first row where a run played a sample, or a person, that is held out: by its own
    benchmark, always, and by those of ``held_out``. Without ``row_tokenizer`` rows of any length are kept.
    """
    counts = counts if counts is not None else ExportCounts()
    for folder in folders:
        _refuse_held_out(folder, held_out)
    seen: set[str] = set()
    for row in chain.from_iterable(_rows_of(folder, settings, counts, report) for folder in folders):
        kept = _finished_row(row, settings, row_tokenizer, counts, seen)
        if kept is not None:
            yield kept


def _refuse_held_out(folder: RunFolder, held_out: Sequence[HeldOut]) -> None:
    benchmark = open_benchmark(folder)
    by_id = {sample.id: sample for sample in benchmark.all_samples}
    with LogReader(folder.logs, may_be_empty=True) as reader:
        played = [by_id[str(entry.facts["sample"])] for entry in reader.episodes()]
    for guard in (HeldOut.of([benchmark]), *held_out):
        guard.refuse(played)


def _rows_of(
    folder: RunFolder, settings: DataSettings, counts: ExportCounts, report: Reporter
) -> Iterator[TrainingRow]:
    use = {"sensitivity": open_store(folder).spec.sensitivity, "source": folder.manifest.get("source")}
    wanted = {score.episode: score.value for score in _wanted(score_run(folder), settings, counts)}
    counts.episodes += len(wanted)
    with LogReader(folder.logs, may_be_empty=True) as reader:
        for done, (episode, score) in enumerate(wanted.items(), start=1):
            report(Progress(label="exporting", done=done, total=len(wanted), unit="episodes"))
            for row in training_rows(reader.trajectory(episode), purposes=settings.purposes):
                yield replace(row, about={**row.about, "score": score, **use})


def _wanted(scores: Sequence[EpisodeScore], settings: DataSettings, counts: ExportCounts) -> list[EpisodeScore]:
    """The episodes that are kept, of each task at most so many, drawn by their names and the seed."""
    reasons = {score.episode: _unwanted(score, settings) for score in scores}
    counts.dropped.update(reason for reason in reasons.values() if reason)
    kept = [score for score in scores if not reasons[score.episode]]
    most = settings.episodes_per_task
    if most is None:
        return kept
    drawn: dict[str, list[EpisodeScore]] = {}
    for score in sorted(kept, key=lambda one: content_hash([settings.seed, one.episode])):
        drawn.setdefault(score.task, []).append(score)
    chosen = {score.episode for some in drawn.values() for score in some[:most]}
    counts.dropped["episode_not_drawn"] += len(kept) - len(chosen)
    return [score for score in kept if score.episode in chosen]


def _unwanted(score: EpisodeScore, settings: DataSettings) -> str:
    """Why nothing of an episode is kept; empty where something is."""
    if score.finish == "error":
        return "episode_failed"
    if settings.finishes and score.finish not in settings.finishes:
        return f"episode_ended_by_{score.finish}"
    if settings.least_score is not None and score.value < settings.least_score:
        return "episode_scored_less"
    return ""


def _finished_row(
    row: TrainingRow, settings: DataSettings, row_tokenizer: RowTokenizer | None, counts: ExportCounts, seen: set[str]
) -> TrainingRow | None:
    if settings.compress:
        row, left_out = without_redundant_calls(row)
        counts.redundant_calls += left_out
    same = content_hash(json.dumps([row.messages, row.tools], sort_keys=True, default=dict))
    if same in seen:
        counts.dropped["row_twice"] += 1
        return None
    seen.add(same)
    if not row.learnt:
        counts.dropped["row_without_learnt_reply"] += 1
        return None
    if row_tokenizer is not None and not _fits(row, settings.max_tokens, row_tokenizer, counts):
        counts.dropped["row_too_long"] += 1
        return None
    counts.rows += 1
    counts.learnt_replies += row.learnt
    return row


def _fits(row: TrainingRow, most: int | None, row_tokenizer: RowTokenizer, counts: ExportCounts) -> bool:
    tokens = row_tokenizer.encode(row)
    if most is not None and len(tokens.ids) > most:
        return False
    counts.tokens = (counts.tokens or 0) + len(tokens.ids)
    counts.learnt_tokens = (counts.learnt_tokens or 0) + sum(tokens.mask)
    return True
