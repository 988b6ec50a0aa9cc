"""``wardround export trajectories|conversations|atif|spans|inspect``: a run's episodes in formats of other programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from wardround import __version__
from wardround.cli.output import add_json_option, print_json
from wardround.core import Progress, TerminalProgress, UserError
from wardround.log import LogReader, Trajectory, atif_documents, conversations, episode_line, spans_document
from wardround.reports.inspect_log import write_inspect_logs
from wardround.runs import RunFolder

_Lines = Callable[[Trajectory], Iterator[dict[str, Any]]]
EXAMPLES = """
  wardround export trajectories --run run --out trajectories.jsonl
  wardround export conversations --run run --out conversations.jsonl
  wardround export atif --run run --out atif.jsonl
  wardround export spans --run run --out spans.jsonl
      OTLP in JSON, an episode a line; without any text, which is patient data, unless --content asks for it
  wardround export inspect --run run --out logs
      then: inspect view --log-dir logs
"""
LINES = {
    "trajectories": "write episodes whole: message tree, turns, tools, notes (JSON lines)",
    "conversations": "write a line for each branch of an episode, with the tools offered (JSON lines)",
    "atif": "write branches in ATIF 1.8, which Harbor and NeMo read (JSON lines)",
    "spans": "write OpenTelemetry GenAI spans (OTLP in JSON lines)",
}


def configure(actions: Any) -> None:
    """Declare the exports of a run's episodes."""
    for name, summary in {**LINES, "inspect": "write logs of Inspect (.eval), one a task, agent and model"}.items():
        action = actions.add_parser(name, help=summary, examples=EXAMPLES)
        action.add_argument("--run", type=Path, required=True, help="folder of the run")
        what = "folder of the logs" if name == "inspect" else "file"
        action.add_argument("--out", type=Path, required=True, help=f"{what} to make")
        add_json_option(action)
        if name == "spans":
            action.add_argument("--content", action="store_true", help="with all texts: they are patient data")


def export_run(arguments: argparse.Namespace) -> None:
    """Write and print what was written."""
    folder = RunFolder.open(arguments.run)
    if arguments.action == "inspect":
        counts = write_inspect_logs(folder, arguments.out)
    else:
        counts = {arguments.out.name: _write_lines(folder, _lines(arguments), arguments.out)}
    if arguments.json:
        print_json({"written": counts, "out": arguments.out})
        return
    one = "episodes" if arguments.action in ("inspect", "trajectories", "spans") else "branches"
    for name, count in counts.items():
        print(f"{name}: {count:,} {one}")
    print(f"{arguments.action}: {arguments.out}")


def _lines(arguments: argparse.Namespace) -> _Lines:
    if arguments.action == "spans":
        return lambda episode: iter([spans_document(episode, version=__version__, content=arguments.content)])
    known: dict[str, _Lines] = {
        "trajectories": lambda episode: iter([episode_line(episode)]),
        "conversations": conversations,
        "atif": partial(atif_documents, version=__version__),
    }
    return known[arguments.action]


def _write_lines(folder: RunFolder, lines: _Lines, out: Path) -> int:
    """Write the lines of every finished episode, one after the other."""
    if out.exists():
        raise UserError(f"{out} is there already; name another file")
    progress = TerminalProgress()
    count = 0
    unfinished = out.with_name(f".{out.name}.unfinished")
    with LogReader(folder.logs) as reader, unfinished.open("w", encoding="utf-8") as file:
        finished = [entry.key for entry in reader.episodes() if entry.state == "finished"]
        for done, key in enumerate(finished, start=1):
            for line in lines(reader.trajectory(key)):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
            progress(Progress(label="export", done=done, total=len(finished), unit="episodes"))
    unfinished.replace(out)
    progress.close()
    return count
