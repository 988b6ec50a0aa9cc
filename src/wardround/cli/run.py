"""``wardround run``: run agents on a benchmark, or resume a run."""

from __future__ import annotations

import argparse

from wardround.cli.run_options import DEFAULTS, add_run_options, open_run, play

EXAMPLES = """
  wardround run --benchmark bench --store store --out run
  wardround run --benchmark bench --store store --agent react --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --task diagnoses transfers --limit 20 --out run
  wardround run --benchmark bench --store store --model relay:folder --limit 1 --out run
      you are the model: for each folder/<n>.request.json write folder/<n>.reply.json, {"content": "..."} or
      {"tool_calls": [{"name": "...", "arguments": {}}]}
  wardround run --benchmark bench --store store --agent react retrosum retrosum-evolved --bank bank.sqlite --out run
  wardround run --benchmark bench-ehrshot --store store --agent direct rag ehr-rag ehr-rag-no-der --out run
  wardround run --benchmark bench-ehrshot --store store --agent react retrosum --evidence none ether --out run
      react, react+ether, retrosum and retrosum+ether: evidence before the first turn; --agent retrosum+ether is one
  wardround run --resume run
  wardround run --resume run --retry-errors
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser, agents=DEFAULTS.agents)


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, play to the end, say how it went."""
    folder = open_run(arguments)
    counts = play(folder, arguments)
    print(f"see them with: wardround report {folder.path}")
    return 0 if counts.done == counts.total else 1
