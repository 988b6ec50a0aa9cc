"""Check a whole spec: names resolve, keys are stable, clocks have rules, drafts have no open questions."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wardround.core import UserError
from wardround.records.rules.language import Around, Rule, walk, walk_everywhere
from wardround.records.specs.spec import BESIDE_CELL, LAG_SETTINGS, DictionarySpec, TableSpec

# Checks across a whole source spec: every name resolves, no row id has a late cell, no clock depends on itself.


def check_source(tables: Mapping[str, TableSpec], dictionaries: Mapping[str, DictionarySpec]) -> tuple[str, ...]:
    """Check everything and return the tables in the order of their available times. UserError names the place."""
    for dictionary in dictionaries.values():
        _known_names(f"dictionaries.{dictionary.name}.key", dictionary.key, dictionary.columns)
        if not dictionary.key:
            raise UserError(f"dictionaries.{dictionary.name}: a dictionary needs a key")
    for table in tables.values():
        check_table(table, tables, dictionaries)
    return available_order(tables)


def check_table(table: TableSpec, tables: Mapping[str, TableSpec], dictionaries: Mapping[str, DictionarySpec]) -> None:
    """Check one table. UserError names the first place that is wrong."""
    _check_columns(table)
    _check_joins(table, dictionaries)
    _check_lines(table, tables)
    _check_identity(table, tables)
    _check_medians(table)
    for place, rule in table.rules():
        _Place(place=f"tables.{table.name}.{place}", spec=table, tables=tables).rule(rule)


def available_order(tables: Mapping[str, TableSpec]) -> tuple[str, ...]:
    """Return tables in an order in which each one's ``available_at`` needs only earlier ones. UserError: a circle."""
    needs = {
        name: sorted(
            {
                other
                for rule in walk_everywhere(table.available_at)
                for other in rule.waits_for
                if other != name or not isinstance(rule, Around)  # the spans of a table's own rows need no clock of it
            }
        )
        for name, table in tables.items()
    }
    order: list[str] = []
    trail: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        if name in trail:
            circle = " -> ".join([*trail[trail.index(name) :], name])
            raise UserError(f"available_at goes in a circle: {circle}")
        trail.append(name)
        for needed in needs[name]:
            visit(needed)
        trail.pop()
        order.append(name)

    for name in tables:
        visit(name)
    return tuple(order)


def _known_names(place: str, names: Iterable[str | None], allowed: Collection[str]) -> None:
    for name in names:
        if name is not None and name not in allowed:
            near = difflib.get_close_matches(name, allowed, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(allowed))}"
            raise UserError(f"{place}: no column {name!r}; {hint}")


def _check_columns(table: TableSpec) -> None:
    place = f"tables.{table.name}"
    double = sorted(set(table.columns) & set(table.joined))
    if double:
        raise UserError(f"{place}: joined columns have names of the file's own: {', '.join(double)}")
    every = table.all_columns
    if table.subject is not None and table.columns.get(table.subject, "int") not in ("int", "text"):
        raise UserError(f"{place}.subject: {table.subject} must be int or text, not {table.columns[table.subject]}")
    if table.amended is not None and (table.version is None or (len(table.key) == 1) == bool(table.amended.row)):
        raise UserError(
            f"{place}.amended: needs a key of one column, or without one 'row', and 'version', which says since when"
        )
    if table.key and table.unique:
        raise UserError(f"{place}: unique is for tables without a key")
    own: dict[str, Iterable[str | None]] = {
        "key": table.key,
        "id_columns": table.id_columns,
        "subject": (table.subject,),
        "encounter": (table.encounter,),
        "death": (table.death,),
        "required": table.required,
        "version": (table.version,),
        "amended": () if table.amended is None else table.amended.columns,
    }
    for key, names in own.items():
        _known_names(f"{place}.{key}", names, table.columns)
    flat = {key: getattr(table, key) for key in ("code", "code_system_column", "label", "value", "text", "unit")}
    for key, name in flat.items():
        _known_names(f"{place}.{key}", (name,), every)
    lists = {
        "withhold": table.withhold,
        "planned": table.planned,
        "default_columns": table.default_columns,
        "describe": tuple(table.describe),
        "late": tuple(table.late),
        "published.hide": table.published.hide,
    }
    handed_out = {**every, "age": "int"} if table.age else every
    for key, names in lists.items():
        _known_names(f"{place}.{key}", names, handed_out)
    if table.age is not None:
        _known_names(f"{place}.age", table.age.columns, table.columns)
    if table.pending is not None:
        pending = table.pending
        _known_names(f"{place}.pending", (*pending.group, pending.reflex.column), table.columns)
        _known_names(f"{place}.pending.columns", pending.columns, every)


def _check_joins(table: TableSpec, dictionaries: Mapping[str, DictionarySpec]) -> None:
    for name, parts in table.first.items():
        _known_names(f"tables.{table.name}.first.{name}", parts, table.all_columns)
        other = [part for part in parts if table.all_columns[part] != "text"]
        if other:
            raise UserError(f"tables.{table.name}.first.{name}: only text columns can be used, {other[0]} is not")
    for join in table.dictionaries:
        place = f"tables.{table.name}.dictionary"
        if join.table not in dictionaries:
            raise UserError(f"{place}: no dictionary {join.table!r}; known are {', '.join(sorted(dictionaries))}")
        dictionary = dictionaries[join.table]
        _known_names(place, join.on, table.columns)
        _known_names(place, join.add.values(), dictionary.columns)
        if len(join.on) != len(dictionary.key):
            raise UserError(f"{place}: 'on' must match the key of {join.table}: {', '.join(dictionary.key)}")
    if table.group is not None:
        group = table.group
        _known_names(f"tables.{table.name}.group", (group.code, group.version, group.ndc), table.columns)
        if group.system != "atc" and (group.version is None) == (group.fixed_version is None):
            needs = "'version', the column of the ICD version, or 'fixed_version'"
            raise UserError(f"tables.{table.name}.group: {group.system} needs {needs}")


def _check_lines(table: TableSpec, tables: Mapping[str, TableSpec]) -> None:
    """Check the texts shown in lines of events: own cells, rows that belong to a row, names from other rows."""
    place = f"tables.{table.name}"
    texts = {f"{place}.beside": table.beside, f"{place}.part_of.beside": table.part_of.beside if table.part_of else ()}
    for key, templates in texts.items():
        for template in templates:
            _known_names(key, BESIDE_CELL.findall(template), table.public_columns)
    _known_names(f"{place}.once_per", table.once_per, table.public_columns)
    if table.needs_unit and table.unit is None:
        raise UserError(f"{place}.needs_unit: name the column of the unit (unit = ...)")
    part = table.part_of
    others: list[tuple[str, str, str, str | None]] = [] if part is None else [("part_of", part.table, part.on, None)]
    others += [("label_from", source.table, source.on, source.column) for source in table.label_from]
    for key, other, on, column in others:
        if other not in tables:
            raise UserError(f"{place}.{key}: no table {other!r}; known are {', '.join(sorted(tables))}")
        _known_names(f"{place}.{key}", (on,), table.public_columns)
        _known_names(f"{place}.{key}", (on, column), tables[other].public_columns)


def _check_identity(table: TableSpec, tables: Mapping[str, TableSpec]) -> None:
    place = f"tables.{table.name}"
    if table.key and table.id_columns:
        raise UserError(f"{place}: id_columns are for tables without a key")
    late = sorted(set(table.late) & {*table.key, *table.id_columns})
    if late:
        raise UserError(f"{place}: row ids must hold no late cell, but {', '.join(late)} is late")
    if table.subject is not None and table.subject in table.late:
        raise UserError(f"{place}.late: {table.subject} says whose row it is: a row is on that chart or on none")
    hidden = sorted(table.hidden & {*table.key, *table.id_columns})
    if hidden:  # a hash would not hide it: all values of a running number are tried in seconds
        raise UserError(f"{place}: row ids must hold no withheld cell, but {', '.join(hidden)} is withheld")
    if table.subject_from is not None:
        key, parent = table.subject_from.key, table.subject_from.table
        _known_names(f"{place}.subject_from", (key,), table.columns)
        _check_parent(f"{place}.subject_from", parent, tables)
        if tables[parent].subject is None:
            raise UserError(f"{place}.subject_from: {parent} has no subject column of its own")
    if table.derive is not None and table.derive.source not in tables:
        raise UserError(f"{place}.derive: no table {table.derive.source!r}")
    if table.derive is not None:
        _known_names(f"{place}.derive.where", table.derive.where, tables[table.derive.source].columns)
        _known_names(f"{place}.derive.written", table.derive.written, tables[table.derive.source].columns)


def _check_medians(table: TableSpec) -> None:
    pairs = [f"{start}.{end}" for start, end in table.median_pairs]
    for pair, minutes in table.median_minutes.items():
        place = f"tables.{table.name}.median_minutes.{pair}"
        if pair not in pairs:
            raise UserError(f"{place}: no rule asks for it; asked for are {', '.join(pairs) or 'none'} (write FROM.TO)")
        if minutes < 0:
            raise UserError(f"{place}: a delay is not negative, as {minutes:g} is")


def _check_parent(place: str, parent: str, tables: Mapping[str, TableSpec]) -> None:
    if parent not in tables:
        near = difflib.get_close_matches(parent, tables, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(tables))}"
        raise UserError(f"{place}: no table {parent!r}; {hint}")
    if len(tables[parent].key) != 1:
        raise UserError(f"{place}: {parent} must have a primary key of one column to be referred to")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A table as a rule sees it, and the rule's place in a spec."""

    place: str
    spec: TableSpec
    tables: Mapping[str, TableSpec]

    def time(self, column: str) -> None:
        _known_names(self.place, (column,), self.spec.columns)
        if self.spec.columns[column] not in ("time", "date"):
            shown = f"{self.spec.name}.{column} is {self.spec.columns[column]!r}"
            raise self.wrong(f"{shown}, a rule needs a time or a date")

    def text(self, column: str) -> None:
        _known_names(self.place, (column,), self.spec.columns)
        if self.spec.columns[column] != "text":
            raise self.wrong(f"closed() needs a text column, {self.spec.name}.{column} is not")

    def value(self, column: str, values: Sequence[str]) -> None:
        _known_names(self.place, (column,), self.spec.columns)
        kind, shown = self.spec.columns[column], f"{self.spec.name}.{column}"
        if kind not in ("text", "int") and not (kind == "float" and set(values) == {""}):
            raise self.wrong(f"when() needs a text or int column, {shown} is not")
        if kind == "int" and not all(value.lstrip("-").isdecimal() for value in values if value):
            raise self.wrong(f"{shown} is int, so when() needs whole numbers in quotes")

    def setting(self, name: str) -> None:
        if name not in LAG_SETTINGS:
            raise self.wrong(f"no setting {name!r}; known are {', '.join(LAG_SETTINGS)}")

    def parent(self, key: str, table: str) -> _Place:
        _known_names(self.place, (key,), self.spec.columns)
        _check_parent(self.place, table, self.tables)
        _check_key_types(self.place, self.spec, key, self.tables[table])
        return replace(self, spec=self.tables[table])

    def child(self, table: str, key: str) -> _Place:
        found = self.table(table)
        _known_names(self.place, (key,), found.spec.columns)
        _check_parent(self.place, self.spec.name, self.tables)
        _check_key_types(self.place, found.spec, key, self.spec)
        return found

    def table(self, name: str) -> _Place:
        if name not in self.tables:
            raise self.wrong(f"no table {name!r}")
        return replace(self, spec=self.tables[name])

    def late(self, column: str) -> None:
        _known_names(self.place, (column,), self.spec.late)

    def rule(self, rule: Rule) -> None:
        for part in walk(rule):
            part.check(self)

    def wrong(self, what: str) -> UserError:
        return UserError(f"{self.place}: {what}")


def _check_key_types(place: str, table: TableSpec, key: str, parent: TableSpec) -> None:
    ours, theirs = table.columns[key], parent.columns[parent.key[0]]
    if ours != theirs:
        raise UserError(f"{place}: {table.name}.{key} is {ours!r} but {parent.name}.{parent.key[0]} is {theirs!r}")


# Unanswered questions of a draft: texts that begin with ``TODO``.


_MARK = "TODO"


def open_questions(body: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every unanswered question in parsed TOML."""
    if isinstance(body, Mapping):
        for key, value in body.items():
            yield from open_questions(value, f"{place}.{key}" if place else str(key))
    elif isinstance(body, list):
        for value in body:
            yield from open_questions(value, place)
    elif isinstance(body, str) and body.startswith(_MARK):
        yield place, body


def refuse_open_questions(body: Any, file: str) -> None:
    """Raise UserError if a question is unanswered; it names the first and counts the others."""
    found = list(open_questions(body))
    if found:
        place, text = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise UserError(f"{file}: {place}: {text}{more}; see them all with 'wardround spec check'")
