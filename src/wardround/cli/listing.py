"""``wardround list``: what exists."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from wardround.agents import list_agents
from wardround.benchmarks import list_tasks
from wardround.cli.table import print_rows
from wardround.models import list_models
from wardround.records import list_sources, load_source_spec
from wardround.tools import default_toolset

EXAMPLES = """
  wardround list tools
  wardround list tables --source mimiciv --json
"""

Rows = list[dict[str, str]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", choices=sorted(_LISTS), help="what to list")
    parser.add_argument("--source", default="mimiciv", help="with tables: of which source")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """List."""
    rows = _LISTS[arguments.what](arguments)
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        print_rows(tuple(rows[0]), [tuple(row.values()) for row in rows])
    return 0


def _sources(arguments: argparse.Namespace) -> Rows:
    specs = [load_source_spec(name) for name in list_sources()]
    return [
        {"source": spec.name, "tables": str(len(spec.tables)), "sensitivity": spec.sensitivity, "title": spec.title}
        for spec in specs
    ]


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
    return [
        {"tool": tool.name, "category": tool.category, "arguments": ", ".join(tool.parameters["properties"])}
        | {"description": tool.description.split("\n")[0]}
        for tool in default_toolset(evidence=True).tools
    ]


def _agents(arguments: argparse.Namespace) -> Rows:
    return [
        {"agent": method.name, "reads experiences": ", ".join(method.memory) or "none", "title": method.title}
        for method in list_agents()
    ]


def _benchmarks(arguments: argparse.Namespace) -> Rows:
    families: dict[str, list[str]] = {}
    for task in list_tasks():
        families.setdefault(task.family, []).append(task.name)
    return [{"benchmark": family, "tasks": " ".join(names)} for family, names in families.items()]


def _tasks(arguments: argparse.Namespace) -> Rows:
    return [
        {"task": task.name, "family": task.family, "answers from": task.answer.short, "title": task.title}
        for task in list_tasks()
    ]


def _models(arguments: argparse.Namespace) -> Rows:
    return [
        {"model": entry.spelling, "needs": entry.needs, "description": entry.description} for entry in list_models()
    ]


_LISTS: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "sources": _sources,
    "tables": _tables,
    "tools": _tools,
    "agents": _agents,
    "benchmarks": _benchmarks,
    "tasks": _tasks,
    "models": _models,
}
