"""The questions of a knowledge table: what a second person is asked about a source, table by table.

Clocks come from the second person alone: nothing of the spec's event times, available times or late columns is shown.
"""

from __future__ import annotations

from collections.abc import Iterator

from wardround.records.rules.language import Rule, walk
from wardround.records.rules.other_tables import NamedRow
from wardround.records.specs.spec import SourceSpec, TableSpec

_HEAD = """\
# Questions about {title}, for somebody who did NOT write its spec and has not read it.
# Think of a nurse on the ward who opens the record while the patient is still there. Answer every TODO by what she
# could have read then, not by what the export holds today. Answers, in quotes:
#   "row"                       as soon as the row itself is there (for columns only)
#   "COLUMN"                    at the time in that column of the same row
#   "day COLUMN"                at the end of that day
#   "COLUMN + 2h"               so much later (min, h, d)
#   "A | B"                     at A, where A is empty at B
#   "TABLE.COLUMN by KEY"       at that time of the row of TABLE that this row names in its column KEY
#   "always", "never"           before the patient came; at no time while the patient is there
# A list of answers, ["A", "B"], is the latest of them. Columns with one answer may share a line: "a, b" = "row".
# Then: wardround spec knowledge SPEC --check THIS_FILE, and wardround audit leaks --swap --knowledge THIS_FILE.

[source]
name = "{name}"
answered_by = "TODO: your name"
"""


def knowledge_questions(spec: SourceSpec) -> str:
    """Return the TOML text of the questions about a spec's tables; no clock of the spec is in it."""
    lines = [_HEAD.format(title=spec.title or spec.name, name=spec.name)]
    for table in asked_tables(spec):
        lines += _table(spec, table)
    return "\n".join(lines)


def asked_tables(spec: SourceSpec) -> list[TableSpec]:
    """Return the tables whose rows stand in files of their own."""
    return [table for table in spec.tables.values() if table.derive is None]


def asked_columns(table: TableSpec) -> list[str]:
    """Return the columns that a chart may show, but for the row's own number and whose it is."""
    told = {table.subject, *table.key}
    return [name for name in table.columns if name not in told and name not in table.hidden]


def linked_columns(spec: SourceSpec, table: TableSpec) -> dict[str, str]:
    """Return the columns that name a row of another table, with that table."""
    keys = {other.key[0]: other.name for other in asked_tables(spec) if len(other.key) == 1 and other is not table}
    found = {name: keys[name] for name in table.columns if name in keys and name not in table.key}
    for part in (part for _, rule in table.rules() for part in _named_rows(rule)):
        found[part[0]] = part[1]
    if table.subject_from is not None:
        found[table.subject_from[0]] = table.subject_from[1]
    return {name: other for name, other in found.items() if name != table.subject}


def _named_rows(rule: Rule) -> Iterator[tuple[str, str]]:
    yield from ((part.key, part.table) for part in walk(rule) if isinstance(part, NamedRow))


def _table(spec: SourceSpec, table: TableSpec) -> Iterator[str]:
    links = linked_columns(spec, table)
    times = [name for name, kind in table.columns.items() if kind in ("time", "date") and name not in table.hidden]
    yield f"# {table.name}: {table.description}".rstrip()
    yield f"# Times in it: {', '.join(times) or 'none'}."
    if links:
        yield f"# It names rows of others: {', '.join(f'{other} in {name}' for name, other in links.items())}."
    yield f"[files.{table.name}]"
    yield 'row = "TODO: when could a nurse have seen that there is such a row, whatever else of it was still empty?"'
    yield '# exchange = { COLUMN = ["WORD FOR DIED", "WORD FOR ALIVE"] }   # if a column says that somebody died'
    yield f"[files.{table.name}.cells]"
    for name in asked_columns(table):
        about = f" ({table.describe[name]})" if name in table.describe else ""
        if name in links:
            question = f"when could a nurse have known which row of {links[name]} this belongs to?"
        else:
            question = f"when could a nurse have read it{about}?"
        yield f"{name} = {_quoted(f'TODO: {question}')}"
    yield ""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
