"""What a second person's answers find in a store: cells shown early, rows in an impossible order."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from wardround.audits.deletion import Folders, RawSubjects, one_file
from wardround.audits.leaks import ShownTable
from wardround.audits.own.knowledge_table import OWN_SUBJECT, linked_columns
from wardround.audits.swap.knowledge import Clock, Clockwork, KnowledgeRule, SwapTable, fits, keys_of, latest
from wardround.audits.swap.raw_records import TableRow
from wardround.core import from_microseconds
from wardround.records import MomentRole, SourceSpec, SpanRole
from wardround.records.shards import NEVER_TIME
from wardround.records.store import Store

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
        "deaths": [_death(role) for role in roles.death],
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


def _death(role: MomentRole) -> list[Any]:
    return [role.table, role.code, list(role.starts)] if role.code else [role.table, role.time or "", ""]


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
    work = Clockwork(anchors=_anchors(knowledge, spec, rows))
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


def _anchors(
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
