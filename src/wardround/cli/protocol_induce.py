"""``wardround protocol induce``: rules from training stays, by counts or by a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from wardround.benchmarks import Benchmark
from wardround.cli.progress import TerminalProgress
from wardround.core import UserError, leaves
from wardround.protocols import GlobalProtocol, read_protocol, write_protocol
from wardround.records import Store
from wardround.runs import RunFolder, stages
from wardround.runs.induction import (
    CALLS,
    INDUCTION,
    InductionSettings,
    Reflection,
    ReflectionSettings,
    induce_protocol,
    reflect_by_model,
)


def configure_induce(induce: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    induce.add_argument("--reflector", choices=["code", "model"], default="code", help="who draws rules")
    induce.add_argument("--benchmark", type=Path, help="code: folder of a benchmark of stays")
    induce.add_argument("--store", type=Path, help="code: folder of its store")
    induce.add_argument("--run", type=Path, help="model: folder of a run on training stays, whose failures teach")
    induce.add_argument("--agent", help="model: whose failures, where the run has several agents")
    induce.add_argument("--model", help="model: the one that played and is asked, where the run has several")
    calls = f"most failed steps looked at (code; default: all), most calls (model; default: {CALLS})"
    induce.add_argument("--calls", type=int, help=calls)
    induce.add_argument("--base", type=Path, help="rules that stay: only what they do not foretell teaches")
    induce.add_argument("--limit", type=int, help="at most so many training stays, drawn by the seed")
    induce.add_argument("--seed", type=int, default=0, help="seed of the draw")
    for leaf in leaves(InductionSettings):
        induce.add_argument(f"--{leaf.name}", type=type(leaf.default), default=leaf.default, help=leaf.said.help)


def induce(arguments: argparse.Namespace) -> int:
    """Draw the rules and write them."""
    if arguments.protocol.exists():
        raise UserError(f"{arguments.protocol}: is there already; choose another file or remove it")
    base = None if arguments.base is None else read_protocol(arguments.base)
    by = _induced_by_model if arguments.reflector == "model" else _induced_in_code
    protocol = by(arguments, base)
    write_protocol(arguments.protocol, protocol)
    assert protocol.induced is not None
    print(f"{len(protocol)} rules from {protocol.induced.steps:,} steps of {protocol.induced.stays} training stays")
    print(f"{arguments.protocol}: look at it with `wardround protocol show`, then run it with agent.trace.protocol")
    return 0


def _induced_in_code(arguments: argparse.Namespace, base: GlobalProtocol | None) -> GlobalProtocol:
    if arguments.benchmark is None or arguments.store is None:
        raise UserError("--reflector code needs --benchmark and --store")
    settings = InductionSettings(**{leaf.name: getattr(arguments, leaf.name) for leaf in leaves(InductionSettings)})
    progress = TerminalProgress()
    protocol = induce_protocol(
        Benchmark.open(arguments.benchmark),
        Store.open(arguments.store),
        settings,
        base=base,
        limit=arguments.limit,
        calls=arguments.calls,
        seed=arguments.seed,
        folder=arguments.protocol.parent / INDUCTION,
        report=progress,
    )
    progress.close()
    return protocol


def _induced_by_model(arguments: argparse.Namespace, base: GlobalProtocol | None) -> GlobalProtocol:
    if arguments.run is None:
        raise UserError("--reflector model needs --run: the folder of a run with --split train")
    settings = ReflectionSettings(
        agent=arguments.agent,
        model=arguments.model,
        calls=CALLS if arguments.calls is None else arguments.calls,
        rules=arguments.rules,
        seed=arguments.seed,
    )
    folder, progress = RunFolder.open(arguments.run), TerminalProgress()
    found = reflect_by_model(folder, settings, base=base, report=progress)
    progress.close()
    _print_reflection(found)
    for stage in stages(folder, INDUCTION):
        print(f"{stage.purpose}: {stage.calls:,} calls, {stage.usage.input_tokens:,} tokens in")
    return found.protocol


def _print_reflection(found: Reflection) -> None:
    print(f"{found.missed:,} decisions were missed; {found.asked:,} were asked about in {found.calls:,} calls")
    print(f"{found.covered:,} were foretold by rules made before; {found.same:,} rules said what another says")
    for reason, number in found.refused.most_common():
        print(f"{number:,} refused: {reason}")
