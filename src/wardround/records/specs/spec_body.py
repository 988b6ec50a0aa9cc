"""The content of a spec file, parsed strictly, table by table."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import msgspec

from wardround.core import UserError, strict
from wardround.records.rules.language import Rule, parse_rule
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.roles import ROLES, ImageRole, MomentRole, PersonRole, Roles, RowRole, SpanRole
from wardround.records.specs.spec import (
    GROUP_SYSTEMS,
    ColumnType,
    DictionaryKeys,
    DictionarySpec,
    GroupJoin,
    SourceKeys,
    TableKeys,
    TableSpec,
)

# ``spec_file.py`` makes a :class:`SourceSpec` from it. The keys are declared only in ``spec.py``.


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBody(SourceKeys):
    """``[source]`` of one file: the keys of the source, and those for this file alone."""

    module: str | None = None
    title: str | None = None
    description: str = ""
    files: FileFormat | None = None
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecBody:
    """A spec file of wardround: a source's tables, and when every row and late cell became known."""

    source: SourceBody
    tables: Mapping[str, TableKeys] = field(default_factory=dict)
    dictionaries: Mapping[str, DictionaryKeys] = field(default_factory=dict)
    roles: Mapping[str, Any] = field(default_factory=dict)


def spelt(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return parsed content with names that Python allows: ``from`` of a derivation is its ``source``."""
    tables = body.get("tables")
    if not isinstance(tables, Mapping):
        return dict(body)
    found = dict(tables)
    for name, table in tables.items():
        derive = table.get("derive") if isinstance(table, Mapping) else None
        if isinstance(derive, Mapping) and "from" in derive:
            found[name] = {**table, "derive": {("source" if key == "from" else key): derive[key] for key in derive}}
    return {**body, "tables": found}


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file, for editors, made from the classes that parse it."""
    schema = msgspec.json.schema(SpecBody, schema_hook=lambda _: {"type": "string"})  # a time rule
    shapes = schema["$defs"]
    for shape in shapes.values():
        if shape.get("type") == "object" and "properties" in shape:
            shape["additionalProperties"] = False
    derive = shapes["Derivation"]
    derive["properties"]["from"] = derive["properties"].pop("source")
    derive["required"] = ["from" if name == "source" else name for name in derive["required"]]
    roles = {name: {"description": what} for name, what in ROLES.items()}
    shapes["SpecBody"]["properties"]["roles"] = {"type": "object", "properties": roles, "default": {}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "wardround source spec", **schema}


# A table's keys as a :class:`TableSpec`: defaults are filled in, and columns made from a late column are late too.


def table_spec(
    own: Mapping[str, Any],
    *,
    name: str,
    module: str,
    place: str,
    files: FileFormat,
    dictionaries: Mapping[str, DictionarySpec],
) -> TableSpec:
    """Return the table that a file declares. ``place`` is the start of its errors (UserError)."""
    keys = strict(TableKeys, own, place, {Rule: parse_rule})
    check_column_names(keys.columns, place)
    table = TableSpec(**values_of(keys, TableKeys) | {"name": name, "module": module, "files": files})
    table = replace(table, group=_group(table, place))
    return replace(
        table,
        subject=table.subject or (None if table.subject_from else "subject_id"),
        late=_late(table, place),
        joined=_joined(table, dictionaries),
    )


def values_of(keys: Any, kind: type[Any]) -> dict[str, Any]:
    """Return the values of a dataclass's fields that ``kind`` declares, by name."""
    return {each.name: getattr(keys, each.name) for each in fields(kind)}


def check_column_names(columns: Iterable[str], place: str) -> None:
    """Raise UserError for a name that a store or an SQL statement cannot have."""
    for name in columns:
        if name != name.lower() or name == "row_id" or name.startswith("_"):
            raise UserError(f"{place}.columns.{name}: column names are lower case, not 'row_id', not '_...'")


def _late(table: TableSpec, place: str) -> dict[str, Rule]:
    """Return the rule of each late column; columns joined through a late column, or made from one, are late too."""
    late = {name.strip(): rule for names, rule in table.late.items() for name in names.split(",")}
    for join in table.dictionaries:
        for column in join.on:
            if column in late:
                late.update(dict.fromkeys(join.add, late[column]))
    if table.group is not None:
        for part in (table.group.code, table.group.version, table.group.ndc):
            if part in late:
                late[table.group.name] = late[part]
    for name, made_of in table.first.items():
        rules = {late[part] for part in made_of if part in late}
        if len(rules) > 1:
            raise UserError(f"{place}.first.{name}: its columns are late by different rules")
        late.update(dict.fromkeys([name], *rules) if rules else {})
    return late


def _group(table: TableSpec, place: str) -> GroupJoin | None:
    group, columns = table.group, table.columns
    if group is None:
        return None
    code = group.code or table.code
    if code is None:
        raise UserError(f"{place}.group: 'code' is missing, the column to group by")
    is_ccs = group.system != "atc"
    return replace(
        group,
        code=code,
        name=group.name or GROUP_SYSTEMS[group.system],
        version=group.version or ("icd_version" if is_ccs and "icd_version" in columns else None),
        ndc=group.ndc or ("ndc" if not is_ccs and "ndc" in columns else None),
    )


def _joined(table: TableSpec, dictionaries: Mapping[str, DictionarySpec]) -> dict[str, ColumnType]:
    joined: dict[str, ColumnType] = {}
    for join in table.dictionaries:
        columns = dictionaries[join.table].columns if join.table in dictionaries else {}
        joined.update({new: columns.get(old, "text") for new, old in join.add.items()})
    if table.group is not None:
        joined[table.group.name] = "text"
    return {**joined, **dict.fromkeys(table.first, "text")}


# Roles under ``[roles.*]``: a misspelt role, key or column is an error that names the nearest.


_Role = SpanRole | MomentRole | RowRole | ImageRole | PersonRole
_Shape = TypeVar("_Shape", bound=_Role)
_SPANS = ("admission", "stay", "emergency")
_SHAPES: Mapping[str, type[MomentRole] | type[ImageRole] | type[PersonRole]] = {
    "death": MomentRole,
    "image": ImageRole,
    "person": PersonRole,
}
"""Roles whose rows are not single statements."""
_SEVERAL = tuple(role for role in ROLES if role not in _SPANS)
_BESIDES = ("not_the_record", "hierarchy", "kept_for_admitted", "unavailable")
_CLOCKS = ("_event", "_available")
"""The row's own clocks, stored beside its columns."""
_NAMES = ("label", "time")
"""Keys that take one name or a list of them."""


def read_roles(bodies: Mapping[str, Mapping[str, Any]], tables: Mapping[str, TableSpec]) -> Roles:
    """Return the roles that some spec files declare, by file name: stays are declared once, the tables of other roles
    are joined. UserError names the file and the key."""
    found: dict[str, Any] = {}
    for file, body in bodies.items():
        for key, value in body.items():
            place = f"{file}: roles.{key}"
            _known(place, "role", key, (*ROLES, *_BESIDES))
            if key in _SPANS:
                if key in found:
                    raise UserError(f"{place}: given twice")
                found[key] = _read(SpanRole, value, place)
            elif key in _SEVERAL:
                several = value if isinstance(value, list) else [value]
                made = [_read(_SHAPES.get(key, RowRole), body, place) for body in several]
                found[key] = (*found.get(key, ()), *made)
            elif isinstance(value, dict | list | str):
                found[key] = _plain(value)
    roles = Roles(**found)
    for name in roles.kept_for_admitted:
        _known("roles.kept_for_admitted", "table", name, tuple(tables))
    for place, role in _each(roles):
        _known(place, "table", role.table, tables)
        for name in role.named_columns:
            _known(f"{place} ({role.table})", "column", name, (*tables[role.table].all_columns, *_CLOCKS))
        if isinstance(role, ImageRole) and role.report is not None:
            _known(place, "table", role.report, tables)
            for name in filter(None, (role.report_study, role.report_text)):
                _known(f"{place} ({role.report})", "column", name, tables[role.report].all_columns)
    return roles


def _read(shape: type[_Shape], body: object, place: str) -> _Shape:
    """Parse one table's role; a name where a list of names is expected is a list of one."""
    several = {key: [body[key]] for key in _NAMES if isinstance(body.get(key), str)} if isinstance(body, dict) else {}
    lists = several if shape is not MomentRole else {}
    return strict(shape, {**body, **lists} if isinstance(body, dict) else body, place)


def _plain(value: Any) -> Any:
    """Return lists as tuples, at any depth."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def _each(roles: Roles) -> Iterator[tuple[str, _Role]]:
    for role in _SPANS:
        span: SpanRole | None = getattr(roles, role)
        if span is not None:
            yield f"roles.{role}", span
    for role in _SEVERAL:
        yield from ((f"roles.{role}", row_role) for row_role in getattr(roles, role))


def _known(place: str, what: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        near = difflib.get_close_matches(name, allowed, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(allowed))}"
        raise UserError(f"{place}: no {what} {name!r}; {hint}")
