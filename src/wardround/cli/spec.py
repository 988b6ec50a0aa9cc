"""``wardround spec``: draft, check and show the spec of a source of your own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from wardround.audits.own import knowledge_questions, read_knowledge
from wardround.cli.output import print_rows
from wardround.core import UserError, write_atomically
from wardround.records import SourceSpec, load_source_spec
from wardround.records.drafts import NOT_TAKEN, draft_spec
from wardround.records.rules import NEVER
from wardround.records.specs import ROLES, spec_problems, spec_schema

EXAMPLES = """
  wardround spec init hospital --out hospital.toml
  wardround spec check hospital.toml
  wardround spec show hospital.toml
  wardround spec show mimiciv
  wardround spec knowledge hospital.toml --out hospital.knowledge.toml
  wardround spec knowledge hospital.toml --check hospital.knowledge.toml
  wardround spec schema > source-spec.schema.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    commands = parser.add_subparsers(dest="action", required=True)
    init = commands.add_parser("init", help="draft a spec from a folder of CSV, TSV, Parquet or JSON lines files")
    init.add_argument("folder", type=Path, help="folder of the files")
    init.add_argument("--out", type=Path, help="file to write (default: print)")
    check = commands.add_parser("check", help="check a spec, or list the open questions of a draft")
    check.add_argument("spec", help="a spec file, a folder of them, or a source's name")
    commands.add_parser("schema", help="print the JSON Schema of spec files, for editors")
    show = commands.add_parser("show", help="print a spec's tables, clocks and roles")
    show.add_argument("spec", help="a spec file, a folder of them, or a source's name")
    knowledge = commands.add_parser(
        "knowledge", help="ask somebody else when each row and column could be read, for the audits"
    )
    knowledge.add_argument("spec", help="a spec file, a folder of them, or a store's spec folder")
    way = knowledge.add_mutually_exclusive_group()
    way.add_argument("--out", type=Path, help="file to write the questions to (default: print)")
    way.add_argument("--check", type=Path, metavar="FILE", help="check whether the answers in this file can be used")


def run(arguments: argparse.Namespace) -> int:
    """Run the action: draft, check or show."""
    if arguments.action == "init":
        return _init(arguments.folder, arguments.out)
    if arguments.action == "knowledge":
        return _knowledge(load_source_spec(arguments.spec), arguments.out, arguments.check)
    if arguments.action == "check":
        return _check(arguments.spec)
    if arguments.action == "schema":
        print(json.dumps(spec_schema(), indent=2))
        return 0
    _show(load_source_spec(arguments.spec))
    return 0


def _init(folder: Path, out: Path | None) -> int:
    text = draft_spec(folder)
    status = _written(text, out, f"answer every TODO in it, then run: wardround spec check {out}")
    for line in text.splitlines() if out is not None else ():
        if line.startswith(NOT_TAKEN):
            print(line.removeprefix("# "))
    return status


def _written(text: str, out: Path | None, then: str) -> int:
    """Print a text, or write it to a new file and print the next step."""
    if out is None:
        print(text)
        return 0
    if out.exists():
        raise UserError(f"{out}: exists already; choose another file or remove it")
    write_atomically(out, text)
    print(f"{out}: {then}")
    return 0


def _knowledge(spec: SourceSpec, out: Path | None, check: Path | None) -> int:
    if check is None:
        return _written(knowledge_questions(spec), out, "give it to somebody who did not write the spec")
    read_knowledge(check, spec)
    print(f"{check}: every question about {spec.name!r} is answered")
    return 0


def _check(spec: str) -> int:
    problems = spec_problems(spec)
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problems")
        return 1
    print(f"{spec}: no problem found; every clock is declared")
    tables = load_source_spec(spec).tables.values()
    hidden = [f"{table.name}.{column}" for table in tables for column, rule in table.late.items() if rule == NEVER]
    if hidden:
        print(f"never shown until a rule says when: {', '.join(hidden)}")
    return 0


def _show(spec: SourceSpec) -> None:
    print(f"{spec.name}: {spec.title} ({spec.sensitivity}), {len(spec.tables)} tables\n")
    clocks = [
        (table.name, ", ".join(table.row_key), str(table.event_time), str(table.available_at))
        for table in spec.tables.values()
    ]
    print_rows(("table", "key", "event_time", "available_at"), clocks)
    late = [(table.name, column, str(rule)) for table in spec.tables.values() for column, rule in table.late.items()]
    if late:
        print()
        print_rows(("table", "late column", "known at"), late)
    print()
    print_rows(("role", "played by", "what it is"), [(role, _played(spec, role), what) for role, what in ROLES.items()])


def _played(spec: SourceSpec, role: str) -> str:
    """Return the tables of a role."""
    found = getattr(spec.roles, role)
    several = found if isinstance(found, tuple) else (found,) if found is not None else ()
    return ", ".join(role.table for role in several) or "-"
