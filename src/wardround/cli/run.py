"""``wardround run``: run agents on a benchmark, or resume a run; the options of all commands that play episodes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from wardround.cli.parser import USUAL, WHERE, Command, Parser, usual_workers
from wardround.cli.terminal import print_json, print_rows
from wardround.core import SettingField, TerminalProgress, UserError, choices_of
from wardround.core.executors import EXECUTORS
from wardround.core.settings import merged, nested
from wardround.runs import Counts, RunFolder, RunSettings, Spending, execute, gate_notes, start
from wardround.runs.experiment import (
    every_setting,
    read_assignments,
    read_experiment,
    refuse_other_settings,
    with_own_corpora,
)
from wardround.runs.forecast import EstimateRange, Forecast, forecast_run
from wardround.runs.notes import failures, notes_after, notes_on
from wardround.tools import AID_NAMES, Aids

# The settings of a run as options: some twenty flags, ``--set NAME=VALUE`` for all of them, an experiment file.


_TITLES: Mapping[str, str] = {
    "run": "what is run",
    "model": "models",
    "budget": "budgets",
    "agent": "methods",
    "retrieval": "retrieval",
    "memory": "memory",
    "aids": "aids",
    "scoring": "scoring",
}
"""The sections that have flags."""


def add_settings_options(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """Declare the experiment file, ``--set``, and a flag for each common setting but those ``without``."""
    parser.add_argument("experiment", nargs="?", type=Path, metavar="EXPERIMENT", help="TOML file of settings")
    settings = every_setting()
    groups: dict[str, argparse._ArgumentGroup] = {}
    for leaf in settings:
        section = leaf.name.partition(".")[0]
        if not leaf.setting.flag or leaf.name in without or section not in _TITLES:
            continue
        if section not in groups:
            groups[section] = parser.add_argument_group(_TITLES[section])
        add_flag(groups[section], leaf)
    parser.add_argument(
        "--set", dest="assigned", action="append", default=[], metavar="NAME=VALUE", help="any setting, by its name"
    )
    parser.add_argument(
        "--aids",
        nargs="+",
        default=argparse.SUPPRESS,
        choices=["all", "none", *AID_NAMES],
        help="what is done for a language model beyond the papers' tools (default: all); none is a paper's preset",
    )
    parser.add_argument("--help-settings", action=_ShowSettings, help="show every setting by group and exit")
    if isinstance(parser, Parser):
        parser.settings = _assigned(settings)


def add_flag(group: argparse._ArgumentGroup, leaf: SettingField) -> None:
    """Declare the flag of a setting; without it the parsed arguments have no such name."""
    group.add_argument(leaf.setting.flag, dest=leaf.name, default=argparse.SUPPRESS, **_read_as(leaf))


def asked_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the given settings as nested tables: the file's, overridden by flags, overridden by ``--set``."""
    body = read_experiment(arguments.experiment) if arguments.experiment else {}
    known = {leaf.name for leaf in every_setting()}
    flags = nested({name: value for name, value in vars(arguments).items() if name in known})
    if "aids" in arguments:
        flags["aids"] = asdict(Aids.named(arguments.aids))
    body = merged(merged(body, flags), read_assignments(arguments.assigned))
    plugins = [*body.get("run", {}).get("plugins", ()), *arguments.plugin]
    return merged(body, {"run": {"plugins": plugins}}) if plugins else body


def _read_as(leaf: SettingField) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for a setting."""
    kind, many = leaf.kind, get_origin(leaf.kind) is tuple
    inner = get_args(kind)[0] if many else next((part for part in get_args(kind) if part is not NoneType), kind)
    choices = choices_of(kind)
    how: dict[str, Any] = {"help": _values_text(leaf), "metavar": None if choices else _metavar(leaf)}
    if many:
        how |= {"nargs": "+", "action": "extend"}  # given twice, both are used
    if choices:
        how["choices"] = choices
    else:
        how["type"] = inner
    return how


def _metavar(leaf: SettingField) -> str:
    """Return the value's placeholder in the help: its unit if that is a kind of value, N for numbers, else the flag."""
    shown = {"folder": "FOLDER", "file": "FILE", "URL": "URL", "URLs": "URL", "name of a variable": "NAME"}
    if leaf.setting.unit in shown:
        return shown[leaf.setting.unit]
    if {int, float} & {leaf.kind, *get_args(leaf.kind)}:
        return "N"
    return leaf.setting.flag.removeprefix("--").upper().replace("-", "_")


def _values_text(leaf: SettingField) -> str:
    """Return a setting's help, with its default unless that is empty."""
    value = " ".join(map(str, leaf.default)) if isinstance(leaf.default, tuple) else leaf.default
    default = "" if value in (None, "") else f" (default: {value})"
    return f"{leaf.setting.help}{default}".replace("%", "%%")


class _ShowSettings(argparse.Action):
    """Prints every setting by group: name, what it is, unit, default, source."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        print("\n".join(settings_lines(every_setting())))
        parser.exit()


def settings_lines(settings: Iterable[SettingField]) -> list[str]:
    """Return lines for people, by group."""
    lines: list[str] = []
    group = ""
    for leaf in settings:
        section = leaf.name.rpartition(".")[0]
        if section != group:
            group = section
            lines += ["", f"[{section}]"]
        about = " · ".join(
            filter(None, (_values_text(leaf).replace("%%", "%"), leaf.setting.unit, leaf.setting.source))
        )
        lines.append(f"  {leaf.name.rpartition('.')[2]:<20} {about}".rstrip())
    lines += ["", '[models.NAME] takes name = "openai/..." and what [model] takes, for one model of several.']
    return lines[1:]


def _assigned(settings: Iterable[SettingField]) -> dict[str, str]:
    """Return by the flag that a user may expect how settings without a flag are written."""
    names: dict[str, list[str]] = {}
    for leaf in settings:
        if not leaf.setting.flag or leaf.name.partition(".")[0] not in _TITLES:
            last = leaf.name.rpartition(".")[2].replace("_", "-")
            names.setdefault(f"--{last}", []).append(f"--set {leaf.name}=VALUE")
    return {flag: " or ".join(ways) for flag, ways in names.items()}


# Common parts of commands that run episodes: options, opening the run, running it.


def add_run_options(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """Declare the settings (except those in ``without``), the run's folder, and its workers."""
    add_settings_options(parser, without=without)
    work = parser.add_argument_group("the run")
    work.add_argument("--out", type=Path, help="folder of the new run")
    work.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run; its own settings hold")
    work.add_argument("--retry-errors", action="store_true", help="with --resume: repeat failed episodes")
    work.add_argument(
        "--executor",
        dest="run.executor",
        default=argparse.SUPPRESS,
        choices=EXECUTORS.names,
        help=f"{WHERE} (default: processes)",
    )
    work.add_argument("--workers", type=int, default=usual_workers(), help=f"processes, of all machines {USUAL}")
    work.add_argument("--concurrency", type=int, default=16, help="episodes at once in each process")
    work.add_argument("--json", action="store_true", help="print the figures as JSON")


def open_run(arguments: argparse.Namespace, asked: Mapping[str, Any], **changes: Any) -> RunFolder:
    """Open the run to resume, or make a new one from the given settings.

    ``changes``: the command's own settings by section; a resumed run has them already."""
    check_workers(arguments)
    if arguments.resume:
        folder = RunFolder.open(arguments.resume)
        refuse_other_settings(asked, folder.settings)
        return folder
    settings = RunSettings.read(with_own_corpora(merged(asked, changes)))
    given = {"benchmark": settings.run.benchmark, "out": arguments.out}
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise UserError(f"a new run needs {', '.join('--' + name for name in missing)} (or --resume RUN)")
    folder = start(arguments.out, settings)
    for line in notes_on(folder):
        print(f"wardround: note: {line}", file=sys.stderr)
    return folder


def check_workers(arguments: argparse.Namespace) -> None:
    """Raise UserError for fewer than one worker or episode at once."""
    if arguments.workers < 1 or arguments.concurrency < 1:
        raise UserError("--workers and --concurrency must be at least 1")


def play(folder: RunFolder, arguments: argparse.Namespace) -> Counts:
    """Run all unfinished episodes, with progress."""
    progress = TerminalProgress()
    counts = execute(
        folder,
        workers=arguments.workers,
        concurrency=arguments.concurrency,
        report=progress,
        retry_errors=arguments.retry_errors,
        max_cost=cost_limit(folder, arguments),
        executor=asked_settings(arguments).get("run", {}).get("executor"),
    )
    progress.close()
    for line in notes_after(folder, counts, max_cost=cost_limit(folder, arguments)):
        print(f"wardround: note: {line}", file=sys.stderr)
    if not arguments.json:
        failed = failures(folder)
        print(f"{counts.done:,} of {counts.total:,} episodes done{failed}: {folder.path}")
    return counts


def cost_limit(folder: RunFolder, arguments: argparse.Namespace) -> float | None:
    """Return the cost limit of a run: the one given now, else its own."""
    limit: float | None = asked_settings(arguments).get("run", {}).get("max_cost", folder.settings.run.max_cost)
    return limit


# ``wardround run --dry-run``: the tokens, cost and time of a run, without calling a model or making its folder.


_BUDGETS = (
    "From budgets, a range is from one call with an empty reply to the turn limit and a forced last call, each with a "
    "full context and the longest reply. Calls beside the turns (summaries, queries, reflections, further trials) and "
    "calls that are tried again come on top. --like RUN takes the means of an earlier run instead."
)
_LIKE = (
    "From an earlier run: the means of its episodes of the same agent that no error ended; other tasks, models and "
    "budgets have other means."
)


def add_dry_run_options(parser: argparse.ArgumentParser) -> None:
    """Declare its options."""
    group = parser.add_argument_group("what it would take")
    group.add_argument("--dry-run", action="store_true", help="print tokens, cost and hours; no model is called")
    group.add_argument(
        "--like", type=Path, metavar="RUN", help="with --dry-run: as an earlier run of the same agents went"
    )


def dry_run(arguments: argparse.Namespace, asked: Mapping[str, Any]) -> int:
    """Compute the forecast and print it."""
    if arguments.resume:
        raise UserError("--dry-run is of a new run; leave --resume out")
    found = forecast_run(asked, like=arguments.like)
    at_once = min(arguments.workers * arguments.concurrency, sum(estimate.episodes for estimate in found))
    if arguments.json:
        print_json({"forecasts": found, "at_once": at_once, "assumes": _assumed(found)})
    else:
        _print(found, at_once)
    return 0


def _print(found: Sequence[Forecast], at_once: int) -> None:
    header = ("agent", "model", "episodes", "first prompt", "schemas", "from", "calls", "tokens in", "tokens out")
    print_rows((*header, "US dollars", "hours"), [_row(estimate) for estimate in found])
    costs, hours = [estimate.cost for estimate in found], [estimate.hours for estimate in found]
    episodes = sum(estimate.episodes for estimate in found)
    print(f"all {episodes:,} episodes: {_total(costs, 4)} US dollars, {_total(hours, 2)} hours")
    samples = found[0].first_prompt.samples
    print(
        f"first prompts: mean tokens of whatever call comes first, over {samples} samples, by the loop's own estimate"
    )
    print(
        f"hours: one call after another; up to {at_once:,} episodes are played at once, so as little as 1/{at_once:,}"
    )
    if None in costs:
        print("cost: unknown without a price: --set model.price=INPUT,OUTPUT (US dollars per million tokens)")
    if None in hours:
        print("hours: unknown without an earlier run; name one with --like RUN")
    print("\n".join(_assumed(found)))


def _assumed(found: Sequence[Forecast]) -> list[str]:
    bases = {estimate.basis for estimate in found}
    return [text for basis, text in (("budgets", _BUDGETS), ("earlier run", _LIKE)) if basis in bases]


def _row(one: Forecast) -> tuple[str, ...]:
    prompts = one.first_prompt
    tokens = (f"{prompts.message_tokens:,.0f}", f"{prompts.schema_tokens:,.0f}")
    figures = (_estimate_text(one.calls, 0), _estimate_text(one.input_tokens, 0), _estimate_text(one.output_tokens, 0))
    return (
        one.agent,
        one.model,
        f"{one.episodes:,}",
        *tokens,
        one.basis,
        *figures,
        _estimate_text(one.cost, 4),
        _estimate_text(one.hours, 2),
    )


def _estimate_text(bounds: EstimateRange | None, digits: int) -> str:
    if bounds is None:
        return "unknown"
    least, most = f"{bounds.least:,.{digits}f}", f"{bounds.most:,.{digits}f}"
    return least if least == most else f"{least} to {most}"


def _total(some: Sequence[EstimateRange | None], digits: int) -> str:
    known = [figure for figure in some if figure is not None]
    return _estimate_text(reduce(add, known) if len(known) == len(some) else None, digits)


# ``wardround run``: run agents on a benchmark, or resume a run.


EXAMPLES = """
  wardround run --benchmark bench --store store --out run
  wardround run --benchmark bench --store store --agent react --model openai/qwen3-30b \\
      --base-url http://127.0.0.1:8000/v1 --task diagnoses transfers --limit 20 --out run
  wardround run --benchmark bench --store store --model relay:folder --limit 1 --out run
      you are the model: for each folder/<n>.request.json write folder/<n>.reply.json, {"content": "..."} or
      {"tool_calls": [{"name": "...", "arguments": {}}]}
  wardround run --benchmark bench --store store --agent react retrosum retrosum-evolved --bank bank.sqlite --out run
  wardround run --benchmark bench-ehrshot --store store --agent direct rag ehr-rag ehr-rag-no-der --out run
  wardround run --benchmark bench-ehrshot --store store --agent react react+ether retrosum+ether --out run
      an agent with evidence before its first turn (+ether, +rag) or with retrieve_evidence as a tool (+tool)
  wardround run experiment.toml --set agent.retrosum.window=5 --out run
      settings from a file, one of them changed; --help-settings shows them all
  wardround run --preset retrosum --benchmark bench --store store --agent react retrosum --model openai/qwen3-30b \
      --base-url http://127.0.0.1:8000/v1 --out run
      the paper's published settings; other settings override them, and the manifest lists the differences
  wardround run --benchmark bench --store store --model openai/qwen3-30b --base-url http://127.0.0.1:8000/v1 \\
      --set model.price=0.2,0.6 --max-cost 5 --out run
      begin no episode when 5 US dollars are recorded; a higher one goes on: --resume run --max-cost 10
  wardround run experiment.toml --dry-run --like run
      what it would take in tokens, US dollars and hours, by the means of an earlier run; without --like a range
  wardround run --benchmark /shared/bench --store /shared/store --model openai/qwen3-30b \\
      --base-url http://node1:8000/v1 --executor ray --workers 8 --concurrency 32 --out /shared/run
      workers on the machines of a Ray cluster, which all see /shared (docs/clusters.md)
  wardround run --resume run
  wardround run --resume run --retry-errors
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_run_options(parser)
    add_dry_run_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Start or resume, run to the end, print the result."""
    asked = asked_settings(arguments)
    if arguments.dry_run:
        return dry_run(arguments, asked)
    if arguments.like:
        raise UserError("--like says what --dry-run takes its figures from; give both")
    folder = open_run(arguments, asked)
    for note in gate_notes(folder):
        print(f"wardround: note: {note}", file=sys.stderr)
    counts = play(folder, arguments)
    if arguments.json:
        limit = cost_limit(folder, arguments)
        cost = {} if limit is None else {"cost": Spending.of(folder).cost, "max_cost": limit}
        print(json.dumps({"run": str(folder.path), "done": counts.done, "total": counts.total, **cost}))
    else:
        print(f"see them with: wardround report {folder.path}")
    return 0 if counts.done == counts.total else 1


RUN = Command(EXAMPLES, configure, run)
