"""Export rows to train on, with everything dropped counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wardround import __version__
from wardround.core import (
    Progress,
    Reporter,
    UserError,
    content_hash,
    must_be_new,
    private_folder,
    silent,
    write_atomically,
)
from wardround.learning.recipe import DataSettings
from wardround.learning.rows import (
    HeldOut,
    RowTokenizer,
    TrainingRow,
    pictures_named,
    training_rows,
    without_redundant_calls,
    write_row_pictures,
)
from wardround.log import LogReader, atif_documents
from wardround.runs import RunFolder, open_benchmark, open_store, score_run
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import EpisodeScore


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

    Raises LeakError before the first row with a sample or person that is held out: by its own
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
    """Return the kept episodes: at most a number per task, drawn by names and seed."""
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
    """Return why nothing of an episode is kept; empty where something is."""
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


# The files of an export: rows as JSON lines and Parquet, whole episodes as ATIF, and what was done.
#
# rows.jsonl       one conversation a line: messages, tools, about
# rows.parquet     the same conversations as trl and datasets read them, but for rows with pictures: trl takes text
# atif.jsonl       the kept episodes in ATIF 1.8, one branch a line
# pictures/        the pictures that messages name, each once, by the hash of its bytes
# export.json      settings, runs, held-out benchmarks, what was kept and what was dropped, by reason


FORMATS = ("jsonl", "parquet", "atif")
_ROWS_AT_ONCE = 256
_ABOUT = {
    "episode": pa.string(),
    "branch": pa.int32(),
    "purpose": pa.string(),
    "agent": pa.string(),
    "model": pa.string(),
    "task": pa.string(),
    "sample": pa.string(),
    "epoch": pa.int32(),
    "subject_id": pa.int64(),
    "score": pa.float64(),
    "sensitivity": pa.string(),
    "source": pa.string(),
}
_MESSAGE = ("role", "content", "tool_calls", "tool_call_id", "weight")


def _columns(json_type: pa.DataType) -> pa.Schema:
    """``json_type`` is of what has keys of its own in each row: calls with their arguments, and tools."""
    types = (pa.string(), pa.string(), pa.list_(json_type), pa.string(), pa.int8())
    message = pa.struct(list(zip(_MESSAGE, types, strict=True)))
    return pa.schema([("messages", pa.list_(message)), ("tools", pa.list_(json_type)), *_ABOUT.items()])


_TEXTS = _columns(pa.string())
_COLUMNS = _columns(pa.json_())
"""The package datasets reads these back as objects; pyarrow makes them of texts alone."""


def export_folder(
    folders: Sequence[RunFolder],
    out: Path,
    settings: DataSettings,
    *,
    formats: Collection[str] = FORMATS,
    keep_from: Sequence[Path] = (),
    row_tokenizer: RowTokenizer | None = None,
    report: Reporter = silent,
) -> ExportCounts:
    """Export runs to a new folder. Raises UserError where it holds something; LeakError as ``export_rows`` does."""
    must_be_new(out)
    guards = [HeldOut.of([Benchmark.open(path)]) for path in keep_from]
    counts = ExportCounts()
    rows = export_rows(folders, settings, held_out=guards, row_tokenizer=row_tokenizer, counts=counts, report=report)
    first = next(rows, None)
    private_folder(out)
    named: set[str] = set()
    kept = _write(rows if first is None else _again(first, rows), out, formats, named, counts)
    counts.pictures = write_row_pictures(folders, kept, named, out)
    if "atif" in formats:
        _write_atif(folders, kept, out / "atif.jsonl")
    manifest = {
        "schema": 1,
        "wardround": __version__,
        "runs": [
            {"path": str(folder.path), "settings_sha256": folder.manifest["settings_sha256"]} for folder in folders
        ],
        "kept_from": [name for guard in guards for name in guard.benchmarks],
        "settings": asdict(settings),
        "counts": counts.to_json(),
    }
    write_atomically(out / "export.json", json.dumps(manifest, indent=2) + "\n")
    return counts


def read_rows(file: Path) -> list[TrainingRow]:
    """Read ``rows.jsonl``. UserError names an invalid line."""
    rows: list[TrainingRow] = []
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    rows.append(TrainingRow.from_json(json.loads(line)))
                except (ValueError, KeyError, TypeError) as error:
                    raise UserError(f"{file}, line {number}: no row of an export ({error})") from error
    except OSError as error:
        raise UserError(f"{str(file)!r} cannot be read: {error.strerror or error}") from error
    return rows


def _again(first: TrainingRow, rest: Iterator[TrainingRow]) -> Iterator[TrainingRow]:
    yield first
    yield from rest


def _write(
    rows: Iterator[TrainingRow], out: Path, formats: Collection[str], named: set[str], counts: ExportCounts
) -> set[str]:
    """Write the rows; return their episodes. ``named`` collects the hashes of their images."""
    kept: set[str] = set()
    waiting: list[dict[str, Any]] = []
    with ExitStack() as stack:
        lines = stack.enter_context((out / "rows.jsonl").open("w", encoding="utf-8")) if "jsonl" in formats else None
        table = stack.enter_context(pq.ParquetWriter(out / "rows.parquet", _COLUMNS)) if "parquet" in formats else None
        for row in rows:
            kept.add(str(row.about["episode"]))
            named |= pictures_named(row)
            if lines is not None:
                lines.write(json.dumps(row.to_json(), ensure_ascii=False) + "\n")
            if table is not None and row.has_pictures:
                counts.not_in_parquet += 1
            elif table is not None:
                waiting.append(
                    {
                        "messages": [_flat_message(message) for message in row.messages],
                        "tools": [json.dumps(tool, ensure_ascii=False) for tool in row.tools],
                        **{name: row.about.get(name) for name in _ABOUT},
                    }
                )
                if len(waiting) == _ROWS_AT_ONCE:
                    table.write_table(pa.Table.from_pylist(waiting, schema=_TEXTS).cast(_COLUMNS))
                    waiting.clear()
        if table is not None and waiting:
            table.write_table(pa.Table.from_pylist(waiting, schema=_TEXTS).cast(_COLUMNS))
    return kept


def _flat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return {
        **{name: message.get(name) for name in _MESSAGE},
        "tool_calls": None if calls is None else [json.dumps(call, ensure_ascii=False) for call in calls],
    }


def _write_atif(folders: Sequence[RunFolder], episodes: Collection[str], file: Path) -> None:
    with file.open("w", encoding="utf-8") as lines:
        for folder in folders:
            with LogReader(folder.logs, may_be_empty=True) as reader:
                for trajectory in reader.trajectories():
                    if trajectory.episode in episodes:
                        for document in atif_documents(trajectory, version=__version__):
                            lines.write(json.dumps(document, ensure_ascii=False) + "\n")
