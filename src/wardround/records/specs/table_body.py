"""A table's part of a spec file as a :class:`TableSpec`: its rules parsed, what hangs on a late column late with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wardround.core import UserError
from wardround.records.rules.language import Rule
from wardround.records.rules.parser import parse_rule
from wardround.records.specs.file_format import FileFormat
from wardround.records.specs.spec import (
    GROUP_SYSTEMS,
    ColumnType,
    Derivation,
    DictionaryJoin,
    DictionarySpec,
    GroupJoin,
    PendingRows,
    PublishedClock,
    TableSpec,
)
from wardround.records.specs.spec_body import GroupBody, PendingBody, TableBody


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
