"""``wardround list``: list what exists."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wardround.agents import ADDITIONS, AGENTS, CONTEXT_POLICIES, kinds_read, list_agents
from wardround.cli.parser import Command
from wardround.cli.terminal import add_json_option, print_json, print_rows
from wardround.core import Registry
from wardround.models import MODELS, list_models
from wardround.predictors import PREDICTORS
from wardround.records import SOURCES, load_source_spec
from wardround.runs import RunSettings
from wardround.runs.experiment import every_setting, read_experiment
from wardround.runs.presets import PRESETS
from wardround.tasks.answers import ANSWER_KINDS
from wardround.tasks.benchmarks import list_tasks
from wardround.tasks.benchmarks.own import OWN_TASKS
from wardround.tasks.scoring import SCORERS
from wardround.tools import TOOLS, TOOLSETS
from wardround.tools.knowledge import FORMATS, PROVIDERS
from wardround.tools.retrieval import ENCODERS, list_encoders

EXAMPLES = """
  wardround list tools
  wardround list tables --source mimiciv --json
  wardround list settings
  wardround list agents --plugin my_plugin.py
  wardround list agents experiment.toml
"""

Rows = list[dict[str, str]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", choices=sorted(_LISTS), help="what to list")
    parser.add_argument("experiment", nargs="?", type=Path, help="with agents: a file whose variants are listed too")
    parser.add_argument("--source", default="mimiciv", help="with tables: of which source")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    rows = _LISTS[arguments.what](arguments)
    if arguments.json:
        print_json(rows)
    elif rows:
        print_rows(tuple(rows[0]), [tuple(row.values()) for row in rows])
    else:
        print(f"no {arguments.what}: they come with a plug-in (--plugin FILE) or a package")
    return 0


def _sources(arguments: argparse.Namespace) -> Rows:
    specs = [load_source_spec(path) for path in SOURCES.registered]
    rows = [
        {"source": spec.name, "tables": str(len(spec.tables)), "sensitivity": spec.sensitivity, "title": spec.title}
        for spec in specs
    ]
    return _installed(SOURCES, rows)


def _tables(arguments: argparse.Namespace) -> Rows:
    spec = load_source_spec(arguments.source)
    return [
        {
            "table": name,
            "event time": str(table.event_time),
            "known at": str(table.available_at),
            "late columns": str(len(table.late)),
            "description": table.description,
        }
        for name, table in spec.tables.items()
    ]


def _tools(arguments: argparse.Namespace) -> Rows:
    rows = [
        {"tool": tool.name, "category": tool.category, "arguments": ", ".join(tool.parameters["properties"])}
        | {"needs": tool.needs and f"weights or a model: {tool.needs}"}
        | {"description": tool.description.split("\n")[0]}
        for tool in TOOLS.registered
    ]
    return _installed(TOOLS, rows)


def _agents(arguments: argparse.Namespace) -> Rows:
    rows = [
        {"agent": method.name, "reads experiences": ", ".join(method.memory) or "none", "title": method.title}
        for method in list_agents()
    ]
    rows = _installed(AGENTS, rows)
    if arguments.experiment is None:
        return rows
    settings = RunSettings.read(read_experiment(arguments.experiment), str(arguments.experiment))
    return rows + [
        {"agent": name, "reads experiences": ", ".join(kinds_read(settings.spelling(name))) or "none", "title": note}
        for name, note in settings.variant_notes().items()
    ]


def _benchmarks(arguments: argparse.Namespace) -> Rows:
    families: dict[str, list[str]] = {}
    for task in list_tasks():
        families.setdefault(task.family, []).append(task.name)
    return [{"benchmark": family, "tasks": " ".join(names)} for family, names in families.items()]


def _tasks(arguments: argparse.Namespace) -> Rows:
    rows = [
        {"task": task.name, "family": task.family, "answers from": task.answer.short, "title": task.title}
        for task in list_tasks()
    ]
    own = "its file says (bench build tasks --task)"
    return rows + [
        {"task": entry.name, "family": "own", "answers from": own, "title": entry.title} for entry in OWN_TASKS
    ]


def _models(arguments: argparse.Namespace) -> Rows:
    rows = [
        {"model": entry.spelling, "needs": entry.needs, "description": entry.description} for entry in list_models()
    ]
    return _installed(MODELS, rows)


def _encoders(arguments: argparse.Namespace) -> Rows:
    rows = [
        {"encoder": entry.spelling, "needs": entry.needs, "description": entry.description} for entry in list_encoders()
    ]
    return _installed(ENCODERS, rows)


def _settings(arguments: argparse.Namespace) -> Rows:
    return [
        {"setting": leaf.name, "default": str(leaf.default), "unit": leaf.setting.unit, "help": leaf.setting.help}
        | {"source": leaf.setting.source}
        for leaf in every_setting()
    ]


def _names_of(registry: Registry[Any], what: str) -> Callable[[argparse.Namespace], Rows]:
    """Return a function that lists a registry by name, one line each."""
    return lambda arguments: [{what: entry.name, "description": entry.title} for entry in registry]


def _presets(arguments: argparse.Namespace) -> Rows:
    """Return every preset, followed by the values of its paper that it does not set."""
    rows: Rows = []
    for entry in PRESETS:
        preset = PRESETS.get(entry.name)
        rows.append({"preset": entry.name, "description": entry.title})
        rows += [{"preset": "", "description": f"not as published: {difference}"} for difference in preset.differs]
    return rows


def _installed(registry: Registry[Any], rows: Rows) -> Rows:
    """Add entries of installed packages by name and package only, without running their code."""
    names = tuple(rows[0])
    return rows + [
        dict.fromkeys(names, "") | {names[0]: entry.name, names[-1]: entry.title} for entry in registry.installed
    ]


_LISTS: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "sources": _sources,
    "tables": _tables,
    "tools": _tools,
    "agents": _agents,
    "benchmarks": _benchmarks,
    "tasks": _tasks,
    "models": _models,
    "encoders": _encoders,
    "additions": _names_of(ADDITIONS, "addition"),
    "predictors": _names_of(PREDICTORS, "predictor"),
    "context-policies": _names_of(CONTEXT_POLICIES, "context policy"),
    "answer-kinds": _names_of(ANSWER_KINDS, "answer kind"),
    "corpus-formats": _names_of(FORMATS, "corpus format"),
    "providers": _names_of(PROVIDERS, "provider"),
    "toolsets": _names_of(TOOLSETS, "toolset"),
    "scorers": _names_of(SCORERS, "scorer of"),
    "own-tasks": _names_of(OWN_TASKS, "own task"),
    "presets": _presets,
    "settings": _settings,
}


LIST = Command(EXAMPLES, configure, run)
