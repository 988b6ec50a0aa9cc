"""Rows and resources of raw files as the outcome swap changes them: texts at paths, whatever the file is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

Change = Callable[[str], str]
_LEAVES = ("Time", "Date", "Occurrence", "end", "status")
"""How the elements of a resource are called that hold one text: only these are put where nothing stood."""


class RawRecord(Protocol):
    """One row of a table or one resource. ``time_form`` is how it writes a time where no other shows it."""

    time_form: str

    @property
    def content(self) -> Mapping[str, Any]:
        """Everything that the record holds: what two equal ones share."""

    @property
    def is_blank(self) -> bool:
        """Whether it holds nothing."""

    def texts(self, path: str) -> Sequence[str]:
        """Return the texts at a path, empty ones left out."""

    def paths(self) -> Sequence[str]:
        """Return every path that this record may have something at."""

    def change(self, path: str, change: Change) -> None:
        """Put another text for each at a path; an empty one takes it away."""

    def fill(self, path: str, text: str) -> None:
        """Put a text where nothing stands."""

    def items(self, path: str) -> Sequence[RawRecord]:
        """Return the parts of a list; those of a table's row are none."""

    def remove(self, path: str, item: RawRecord) -> None:
        """Take a part out of its list."""

    def blank(self, path: str) -> None:
        """Take everything at a path away, as if it had never been there."""

    def copy(self) -> RawRecord:
        """Return a copy that can be changed on its own."""


class TableRow:
    """A row of a table: column to text. ``line``: how it, or the row that it was copied from, stands in its file.

    Most rows of a file are nobody's who is asked about: a row that was read is cut, and made a mapping when it is asked
    for all of its cells. ``is_read``: it is as its line says."""

    __slots__ = ("_cells", "_places", "_values", "is_read", "line")
    time_form = "2000-01-01 00:00:00"

    def __init__(self, cells: dict[str, str], line: str | None = None) -> None:
        self._cells: dict[str, str] | None = cells
        self._places: Mapping[str, int] = {}
        self._values: Sequence[str] = ()
        self.line = line
        self.is_read = False

    @classmethod
    def read(cls, places: Mapping[str, int], values: Sequence[str], line: str) -> TableRow:
        """Return the row of a line whose cells hold ``values``; ``places``: where each column stands."""
        row = cls.__new__(cls)
        row._cells, row._places, row._values, row.line, row.is_read = None, places, values, line, True
        return row

    @property
    def cells(self) -> dict[str, str]:
        """The cells by column."""
        if self._cells is None:
            self._cells = {name: self._values[place] for name, place in self._places.items()}
        return self._cells

    @property
    def content(self) -> Mapping[str, str]:
        """The cells."""
        return self.cells

    @property
    def is_blank(self) -> bool:
        """Whether it has no cells: its line is none of its table."""
        return self._cells is not None and not self._cells

    def texts(self, path: str) -> Sequence[str]:
        """Return the cell, if it is filled."""
        if self._cells is not None:
            text = self._cells.get(path, "")
        else:
            place = self._places.get(path)
            text = "" if place is None else self._values[place]
        return (text,) if text else ()

    def paths(self) -> Sequence[str]:
        """Return the columns."""
        return tuple(self.cells)

    def change(self, path: str, change: Change) -> None:
        """Change a filled cell."""
        if self.cells.get(path):
            self.fill(path, change(self.cells[path]))

    def fill(self, path: str, text: str) -> None:
        """Fill an empty cell of a column that the file has."""
        if path in self.cells:
            self.cells[path] = text
            self.is_read = False

    def items(self, path: str) -> Sequence[RawRecord]:
        """Return nothing: a row has no lists."""
        return ()

    def remove(self, path: str, item: RawRecord) -> None:
        """Do nothing."""

    def blank(self, path: str) -> None:
        """Empty the cell."""
        self.fill(path, "")

    def copy(self) -> TableRow:
        """Return a copy."""
        return TableRow(dict(self.cells), self.line)


class Resource:
    """A resource of nested JSON. A path names keys; lists on the way are gone through. ``line``: how it stands in its
    file, if it has a line of its own; a copy has none."""

    __slots__ = ("body", "line")
    time_form = "2000-01-01T00:00:00"

    def __init__(self, body: dict[str, Any], line: str | None = None) -> None:
        self.body = body
        self.line = line

    @property
    def content(self) -> Mapping[str, Any]:
        """The body."""
        return self.body

    @property
    def is_blank(self) -> bool:
        """Whether its body is empty."""
        return not self.body

    def texts(self, path: str) -> Sequence[str]:
        """Return every leaf below a path as text."""
        return [_text(holder[key]) for holder, key in self._leaves(path) if holder[key] is not None]

    def paths(self) -> Sequence[str]:
        """Return the first names: whole elements are changed."""
        return tuple(name for name in self.body if name not in ("resourceType", "id", "meta"))

    def change(self, path: str, change: Change) -> None:
        """Change every leaf below a path; references, systems and addresses stay."""
        for holder, key in list(self._leaves(path)):
            if key in ("reference", "system", "url"):
                continue
            old = holder[key]
            new = change(_text(old))
            if isinstance(old, bool):
                holder[key] = not old
            elif isinstance(old, int | float):
                holder[key] = _number(new, old)
            elif isinstance(key, str) and new == "":
                del holder[key]
            else:
                holder[key] = new

    def fill(self, path: str, text: str) -> None:
        """Put a leaf into the resource or into an element that it has; there is none in a list."""
        *above, last = path.split(".")
        if not last.endswith(_LEAVES):
            return
        body: Any = self.body
        for name in above:
            body = body.get(name)
            if not isinstance(body, dict):
                return
        body[last] = text

    def items(self, path: str) -> Sequence[RawRecord]:
        """Return the parts of a list as records of their own."""
        return [Resource(part) for holder, key in self._holders(path) for part in _list(holder[key])]

    def remove(self, path: str, item: RawRecord) -> None:
        """Take a part out of its list; an empty list goes."""
        assert isinstance(item, Resource)
        for holder, key in list(self._holders(path)):
            if isinstance(holder[key], list):
                holder[key] = [part for part in holder[key] if part is not item.body]
                if not holder[key]:
                    del holder[key]

    def blank(self, path: str) -> None:
        """Take away what stands at a path."""
        for holder, key in list(self._holders(path)):
            del holder[key]

    def copy(self) -> Resource:
        """Return a copy."""
        return Resource(_copied(self.body))

    def _holders(self, path: str) -> Iterator[tuple[Any, Any]]:
        names = path.split(".")
        found: list[Any] = [self.body]
        for name in names[:-1]:
            found = [part for each in found for part in _list(each.get(name)) if isinstance(part, dict)]
        for each in found:
            if names[-1] in each:
                yield each, names[-1]

    def _leaves(self, path: str) -> Iterator[tuple[Any, Any]]:
        for holder, key in self._holders(path):
            yield from _below(holder, key)


def _copied(value: Any) -> Any:
    """Copy what JSON can hold, ten times as fast as ``copy.deepcopy``, which also looks for what holds itself."""
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def _below(holder: Any, key: Any) -> Iterator[tuple[Any, Any]]:
    value = holder[key]
    if isinstance(value, dict):
        for name in list(value):
            yield from _below(value, name)
    elif isinstance(value, list):
        for place in range(len(value)):
            yield from _below(value, place)
    else:
        yield holder, key


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: Any) -> str:
    return str(value)


def _number(text: str, old: int | float) -> int | float:
    try:
        return float(text) if isinstance(old, float) else int(float(text))
    except ValueError:
        return old * 2 + 1


def put(record: RawRecord, path: str, text: str) -> None:
    """Put a text at a path, whatever stands there."""
    if record.texts(path):
        record.change(path, lambda _: text)
    else:
        record.fill(path, text)
