"""Parse roles from a spec's ``[roles.*]``: a misspelt role, key or column is an error that names the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from wardround.core import UserError, strict
from wardround.records.specs.roles import ROLES, ImageRole, MomentRole, PersonRole, Roles, RowRole, SpanRole
from wardround.records.specs.spec import TableSpec

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
        _check_names(place, role, tables)
        _check_report(place, role, tables)
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


def _check_names(place: str, role: _Role, tables: Mapping[str, TableSpec]) -> None:
    _known(place, "table", role.table, tables)
    columns = (*tables[role.table].all_columns, *_CLOCKS)
    for name in role.named_columns:
        _known(f"{place} ({role.table})", "column", name, columns)


def _check_report(place: str, role: _Role, tables: Mapping[str, TableSpec]) -> None:
    """Check the table of reports that an image role names."""
    if not isinstance(role, ImageRole) or role.report is None:
        return
    _known(place, "table", role.report, tables)
    for name in filter(None, (role.report_study, role.report_text)):
        _known(f"{place} ({role.report})", "column", name, tables[role.report].all_columns)


def _known(place: str, what: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        near = difflib.get_close_matches(name, allowed, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(allowed))}"
        raise UserError(f"{place}: no {what} {name!r}; {hint}")
