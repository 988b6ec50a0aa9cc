"""Write a run as logs of Inspect (``.eval``) for its viewer and its readers: one file per task, agent and model.

The form is that of Inspect 0.3.285: a zip of a header, summaries, and one file for each sample and epoch. Prompts of
one episode share most of their messages; these are stored once and referred to by place.
"""

from __future__ import annotations

import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from wardround.core import Message, UserError, content_hash, must_be_new, private_folder
from wardround.log import LogReader, Trajectory, Turn
from wardround.runs.folder import RunFolder
from wardround.runs.results import read_results
from wardround.tasks.scoring import EpisodeScore

_VERSION = 2
_STOPS = {"stop": "stop", "tool_calls": "tool_calls", "length": "max_tokens", "content_filter": "content_filter"}
_Group = tuple[str, str, str]


def write_inspect_logs(folder: RunFolder, out: Path) -> dict[str, int]:
    """Write a scored run's episodes into a new folder; return episodes by file. UserError: the folder is not empty, or
    the run is not scored."""
    must_be_new(out)
    if not folder.results.is_file():
        raise UserError(f"{folder.path} is not scored: run `wardround report {folder.path}` first")
    groups: dict[_Group, list[EpisodeScore]] = defaultdict(list)
    for score in read_results(folder):
        groups[score.task, score.agent, score.model].append(score)
    private_folder(out)
    with LogReader(folder.logs) as reader:
        return {
            (name := f"{_file_name(group)}.eval"): _write(out / name, folder, group, scores, reader)
            for group, scores in groups.items()
        }


def _file_name(group: _Group) -> str:
    return "_".join("".join(sign if sign.isalnum() or sign in "-." else "-" for sign in part) for part in group)


def _write(file: Path, folder: RunFolder, group: _Group, scores: Sequence[EpisodeScore], reader: LogReader) -> int:
    moments: list[str] = []
    summaries = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for score in scores:
            trajectory = reader.trajectory(score.episode)
            moments += [moment for moment in (trajectory.entry.started, trajectory.entry.ended) if moment]
            sample = _sample(trajectory, score)
            packed.writestr(f"samples/{score.sample}_epoch_{score.epoch + 1}.json", _json(sample))
            summaries.append(_summary(sample))
        header = _header(folder, group, scores, sorted(moments))
        packed.writestr("_journal/start.json", _json({name: header[name] for name in ("version", "eval", "plan")}))
        packed.writestr("summaries.json", _json(summaries))
        packed.writestr("header.json", _json(header))
    return len(scores)


def _header(folder: RunFolder, group: _Group, scores: Sequence[EpisodeScore], moments: Sequence[str]) -> dict[str, Any]:
    task, agent, model = group
    ids = list(dict.fromkeys(score.sample for score in scores))
    told = {"run": folder.path.name, "policy": folder.manifest["policy"], "agent": agent}
    name = content_hash([folder.path.name, *group])[:22]
    return {
        "version": _VERSION,
        "status": "success",
        "eval": {
            "eval_id": name,
            "run_id": folder.path.name,
            "created": moments[0],
            "task": task,
            "task_id": name,
            "task_version": 0,
            "task_attribs": {},
            "task_args": {},
            "task_args_passed": {},
            "solver": agent,
            "solver_args_passed": {},
            "dataset": {"name": Path(folder.settings.run.benchmark).name, "samples": len(ids), "sample_ids": ids},
            "model": model,
            "model_generate_config": {},
            "model_args": {},
            "config": {"epochs": len({score.epoch for score in scores})},
            "packages": {"wardround": str(folder.manifest.get("wardround", ""))},
            "metadata": told,
        },
        "plan": {"name": agent, "steps": [{"solver": agent, "params": {}}], "config": {}},
        "results": {
            "total_samples": len(scores),
            "completed_samples": len(scores),
            "scores": [_mean(name, [_figures(score)[name] for score in scores]) for name in _figures(scores[0])],
        },
        "stats": {"started_at": moments[0], "completed_at": moments[-1], "model_usage": {}, "role_usage": {}},
    }


def _figures(score: EpisodeScore) -> dict[str, float]:
    """What an episode is worth, the figure that tables show first."""
    shares = {"precision": score.score.precision, "recall": score.score.recall}
    return {"score": score.value, **shares, **score.figures}


def _mean(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Return a figure's mean over episodes and its standard error, which is too small for people with several
    samples."""
    figures = {"mean": mean(values)}
    if len(values) > 1:
        figures["stderr"] = stdev(values) / len(values) ** 0.5
    metrics = {metric: {"name": metric, "value": value} for metric, value in figures.items()}
    return {"name": name, "scorer": "wardround", "params": {}, "metrics": metrics}


def _sample(trajectory: Trajectory, score: EpisodeScore) -> dict[str, Any]:
    pool = _Pool()
    events = [event for turn in trajectory.turns for event in _events(turn, pool)]
    last = trajectory.turns[-1] if trajectory.turns else None
    messages = [] if last is None else [_message(message) for message in (*last.prompt, last.reply)]
    answer = "\n".join(score.answer or ())
    error = (trajectory.outcome or {}).get("error")
    return {
        "id": score.sample,
        "epoch": score.epoch + 1,
        "input": next((text for message in messages if message["role"] == "user" and (text := message["content"])), ""),
        "target": list(score.target),
        "messages": messages,
        "output": {"model": score.model, "choices": [], "completion": answer} if last is None else _output(last),
        "scores": {name: {"value": value, "answer": answer} for name, value in _figures(score).items()},
        "metadata": {**trajectory.facts, "finish": score.finish, "errors": sorted(score.errors)},
        "store": {},
        "events": events,
        "model_usage": {score.model: _usage(trajectory.usage)},
        "total_time": (trajectory.outcome or {}).get("seconds"),
        **({} if error is None else {"error": {"message": error, "traceback": "", "traceback_ansi": ""}}),
        "attachments": {},
        "events_data": {"messages": pool.messages, "calls": []},
    }


class _Pool:
    """The messages of an episode's prompts, each once."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._places: dict[bytes, int] = {}

    def refer(self, prompt: Sequence[Message]) -> list[list[int]]:
        """Return a prompt as ranges of places in the pool."""
        ranges: list[list[int]] = []
        for message in prompt:
            place = self._places.setdefault(message.digest, len(self.messages))
            if place == len(self.messages):
                self.messages.append(_message(message))
            if ranges and ranges[-1][1] == place:
                ranges[-1][1] += 1
            else:
                ranges.append([place, place + 1])
        return ranges


def _events(turn: Turn, pool: _Pool) -> Iterator[dict[str, Any]]:
    yield {
        "uuid": f"{turn.reply_hash[:12]}-{turn.ordinal}",
        "timestamp": turn.ended,
        "working_start": 0,
        "event": "model",
        "model": turn.model,
        "role": turn.purpose,
        "input": [],
        "input_refs": pool.refer(turn.prompt),
        "tools": [],
        "tool_choice": "auto",
        "config": {},
        "output": _output(turn),
    }
    for n, result in enumerate(turn.results):
        refused = {"error": {"type": "unknown", "message": result.result_text}} if result.is_error else {}
        yield {
            "uuid": f"{turn.reply_hash[:12]}-{turn.ordinal}-{n}",
            "timestamp": turn.ended,
            "working_start": 0,
            "event": "tool",
            "type": "function",
            "id": result.call.id,
            "function": result.call.name,
            "arguments": result.call.as_object("unreadable"),
            "result": result.result_text,
            "working_time": result.seconds,
            "events": [],
            **refused,
        }


def _output(turn: Turn) -> dict[str, Any]:
    choice = {"message": _message(turn.reply, turn.model), "stop_reason": _STOPS.get(turn.finish_reason, "unknown")}
    return {
        "model": turn.model,
        "choices": [choice],
        "completion": turn.reply.content or "",
        "usage": _usage(turn.usage),
        "time": turn.seconds,
    }


def _message(message: Message, model: str | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"id": message.digest.hex()[:22], "content": message.content or "", "role": message.role}
    if message.tool_calls:
        said["tool_calls"] = [
            {"id": call.id, "function": call.name, "arguments": call.as_object("unreadable"), "type": "function"}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        said["tool_call_id"] = message.tool_call_id
    return said if model is None else {**said, "model": model}


def _usage(usage: Any) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
    }


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "total_time")
    return {name: sample[name] for name in names} | {"completed": True, "message_count": len(sample["messages"])}


def _json(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False)
