"""``wardround serve play``: outside agents run episodes over MCP, recorded and scored like ours."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from wardround.cli.mcp_options import add_listening_options, listening, needs_mcp
from wardround.core import TerminalProgress, UserError, library_of
from wardround.runs import RunFolder, RunSettings, start
from wardround.tools import AID_NAMES, TOOLSETS, Aids
from wardround.tools.toolset import USUAL

EXAMPLES = """
  wardround serve play --benchmark bench --store store --task diagnoses --limit 5 --name my-agent --out played
      writes played/handout.jsonl: prompt, address and token of each episode; ends when all are finished
  wardround serve play --benchmark bench --store store --stdio --limit 1 --name my-agent --out played
      serves one episode on standard input and output (the MCP prompt `task` holds the question)
  wardround serve play --benchmark bench --store store --toolset clinseek --limit 1 --name my-agent --out played
      with the tools that seek evidence in corpora too: those of wardround corpus list, or of --library
  wardround serve play --resume played
  wardround report played
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--benchmark", type=Path, help="folder of a built benchmark")
    parser.add_argument("--store", type=Path, help="folder of the store it was built from")
    parser.add_argument("--out", type=Path, help="folder of the new run")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was played")
    parser.add_argument("--name", default="outside", help="what to call the agent in tables")
    parser.add_argument("--task", nargs="+", default=[], help="only these tasks")
    parser.add_argument("--split", default="test", choices=["train", "dev", "test"], help="which samples")
    parser.add_argument("--sample", nargs="+", default=[], metavar="ID", help="only these samples, by id")
    parser.add_argument(
        "--aids",
        nargs="+",
        default=["all"],
        choices=["all", "none", *AID_NAMES],
        help="what is done for a language model beyond the papers' tools",
    )
    parser.add_argument("--toolset", choices=TOOLSETS.names, default=USUAL, help="which tools are offered")
    parser.add_argument("--tool", nargs="+", default=[], help="offer these tools too (wardround list tools)")
    parser.add_argument("--library", type=Path, help="folder of corpora (default: those of wardround corpus list)")
    parser.add_argument("--limit", type=int, help="at most this many samples per task")
    parser.add_argument("--stdio", action="store_true", help="serve one episode on standard input and output")
    add_listening_options(parser)
    parser.add_argument("--together", type=int, default=100, help="episodes open at once")
    parser.add_argument("--calls", type=int, default=200, help="tool calls an episode may use")
    parser.add_argument("--episode-seconds", type=float, help="wall time an episode may use from its first call")


def run(arguments: argparse.Namespace) -> int:
    """Hand out episodes, wait for their end, print the results."""
    with needs_mcp():
        from wardround.serve import PlayedRun, PlaySettings, SessionLimits
    folder = RunFolder.open(arguments.resume) if arguments.resume else _new_run(arguments)
    progress = TerminalProgress()
    settings = PlaySettings(
        listening=listening(arguments),
        token_seconds=arguments.token_hours * 3600,
        together=arguments.together,
        limits=SessionLimits(calls=arguments.calls, seconds=arguments.episode_seconds),
    )
    game = PlayedRun(folder, settings, progress)
    if arguments.stdio:
        asyncio.run(game.over_stdio())
        return 0
    print(f"handout: {folder.path / 'handout.jsonl'}  (tokens open charts: keep it private)", file=sys.stderr)
    asyncio.run(game.over_http())
    progress.close()
    print(f"all episodes finished; see them with: wardround report {folder.path}")
    return 0


def _new_run(arguments: argparse.Namespace) -> RunFolder:
    missing = [name for name in ("benchmark", "store", "out") if getattr(arguments, name) is None]
    if missing:
        raise UserError(f"a new game needs {', '.join('--' + name for name in missing)} (or --resume RUN)")
    settings = RunSettings.of(
        benchmark=str(arguments.benchmark),
        store=str(arguments.store),
        tasks=tuple(arguments.task),
        split=arguments.split,
        limit=arguments.limit,
        agents=(arguments.name,),
        models=("outside",),
        samples=tuple(arguments.sample),
        toolset=arguments.toolset,
        tools=tuple(arguments.tool),
        library=library_of(arguments.library),
        aids=Aids.named(arguments.aids),
        plugins=tuple(arguments.plugin),
    )
    return start(arguments.out, settings, outside=True)
