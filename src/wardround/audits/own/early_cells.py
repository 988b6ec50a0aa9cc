"""What a store shows before anybody could have known it, by a second person's answers: every row and cell compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from wardround.audits.raw_subjects import one_file
from wardround.audits.shown_times import ShownTable
from wardround.audits.swap.clocks import Clock, Clockwork, keys_of, latest
from wardround.audits.swap.knowledge import KnowledgeRule, SwapTable, fits
from wardround.audits.swap.records import TableRow
from wardround.core import from_microseconds
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.spec import SourceSpec

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
