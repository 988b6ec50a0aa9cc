"""``wardround memory build``: from several attempts at each training sample to a graph of experiences, or
to what another published memory makes of them."""

from __future__ import annotations

import argparse

from wardround.cli.checked_bank import checked, print_contamination
from wardround.cli.progress import TerminalProgress
from wardround.memory import Bank
from wardround.memory.construction import LinkSettings
from wardround.runs import Construction, ConstructionSettings, RunFolder, build_peer, construct, stages


def build(arguments: argparse.Namespace) -> int:
    """Draw, add, link, check the bank; status 1 where something failed or the bank does not fit its benchmark."""
    folder = RunFolder.open(arguments.run)
    settings = ConstructionSettings(
        success=arguments.success, rules=arguments.rules, link=LinkSettings(synergy=arguments.synergy)
    )
    progress = TerminalProgress()
    with Bank.open(arguments.bank) as bank:
        if arguments.peer is None:
            found = construct(folder, bank, settings, report=progress)
        else:
            found = build_peer(folder, bank, arguments.peer, settings, report=progress)
        progress.close()
        _print_cases(found)
        (_print_graph if arguments.peer is None else _print_notes)(found)
        _print_end(found, bank)
        _print_stages(folder)
        report = checked(folder, bank)
    print_contamination(report)
    return 0 if report.clean and not found.failed else 1


def _print_cases(found: Construction) -> None:
    drawn = ", ".join(f"{number:,} {kind}s" for kind, number in sorted(found.drawn.items())) or "nothing"
    print(f"{found.cases:,} samples, {found.attempts:,} attempts, {found.successes:,} successes: {drawn}")
    if found.unfinished:
        print(f"{found.unfinished:,} samples were left out: not all of their attempts are finished")


def _print_graph(found: Construction) -> None:
    print(
        f"{found.added:,} added, {found.duplicates:,} said what another says; {found.naming_answers:,} name an answer"
    )
    edges = ", ".join(f"{number:,} {relation}" for relation, number in sorted(found.edges.items())) or "no"
    print(f"{found.linked:,} linked: {edges} edges, {found.aliases:,} aliases")
    print(f"{found.graph_calls:,} model calls for the graph, at most {found.most_graph_calls} for one experience")


def _print_notes(found: Construction) -> None:
    done = ", ".join(f"{number:,} {what}" for what, number in sorted(found.notes.items())) or "nothing new"
    print(f"notes: {done}; {found.naming_answers:,} name an answer")


def _print_end(found: Construction, bank: Bank) -> None:
    for problem, number in found.problems.most_common():
        print(f"{number:,} gave nothing: {problem}")
    print(f"{len(bank):,} experiences in {bank.path} (revision {bank.revision:,})")


def _print_stages(folder: RunFolder) -> None:
    for stage in stages(folder):
        tokens = f"{stage.usage.input_tokens:,} tokens in, {stage.usage.output_tokens:,} out"
        print(f"{stage.purpose}: {stage.calls:,} calls, {tokens}")
