"""The settings of a run as options: some twenty flags, ``--set NAME=VALUE`` for all of them, an experiment file."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from wardround.cli.parser import Parser
from wardround.core import Leaf, choices_of
from wardround.runs.experiment import every_setting, read_assignments, read_experiment
from wardround.runs.names import merged, nested
from wardround.tools import AID_NAMES, Aids

_TITLES: Mapping[str, str] = {
    "run": "what is played",
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
        if not leaf.said.flag or leaf.name in without or section not in _TITLES:
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


def add_flag(group: argparse._ArgumentGroup, leaf: Leaf) -> None:
    """Declare the flag of a setting; what is not given is not in what was parsed."""
    group.add_argument(leaf.said.flag, dest=leaf.name, default=argparse.SUPPRESS, **_read_as(leaf))


def asked_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what was asked for as nested tables: the file's, over them the flags', over them those of ``--set``."""
    body = read_experiment(arguments.experiment) if arguments.experiment else {}
    known = {leaf.name for leaf in every_setting()}
    flags = nested({name: value for name, value in vars(arguments).items() if name in known})
    if "aids" in arguments:
        flags["aids"] = asdict(Aids.named(arguments.aids))
    body = merged(merged(body, flags), read_assignments(arguments.assigned))
    plugins = [*body.get("run", {}).get("plugins", ()), *arguments.plugin]
    return merged(body, {"run": {"plugins": plugins}}) if plugins else body


def _read_as(leaf: Leaf) -> dict[str, Any]:
    """Return how argparse reads a setting and what it says of it."""
    kind, many = leaf.kind, get_origin(leaf.kind) is tuple
    inner = get_args(kind)[0] if many else next((part for part in get_args(kind) if part is not NoneType), kind)
    choices = choices_of(kind)
    how: dict[str, Any] = {"help": _told(leaf), "metavar": None if choices else _metavar(leaf)}
    if many:
        how |= {"nargs": "+", "action": "extend"}  # given twice, it names both times
    if choices:
        how["choices"] = choices
    else:
        how["type"] = inner
    return how


def _metavar(leaf: Leaf) -> str:
    """What stands for the value in the help: its unit where that is a kind of value, N for numbers, else the flag."""
    shown = {"folder": "FOLDER", "file": "FILE", "URL": "URL", "URLs": "URL", "name of a variable": "NAME"}
    if leaf.said.unit in shown:
        return shown[leaf.said.unit]
    if {int, float} & {leaf.kind, *get_args(leaf.kind)}:
        return "N"
    return leaf.said.flag.removeprefix("--").upper().replace("-", "_")


def _told(leaf: Leaf) -> str:
    """What is said of a setting, and its default where that says something."""
    value = " ".join(map(str, leaf.default)) if isinstance(leaf.default, tuple) else leaf.default
    default = "" if value in (None, "") else f" (default: {value})"
    return f"{leaf.said.help}{default}".replace("%", "%%")


class _ShowSettings(argparse.Action):
    """Prints every setting by group: name, what it is, unit, default, source."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        print("\n".join(settings_lines(every_setting())))
        parser.exit()


def settings_lines(settings: Iterable[Leaf]) -> list[str]:
    """Return lines for people, by group."""
    lines: list[str] = []
    group = ""
    for leaf in settings:
        section = leaf.name.rpartition(".")[0]
        if section != group:
            group = section
            lines += ["", f"[{section}]"]
        told = " · ".join(filter(None, (_told(leaf).replace("%%", "%"), leaf.said.unit, leaf.said.source)))
        lines.append(f"  {leaf.name.rpartition('.')[2]:<20} {told}".rstrip())
    lines += ["", '[models.NAME] takes name = "openai/..." and what [model] takes, for one model of several.']
    return lines[1:]


def _assigned(settings: Iterable[Leaf]) -> dict[str, str]:
    """Return how the settings without a flag here are written, by the flag that somebody may expect."""
    names: dict[str, list[str]] = {}
    for leaf in settings:
        if not leaf.said.flag or leaf.name.partition(".")[0] not in _TITLES:
            last = leaf.name.rpartition(".")[2].replace("_", "-")
            names.setdefault(f"--{last}", []).append(f"--set {leaf.name}=VALUE")
    return {flag: " or ".join(ways) for flag, ways in names.items()}
