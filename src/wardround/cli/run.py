"""``wardround run``: run agents on a benchmark, or resume a run."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from wardround.cli.run_options import (
    add_dry_run_options,
    add_run_options,
    asked_settings,
    cost_limit,
    dry_run,
    open_run,
    play,
)
from wardround.core import UserError
from wardround.runs import RunFolder, Spending, gate_notes

EXAMPLES = """
  wardround run --benchmark bench --store store --out run
  wardround run --benchmark bench --store store --agent react --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --task diagnoses transfers --limit 20 --out run
  wardround run --benchmark bench --store store --model relay:folder --limit 1 --out run
      you are the model: for each folder/<n>.request.json write folder/<n>.reply.json, {"content": "..."} or
      {"tool_calls": [{"name": "...", "arguments": {}}]}
  wardround run --benchmark bench --store store --agent react retrosum retrosum-evolved --bank bank.sqlite --out run
  wardround run --benchmark bench-ehrshot --store store --agent direct rag ehr-rag ehr-rag-no-der --out run
  wardround run --benchmark bench-ehrshot --store store --agent react react+ether retrosum+ether --out run
      an agent with evidence before its first turn (+ether, +rag) or with retrieve_evidence as a tool (+tool)
  wardround run experiment.toml --set agent.retrosum.window=5 --out run
      settings from a file, one of them changed; --help-settings shows them all
  wardround run --preset retrosum --benchmark bench --store store --agent react retrosum --model openai/qwen3-30b \
      --base-url http://127.0.0.1:8000/v1 --out run
      the paper's published settings; other settings override them, and the manifest lists the differences
  wardround run --benchmark bench --store store --model openai/qwen3-30b --base-url http://127.0.0.1:8000/v1 \\
      --set model.price=0.2,0.6 --max-cost 5 --out run
      begin no episode when 5 US dollars are recorded; a higher one goes on: --resume run --max-cost 10
  wardround run experiment.toml --dry-run --like run
      what it would take in tokens, US dollars and hours, by the means of an earlier run; without --like a range
  wardround run --benchmark /shared/bench --store /shared/store --model openai/qwen3-30b \\
      --base-url http://node1:8000/v1 --executor ray --workers 8 --concurrency 32 --out /shared/run
      workers on the machines of a Ray cluster, which all see /shared (docs/clusters.md)
  wardround run --resume run
  wardround run --resume run --retry-errors
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser)
    add_dry_run_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, run to the end, print the result."""
    asked = asked_settings(arguments)
    if arguments.dry_run:
        return dry_run(arguments, asked)
    if arguments.like:
        raise UserError("--like says what --dry-run takes its figures from; give both")
    folder = open_run(arguments, asked)
    for note in gate_notes(folder):
        print(f"wardround: note: {note}", file=sys.stderr)
    counts = play(folder, arguments)
    if arguments.json:
        print(
            json.dumps(
                {"run": str(folder.path), "done": counts.done, "total": counts.total, **_cost(folder, arguments)}
            )
        )
    else:
        print(f"see them with: wardround report {folder.path}")
    return 0 if counts.done == counts.total else 1


def _cost(folder: RunFolder, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the cost so far and its limit in US dollars; empty without a limit."""
    limit = cost_limit(folder, arguments)
    return {} if limit is None else {"cost": Spending.of(folder).cost, "max_cost": limit}
