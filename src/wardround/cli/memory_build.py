"""``wardround memory build``: from several attempts at each training sample to a graph of experiences."""

from __future__ import annotations

import argparse

from wardround.cli.progress import TerminalProgress
from wardround.memory import Bank, contamination_check
from wardround.memory.construction import LinkSettings
from wardround.runs import Construction, ConstructionSettings, RunFolder, construct, open_benchmark, stages


def build(arguments: argparse.Namespace) -> int:
    """Draw, add, link, check the bank; status 1 where something failed or the bank does not fit its benchmark."""
    folder = RunFolder.open(arguments.run)
    settings = ConstructionSettings(
        success=arguments.success, rules=arguments.rules, link=LinkSettings(synergy=arguments.synergy)
    )
    progress = TerminalProgress()
    with Bank.open(arguments.bank) as bank:
        found = construct(folder, bank, settings, report=progress)
        progress.close()
        _print(found, bank)
        _print_stages(folder)
        benchmark = open_benchmark(folder)
        report = contamination_check(bank, benchmark.all_samples, source=str(folder.manifest["source"]))
    counts = ", ".join(f"{number:,} {kind}" for kind, number in report.counts().items() if number) or "clean"
    print(f"contamination check: {counts} ({report.evaluation_samples:,} evaluation samples)")
    return 0 if report.clean and not found.failed else 1


def _print(found: Construction, bank: Bank) -> None:
    drawn = ", ".join(f"{number:,} {kind}s" for kind, number in sorted(found.drawn.items())) or "nothing"
    print(f"{found.cases:,} samples, {found.attempts:,} attempts, {found.successes:,} successes: {drawn}")
    if found.unfinished:
        print(f"{found.unfinished:,} samples were left out: not all of their attempts are finished")
    print(
        f"{found.added:,} added, {found.duplicates:,} said what another says; {found.naming_answers:,} name an answer"
    )
    edges = ", ".join(f"{number:,} {relation}" for relation, number in sorted(found.edges.items())) or "no"
    print(f"{found.linked:,} linked: {edges} edges, {found.aliases:,} aliases")
    print(f"{found.graph_calls:,} model calls for the graph, at most {found.most_graph_calls} for one experience")
    for problem, number in found.problems.most_common():
        print(f"{number:,} gave nothing: {problem}")
    print(f"{len(bank):,} experiences in {bank.path} (revision {bank.revision:,})")


def _print_stages(folder: RunFolder) -> None:
    for stage in stages(folder):
        tokens = f"{stage.usage.input_tokens:,} tokens in, {stage.usage.output_tokens:,} out"
        print(f"{stage.purpose}: {stage.calls:,} calls, {tokens}")
