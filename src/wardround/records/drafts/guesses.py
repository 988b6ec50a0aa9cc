"""Guesses about a folder's tables from their first rows: subjects, keys, stays, merged persons."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wardround.records.drafts.look import ColumnLook, FileLook

_PERSON = re.compile(r"patient|subject|person(?!al)|mrn|pid|^pat|_pat_|paciente|kunde")
_NUMBER = re.compile(r"(^|_)(id|nr|no|num|number|nummer|key|code|uuid)(_|$)|(id|nr|nummer|number|uuid|schluessel)$")
_STAY = (
    "aufenthalt",
    "faelle",
    "fall",
    "admission",
    "encounter",
    "stay",
    "visit",
    "sejour",
    "ingreso",
    "aufnahm",
)
_NO_STAY = ("notaufnahm", "emergency", "ambul", "urgenc")
_MERGED = re.compile(
    r"merge|zusammen|fuehr|haupt|master|surviv|ersetz|replac|^alte?_|_alte?$|^neue?_|_neue?$|^old|^new"
)
_CORRECTED = re.compile(r"amend|correct|korr|revis|entered-in-error|storn|ung(ue|ü)ltig", re.IGNORECASE)
_WITHDRAWN = re.compile(r"entered-in-error|storn|ung(ue|ü)ltig|cancel|annul|void", re.IGNORECASE)
_SINCE = re.compile(r"version|amend|correct|korr|revis|modif|updat|chang|geaend|aender")
_LETTERS_ALIKE = 4
_FEW_CELLS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The columns that show that rows of a table are versions of one row: the status, with the words that withdraw a
    row; the time since when a version is valid; and the column that names the row, in tables without a key."""

    status: str
    withdrawn: tuple[str, ...]
    since: str | None
    row: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """``keys``: by table, the column that is filled, different in all rows that were read, and names its rows."""

    tables: tuple[FileLook, ...]
    subject: str | None
    keys: Mapping[str, str]

    @classmethod
    def of(cls, looks: Sequence[FileLook]) -> Guesses:
        """Return guesses from the first rows of all tables."""
        agreed = _agreed(looks)
        subject = _subject(agreed)
        keys = {look.name: key for look in agreed if (key := _key(look, agreed, subject)) is not None}
        return cls(tables=tuple(agreed), subject=subject, keys=keys)

    def parents(self, table: FileLook) -> dict[str, str]:
        """Return the columns of a table that are the key of another table, with that table; the subject's column is
        left out. If two tables have the same key, the one with more rows counts."""
        keys = ((name, self._column(name, key)) for name, key in self.keys.items() if key != self.subject)
        others = [(name, own_key) for name, own_key in keys if name != table.name and own_key is not None]
        others.sort(key=lambda other: -len(other[1].cells))
        own, found = self.keys.get(table.name), {}
        for column in table.columns:
            for name, own_key in others if column.name != self.subject_in(table) else ():
                larger = column.name != own or column.cells < own_key.cells
                if larger and own_key.kind == column.kind and (column.name == own_key.name or _holds(own_key, column)):
                    found[column.name] = name
                    break
        return found

    def _column(self, table: str, name: str) -> ColumnLook | None:
        return next((look.column(name) for look in self.tables if look.name == table), None)

    def subject_in(self, table: FileLook) -> str | None:
        """Return a table's column of subjects: by its name, or a text column whose cells are all subjects' numbers."""
        if self.subject is None or table.column(self.subject):
            return self.subject
        subject_columns = (
            look.column(self.subject) for look in self.tables if self.keys.get(look.name) == self.subject
        )
        fit = (
            column.name
            for people in subject_columns
            for column in table.columns
            if people is not None and _holds(people, column)
        )
        return next(fit, None)

    def owner(self, table: FileLook) -> tuple[str, str] | None:
        """Return the column and the table that give the subject of a table without a subject column."""
        by_name = {each.name: each for each in self.tables}
        fit = ((column, name) for column, name in self.parents(table).items() if self.subject is not None)
        return next(((column, name) for column, name in fit if by_name[name].column(self.subject or "")), None)

    @property
    def stays(self) -> FileLook | None:
        """The table of stays: by its name, else the table whose key is in most other tables (at least two)."""
        fit = (
            look
            for word in _STAY
            for look in self.tables
            if word in look.name and look.name in self.keys and not any(other in look.name for other in _NO_STAY)
        )
        called = next(fit, None)
        if called is not None:
            return called
        found = {
            look.name: sum(other.column(key) is not None for other in self.tables) - 1
            for look in self.tables
            if (key := self.keys.get(look.name)) is not None and key != self.subject
        }
        best = max(found, key=lambda name: found[name], default=None)
        return next((look for look in self.tables if look.name == best and found[best] > 1), None)

    def encounter(self, table: FileLook) -> str | None:
        """Return the column of a table that names the stay."""
        stays = self.stays
        if stays is None or self.keys[stays.name] == self.subject:
            return None
        if table.name == stays.name:
            return self.keys[stays.name]
        return next((column for column, name in self.parents(table).items() if name == stays.name), None)

    def versions(self, table: FileLook) -> Versions | None:
        """Return the columns that may make rows versions of one row (a status with words for corrections), or None."""
        texts = [column for column in table.columns if column.kind == "text" and not column.is_unique]
        status = next((one for one in texts if any(map(_CORRECTED.search, one.cells))), None)
        if status is None:
            return None
        numbers = [one.name for one in table.columns if one.is_full and not one.is_unique and _NUMBER.search(one.name)]
        rows = (name for name in numbers if name not in (self.subject_in(table), self.encounter(table)))
        return Versions(
            status=status.name,
            withdrawn=tuple(sorted(filter(_WITHDRAWN.search, status.cells))),
            since=next((name for name in table.times if _SINCE.search(name)), None),
            row=None if table.name in self.keys else next(rows, "COLUMN"),
        )

    @property
    def merged(self) -> tuple[str, ...]:
        """``table.column`` of columns that may give the number with which a person was merged."""
        return tuple(f"{table.name}.{column.name}" for table in self.tables for column in self._merged_in(table))

    def _merged_in(self, table: FileLook) -> Iterator[ColumnLook]:
        people = [subjects.cells for look in self.tables if (subjects := look.column(self.subject or "")) is not None]
        known = frozenset().union(*people)
        has_people = table.column(self.subject or "") is not None
        for column in table.columns:
            if column.name == self.subject:
                if _MERGED.search(table.name):
                    yield column
            elif column.kind in ("int", "text"):
                named = self.subject is not None and self.subject in column.name
                called = _MERGED.search(column.name) or _MERGED.search(table.name)
                is_merged = has_people and column.kind == "text" and bool(column.cells) and column.cells <= known
                if named or is_merged or (called and len(column.cells & known) * 2 > len(column.cells)):
                    yield column


def _holds(key: ColumnLook, column: ColumnLook) -> bool:
    """Whether all cells of a text column are in a key column. Numbers are not compared: they may be equal by chance."""
    return key.kind == column.kind == "text" and len(column.cells) >= _FEW_CELLS and column.cells <= key.cells


def _agreed(looks: Sequence[FileLook]) -> list[FileLook]:
    """Return the tables with one type for all columns of a name: a key that is text in one file is text in all."""
    texts = {column.name for look in looks for column in look.columns if column.kind == "text" and column.cells}
    return [
        replace(
            look,
            columns=tuple(replace(c, kind="text") if c.kind == "int" and c.name in texts else c for c in look.columns),
        )
        for look in looks
    ]


def _subject(looks: Sequence[FileLook]) -> str | None:
    """Return the column that is in most files and has the fewest distinct values. A name like "patient" comes first,
    then a column that is the key of a table and is beside other tables' keys (one person has several stays)."""
    by_name: dict[str, list[ColumnLook]] = {}
    for look in looks:
        for column in look.columns:
            if column.kind in ("int", "text"):
                by_name.setdefault(column.name, []).append(column)
    keys = {name for name, columns in by_name.items() if any(column.is_full and column.is_unique for column in columns)}

    def is_above(name: str) -> bool:
        beside = (look for look in looks if (own := look.column(name)) is not None and not own.is_unique)
        return name in keys and any(
            column.name in keys - {name} and column.is_unique for look in beside for column in look.columns
        )

    def rank(name: str) -> tuple[bool, bool, int, int]:
        cells = frozenset().union(*(column.cells for column in by_name[name]))
        return bool(_PERSON.search(name)), is_above(name), len(by_name[name]), -len(cells)

    shared = [name for name, columns in by_name.items() if len(columns) > 1 or _PERSON.search(name)]
    return max(shared, key=rank, default=None)


def _key(look: FileLook, looks: Sequence[FileLook], subject: str | None) -> str | None:
    """Return the column that names a table's rows: its own number, else one that other tables refer to, else the
    person's."""
    fit = [c for c in look.columns if c.is_full and c.is_unique and c.kind in ("int", "text")]
    strange = [column for other in looks if other is not look for column in other.columns]
    others = {column.name for column in strange}
    beside = [c for c in fit if c.name != subject]
    own = [c for c in beside if c.name not in others and _names(c.name, look.name)]
    shared = [c for c in beside if c.name in others]
    repeated = [c for c in beside if any(_holds(c, column) for column in strange)]
    return next(
        (c.name for c in (*own, *shared, *repeated, *fit) if c.name == subject or c in (*own, *shared, *repeated)), None
    )


def _names(column: str, table: str) -> bool:
    """Whether a column's name is that of a number, or of its table."""
    return bool(_NUMBER.search(column)) or column[:_LETTERS_ALIKE] == table[:_LETTERS_ALIKE]
