"""Where a source keeps stays, intensive care, deaths, results, diagnoses, reports: ``places/<source>.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from wardround.core import UserError

_PACKAGE = "wardround.benchmarks.ehrshot"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanPlace:
    """Intervals: one row each (``start`` and ``ends`` are columns), or two events of a stream (``starts`` and ``stops``
    are patterns of their codes), the second not needed where the first has a cell in ``ends``.

    The latest of ``ends`` counts; ``time|day`` is a time with its day, which stands for it where it is empty or
    midnight. ``where``: only rows that meet one of these, each a column and the patterns (``*`` any text, ``?*`` any
    but an empty one) of which one must fit; case does not matter.
    """

    table: str
    id: str | None = None
    start: str | None = None
    ends: tuple[str, ...] = ()
    code: str | None = None
    starts: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    where: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    kind: str | None = None
    """The column that says what kind of interval a row is; those of ``no_stays`` that meet no condition are none."""
    no_stays: tuple[str, ...] = ()

    def looked_for(self) -> str:
        """What its rows are known by, in one line, for messages."""
        if self.start is None:
            return f"{self.table}.{self.code} like {' or '.join(self.starts)}"
        conditions = (
            " and ".join(f"{column} {' or '.join(map(repr, patterns))}" for column, patterns in condition.items())
            for condition in self.where
        )
        return f"{self.table} with {', or '.join(conditions)}" if self.where else f"rows of {self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentPlace:
    """Moments: a time column, or the time of the rows whose code fits one of the patterns ``starts``."""

    table: str
    time: str | None = None
    code: str | None = None
    starts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a code of a stream reads: what begins with ``start`` is of ``system``, and the rest is the code, up to the
    next ``//``, behind which the unit may follow."""

    start: str
    system: str
    unit_follows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """Coded rows: of one ``system``, of the system that a column tells, or in one of several ``forms``. A cell may hold
    several codes with a ``separator`` between them."""

    table: str
    code: str
    system: str | None = None
    system_column: str | None = None
    systems: Mapping[str, str] = field(default_factory=dict)
    forms: tuple[Form, ...] = ()
    separator: str | None = None
    value: str | None = None
    text: str | None = None
    unit: str | None = None
    dictionary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlace:
    """Reports with an id that a file of labels can name."""

    table: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """One source. ``not_the_record`` are patterns of codes that are no event of the record (a birth); ``unavailable``
    says, by pattern, of which tasks the source can never tell the labels and why."""

    source: str
    stays: SpanPlace
    icu_stays: SpanPlace | None
    deaths: tuple[MomentPlace, ...]
    labs: tuple[CodePlace, ...]
    diagnoses: tuple[CodePlace, ...]
    reports: ReportPlace | None
    not_the_record: tuple[str, ...]
    hierarchy: Mapping[str, str]
    unavailable: Mapping[str, str]

    def refuses(self, task: str) -> str | None:
        """Say why this source can never tell the labels of a task, None if it can."""
        return next((why for pattern, why in self.unavailable.items() if fnmatchcase(task, pattern)), None)


@cache
def load_places(source: str) -> Places:
    """Return where a source keeps things. UserError: nobody has said yet."""
    file = resources.files(_PACKAGE).joinpath("places", f"{source}.toml")
    if not file.is_file():
        raise UserError(f"no EHRSHOT tasks for source {source!r} yet; there are some for {', '.join(known_sources())}")
    body = tomllib.loads(file.read_text(encoding="utf-8"))
    return Places(
        source=source,
        stays=_made(SpanPlace, body["stays"]),
        icu_stays=_made(SpanPlace, body["icu_stays"]) if "icu_stays" in body else None,
        deaths=tuple(_made(MomentPlace, one) for one in body.get("deaths", ())),
        labs=tuple(_code_place(one) for one in body.get("labs", ())),
        diagnoses=tuple(_code_place(one) for one in body.get("diagnoses", ())),
        reports=_made(ReportPlace, body["reports"]) if "reports" in body else None,
        not_the_record=tuple(body.get("not_the_record", {}).get("codes", ())),
        hierarchy=body.get("hierarchy", {}),
        unavailable=body.get("unavailable", {}),
    )


def known_sources() -> tuple[str, ...]:
    """The sources whose places are declared."""
    folder = resources.files(_PACKAGE).joinpath("places")
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def _code_place(body: Mapping[str, Any]) -> CodePlace:
    forms = tuple(Form(**form) for form in body.get("forms", ()))
    return _made(CodePlace, {**body, "forms": forms})


def _made(kind: type[_T], body: Mapping[str, Any]) -> _T:
    return kind(**{name: _frozen(value) for name, value in body.items()})


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return {name: _frozen(part) for name, part in value.items()} if isinstance(value, dict) else value
