"""Arguments that every command that plays episodes shares, and the settings they stand for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from wardround.agents import AgentName, get_method, kinds_read, list_agents
from wardround.benchmarks import STRATA, Benchmark
from wardround.cli.progress import TerminalProgress
from wardround.cli.retrieval_options import add_retrieval_options, retrieval_settings
from wardround.core import UserError, estimate_tokens
from wardround.models import TOOL_CALLS
from wardround.runs import Counts, RunFolder, RunSettings, codes_with_words, evidence_cuts, execute, start
from wardround.tools import AID_NAMES, Aids, default_toolset

DEFAULTS = RunSettings(benchmark="", store="")
_OPTIONS = {
    "tasks": "--task",
    "models": "--model",
    "strata": "--stratum",
    "samples": "--sample",
    "permitted_endpoints": "--permit-endpoint",
    "retrieval": "--retrieval-...",
}
"""Settings whose option is not their name."""


def add_run_options(parser: argparse.ArgumentParser, *, agents: Sequence[str], split: str | None = None) -> None:
    """Declare them. ``agents``: those that play by default; ``split``: the only one there is, not asked for."""
    what = parser.add_argument_group("what")
    what.add_argument("--benchmark", type=Path, help="folder of a built benchmark")
    what.add_argument("--store", type=Path, help="folder of the store it was built from")
    what.add_argument("--out", type=Path, help="folder of the new run")
    what.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run; its own settings hold")
    what.add_argument("--retry-errors", action="store_true", help="with --resume: play episodes again that failed")
    what.add_argument("--task", nargs="+", default=[], metavar="TASK", help="only these tasks")
    if split is None:
        what.add_argument("--split", default=DEFAULTS.split, choices=["train", "dev", "test"], help="which samples")
    else:
        parser.set_defaults(split=split)
    what.add_argument("--stratum", nargs="+", default=[], choices=STRATA, help="only these strata")
    what.add_argument("--limit", type=int, help="at most this many samples per task")
    what.add_argument("--sample", nargs="+", default=[], metavar="ID", help="only these samples, by id")
    what.add_argument("--epochs", type=int, default=DEFAULTS.epochs, help="repeats of every sample, each with its seed")
    what.add_argument("--seed", type=int, default=DEFAULTS.seed, help="seed of everything random")
    _add_who(parser.add_argument_group("who"), agents)
    _add_how(parser.add_argument_group("how"))
    _add_methods(parser.add_argument_group("methods"))
    add_retrieval_options(parser.add_argument_group("retrieval"))


def _add_who(who: argparse._ArgumentGroup, agents: Sequence[str]) -> None:
    names = ", ".join(entry.name for entry in list_agents())
    who.add_argument("--agent", nargs="+", default=list(agents), help=f"agents: {names}")
    who.add_argument(
        "--evidence",
        nargs="+",
        default=["none"],
        choices=["none", "rag", "ether"],
        help="evidence before the first turn of each agent that reads with tools; several: each agent with each "
        "(short for agents named <agent>+ether)",
    )
    who.add_argument("--evidence-tool", action="store_true", help="offer retrieve_evidence too (<agent>+tool)")
    who.add_argument(
        "--model", nargs="+", default=list(DEFAULTS.models), help="models (wardround list models), e.g. openai/<name>"
    )
    who.add_argument("--base-url", help="an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1")
    who.add_argument(
        "--tool-calls",
        default=DEFAULTS.tool_calls,
        choices=TOOL_CALLS,
        help="how a served model is asked for tool calls: through the endpoint's tools, or described in the prompt "
        "with the reply bound to their schemas; auto finds out whether the server's template ignores tools",
    )
    who.add_argument("--api-key-variable", metavar="NAME", help="environment variable that holds the endpoint's key")
    who.add_argument(
        "--permit-endpoint", nargs="+", default=[], metavar="URL", help="record text may be sent there (you declare it)"
    )
    who.add_argument("--price", type=_price, default=(), help="input,output[,cached] US dollars per million tokens")


def _add_how(how: argparse._ArgumentGroup) -> None:
    how.add_argument("--turns", type=int, default=DEFAULTS.turns, help="turn limit of an episode")
    how.add_argument(
        "--episode-seconds", type=float, metavar="S", help="wall time after which an episode ends (default: none)"
    )
    how.add_argument(
        "--context-tokens",
        type=int,
        default=DEFAULTS.context_tokens,
        help="context budget of every agent; by default that of the benchmark's paper (64,000; EHRSHOT: 128,000)",
    )
    how.add_argument("--result-tokens", type=int, default=DEFAULTS.result_tokens, help="budget of one tool result")
    how.add_argument("--reply-tokens", type=int, default=DEFAULTS.reply_tokens, help="longest reply")
    how.add_argument("--temperature", type=float, default=DEFAULTS.temperature, help="sampling temperature")
    how.add_argument("--top-p", type=float, default=DEFAULTS.top_p, help="nucleus sampling")
    how.add_argument(
        "--aids",
        nargs="+",
        default=["all"],
        choices=["all", "none", *AID_NAMES],
        help="what is done for a language model beyond the papers' tools; none is a paper's preset",
    )
    how.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1), help="processes")
    how.add_argument("--concurrency", type=int, default=16, help="episodes at once in each process")


def _add_methods(methods: argparse._ArgumentGroup) -> None:
    methods.add_argument("--bank", type=Path, help="bank of experiences (wardround evolve), for methods that read one")
    methods.add_argument("--encoder", default=DEFAULTS.encoder, help="makes keys of experiences, vectors of charts")
    methods.add_argument("--encoder-url", help="with --encoder embeddings/<name>: its endpoint")
    methods.add_argument("--window", type=int, default=DEFAULTS.window, help="tool calls between two summaries")
    methods.add_argument(
        "--window-share",
        type=float,
        default=DEFAULTS.window_share,
        help="share of the room that, filled since the last summary, makes one due earlier",
    )
    methods.add_argument("--k", type=int, default=DEFAULTS.k, help="episodes whose experiences are retrieved")
    methods.add_argument("--advice", type=int, default=DEFAULTS.advice, help="pieces of advice per tool")
    methods.add_argument("--candidates", type=int, default=DEFAULTS.candidates, help="sampled actions (reflectool-cs)")
    methods.add_argument("--refinements", type=int, default=DEFAULTS.refinements, help="reviews (reflectool-ir)")
    methods.add_argument("--trials", type=int, default=DEFAULTS.trials, help="attempts (reflexion)")


def _given_evidence(agents: Sequence[str], evidence: Sequence[str], *, tool: bool) -> tuple[str, ...]:
    """Return agents by every kind of evidence asked for; one that retrieves its own stays as it is."""
    own = {method.name for method in list_agents() if method.evidence}
    names: list[str] = []
    for agent in agents:
        if agent in own:
            names.append(agent)
            continue
        for kind in evidence:
            suffix = ("" if kind == "none" else f"+{kind}") + ("+tool" if tool else "")
            names.append(agent + suffix)
    return tuple(dict.fromkeys(names))


def open_run(arguments: argparse.Namespace, **changes: Any) -> RunFolder:
    """Open the run to resume, or make a new one; ``changes`` are settings that have no argument of their own."""
    if arguments.workers < 1 or arguments.concurrency < 1:
        raise UserError("--workers and --concurrency must be at least 1")
    if arguments.resume:
        folder = RunFolder.open(arguments.resume)
        _refuse_new_settings(arguments, folder.settings)
        return folder
    missing = [name for name in ("benchmark", "store", "out") if getattr(arguments, name) is None]
    if missing:
        raise UserError(f"a new run needs {', '.join('--' + name for name in missing)} (or --resume RUN)")
    folder = start(arguments.out, replace(_settings(arguments), **changes))
    for line in _warnings(folder):
        print(f"wardround: note: {line}", file=sys.stderr)
    return folder


def _warnings(folder: RunFolder) -> list[str]:
    """What these settings allow and nobody is likely to want."""
    settings, lines = folder.settings, []
    tools = sum(estimate_tokens(schema.wire.decode()) for schema in default_toolset().schemas)
    room = settings.budget_tokens - settings.reply_tokens - tools
    if room < settings.budget_tokens // 4:
        lines.append(
            f"of {settings.budget_tokens:,} context tokens the reply ({settings.reply_tokens:,}) and the tools "
            f"({tools:,}) leave {max(room, 0):,} for what was read; a smaller --reply-tokens leaves more"
        )
    papers = Benchmark.open(Path(settings.benchmark)).context_tokens
    if settings.budget_tokens < papers and any(get_method(name).evidence for name in settings.agents):
        lines.append(
            f"the paper of these tasks gives every method {papers:,} context tokens; with {settings.budget_tokens:,} "
            "evidence may be cut that would have fitted (the report says where)"
        )
    lines += _wordless(folder)
    kinds = (folder.manifest.get("bank") or {}).get("kinds", {})
    for name in settings.agents if settings.bank else ():
        missing = [kind for kind in kinds_read(name) if not kinds.get(kind)]
        if missing:
            lines.append(f"the bank holds no {' and no '.join(missing)} experiences, so {name} is served none of these")
    withheld = (folder.manifest.get("bank") or {}).get("withheld_evaluated", 0)
    if withheld:
        lines.append(f"{withheld:,} experiences are kept back: this benchmark evaluates on patients who taught them")
    return lines


def _wordless(folder: RunFolder) -> list[str]:
    """Say that most codes have no words, where somebody searches by words."""
    searching = [
        name for name in folder.settings.agents if get_method(name).evidence or AgentName.parse(name).additions
    ]
    if not searching:
        return []
    words, codes = codes_with_words(folder)
    if 2 * words >= codes:
        return []
    line = (
        f"only {words:,} of {codes:,} codes of the first charts have words; {', '.join(searching)} searches by words, "
        "and finds nothing in the others: give them words with `wardround codes describe`, then ingest again"
    )
    return [line]


def _refuse_new_settings(arguments: argparse.Namespace, settled: RunSettings) -> None:
    """Raise UserError when options beside --resume ask for what the run's own settings do not say."""
    asked = _settings(arguments)
    names = [field.name for field in fields(RunSettings) if field.name not in ("benchmark", "store", "agents", "split")]
    new = [name for name in names if getattr(asked, name) not in (getattr(DEFAULTS, name), getattr(settled, name))]
    new += ["evidence"] * (arguments.evidence != ["none"]) + ["evidence_tool"] * arguments.evidence_tool
    if new:
        listed = ", ".join(_OPTIONS.get(name, "--" + name.replace("_", "-")) for name in new)
        raise UserError(f"a run goes on with its own settings; leave out {listed}, or start a new run with --out")


def play(folder: RunFolder, arguments: argparse.Namespace) -> Counts:
    """Play everything that is not finished, showing how far it is."""
    progress = TerminalProgress()
    counts = execute(
        folder,
        workers=arguments.workers,
        concurrency=arguments.concurrency,
        report=progress,
        retry_errors=arguments.retry_errors,
    )
    progress.close()
    for line in _cut_evidence(folder):
        print(f"wardround: note: {line}", file=sys.stderr)
    print(f"{counts.done:,} of {counts.total:,} episodes done: {folder.path}")
    return counts


def _cut_evidence(folder: RunFolder) -> list[str]:
    """Say of whom evidence was cut: its figures are not those of the method but of the method in this budget."""
    lines = []
    for name, cut in evidence_cuts(folder).items():
        if cut.episodes:
            budget = folder.settings.budget_tokens
            lines.append(f"{name}: evidence was cut in {cut}; --context-tokens above {budget:,} holds more")
    return lines


def _settings(arguments: argparse.Namespace) -> RunSettings:
    return RunSettings(
        benchmark=str(arguments.benchmark),
        store=str(arguments.store),
        tasks=tuple(arguments.task),
        split=arguments.split,
        strata=tuple(arguments.stratum),
        limit=arguments.limit,
        agents=_given_evidence(arguments.agent, arguments.evidence, tool=arguments.evidence_tool),
        models=tuple(arguments.model),
        base_url=arguments.base_url,
        api_key_variable=arguments.api_key_variable,
        permitted_endpoints=tuple(arguments.permit_endpoint),
        price=arguments.price,
        epochs=arguments.epochs,
        seed=arguments.seed,
        turns=arguments.turns,
        episode_seconds=arguments.episode_seconds,
        context_tokens=arguments.context_tokens,
        result_tokens=arguments.result_tokens,
        reply_tokens=arguments.reply_tokens,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        bank=None if arguments.bank is None else str(arguments.bank),
        encoder=arguments.encoder,
        encoder_url=arguments.encoder_url,
        window=arguments.window,
        window_share=arguments.window_share,
        k=arguments.k,
        advice=arguments.advice,
        candidates=arguments.candidates,
        refinements=arguments.refinements,
        trials=arguments.trials,
        retrieval=retrieval_settings(arguments),
        samples=tuple(arguments.sample),
        aids=Aids.named(arguments.aids),
        tool_calls=arguments.tool_calls,
        plugins=tuple(arguments.plugin),
    )


def _price(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not input,output[,cached]") from None
