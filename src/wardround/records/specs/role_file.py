"""Reading roles from a spec's ``[roles.*]``: a misspelt role, key or column is an error that names the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from wardround.core import UserError
from wardround.records.specs.roles import (
    GROUPS,
    PRECISIONS,
    ROLES,
    CodeForm,
    MomentRole,
    Roles,
    RowRole,
    SpanRole,
    Twin,
)
from wardround.records.specs.spec import TableSpec

_Shape = TypeVar("_Shape", bound="SpanRole | MomentRole | RowRole | CodeForm | Twin")
_SPANS = ("admission", "stay")
_SEVERAL = tuple(role for role in ROLES if role not in _SPANS)
_BESIDES = ("not_the_record", "hierarchy", "unavailable")
_LISTS = ("tuple[str, ...]", "Conditions")
_CLOCKS = ("_event", "_available")
"""The row's own clocks, which stand beside its columns in a store."""
_NAMES = ("label", "time")
"""Keys that take one name or a list of them."""


def read_roles(bodies: Mapping[str, Mapping[str, Any]], tables: Mapping[str, TableSpec]) -> Roles:
    """Return the roles that some spec files give, by file name: stays are given once, the tables of the other roles add
    up. UserError names the file and the key."""
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
                shape: type[MomentRole] | type[RowRole] = MomentRole if key == "death" else RowRole
                made = [_read(shape, one, place) for one in several]
                found[key] = (*found.get(key, ()), *made)
            elif isinstance(value, dict | list | str):
                found[key] = _plain(value)
    roles = Roles(**found)
    for place, role in _each(roles):
        _check_names(place, role, tables)
    return roles


def _read(shape: type[_Shape], body: object, place: str) -> _Shape:
    if not isinstance(body, Mapping):
        raise UserError(f"{place}: expected a table, found {body!r}")
    declared = {one.name: one for one in fields(shape)}
    values: dict[str, Any] = {}
    for key, value in body.items():
        _known(place, "key", key, declared)
        values[key] = _value(key, value, f"{place}.{key}", several=str(declared[key].type) in _LISTS)
    for name, one in declared.items():
        if name not in values and one.default is MISSING and one.default_factory is MISSING:
            raise UserError(f"{place}: {name!r} is missing")
    return shape(**values)


def _value(key: str, value: object, place: str, *, several: bool) -> Any:
    if key == "forms":
        return (
            tuple(_read(CodeForm, form, place) for form in value) if isinstance(value, list) else _wrong(value, place)
        )
    if key == "twin":
        return _read(Twin, value, place)
    allowed = {"precision": PRECISIONS, "group": GROUPS}.get(key)
    if allowed is not None and value not in allowed:
        raise UserError(f"{place}: write one of {', '.join(allowed)}, not {value!r}")
    if key in ("systems", "dictionary"):
        return dict(value) if isinstance(value, Mapping) else _wrong(value, place)
    if key == "unit_follows":
        return value if isinstance(value, bool) else _wrong(value, place)
    if several and isinstance(value, str) and key in _NAMES:
        return (value,)
    if several != isinstance(value, list) or not isinstance(value, list | str):
        return _wrong(value, place)
    return _plain(value)


def _wrong(value: object, place: str) -> Any:
    raise UserError(f"{place}: {value!r} is not what this key takes; see docs/roles.md")


def _plain(value: Any) -> Any:
    """Return lists as tuples, at any depth."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def _each(roles: Roles) -> Iterator[tuple[str, SpanRole | MomentRole | RowRole]]:
    for role in _SPANS:
        span: SpanRole | None = getattr(roles, role)
        if span is not None:
            yield f"roles.{role}", span
    for role in _SEVERAL:
        yield from ((f"roles.{role}", one) for one in getattr(roles, role))


def _check_names(place: str, role: SpanRole | MomentRole | RowRole, tables: Mapping[str, TableSpec]) -> None:
    _known(place, "table", role.table, tables)
    columns = (*tables[role.table].all_columns, *_CLOCKS)
    for name in role.named_columns:
        _known(f"{place} ({role.table})", "column", name, columns)


def _known(place: str, what: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        near = difflib.get_close_matches(name, allowed, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(allowed))}"
        raise UserError(f"{place}: no {what} {name!r}; {hint}")
