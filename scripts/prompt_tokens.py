"""Prompt tokens of runs by agent, from their logs: of the first call, of a mean call, of a whole episode (estimated).

    python scripts/prompt_tokens.py run-before run-after

Schemas of tools are not counted. A run with `--model offline`, or with a relay that a script answers, asks the same
before and after a change of prompts.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from wardround.core import Message, estimate_tokens
from wardround.log import LogReader


def main() -> None:
    """Print one line for each agent of each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    for run in parser.parse_args().runs:
        calls = defaultdict(list)
        reader = LogReader(run)
        for entry in reader.episodes():
            turns = reader.trajectory(entry.key).turns
            calls[entry.key.partition("|")[0]].append([_tokens(turn.prompt) for turn in turns])
        reader.close()
        for agent, episodes in sorted(calls.items()):
            every = [tokens for episode in episodes for tokens in episode]
            first = sum(episode[0] for episode in episodes if episode) / len(episodes)
            print(
                f"{run.name:24}{agent:18}{len(episodes):4} episodes {len(every):6} calls  first {first:8,.0f}  "
                f"mean {sum(every) / max(len(every), 1):8,.0f}  episode {sum(every) / len(episodes):10,.0f}"
            )


def _tokens(prompt: Sequence[Message]) -> int:
    return sum(estimate_tokens(message.content or "") for message in prompt)


if __name__ == "__main__":
    main()
