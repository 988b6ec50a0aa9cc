"""Audits of a source of your own: what a second person says could be known when, beside what its spec says."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from wardround.audits.deletion import Folders, RawSubjects, one_file
from wardround.audits.leaks import ShownTable
from wardround.audits.swap.knowledge import (
    Clock,
    Clockwork,
    KnowledgeRule,
    StaySpan,
    SwapTable,
    fits,
    keys_of,
    latest,
    read_clock,
    swap_table,
)
from wardround.audits.swap.raw_records import TableRow
from wardround.core import RecordError, UserError, from_microseconds, nearest, read_toml
from wardround.records import SourceSpec, SpanRole, TableSpec
from wardround.records.rules import NamedRow, walk
from wardround.records.shards import NEVER_TIME
from wardround.records.specs import refuse_open_questions
from wardround.records.store import Store

# Clocks come from the second person alone: nothing of the spec's event times, available times or late columns is shown.


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
    identifying = {table.subject, *table.key}
    return [name for name in table.columns if name not in identifying and name not in table.hidden]


def linked_columns(spec: SourceSpec, table: TableSpec) -> dict[str, str]:
    """Return the columns that name a row of another table, with that table."""
    keys = {other.key[0]: other.name for other in asked_tables(spec) if len(other.key) == 1 and other is not table}
    found = {name: keys[name] for name in table.columns if name in keys and name not in table.key}
    found |= {part.key: part.table for _, rule in table.rules() for part in walk(rule) if isinstance(part, NamedRow)}
    if table.subject_from is not None:
        found[table.subject_from.key] = table.subject_from.table
    return {name: other for name, other in found.items() if name != table.subject}


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


# The knowledge table of an own source: a second person's answers, read strictly into a swap table.


OWN_SUBJECT = "_subject"
"""The column of a plain copy that says whose a row is."""
_WITH_THE_ROW = "row"
_ANY_TIME = "2000-01-01 00:00:00"


def read_knowledge(path: Path, spec: SourceSpec) -> SwapTable:
    """Read the answers about a spec's tables. UserError names the first that is open, missing or wrong."""
    body = read_toml(path)
    refuse_open_questions(body, path.name)
    source, files = body.get("source", {}), body.get("files", {})
    if source.get("name") != spec.name:
        raise UserError(f"{path.name}: source.name is {source.get('name')!r}, the store's source is {spec.name!r}")
    if not source.get("answered_by"):
        raise UserError(f"{path.name}: source.answered_by: say who answered; it must not be who wrote the spec")
    tables = {table.name: table for table in asked_tables(spec)}
    for name in (*files, *tables):
        if name not in tables or name not in files:
            why = "no such table" if name not in tables else "nobody answered for it"
            raise UserError(f"{path.name}: files.{name}: {why}; see 'wardround spec knowledge {spec.name}'")
    anchors = _anchors(tables.values())
    for name, anchor in body.get(
        "anchors", {}
    ).items():  # the person's own: their tables by the names of the copy's files
        file = anchor.get("file", "")
        anchors[name] = {**anchor, "file": one_file(tables[file]) if file in tables else anchor.get("file")}
    rules = {}
    for name, table in tables.items():
        parts = files[name] if isinstance(files[name], list) else [files[name]]
        place = f"{path.name}: files.{name}"
        read = [_rule(place, part, spec, table, anchors) for part in parts]
        rules[one_file(table)] = [rule for one in read for rule in _with_stays(spec, table, one)]
    fixed = [one.path for one in spec.dictionaries.values()]
    head = {"name": spec.name, "subject": OWN_SUBJECT, "fixed": fixed}
    try:
        return swap_table({"source": head, "anchors": anchors, "files": rules})
    except (RecordError, KeyError) as error:
        raise UserError(f"{path.name}: {error}") from None


def pipeline_table(path: Path, spec: SourceSpec) -> SwapTable:
    """Return the answers about a spec's tables for files as they are, with the stays of its roles, for a leak test of a
    pipeline that reads them.

    UserError: as of :func:`read_knowledge`; files are not UTF-8 with commas or tabs, decimal points, ISO times and
    their own headers; or a file does not say in the same column whose a row is.
    """
    tables = asked_tables(spec)
    for table in tables:
        files = table.files
        if (
            not files.is_utf8
            or files.delimiter not in ("", ",")
            or files.decimal != "."
            or files.times
            or files.headers
        ):
            raise UserError(
                f"{table.name}: a pipeline's copies are written in UTF-8, with commas, points and ISO times"
            )
    subjects = {table.subject for table in tables}
    if len(subjects) != 1 or None in subjects:
        named = ", ".join(sorted({table.subject or f"none in {table.name}" for table in tables}))
        raise UserError(f"whose a row is must stand in one column of all files, as it is called: {named}")
    known, paths = read_knowledge(path, spec), {one_file(table): table.path for table in tables}
    return replace(
        known,
        subject="".join(filter(None, subjects)),
        anchors=tuple(replace(anchor, file=paths.get(anchor.file, anchor.file)) for anchor in known.anchors),
        rules={paths[name]: rules for name, rules in known.rules.items()},
        spans={name: span for name in ("admission", "stay", "emergency") if (span := _stays(spec, name)) is not None},
    )


def _stays(spec: SourceSpec, name: str) -> StaySpan | None:
    """Return where the stays of a role lie, of one whose begin and end are columns."""
    span: SpanRole | None = getattr(spec.roles, name)
    table = None if span is None else spec.tables.get(span.table)
    if span is None or table is None or span.start is None or span.start not in table.columns or not span.ends:
        return None
    ends = tuple(read_clock(end.partition("|")[0]) for end in span.ends)
    return StaySpan(file=table.path.casefold(), start=(read_clock(span.start),), end=ends, keys=table.key)


def answered_by(path: Path) -> str:
    """Return who answered."""
    return str(read_toml(path)["source"]["answered_by"])


def _anchors(tables: Iterable[TableSpec]) -> dict[str, dict[str, Any]]:
    """Return ``TABLE.COLUMN``: every time of every table, by the column in which others name its rows."""
    found: dict[str, dict[str, Any]] = {}
    for table in tables:
        key = table.key[0] if len(table.key) == 1 else table.encounter
        if key is not None:
            times = (name for name, kind in table.columns.items() if kind in ("time", "date"))
            found |= {f"{table.name}.{name}": {"file": one_file(table), "key": key, "latest": name} for name in times}
    return found


def _rule(
    place: str, part: Mapping[str, Any], spec: SourceSpec, table: TableSpec, anchors: Mapping[str, Any]
) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    answered: list[str] = []
    if "row" not in part:
        raise UserError(f"{place}: nobody says when a row is there (row = ...)")
    _check(f"{place}.row", part["row"], table, anchors)
    for names, answer in part.get("cells", {}).items():
        answered += [name.strip() for name in names.split(",")]
        known = answer["known"] if isinstance(answer, Mapping) else answer
        if known != _WITH_THE_ROW:
            _check(f"{place}.cells.{names}", known, table, anchors)
            cells[names] = answer
    strange = [name for name in answered if name not in table.columns]
    missing = [name for name in asked_columns(table) if name not in answered]
    if strange:
        raise UserError(f"{place}.cells: {_no_column(strange[0], table)}")
    if missing:
        raise UserError(f"{place}.cells: nobody says when {missing[0]!r} could be read")
    links = {*linked_columns(spec, table), *filter(None, (table.subject, table.encounter))}
    key = [name for name in table.key if name != table.subject]
    own = {"links": sorted(links - set(key)), "key": key}
    return {**own, **part, "cells": cells}


def _with_stays(spec: SourceSpec, table: TableSpec, rule: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield a rule so that in the other future, too, stays that have begun end: tasks ask about no other. Their ends
    move; where the ends are rows, those rows are there."""
    for span in (spec.roles.admission, spec.roles.stay):
        if span is not None and span.table == table.name:
            ends = [part for end in span.ends for part in end.split("|")]
            rule = {**rule, "moved": [*rule.get("moved", ()), *ends]}
            if span.code is not None:
                where = {**rule.get("where", {}), span.code: [*span.starts, *span.stops]}
                yield {**rule, "where": where, "keep_rows": True, "links": [*rule["links"], span.code]}
    yield rule


class _Noticing:
    """A row that notes which columns a clock looks at. ``text`` is what every cell holds."""

    def __init__(self, *texts: str) -> None:
        self.asked: list[str] = []
        self._texts = texts

    def texts(self, path: str) -> Sequence[str]:
        self.asked.append(path)
        return self._texts


def _check(place: str, answer: str | Sequence[str], table: TableSpec, anchors: Mapping[str, Any]) -> None:
    """Refuse an answer that names no column of the table, or no time of another."""
    for text in (answer,) if isinstance(answer, str) else answer:
        probes = (_Noticing(), _Noticing(_ANY_TIME))
        work = Clockwork(anchors={name: {} for name in anchors})
        try:
            clock = read_clock(text)
            for probe in probes:
                clock(probe, work)
        except RecordError as error:
            raise UserError(f"{place}: {text!r} is no answer ({error})") from None
        for name in (name for probe in probes for path in probe.asked for name in path.split("+")):
            if name.removesuffix(":tail") not in table.columns:
                raise UserError(f"{place}: {text!r}: {_no_column(name, table)}")


def _no_column(name: str, table: TableSpec) -> str:
    near = nearest(name, table.columns, limit=1)
    return f"no column {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"it has {', '.join(table.columns)}")


# What must not be seen before what in a source that the plausibility audit has no table for: by its roles.


_CARE = ("lab", "vital", "administration", "intake", "output")


def known_by_roles(spec: SourceSpec) -> Mapping[str, Any]:
    """Return deaths, outcomes, care and keys as ``plausibility.toml`` writes them; what no table plays is left out.

    ``names``: by table, its own column for each column by which outcomes name a stay. ``key_places``: (table, column,
    table that the column names, its key).
    """
    roles = spec.roles
    stays = [span for span in (roles.admission, roles.stay) if span is not None]
    outcomes = [outcome for span in stays for outcome in _ends(spec, span)]
    care = dict.fromkeys(role.table for name in _CARE for role in roles.rows(name))
    admission = roles.admission
    stay = None if admission is None else admission.id or spec.tables[admission.table].encounter
    outcomes += _summaries(spec, stay)
    return {
        "deaths": [
            [role.table, role.code, list(role.starts)] if role.code else [role.table, role.time or "", ""]
            for role in roles.death
        ],
        "outcomes": outcomes,
        "care": {table: spec.tables[table].encounter or "" for table in care},
        "names": {table: _names(spec, table, stays) for table in (*care, *(outcome[0] for outcome in outcomes))},
        "key_places": [
            (name, column, other, spec.tables[other].key[0])
            for name, table in spec.tables.items()
            for column, other in linked_columns(spec, table).items()
            if len(spec.tables[other].key) == 1
        ],
    }


def _ends(spec: SourceSpec, span: SpanRole) -> list[list[Any]]:
    key = span.id or spec.tables[span.table].encounter
    if key is None:
        return []
    if span.code is not None:
        return [[span.table, span.code, key, *span.stops]]
    columns = dict.fromkeys(part for end in span.ends for part in end.split("|"))
    return [[span.table, column, key] for column in columns if column in spec.tables[span.table].columns]


def _names(spec: SourceSpec, table: str, stays: list[SpanRole]) -> dict[str, str]:
    """Return a table's own column for the column that names each kind of stay: one so called, or that of its stay."""
    found = {}
    for span in stays:
        key = span.id or spec.tables[span.table].encounter
        own = key if key in spec.tables[table].columns else None
        if span is spec.roles.admission:
            own = spec.tables[table].encounter or own
        if key is not None and own is not None:
            found[key] = own
    return found


def _summaries(spec: SourceSpec, stay: str | None) -> list[list[Any]]:
    """What is written when a stay is over: its summary, and diagnoses and procedures of the stay as a whole."""
    coded = [role for name in ("diagnosis", "procedure") for role in spec.roles.rows(name) if role.precision == "stay"]
    tables = dict.fromkeys(role.table for role in (*spec.roles.rows("summary"), *coded))
    return [[name, "", stay] for name in tables if stay is not None and spec.tables[name].encounter]


# What a store shows before anybody could have known it, by a second person's answers: every row and cell compared.


Note = Callable[..., None]
"""``note(what, looked, found, example)`` counts findings."""


def count_early_cells(
    note: Note, knowledge: SwapTable, spec: SourceSpec, subject: str, tables: Mapping[str, ShownTable]
) -> None:
    """Count the rows and cells of a subject, named as its source does, that are shown before they could be known.
    ``tables``: by name."""
    rows = {name: [TableRow(cells) for cells in _texts(table)] for name, table in tables.items()}
    work = Clockwork(anchors=_anchor_times(knowledge, spec, rows))
    for name, table in tables.items():
        rules = knowledge.of(one_file(spec.tables[name])) or ()
        ruled = [next((rule for rule in rules if rule.fits(row)), None) for row in rows[name]]
        for column, clocks in _clocks(spec, name, ruled).items():
            shown = (table.row if column is None else table.cell(column)).tolist()
            early, examples = 0, ""
            for at, row, rule in zip(shown, rows[name], ruled, strict=True):
                if at == NEVER_TIME or rule is None or not _is_asked(rule, column, row):
                    continue
                known = _known(rule, clocks(rule), row, work)
                if known is None or from_microseconds(at).replace(microsecond=0) < known:
                    early += 1
                    examples = examples or f"at {from_microseconds(at)}, known {_said(known)}"
            what = f"{name}{'' if column is None else f'.{column}'} shown before it could be known"
            note(what, sum(at != NEVER_TIME for at in shown), early, f"{subject}: {what}: {examples}")


def _known(rule: KnowledgeRule, clocks: tuple[Clock, ...], row: TableRow, work: Clockwork) -> datetime | None:
    """Return when a row and one of its cells could be known; None where nothing says when one of them was."""
    at = latest(rule.row, row, work)
    later = at if not clocks else latest(clocks, row, work)
    return None if at is None or later is None else max(at, later)


def _texts(table: ShownTable) -> Iterator[dict[str, str]]:
    names = [name for name in table.spec.columns if name in table.rows.schema.names]
    for cells in zip(*(table.texts(name) for name in names), strict=True):
        yield dict(zip(names, cells, strict=True))


def _anchor_times(
    knowledge: SwapTable, spec: SourceSpec, rows: Mapping[str, list[TableRow]]
) -> dict[str, dict[str, list[datetime]]]:
    found: dict[str, dict[str, list[datetime]]] = {}
    for anchor in knowledge.anchors:
        moments = found.setdefault(anchor.name, {})
        own = (row for name in rows if one_file(spec.tables[name]) == anchor.file for row in rows[name])
        for row in own:
            at = latest(anchor.latest, row, Clockwork(anchors=found)) if fits(anchor.where, row) else None
            for key in keys_of(row, anchor.key) if at is not None else ():
                moments.setdefault(key, []).append(at or datetime.min)
    return found


def _clocks(
    spec: SourceSpec, name: str, ruled: list[KnowledgeRule | None]
) -> dict[str | None, Callable[[KnowledgeRule], tuple[Clock, ...]]]:
    """Return the row, as None, and every column that some rule has a clock for, with the clocks beside the row's."""

    def of(column: str) -> Callable[[KnowledgeRule], tuple[Clock, ...]]:
        return lambda rule: next((cell.known for cell in rule.cells if column in cell.paths), ())

    rules = [rule for rule in {id(rule): rule for rule in ruled}.values() if rule is not None]
    columns = {path: None for rule in rules for cell in rule.cells for path in cell.paths}
    hidden = spec.tables[name].hidden
    return {None: lambda rule: (), **{column: of(column) for column in columns if column not in hidden}}


def _is_asked(rule: KnowledgeRule, column: str | None, row: TableRow) -> bool:
    """Whether a rule says anything of a column, for what stands in it."""
    if column is None:
        return True
    cell = next((cell for cell in rule.cells if column in cell.paths), None)
    return cell is not None and (not cell.values or bool(set(row.texts(column)) & set(cell.values)))


def _said(known: datetime | None) -> str:
    return "at no time that anybody wrote down" if known is None or known == datetime.max else str(known)


# The raw files of some subjects as the outcome swap reads them: one plain CSV file a table, and whose each row is.


_STRANGERS = 40
"""So many subjects more are written: their rows say what else a column may hold."""


def write_plain(store: Store, folders: Folders, target: Path, subjects: Collection[int]) -> Path:
    """Write the rows of some subjects, and of some others, in UTF-8 with commas, ISO times and decimal points.

    The column ``_subject`` holds the store's number of whose a row is. Read with ``plainly_written(store)``.
    """
    wanted = {*subjects, *(int(one) for one in store.subjects[: len(subjects) + _STRANGERS])}
    raw = RawSubjects.read(store, folders, wanted)
    for name, table in raw.tables.items():
        rows = ((str(subject), *row) for subject, own in sorted(table.rows.items()) for row in own)
        _write(target / f"{one_file(store.spec.tables[name])}.csv", (OWN_SUBJECT, *table.header), rows)
    for name, (header, entries) in raw.dictionaries.items():
        _write(target / f"{store.spec.dictionaries[name].path}.csv", header, entries)
    return target


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
