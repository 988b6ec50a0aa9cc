"""Measurements of a chart for the definitions: items by source, in one unit, over time."""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from wardround.clinical.vocabulary import convert
from wardround.records import Chart

# What the definitions read of a source: which items of which table, in which unit, within what can be true.


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
        """Return whether a number, in ``unit``, can be true."""
        return (self.above is None or value > self.above) and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A name's table and its items in that table."""

    table: str
    groups: tuple[Items, ...]


@cache
def items_of(source: str) -> Mapping[str, Source]:
    """Return what a source keeps, by name; empty if no file of this package says it."""
    file = files("wardround.clinical.definitions").joinpath(f"data/{source}.toml")
    if not file.is_file():
        return {}
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        name: Source(table=table, groups=tuple(Items(**{**group, "items": tuple(group["items"])}) for group in groups))
        for table, names in tables.items()
        for name, groups in names.items()
    }


# What a chart shows of a measurement: numbers in one unit over time, of the newest stay in intensive care.


T = TypeVar("T")
Reading = tuple[datetime, float]
Pick = Callable[[Iterable[float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartedStay:
    """A stay or an encounter. ``ended`` is None while it lasts."""

    number: int | None
    began: datetime
    ended: datetime | None


class ChartedMeasurements:
    """A chart's measurements by the names of the source's items. Rows of intensive care are those of the newest stay:
    what an earlier one charted says nothing of now."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.now: datetime = chart.as_of
        self._items = items_of(chart.spec.name)
        self._readings: dict[str, list[Reading]] = {}

    @cached_property
    def stay(self) -> ChartedStay | None:
        """The newest stay in intensive care that has begun."""
        return self._newest("icustays", "stay_id", "intime", "outtime")

    @cached_property
    def encounter(self) -> ChartedStay | None:
        """The newest admission that has begun."""
        return self._newest("admissions", "hadm_id", "admittime", "dischtime")

    def unit(self, name: str) -> str:
        """Return the unit of a name's numbers."""
        return self._items[name].groups[0].unit

    def readings(self, name: str) -> list[Reading]:
        """Return every number of a name, oldest first, in the unit of its first items."""
        if name not in self._readings:
            self._readings[name] = sorted(self._read(name), key=lambda reading: reading[0])
        return self._readings[name]

    def within(self, name: str, after: datetime, until: datetime) -> list[float]:
        """Return the numbers of a window: after its beginning, up to and with its end."""
        return [value for _, value in window(self.readings(name), after, until)]

    def worst(self, name: str, pick: Pick, after: datetime, until: datetime) -> float | None:
        """Return the lowest or highest number of a window; None if none is charted."""
        found = self.within(name, after, until)
        return pick(found) if found else None

    def texts(self, name: str) -> list[tuple[datetime, str]]:
        """Return every text of a name, oldest first."""
        found = [(row["charttime"], row["value"]) for row in self.rows(name, ("value",)) if row["value"]]
        return sorted(found, key=lambda each: each[0])

    def specimens(self, kind: str, names: Iterable[str]) -> Iterator[tuple[datetime, str | None, dict[str, float]]]:
        """Yield each specimen's time, its kind in words, and its numbers by name, the highest where there are two."""
        found: dict[int, tuple[datetime, dict[str, float]]] = {}
        kinds = {row["specimen_id"]: row["value"] for row in self.rows(kind, ("specimen_id", "value"))}
        for name in names:
            for row in self._numbers(name, ("specimen_id",)):
                numbers = found.setdefault(row["specimen_id"], (row["charttime"], {}))[1]
                numbers[name] = max(numbers.get(name, row["number"]), row["number"])
        for specimen, (time, numbers) in found.items():
            yield time, kinds.get(specimen), numbers

    def rows(self, name: str, columns: Sequence[str], items: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """Return a name's rows: the time of each and some columns; those without a time are left out."""
        source = self._items[name]
        if source.table not in self.chart.table_names:
            return []
        batch = self.chart.table(source.table).batch
        wanted = items or [item for group in source.groups for item in group.items]
        keep = pc.is_in(batch.column("itemid"), value_set=pa.array(wanted, batch.column("itemid").type))
        if "stay_id" in batch.schema.names:
            if self.stay is None:
                return []
            keep = pc.and_(keep, pc.equal(batch.column("stay_id"), self.stay.number))
        time = "charttime" if "charttime" in batch.schema.names else "starttime"
        found = batch.select([time, *columns]).filter(keep).to_pylist()
        return [row for row in found if row[time] is not None]

    def has_rows(self, table: str) -> bool:
        """Return whether the newest stay or encounter has any row in a table."""
        if table not in self.chart.table_names:
            return False
        batch = self.chart.table(table).batch
        column, span = ("stay_id", self.stay) if "stay_id" in batch.schema.names else ("hadm_id", self.encounter)
        return span is not None and bool(pc.any(pc.equal(batch.column(column), span.number)).as_py())

    def _read(self, name: str) -> list[Reading]:
        found = [(row["charttime"], row["number"]) for row in self._numbers(name)]
        return _mean_by_minute(found) if self._items[name].groups[0].mean else found

    def _numbers(self, name: str, columns: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield the rows that have a number, and it in the unit of the name's first items."""
        groups = self._items[name].groups
        value = "value" if self._items[name].table == "outputevents" else "valuenum"
        for group in groups:
            for row in self.rows(name, (value, "valueuom", *columns), group.items):
                number = None if row[value] is None else in_unit(row[value], row["valueuom"], group.unit, group.concept)
                if number is not None and group.is_plausible(number):
                    number = in_unit(number, group.unit, groups[0].unit)
                    if number is not None:
                        yield {**row, "number": number}

    def _newest(self, table: str, number: str, began: str, ended: str) -> ChartedStay | None:
        if table not in self.chart.table_names:
            return None
        rows = self.chart.table(table).batch.select([number, began, ended]).to_pylist()
        spans = [
            ChartedStay(number=row[number], began=row[began], ended=row[ended])
            for row in rows
            if row[began] is not None
        ]
        return max(spans, key=lambda span: span.began, default=None)


def in_unit(
    value: float, unit: str | None, wanted: str, concept: str | None = None, *, weight: float | None = None
) -> float | None:
    """Return a number in the wanted unit. A row without a unit is read in this unit. None: no conversion is known."""
    if not wanted or not unit or unit == wanted:
        return value
    return convert(value, unit, wanted, concept, weight=weight)


def window(readings: Sequence[tuple[datetime, T]], after: datetime, until: datetime) -> Sequence[tuple[datetime, T]]:
    """Return the readings after a moment up to and with another; they are in order of time."""
    first = bisect_right(readings, after, key=lambda reading: reading[0])
    return readings[first : bisect_right(readings, until, key=lambda reading: reading[0])]


def newest_before(readings: Sequence[tuple[datetime, T]], until: datetime, age: timedelta) -> T | None:
    """Return the value of the newest reading up to a moment, within an age limit; None without one."""
    place = bisect_right(readings, until, key=lambda reading: reading[0])
    return readings[place - 1][1] if place and readings[place - 1][0] >= until - age else None


def _mean_by_minute(readings: Iterable[Reading]) -> list[Reading]:
    minutes: dict[datetime, list[float]] = {}
    for time, value in readings:
        minutes.setdefault(time, []).append(value)
    return [(time, sum(values) / len(values)) for time, values in minutes.items()]
