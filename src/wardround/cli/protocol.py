"""``wardround protocol``: check, compare, merge and induce files of clinical rules."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from wardround.cli.parser import Command
from wardround.cli.terminal import add_json_option, print_json, print_rows
from wardround.clinical.protocols import (
    GlobalProtocol,
    ProtocolRule,
    RuleIndex,
    check_examples,
    diff_protocols,
    found_rules,
    lint_protocol,
    merge_protocols,
    read_examples,
    read_protocol,
    unknown_in_streams,
    write_protocol,
)
from wardround.core import TerminalProgress, UserError, leaves
from wardround.learning import stages
from wardround.learning.induction import (
    CALLS,
    INDUCTION,
    InductionSettings,
    ReflectionSettings,
    induce_protocol,
    reflect_by_model,
)
from wardround.records import Store
from wardround.reports.figures import safety_figure, write_figures
from wardround.reports.safety import safety_counts, safety_curves
from wardround.runs import RunFolder
from wardround.runs.store_lint import RuleInStore, faults_in_store, lint_in_store
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import PlantedKey, SafetyPoint

# ``wardround protocol induce``: rules from training stays, by counts or by a model.


def configure_induce(induce: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    induce.add_argument("--reflector", choices=["code", "model"], default="code", help="who draws rules")
    induce.add_argument("--benchmark", type=Path, help="code: folder of a benchmark of stays")
    induce.add_argument("--store", type=Path, help="code: folder of its store")
    induce.add_argument("--run", type=Path, help="model: folder of a run on training stays, whose failures teach")
    induce.add_argument("--agent", help="model: whose failures, if the run has several agents")
    induce.add_argument("--model", help="model: the one that ran and answers, if the run has several")
    calls = f"most failed steps looked at (code; default: all), most calls (model; default: {CALLS})"
    induce.add_argument("--calls", type=int, help=calls)
    induce.add_argument("--base", type=Path, help="rules that stay: only decisions that they do not predict teach")
    induce.add_argument("--limit", type=int, help="at most so many training stays, drawn by the seed")
    induce.add_argument("--seed", type=int, default=0, help="seed of the draw")
    for leaf in leaves(InductionSettings):
        induce.add_argument(f"--{leaf.name}", type=type(leaf.default), default=leaf.default, help=leaf.setting.help)


def induce(arguments: argparse.Namespace) -> int:
    """Induce the rules and write them."""
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
    print(f"{found.missed:,} decisions were missed; {found.reflected:,} were asked about in {found.calls:,} calls")
    print(f"{found.covered:,} were predicted by earlier rules; {found.same:,} rules repeated another one")
    for reason, number in found.refused.most_common():
        print(f"{number:,} refused: {reason}")
    for stage in stages(folder, INDUCTION):
        print(f"{stage.purpose}: {stage.calls:,} calls, {stage.usage.input_tokens:,} tokens in")
    return found.protocol


# ``wardround protocol``: check, read, merge and compare files of clinical rules.


EXAMPLES = """
  wardround protocol lint sepsis.toml
  wardround protocol lint sepsis.toml --store store
      for each rule: names never seen there, units that cannot be compared, and the hours in which it would have held
  wardround protocol show sepsis.toml --rule SEPSIS.V1
  wardround protocol test sepsis.toml cases.toml
  wardround protocol diff before.toml after.toml
  wardround protocol merge ours.toml theirs.toml --out both.toml
  wardround protocol induce induced.toml --benchmark bench-stays --store store
      counts are kept in induction/ beside the file: killed, the same command goes on
  wardround protocol induce induced.toml --reflector model --run training-run --calls 100
      a model proposes a rule for each decision that its run on training stays missed
  wardround protocol found induced.toml planted.toml
      which rules of a planted hospital (synth --plant planted.toml) were found
  wardround protocol meter planted/planted.json --run run
      forbidden actions that were predicted, and turns of evidence that were followed
  wardround protocol meter planted/planted.json --run run --curve --figures paper
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    summaries = {
        "lint": "find duplicates, contradictions and triggers that are not compiled; status 1 for errors",
        "show": "list the rules, or print one",
        "test": "check worked examples: which rules hold in written cases; status 1 when one fails",
        "diff": "show how a second file differs; status 1 if it does",
        "merge": "join two files; a rule that both have is kept once",
        "induce": "draw rules from training stays, by counts or by a model, and write them into a new file",
        "found": "list the rules of a second file that the first has too",
        "meter": "count forbidden actions and turns of evidence in a run, by the key of a planted hospital",
    }
    made = {name: actions.add_parser(name, help=summaries[name], examples=EXAMPLES) for name in summaries}
    for name, action in made.items():
        what = "key of a planted hospital (planted.json)" if name == "meter" else "file of rules (TOML)"
        action.add_argument("protocol", type=Path, help=what)
        if name not in ("merge", "induce"):
            add_json_option(action)
    in_store = "a store: report for each rule names never seen there, units that differ, and where it would have held"
    made["lint"].add_argument("--store", type=Path, help=in_store)
    made["show"].add_argument("--rule", help="id of one rule")
    made["show"].add_argument("--category", help="only rules of this category")
    made["test"].add_argument("examples", type=Path, help="file of [[case]] tables (TOML)")
    for name in ("diff", "merge", "found"):
        made[name].add_argument("other", type=Path, help="second file of rules")
    configure_induce(made["induce"])
    made["meter"].add_argument("--run", type=Path, required=True, help="folder of a run on its stays")
    curve = "recall against forbidden actions over the Auditor's tau; play the run with tau 0"
    made["meter"].add_argument("--curve", action="store_true", help=curve)
    drawn = "with --curve: draw it, recall-against-safety.pdf and .svg (extra [figures])"
    made["meter"].add_argument("--figures", type=Path, metavar="DIR", help=drawn)
    made["merge"].add_argument("--out", type=Path, required=True, help="file to write")


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    if arguments.action == "induce":
        return induce(arguments)
    if arguments.action == "meter":
        return _meter(arguments)
    protocol = read_protocol(arguments.protocol)
    return _ACTIONS[arguments.action](protocol, arguments)


def _lint(protocol: GlobalProtocol, arguments: argparse.Namespace) -> int:
    faults = lint_protocol(protocol)
    errors = sum(fault.is_error for fault in faults)
    found = None if arguments.store is None else lint_in_store(protocol, Store.open(arguments.store))
    if arguments.json:
        print_json({"rules": len(protocol), "faults": faults, **({} if found is None else {"store": found})})
        return 1 if errors else 0
    for fault in faults:
        print(f"{'error' if fault.is_error else 'note'}: {fault.fault}: {' and '.join(fault.rules)}: {fault.text}")
    compiled = len(protocol) - len(RuleIndex(protocol).not_compiled)
    print(f"{len(protocol)} rules, {compiled} compiled; {errors} errors, {len(faults) - errors} notes")
    for name, text in unknown_in_streams(protocol):
        print(f"live: {name}: {text}")
    if found is not None:
        _print_in_store(found)
    return 1 if errors else 0


def _print_in_store(found: Sequence[RuleInStore]) -> None:
    for name, text in faults_in_store(found):
        print(f"note: in this store: {name}: {text}")
    header = ("rule", "hours held", "patients", "first")
    rows = [
        (
            one.rule,
            f"{one.held:,}",
            f"{one.patients:,}",
            "; ".join(f"{who} {hour:%Y-%m-%d %H:00}" for who, hour in one.first),
        )
        for one in found
    ]
    print_rows(header, rows)


def _show(protocol: GlobalProtocol, arguments: argparse.Namespace) -> int:
    rules = [rule for rule in protocol.rules if arguments.category in (None, rule.category)]
    if arguments.rule is not None:
        rules = [rule for rule in rules if rule.id == arguments.rule]
        if not rules:
            raise UserError(f"{protocol.name!r} has no rule {arguments.rule!r}; `wardround protocol show` lists them")
    if arguments.json:
        print_json(rules)
    elif arguments.rule is not None:
        _print_rule(rules[0])
    else:
        print(f"{protocol.name}: {len(protocol)} rules, {protocol.digest[:12]}")
        header = ("rule", "category", "trigger", "actions", "support", "precision")
        rows = []
        for rule in rules:
            counted = "–" if rule.precision is None else f"{rule.precision:.3f}"
            cells = (rule.id, rule.category, rule.trigger, "; ".join(rule.actions), str(rule.support or "–"), counted)
            rows.append(cells)
        print_rows(header, rows)
    return 0


def _print_rule(rule: ProtocolRule) -> None:
    print(f"{rule.id} ({rule.category})\n  {rule.wording}")
    trigger = RuleIndex(GlobalProtocol(name="one", rules=(rule,))).rules[0].trigger
    print(f"  trigger  {rule.trigger}")
    print(f"  compiled {trigger.node if trigger.node is not None else f'no: {trigger.problem}'}")
    for action in rule.actions:
        print(f"  action   {action}")
    if rule.suspects:
        print(f"  suspects {rule.suspects}")
    counted = "not counted" if rule.precision is None else f"{rule.precision:.3f} of {rule.support} steps"
    print(f"  counted  {counted}")
    print(f"  from     {' '.join(filter(None, (rule.provenance.origin, rule.provenance.source, rule.provenance.doi)))}")


def _test(protocol: GlobalProtocol, arguments: argparse.Namespace) -> int:
    results = check_examples(RuleIndex(protocol), read_examples(arguments.examples))
    failed = [result for result in results if not result.passed]
    if arguments.json:
        print_json(results)
        return 1 if failed else 0
    for one in failed:
        wrong = f"; held without cause: {', '.join(one.wrong)}" if one.wrong else ""
        missing = f"; did not hold: {', '.join(one.missing)}" if one.missing else ""
        print(f"failed: {one.name}{missing}{wrong}")
    print(f"{len(results) - len(failed)} of {len(results)} cases pass")
    return 1 if failed else 0


def _diff(protocol: GlobalProtocol, arguments: argparse.Namespace) -> int:
    found = diff_protocols(protocol, read_protocol(arguments.other))
    if arguments.json:
        print_json(found)
        return 0 if found.is_empty else 1
    for name in found.removed:
        print(f"- {name}")
    for name in found.added:
        print(f"+ {name}")
    for name, changes in found.changed.items():
        for field, (before, after) in changes.items():
            print(f"~ {name} {field}: {before} -> {after}")
    if found.is_empty:
        print("they are equal")
    return 0 if found.is_empty else 1


def _merge(protocol: GlobalProtocol, arguments: argparse.Namespace) -> int:
    if arguments.out.exists():
        raise UserError(f"{arguments.out}: is there already; choose another file or remove it")
    merged = merge_protocols(protocol, read_protocol(arguments.other))
    write_protocol(arguments.out, merged.protocol)
    for name, kept in merged.same.items():
        print(f"{name} says what {kept} said: kept once")
    for name, new in merged.renamed.items():
        print(f"{name} was taken: the second file's is now {new}")
    print(f"{len(merged.protocol)} rules: {arguments.out}")
    return 0


def _found(protocol: GlobalProtocol, arguments: argparse.Namespace) -> int:
    found = found_rules(protocol, read_protocol(arguments.other))
    if arguments.json:
        print_json(found)
        return 0
    for name, by in found.items():
        print(f"{'found' if by else 'missed'}: {name}{f' by {by[0]}' if by else ''}")
    print(f"{sum(map(bool, found.values()))} of {len(found)} found")
    return 0


def _meter(arguments: argparse.Namespace) -> int:
    folder, key = RunFolder.open(arguments.run), PlantedKey.read(arguments.protocol)
    if arguments.figures is not None and not arguments.curve:
        raise UserError("--figures draws the curve: give --curve too")
    if arguments.curve:
        curves = safety_curves(folder, key)
        if arguments.figures is not None:
            write_figures({"recall-against-safety": partial(safety_figure, curves)}, arguments.figures)
        return _curves(curves, as_json=arguments.json)
    counted = safety_counts(folder, key)
    if arguments.json:
        print_json(counted)
        return 0
    header = ("agent · model", "steps", "predicted", "forbidden", "share", "flips", "planted", "corrected", "engaged")
    followed = ("prediction followed at once", "rule held", "state followed at once")
    rows = []
    for name, one in counted.items():
        share = "–" if one.red_flag_rate is None else f"{one.red_flag_rate:.4f}"
        turned = (one.flips, one.planted, one.corrected, one.engaged, one.at_once, one.held, one.let_go)
        rows.append((name, str(one.steps), str(one.predicted), str(one.red_flags), share, *map(str, turned)))
    print_rows((*header, *followed), rows)
    return 0


def _curves(curves: Mapping[str, Sequence[SafetyPoint]], *, as_json: bool) -> int:
    if as_json:
        print_json(curves)
        return 0
    header = ("agent · model", "audits where", "tau", "audited", "recall@5", "predicted", "forbidden")
    rows = []
    for name, points in curves.items():
        for point in points:
            tau = "–" if point.tau is None else f"{point.tau:.3f}"
            shares = (f"{point.audited:.3f}", f"{point.recall:.4f}")
            rows.append((name, point.looks, tau, *shares, str(point.predicted), str(point.red_flags)))
    print_rows(header, rows)
    return 0


_ACTIONS: Mapping[str, Callable[[GlobalProtocol, argparse.Namespace], int]] = {
    "lint": _lint,
    "show": _show,
    "test": _test,
    "diff": _diff,
    "merge": _merge,
    "found": _found,
}


PROTOCOL = Command(EXAMPLES, configure, run)
