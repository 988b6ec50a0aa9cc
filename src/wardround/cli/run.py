"""``wardround run``: run agents on a benchmark, or resume a run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from wardround.agents import list_agents
from wardround.benchmarks import STRATA
from wardround.cli.progress import TerminalProgress
from wardround.core import UserError
from wardround.runs import RunFolder, RunSettings, execute, start

EXAMPLES = """
  wardround run --benchmark bench --store store --out run
  wardround run --benchmark bench --store store --agent react --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --task diagnoses transfers --limit 20 --out run
  wardround run --benchmark bench --store store --model relay:folder --limit 1 --out run
      you are the model: for each folder/<n>.request.json write folder/<n>.reply.json, {"content": "..."} or
      {"tool_calls": [{"name": "...", "arguments": {}}]}
  wardround run --resume run
  wardround run --resume run --retry-errors
"""

_DEFAULTS = RunSettings(benchmark="", store="")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = parser.add_argument_group("what")
    what.add_argument("--benchmark", type=Path, help="folder of a built benchmark")
    what.add_argument("--store", type=Path, help="folder of the store it was built from")
    what.add_argument("--out", type=Path, help="folder of the new run")
    what.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run; its own settings hold")
    what.add_argument("--retry-errors", action="store_true", help="with --resume: play episodes again that failed")
    what.add_argument("--task", nargs="+", default=[], metavar="TASK", help="only these tasks")
    what.add_argument("--split", default=_DEFAULTS.split, choices=["train", "dev", "test"], help="which samples")
    what.add_argument("--stratum", nargs="+", default=[], choices=STRATA, help="only these strata")
    what.add_argument("--limit", type=int, help="at most this many samples per task")
    what.add_argument("--epochs", type=int, default=_DEFAULTS.epochs, help="repeats of every sample")
    what.add_argument("--seed", type=int, default=_DEFAULTS.seed, help="seed of everything random")
    who = parser.add_argument_group("who")
    agents = ", ".join(entry.name for entry in list_agents())
    who.add_argument("--agent", nargs="+", default=list(_DEFAULTS.agents), help=f"agents: {agents}")
    who.add_argument(
        "--model", nargs="+", default=list(_DEFAULTS.models), help="models (wardround list models), e.g. openai/<name>"
    )
    who.add_argument("--base-url", help="an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1")
    who.add_argument("--api-key-variable", metavar="NAME", help="environment variable that holds the endpoint's key")
    who.add_argument(
        "--permit-endpoint", nargs="+", default=[], metavar="URL", help="record text may be sent there (you declare it)"
    )
    who.add_argument("--price", type=_price, default=(), help="input,output[,cached] US dollars per million tokens")
    how = parser.add_argument_group("how")
    how.add_argument("--turns", type=int, default=_DEFAULTS.turns, help="turn limit of an episode")
    how.add_argument("--context-tokens", type=int, default=_DEFAULTS.context_tokens, help="context budget")
    how.add_argument("--result-tokens", type=int, default=_DEFAULTS.result_tokens, help="budget of one tool result")
    how.add_argument("--reply-tokens", type=int, default=_DEFAULTS.reply_tokens, help="longest reply")
    how.add_argument("--temperature", type=float, default=_DEFAULTS.temperature, help="sampling temperature")
    how.add_argument("--top-p", type=float, default=_DEFAULTS.top_p, help="nucleus sampling")
    how.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1), help="processes")
    how.add_argument("--concurrency", type=int, default=16, help="episodes at once in each process")


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, play to the end, say how it went."""
    if arguments.workers < 1 or arguments.concurrency < 1:
        raise UserError("--workers and --concurrency must be at least 1")
    folder = RunFolder.open(arguments.resume) if arguments.resume else start(*_new_run(arguments))
    progress = TerminalProgress()
    counts = execute(
        folder,
        workers=arguments.workers,
        concurrency=arguments.concurrency,
        report=progress,
        retry_errors=arguments.retry_errors,
    )
    progress.close()
    print(f"{counts.done:,} of {counts.total:,} episodes done: {folder.path}")
    print(f"see them with: wardround report {folder.path}")
    return 0 if counts.done == counts.total else 1


def _new_run(arguments: argparse.Namespace) -> tuple[Path, RunSettings]:
    missing = [name for name in ("benchmark", "store", "out") if getattr(arguments, name) is None]
    if missing:
        raise UserError(f"a new run needs {', '.join('--' + name for name in missing)} (or --resume RUN)")
    settings = RunSettings(
        benchmark=str(arguments.benchmark),
        store=str(arguments.store),
        tasks=tuple(arguments.task),
        split=arguments.split,
        strata=tuple(arguments.stratum),
        limit=arguments.limit,
        agents=tuple(arguments.agent),
        models=tuple(arguments.model),
        base_url=arguments.base_url,
        api_key_variable=arguments.api_key_variable,
        permitted_endpoints=tuple(arguments.permit_endpoint),
        price=arguments.price,
        epochs=arguments.epochs,
        seed=arguments.seed,
        turns=arguments.turns,
        context_tokens=arguments.context_tokens,
        result_tokens=arguments.result_tokens,
        reply_tokens=arguments.reply_tokens,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
    )
    return arguments.out, settings


def _price(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not input,output[,cached]") from None
