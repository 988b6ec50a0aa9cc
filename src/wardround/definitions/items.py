"""What the definitions read of a source: which items of which table, in which unit, within what can be true."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Items that measure one thing in one unit; ``concept``: whose molar mass leads from moles to grams. A number not
    above ``above`` or over ``most`` cannot be true; ``mean``: of numbers of one minute the mean counts."""

    items: tuple[int, ...]
    unit: str = ""
    concept: str | None = None
    above: float | None = None
    most: float | None = None
    mean: bool = False

    def is_plausible(self, value: float) -> bool:
        """Whether a number, in ``unit``, can be true."""
        return (self.above is None or value > self.above) and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A name's table and its items there."""

    table: str
    groups: tuple[Items, ...]


@cache
def items_of(source: str) -> Mapping[str, Source]:
    """Return what a source keeps, by name; empty where no file of this package says it."""
    file = files("wardround.definitions").joinpath(f"data/{source}.toml")
    if not file.is_file():
        return {}
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        name: Source(table=table, groups=tuple(Items(**{**one, "items": tuple(one["items"])}) for one in groups))
        for table, names in tables.items()
        for name, groups in names.items()
    }
