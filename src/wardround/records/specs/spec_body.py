"""What a spec's TOML file holds, as it is written: read strictly, and turned into a schema for editors.

``spec_file.py`` makes a :class:`SourceSpec` of it. A key is declared here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from wardround.core import Sensitivity
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.roles import ROLES
from wardround.records.specs.spec import AgeColumns, Amendments, ColumnType, DictionaryJoin, LabelFrom, PartOf


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
