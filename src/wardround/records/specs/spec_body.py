"""The body of a spec file: read strictly, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from wardround.core import Sensitivity, UserError
from wardround.records.rules.language import Rule, parse_rule
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.roles import ROLES
from wardround.records.specs.spec import (
    GROUP_SYSTEMS,
    AgeColumns,
    Amendments,
    ColumnType,
    Derivation,
    DictionaryJoin,
    DictionarySpec,
    GroupJoin,
    LabelFrom,
    PartOf,
    PendingRows,
    PublishedClock,
    TableSpec,
)

# ``spec_file.py`` makes a :class:`SourceSpec` of it. A key is declared here and nowhere else.


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBody:
    """``[source]``: what the whole is called and how it is written."""

    name: str
    module: str | None = None
    title: str | None = None
    description: str = ""
    versions: tuple[str, ...] = ()
    sensitivity: Sensitivity = "credentialed"
    ignored: tuple[str, ...] = ()
    flatten: str | None = None
    assumed: Mapping[Literal["coding_lag", "result_lag", "culture_lag"], str] = field(default_factory=dict)
    splits: str | None = None
    person: str | None = None
    files: FileFormat | None = None
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectFrom:
    """``subject_from``: whose a row is, by the ``key`` of a row of ``table``."""

    key: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBody:
    """``[tables.NAME.group]``: a coarse label through a code grouper."""

    system: Literal["ccs-diagnoses", "ccs-procedures", "atc"]
    code: str | None = None
    name: str | None = None
    version: str | None = None
    fixed_version: int | None = None
    ndc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBody:
    """``[tables.NAME.published]``: the clock of the papers."""

    time: str | None = None
    hide: tuple[str, ...] = ()
    operator: Literal["<", "<="] = "<="


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexBody:
    """``reflex`` of pending rows: tests that are only done because of a result."""

    column: str | None = None
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingBody:
    """``[tables.NAME.pending]``: rows that show as one until the first result is known."""

    group: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    at: str
    until: str
    reflex: ReflexBody = field(default_factory=ReflexBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeriveBody:
    """``[tables.NAME.derive]``: a table made from the text of another."""

    source: str
    """Written ``from``."""
    function: str
    text: str = "text"
    where: Mapping[str, str] = field(default_factory=dict)
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBody:
    """``[tables.NAME]``. ``event_time`` and ``available_at`` are time rules; so are the values of ``late``, whose keys
    are column names with commas between."""

    path: str
    columns: Mapping[str, ColumnType]
    event_time: str
    available_at: str
    description: str = ""
    key: tuple[str, ...] = ()
    id_columns: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    version: str | None = None
    amended: Amendments | None = None
    subject: str | None = None
    subject_from: SubjectFrom | None = None
    encounter: str | None = None
    code: str | None = None
    code_system: str | None = None
    code_system_column: str | None = None
    kind: str | None = None
    classes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    part_of: PartOf | None = None
    label_from: tuple[LabelFrom, ...] = ()
    label: str | None = None
    death: str | None = None
    value: str | None = None
    text: str | None = None
    unit: str | None = None
    withhold: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    default_columns: tuple[str, ...] = ()
    describe: Mapping[str, str] = field(default_factory=dict)
    late: Mapping[str, str] = field(default_factory=dict)
    dictionary: DictionaryJoin | tuple[DictionaryJoin, ...] = ()
    group: GroupBody | None = None
    published: PublishedBody = field(default_factory=PublishedBody)
    pending: PendingBody | None = None
    derive: DeriveBody | None = None
    age: AgeColumns | None = None
    required: tuple[str, ...] = ()
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: FileFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionaryBody:
    """``[dictionaries.NAME]``: a table of codes, the same for all subjects."""

    path: str
    columns: Mapping[str, ColumnType]
    key: tuple[str, ...] = ()
    description: str = ""
    also: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    files: FileFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecBody:
    """A spec file of wardround: a source's tables, and when every row and late cell became known."""

    source: SourceBody
    tables: Mapping[str, TableBody] = field(default_factory=dict)
    dictionaries: Mapping[str, DictionaryBody] = field(default_factory=dict)
    roles: Mapping[str, Any] = field(default_factory=dict)


def spelt(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was read of a file with names that Python can have: ``from`` of a derivation is its ``source``."""
    tables = body.get("tables")
    if not isinstance(tables, Mapping):
        return dict(body)
    return {**body, "tables": {name: _table_spelt(table) for name, table in tables.items()}}


def _table_spelt(table: Any) -> Any:
    derive = table.get("derive") if isinstance(table, Mapping) else None
    if not isinstance(derive, Mapping) or "from" not in derive:
        return table
    rest = {name: value for name, value in derive.items() if name != "from"}
    return {**table, "derive": {**rest, "source": derive["from"]}}


def spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file, for editors: made of the shapes that read it."""
    schema = msgspec.json.schema(SpecBody)
    shapes = schema["$defs"]
    for shape in shapes.values():
        if shape.get("type") == "object" and "properties" in shape:
            shape["additionalProperties"] = False
    derive = shapes["DeriveBody"]
    derive["properties"]["from"] = derive["properties"].pop("source")
    derive["required"] = ["from" if name == "source" else name for name in derive["required"]]
    roles = {name: {"description": what} for name, what in ROLES.items()}
    shapes["SpecBody"]["properties"]["roles"] = {"type": "object", "properties": roles, "default": {}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "wardround source spec", **schema}


# A table's part of a spec file as a :class:`TableSpec`: its rules parsed, what hangs on a late column late with it.


def table_spec(
    body: TableBody,
    *,
    name: str,
    module: str,
    place: str,
    files: FileFormat,
    dictionaries: Mapping[str, DictionarySpec],
) -> TableSpec:
    """Return the table. ``place`` stands before its errors (UserError)."""
    check_column_names(body.columns, place)
    joins = (body.dictionary,) if isinstance(body.dictionary, DictionaryJoin) else body.dictionary
    group = None if body.group is None else _group(body.group, body.code, body.columns, place)
    published = body.published
    time = None if published.time is None else read_rule(published.time, f"{place}.published.time")
    come_from = body.subject_from
    return TableSpec(
        name=name,
        module=module,
        path=body.path,
        columns=body.columns,
        event_time=read_rule(body.event_time, f"{place}.event_time"),
        available_at=read_rule(body.available_at, f"{place}.available_at"),
        description=body.description,
        key=body.key,
        id_columns=body.id_columns,
        unique=body.unique,
        version=body.version,
        amended=body.amended,
        subject=body.subject or ("subject_id" if come_from is None else None),
        subject_from=None if come_from is None else (come_from.key, come_from.table),
        encounter=body.encounter,
        code=body.code,
        code_system=body.code_system,
        code_system_column=body.code_system_column,
        kind=body.kind,
        classes=body.classes,
        beside=body.beside,
        part_of=body.part_of,
        label_from=body.label_from,
        label=body.label,
        death=body.death,
        value=body.value,
        text=body.text,
        unit=body.unit,
        withhold=body.withhold,
        planned=body.planned,
        default_columns=body.default_columns,
        describe=body.describe,
        late=_late(body, joins, group, place),
        dictionaries=joins,
        group=group,
        published=PublishedClock(time=time, hide=published.hide, operator=published.operator),
        pending=None if body.pending is None else _pending(body.pending, f"{place}.pending"),
        derive=_derive(body),
        age=body.age,
        required=body.required,
        first_of=body.first,
        joined=_joined(joins, group, body.first, dictionaries),
        files=files,
    )


def read_rule(text: str, place: str) -> Rule:
    """Parse a rule; the error names the place."""
    try:
        return parse_rule(text)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def check_column_names(columns: Iterable[str], place: str) -> None:
    """Raise UserError for a name that a store or a statement could not have."""
    for name in columns:
        if name != name.lower() or name == "row_id" or name.startswith("_"):
            raise UserError(f"{place}.columns.{name}: column names are lower case, not 'row_id', not '_...'")


def _late(body: TableBody, joins: tuple[DictionaryJoin, ...], group: GroupJoin | None, place: str) -> dict[str, Rule]:
    """Read the late columns; what is joined through a late column, or made of one, is late with it."""
    late: dict[str, Rule] = {}
    for names, text in body.late.items():
        rule = read_rule(text, f"{place}.late.{names}")
        late.update({name.strip(): rule for name in names.split(",")})
    for join in joins:
        for column in join.on:
            if column in late:
                late.update(dict.fromkeys(join.add, late[column]))
    if group is not None:
        for part in (group.code, group.version, group.ndc):
            if part in late:
                late[group.name] = late[part]
    for name, made_of in body.first.items():
        rules = {late[part] for part in made_of if part in late}
        if len(rules) > 1:
            raise UserError(f"{place}.first.{name}: its columns are late by different rules")
        late.update(dict.fromkeys([name], *rules) if rules else {})
    return late


def _group(body: GroupBody, code: str | None, columns: Mapping[str, ColumnType], place: str) -> GroupJoin:
    of = body.code or code
    if of is None:
        raise UserError(f"{place}.group: 'code' is missing, the column to group by")
    is_ccs = body.system != "atc"
    version = "icd_version" if is_ccs and "icd_version" in columns else None
    return GroupJoin(
        system=body.system,
        code=of,
        name=body.name or GROUP_SYSTEMS[body.system],
        version=body.version or version,
        fixed_version=body.fixed_version,
        ndc=body.ndc or ("ndc" if not is_ccs and "ndc" in columns else None),
    )


def _pending(body: PendingBody, place: str) -> PendingRows:
    return PendingRows(
        group=body.group,
        columns=body.columns,
        at=read_rule(body.at, f"{place}.at"),
        until=read_rule(body.until, f"{place}.until"),
        reflex_column=body.reflex.column,
        reflex_patterns=body.reflex.patterns,
    )


def _derive(body: TableBody) -> Derivation | None:
    derive = body.derive
    if derive is None:
        return None
    return Derivation(
        source=derive.source, function=derive.function, text=derive.text, where=derive.where, written=derive.written
    )


def _joined(
    joins: tuple[DictionaryJoin, ...],
    group: GroupJoin | None,
    first_of: Iterable[str],
    dictionaries: Mapping[str, DictionarySpec],
) -> dict[str, ColumnType]:
    joined: dict[str, ColumnType] = {}
    for join in joins:
        dictionary = dictionaries.get(join.table)
        columns = dictionary.columns if dictionary else {}
        joined.update({new: columns.get(old, "text") for new, old in join.add.items()})
    if group is not None:
        joined[group.name] = "text"
    for name in first_of:
        joined[name] = "text"
    return joined
