"""``wardround memory``: build, inspect, validate, gate and forget experiences."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from wardround.cli.evolve import EVOLVE, checked, print_contamination
from wardround.cli.parser import Command, add_action
from wardround.cli.terminal import add_json_option, print_json, print_rows
from wardround.core import TerminalProgress, UserError
from wardround.learning import (
    ConstructionSettings,
    build_peer,
    construct,
    forget_source,
    gate_bank,
    stages,
)
from wardround.learning.validation import FOLDER, ROLLOUTS, validate
from wardround.memory import KINDS, Bank, Experience, audit_bank, export_bank, import_bank, undo, withdraw
from wardround.memory.construction import SYNERGIES, LinkSettings
from wardround.memory.peer import PEERS
from wardround.runs import RunFolder
from wardround.tasks.scoring.gate import GATE_LEVEL, GateStandard

# ``wardround memory forget``: the one operation on a bank that cannot be undone.


def _forget(arguments: argparse.Namespace) -> int:
    """Delete, then print the runs that still hold deleted text; status 1 if there is one."""
    done = forget_source(
        _there(arguments.bank), arguments.source, reason=arguments.reason, store=arguments.store, runs=arguments.run
    )
    print(f"{len(done.experiences)} experiences are forgotten for good; the file was rebuilt")
    if done.vectors is not None:
        print(f"{done.vectors} cached vectors of their texts were deleted")
    for run in done.runs:
        print(f"{run} still holds them in its log: delete the folder")
    return 1 if done.runs else 0


# ``wardround memory gate``: judge a bank by two runs on held-out samples.


def gate_file(arguments: argparse.Namespace) -> int:
    """Judge, store the verdict in the bank, print it; status 1 if no task is open."""
    without, with_it = RunFolder.open(arguments.without), RunFolder.open(arguments.with_it)
    with Bank.open(arguments.bank) as bank:
        record = gate_bank(bank, without, with_it, standard=arguments.standard)
    print_rows(
        ("task", "gate", "difference", "95 % interval", "p of harm", "p of benefit", "patients", "episodes"),
        [
            (
                *(task, one["state"], f"{one['difference']:+.3f}"),
                "" if None in (one["low"], one["high"]) else f"{one['low']:+.3f} to {one['high']:+.3f}",
                *(f"{one['p_harm']:.4f}", f"{one['p_benefit']:.4f}", str(one["subjects"]), str(one["episodes"])),
            )
            for task, one in record.verdicts.items()
        ],
    )
    (level,) = {verdict["level"] for verdict in record.verdicts.values()}
    print(
        f"look {record.look} at this bank, judged at level {level:.4f}, so that all looks together keep {GATE_LEVEL:g}"
    )
    print(
        f"kept for revision {record.revision} as it was played; a run that reads anything else is served nothing: "
        "--set memory.bank_revision=gated pins it"
    )
    return 0 if any(verdict["state"] == "open" for verdict in record.verdicts.values()) else 1


# ``wardround memory validate``: how reliable new experiences are, and the cost of measuring it.


def validate_file(arguments: argparse.Namespace) -> int:
    """Run, write qualities, print the budget spent; status 1 if an episode failed."""
    if arguments.rollouts < 1 or arguments.concurrency < 1:
        raise UserError("--rollouts and --concurrency must be at least 1")
    folder = RunFolder.open(arguments.run)
    progress = TerminalProgress()
    with Bank.open(arguments.bank) as bank:
        found = validate(folder, bank, rollouts=arguments.rollouts, concurrency=arguments.concurrency, report=progress)
        progress.close()
        print(f"{found.tried:,} experiences tried in {found.rollouts:,} pairs; {found.without:,} rollouts without any")
        if found.untried:
            print(f"{found.untried:,} apply to no other patient of the run, and keep their prior")
        if found.failed:
            print(f"{found.failed:,} were broken off by the endpoint; the same command tries them again")
        print(f"{len(bank):,} experiences in {bank.path} (revision {bank.revision:,})")
    for stage in stages(folder, FOLDER):
        tokens = f"{stage.usage.input_tokens:,} tokens in, {stage.usage.output_tokens:,} out"
        print(f"rollouts, {stage.purpose}: {stage.calls:,} calls, {tokens}")
    return 1 if found.failed else 0


# ``wardround memory build``: from several attempts at each training sample to a graph of experiences, or to
# another published memory.


def build(arguments: argparse.Namespace) -> int:
    """Build, link and check the bank; status 1 if a part failed or the bank does not fit its benchmark."""
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
        drawn = ", ".join(f"{number:,} {kind}s" for kind, number in sorted(found.drawn.items())) or "nothing"
        print(f"{found.cases:,} samples, {found.attempts:,} attempts, {found.successes:,} successes: {drawn}")
        if found.unfinished:
            print(f"{found.unfinished:,} samples were left out: not all of their attempts are finished")
        if arguments.peer is None:
            added, same = f"{found.added:,} added", f"{found.duplicates:,} said what another says"
            print(f"{added}, {same}; {found.naming_answers:,} name an answer")
            edges = ", ".join(f"{number:,} {relation}" for relation, number in sorted(found.edges.items())) or "no"
            print(f"{found.linked:,} linked: {edges} edges, {found.aliases:,} aliases")
            print(
                f"{found.graph_calls:,} model calls for the graph, at most {found.most_graph_calls} for one experience"
            )
        else:
            done = ", ".join(f"{number:,} {what}" for what, number in sorted(found.notes.items())) or "nothing new"
            print(f"notes: {done}; {found.naming_answers:,} name an answer")
        for problem, number in found.problems.most_common():
            print(f"{number:,} gave nothing: {problem}")
        print(f"{len(bank):,} experiences in {bank.path} (revision {bank.revision:,})")
        for stage in stages(folder):
            tokens = f"{stage.usage.input_tokens:,} tokens in, {stage.usage.output_tokens:,} out"
            print(f"{stage.purpose}: {stage.calls:,} calls, {tokens}")
        report = checked(folder, bank)
    print_contamination(report)
    return 0 if report.clean and not found.failed else 1


# ``wardround memory``: read a bank of experiences, and remove what it learnt.


EXAMPLES = """
  wardround run --benchmark bench --store store --split train --epochs 5 --agent react --out training
  wardround memory build bank.sqlite training
      five attempts at each training sample become indications and contraindications with a graph
  wardround memory build notes.sqlite training --peer naive-rag
      what another published memory stores of the same attempts; then --agent naive-rag --bank notes.sqlite
  wardround memory validate bank.sqlite training --rollouts 5
      tries each of them on training cases of other patients, with it and without
  wardround run --benchmark bench --store store --split dev --agent react --out without
  wardround run --benchmark bench --store store --split dev --agent gsem --bank bank.sqlite --out with \\
      --set memory.gate=ignore
  wardround memory gate bank.sqlite --without without --with with
      from now on the bank is served only for tasks where it was shown to help
  wardround memory list bank.sqlite --kind indication
  wardround memory show bank.sqlite 3f2a9c
  wardround memory why bank.sqlite 3f2a9c
  wardround memory audit bank.sqlite
  wardround memory undo bank.sqlite --to 41
  wardround memory withdraw bank.sqlite labevents:12345
  wardround memory forget bank.sqlite labevents:12345 --store store --run runs/*
      deletes for good, then lists the runs whose logs still have it
  wardround memory export bank.sqlite bank.jsonl
  wardround memory import other.sqlite bank.jsonl
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    summaries = {
        "build": "draw a graph of experiences from a training run of several epochs",
        "validate": "try every new experience of a graph on training cases of other patients",
        "gate": "judge a bank by two runs on dev samples; status 1 when it is open for no task",
        "list": "list what is served",
        "show": "show one experience: its words, scope, quality and edges",
        "why": "show where an experience came from and everything that changed it",
        "audit": "look for damage, duplicates and what is never served; status 1 when something is wrong",
        "undo": "serve again what was served at an earlier revision",
        "withdraw": "stop serving everything derived from an experience, a sample or a row",
        "forget": "delete everything derived from an experience, a sample or a row, for good",
        "export": "write what is served as lines of JSON",
        "import": "take in what another bank exported",
    }
    add_action(actions, "evolve", EVOLVE, "run training samples and write what they taught into a bank")
    made = {name: actions.add_parser(name, help=summaries[name], examples=EXAMPLES) for name in summaries}
    for action in made.values():
        action.add_argument("bank", type=Path, help="file of the bank")
    made["build"].add_argument("run", type=Path, help="folder of a run on training samples (--split train --epochs 5)")
    made["build"].add_argument("--rules", action="store_true", help="draw by rules and judge nothing: ask no model")
    made["build"].add_argument(
        "--peer", choices=PEERS.names, help="fill the bank as this published memory does, instead of GSEM's graph"
    )
    made["build"].add_argument("--synergy", choices=SYNERGIES, default="joint_use", help="what is asked of a pair")
    made["build"].add_argument(
        "--success", type=float, help="the least score of a success, instead of that of each answer kind"
    )
    made["validate"].add_argument("run", type=Path, help="the training run whose cases they are tried on")
    made["validate"].add_argument("--rollouts", type=int, default=ROLLOUTS, help="cases for each experience (N_erv)")
    made["validate"].add_argument("--concurrency", type=int, default=8, help="episodes at once")
    made["gate"].add_argument("--without", type=Path, required=True, metavar="RUN", help="a run that read no bank")
    made["gate"].add_argument(
        "--with", dest="with_it", type=Path, required=True, metavar="RUN", help="a run that read this bank, ungated"
    )
    made["gate"].add_argument(
        "--standard", choices=get_args(GateStandard), default="benefit", help="what the evidence has to show"
    )
    made["list"].add_argument("--kind", choices=KINDS, help="only experiences of this kind")
    made["list"].add_argument("--limit", type=int, default=50, help="at most this many, the newest")
    for name in ("list", "audit"):
        add_json_option(made[name])
    for name in ("show", "why"):
        made[name].add_argument("experience", help="its id, or the beginning of it")
    made["undo"].add_argument("--to", type=int, required=True, metavar="REVISION", help="the revision to go back to")
    for name in ("withdraw", "forget"):
        made[name].add_argument("source", help="id of an experience, a sample or a row (labevents:12345)")
    made["forget"].add_argument("--store", type=Path, help="a store whose cached vectors are searched too")
    made["forget"].add_argument(
        "--run", type=Path, nargs="+", default=[], help="folders of runs that may still hold it; they are not changed"
    )
    for name in ("export", "import"):
        made[name].add_argument("file", type=Path, help="file of JSON lines; it is as sensitive as the bank")
    for name in ("undo", "withdraw", "forget"):
        made[name].add_argument("--reason", default=f"wardround memory {name}", help="why, for the history")


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    if "do" in arguments:
        return int(arguments.do(arguments))
    if arguments.action == "build":
        return build(arguments)
    if arguments.action == "validate":
        _there(arguments.bank)
        return validate_file(arguments)
    if arguments.action == "gate":
        _there(arguments.bank)
        return gate_file(arguments)
    if arguments.action == "import":
        return _import(arguments)
    if arguments.action == "forget":
        return _forget(arguments)
    do, writes = _ACTIONS[arguments.action]
    with Bank.open(_there(arguments.bank), writable=writes) as bank:
        return do(bank, arguments)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise UserError(f"no bank at {path}; `wardround memory evolve` makes one")
    return path


def _named(bank: Bank, beginning: str) -> str:
    names = bank.names(beginning)
    if len(names) != 1:
        found = f"{len(names)} experiences begin" if names else "no experience begins"
        raise UserError(f"{found} with {beginning!r}; `wardround memory list` shows the ids")
    return names[0]


def _list(bank: Bank, arguments: argparse.Namespace) -> int:
    kind, limit = arguments.kind, arguments.limit
    graph = bank.graph()
    every = [experience for experience in bank.experiences() if kind in (None, experience.kind)]
    shown = every[-limit:] if limit > 0 else []
    if arguments.json:
        print_json([{"quality": graph.quality(each.id), **each.to_json()} for each in shown])
        return 0
    print_rows(
        ("id", "kind", "task", "quality", "title"),
        [(each.id, each.kind, each.task, _figure(graph.quality(each.id)), each.title[:80]) for each in shown],
    )
    if len(shown) < len(every):
        print(f"and {len(every) - len(shown)} older ones (--limit)")
    return 0


def _show(bank: Bank, arguments: argparse.Namespace) -> int:
    name = _named(bank, arguments.experience)
    one, last = _last(bank, name)
    print(f"{one.id}  {one.kind} of {one.task}{'' if last else '  (retired: not served)'}")
    lines = {
        "title": one.title,
        "when": one.condition,
        "not when": "; ".join(one.exclusions),
        "description": one.description,
        "content": one.content,
        "task type": one.task_type,
        "entities": "; ".join(f"{entity.name} ({entity.role})" for entity in one.entities),
        "reasoning": "; ".join(f"{edge.source} > {edge.target}" for edge in one.role_edges),
        "quality": _figure(bank.graph().quality(name)),
    }
    for label, text in lines.items():
        if text:
            print(f"{label}: {text}")
    for edge in bank.graph().edges(name):
        parts = {"entity": edge.entity, "structure": edge.structure, "synergy": edge.synergy, "task": edge.task}
        made_of = ", ".join(
            f"{part} {'unjudged' if value is None else _figure(value)}" for part, value in parts.items()
        )
        print(f"{edge.relation} to {edge.target}: {edge.weight:.3f} ({made_of})")
    return 0


def _why(bank: Bank, arguments: argparse.Namespace) -> int:
    name = _named(bank, arguments.experience)
    one, _ = _last(bank, name)
    origin = one.provenance
    print(f"{one.id} came of sample {origin.sample} ({origin.split}), {origin.created}")
    for label, text in (("run", origin.run), ("episode", origin.episode), ("model", origin.model)):
        if text:
            print(f"{label}: {text}")
    for evidence in one.evidence:
        print(f"seen at step {evidence.step}: {', '.join(evidence.rows) or 'no rows'}")
    for step in bank.history(name):
        print(
            f"revision {step.number}, {step.at}: {step.reason} (sample {step.sample}){'' if step.live else ', retired'}"
        )
    for number, value in bank.quality_history(name):
        print(f"revision {number}: quality {_figure(value) or 'taken back'}")
    for outcome in bank.outcomes(name):
        side = "shown" if outcome.met[0].shown else "masked"
        score = _figure(outcome.score)
        print(f"revision {outcome.number}: {side} in {outcome.task}, score {score} (sample {outcome.sample})")
    for feedback in bank.feedback(name):
        print(f"feedback {feedback.kind} {_figure(feedback.value)} {feedback.episode or feedback.at}")
    return 0


def _audit(bank: Bank, arguments: argparse.Namespace) -> int:
    found = audit_bank(bank)
    if arguments.json:
        print_json({"revision": bank.revision, "audit": found})
        return 0 if found.sound else 1
    for problem, count in found.problems.items():
        if count:
            print(f"wrong: {count} {problem}")
    if not found.sound:
        return 1
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    print(f"{found.live} experiences ({kinds or 'none'}), {found.retired} retired; revision {bank.revision}")
    print(f"{found.duplicates} say what another says; {found.never_served} are of no training sample and never served")
    return 0


def _undo(bank: Bank, arguments: argparse.Namespace) -> int:
    to = arguments.to
    done = undo(bank, to=to, reason=arguments.reason)
    print(
        f"as at revision {to} again: {done.reverted} experiences reverted, {done.retired} newer ones retired, "
        f"{done.qualities} qualities and {done.edges} edges set back; revision {bank.revision}"
    )
    return 0


def _withdraw(bank: Bank, arguments: argparse.Namespace) -> int:
    done = withdraw(bank, arguments.source, reason=arguments.reason)
    print(
        f"{len(done.experiences)} experiences are no longer served; {done.edges} edges, {done.qualities} qualities and "
        f"{done.names} names were computed again without them; revision {bank.revision}"
    )
    return 0


def _export(bank: Bank, arguments: argparse.Namespace) -> int:
    count = export_bank(bank, arguments.file)
    print(f"{count} experiences of revision {bank.revision} in {arguments.file}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    with Bank.open(arguments.bank) as bank:
        done = import_bank(bank, arguments.file)
        print(f"{done.experiences} experiences, {done.edges} edges and {done.aliases} aliases came in")
        if done.refused:
            print(f"{done.refused} were there already, or had been forgotten")
    return 0


def _last(bank: Bank, name: str) -> tuple[Experience, bool]:
    entry = bank.at(revision=bank.revision).known(name)
    assert entry is not None
    return entry.experience, entry.live


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


_ACTIONS: Mapping[str, tuple[Callable[[Bank, argparse.Namespace], int], bool]] = {
    "list": (_list, False),
    "show": (_show, False),
    "why": (_why, False),
    "audit": (_audit, False),
    "undo": (_undo, True),
    "withdraw": (_withdraw, True),
    "export": (_export, False),
}
"""By action: the function that runs it, and whether it writes."""


MEMORY = Command(EXAMPLES, configure, run)
