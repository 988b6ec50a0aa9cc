"""What a chart of intensive care shows for definitions: measurements, kidneys, lungs, infection and infusions."""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from wardround.clinical.definitions.formulas import (
    AFTER_CULTURE,
    Culture,
    UrineRates,
    Ventilation,
    inspired_oxygen,
    is_antibiotic,
    is_arterial,
    is_spontaneous,
    kdigo_creatinine,
    suspected_infection,
    urine_rate,
    ventilation_status,
)
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
            found = [(row["charttime"], row["number"]) for row in self._numbers(name)]
            self._readings[name] = sorted(
                _mean_by_minute(found) if self._items[name].groups[0].mean else found, key=lambda reading: reading[0]
            )
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


# Urine, weight, creatinine and renal replacement on a chart of intensive care.


HOUR = timedelta(hours=1)
NEWEST_URINE = timedelta(hours=6)
NEWEST_CREATININE = timedelta(hours=48)
BEFORE_ADMISSION = timedelta(hours=2)


@dataclass(frozen=True)
class Kidneys:
    """What the newest stay charted of the kidneys; creatinine is of any encounter."""

    charted: ChartedMeasurements

    @cached_property
    def urine(self) -> list[Reading]:
        """Return mL by the minute, less the irrigation fluid that went in."""
        minutes: dict[datetime, float] = {}
        for name, sign in (("urine", 1.0), ("irrigant_in", -1.0)):
            for time, value in self.charted.readings(name):
                minutes[time] = minutes.get(time, 0.0) + (value if sign > 0 else -abs(value))
        return sorted(minutes.items())

    @cached_property
    def weights(self) -> list[Reading]:
        """kg and from when on each holds: the first weight of the admission holds from its beginning on."""
        admission, stay = self.charted.readings("admission_weight"), self.charted.stay
        first = [(stay.began - BEFORE_ADMISSION, value) for _, value in admission[:1] if stay is not None]
        return sorted([*first, *admission[1:], *self.charted.readings("daily_weight")], key=lambda each: each[0])

    def weight(self, at: datetime) -> float | None:
        """Return the weight in force at a moment, else the first charted later."""
        charted = [value for time, value in self.weights if time <= at]
        return charted[-1] if charted else self.weights[0][1] if self.weights else None

    def rates(self, at: datetime) -> UrineRates:
        """Return the urine of 6, 12 and 24 hours up to the newest charting, which is at most 6 hours old."""
        found = {hours: self.rate(at, hours) for hours in (6, 12, 24)}
        return UrineRates(hours_6=found[6], hours_12=found[12], hours_24=found[24])

    def rate(self, at: datetime, hours: float) -> float | None:
        """Return mL/kg/h: what was charted in the hours up to the newest charting, over the time that it covers."""
        recent = [reading for reading in self.urine if at - NEWEST_URINE <= reading[0] <= at]
        weight = self.weight(recent[-1][0]) if recent else None
        if not weight:
            return None
        amount, covered = self._charted_in(recent[-1][0], timedelta(hours=hours), HOUR)
        return urine_rate(amount, weight, covered) if hours <= covered < 2 * hours else None

    def least_of_a_day(self, after: datetime, until: datetime) -> float | None:
        """Return the least mL of 24 hours that end in a window, where 22 to 30 hours were charted."""
        beats = self.charted.readings("heart_rate")
        found = []
        for end, _ in window(self.urine, after, until):
            first = self.urine[0][0] - beats[0][0] if beats else HOUR
            amount, covered = self._charted_in(end, 23 * HOUR, first)
            found += [amount / covered * 24] if 22 <= covered <= 30 else []
        return min(found, default=None)

    def stage_by_creatinine(self, at: datetime) -> int | None:
        """Return the KDIGO stage of the newest creatinine of 48 hours against those before it."""
        minutes: dict[datetime, list[float]] = {}
        for time, value in self.charted.readings("creatinine"):
            minutes.setdefault(time, []).append(value)
        means = [(time, sum(values) / len(values)) for time, values in minutes.items()]
        recent = window(means, at - NEWEST_CREATININE, at)
        if not recent:
            return None
        time, newest = recent[-1]
        lows = [
            min((value for moment, value in means if time - timedelta(days=days) <= moment < time), default=None)
            for days in (2, 7)
        ]
        return kdigo_creatinine(newest, lowest_48=lows[0], lowest_7=lows[1])

    def replaced(self, after: datetime, until: datetime) -> bool:
        """Return whether renal replacement ran in a window: one begun before it and still running counts."""
        for name in ("dialysis", "dialysate"):
            for row in self.charted.rows(name, ("endtime",)):
                if row["starttime"] <= until and (row["endtime"] is None or row["endtime"] > after):
                    return True
        return bool(window(self.charted.texts("dialysis_setting"), after, until))

    def _charted_in(self, end: datetime, span: timedelta, first: timedelta) -> tuple[float, float]:
        """Return mL charted from ``span`` before a charting up to it, and the hours that they cover: each since the
        charting before it, the first of the stay ``first``."""
        times = [time for time, _ in self.urine]
        gaps = [first, *(later - earlier for earlier, later in pairwise(times))]
        inside = [
            (value, gap) for (time, value), gap in zip(self.urine, gaps, strict=True) if end - span <= time <= end
        ]
        return sum(value for value, _ in inside), sum((gap for _, gap in inside), timedelta()) / HOUR


# Breathing on a chart: how a person breathes, and the oxygen pressures of arterial blood against the FiO2 then.


STATUS_HOURS = timedelta(hours=14)
"""A status charted longer ago is unknown, as in the MIMIC Code Repository."""
OXYGEN_HOURS = timedelta(hours=4)
"""An FiO2 charted longer before a blood gas is not that gas's, as there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gas:
    """An arterial blood gas: PaCO2 in mmHg, and PaO2/FiO2 in mmHg, None where no FiO2 was in force."""

    carbon_dioxide: float | None
    ratio: float | None


@dataclass(frozen=True)
class Lungs:
    """How a person breathes over the newest stay, and the arterial gases."""

    charted: ChartedMeasurements

    def status(self, at: datetime, age: timedelta = STATUS_HOURS) -> Ventilation | None:
        """Return the newest status charted up to a moment: it outranks an older one, whichever row charted that."""
        return newest_before(self._statuses, at, age)

    def ventilated(self, at: datetime) -> bool | None:
        """Return whether a machine breathes: through a tube, or a tracheostomy while a mode of the machine is
        charted."""
        status = self.status(at)
        if status == "tracheostomy":
            return newest_before(self._modes, at, STATUS_HOURS) is not None
        return None if status is None else status == "invasive"

    @cached_property
    def gases(self) -> list[tuple[datetime, Gas]]:
        """The arterial gases and when each was taken, oldest first."""
        return sorted(self._read_gases(), key=lambda each: each[0])

    @cached_property
    def _modes(self) -> list[tuple[datetime, str]]:
        return [(time, mode) for time, mode in self.charted.texts("mode") if ventilation_status((), (mode,))]

    @cached_property
    def _statuses(self) -> list[tuple[datetime, Ventilation | None]]:
        """The ventilation status by minute.

        An unknown device replaces an older one: the status is then unknown. A mode of spontaneous breathing that is
        charted alone goes with the last mask.
        """
        rows: dict[datetime, tuple[list[str], list[str]]] = {}
        for place, name in enumerate(("device", "mode")):
            for time, text in self.charted.texts(name):
                rows.setdefault(time, ([], []))[place].append(text)
        found: list[tuple[datetime, Ventilation | None]] = []
        worn: list[tuple[datetime, list[str]]] = []
        for time in sorted(rows):
            devices, modes = rows[time]
            if devices:
                worn.append((time, devices))
            elif all(map(is_spontaneous, modes)):
                devices = [
                    device
                    for device in newest_before(worn, time, STATUS_HOURS) or ()
                    if ventilation_status([device]) == "non-invasive"
                ]
            found.append((time, ventilation_status(devices, modes)))
        return found

    @cached_property
    def _charted_oxygen(self) -> list[Reading]:
        found = ((time, inspired_oxygen(value)) for time, value in self.charted.readings("inspired_oxygen"))
        return sorted((time, percent) for time, percent in found if percent is not None)

    def _read_gases(self) -> Iterator[tuple[datetime, Gas]]:
        """Read blood gases. A gas's numbers are rows of one specimen, and a separate row has the specimen's kind."""
        parts = ("oxygen_pressure", "carbon_dioxide", "oxygen_of_gas")
        specimens = self.charted.specimens("specimen", parts)
        for time, kind, numbers in specimens:
            pressure = numbers.get("oxygen_pressure")
            if pressure is None or not is_arterial(kind):
                continue
            own = inspired_oxygen(numbers.get("oxygen_of_gas"))
            percent = own or newest_before(self._charted_oxygen, time, OXYGEN_HOURS)
            ratio = 100 * pressure / percent if percent else None
            yield time, Gas(carbon_dioxide=numbers.get("carbon_dioxide"), ratio=ratio)


# Infection on a chart: the antibiotics ordered in this encounter, and the cultures taken about them.


@dataclass(frozen=True)
class Infection:
    """The suspicion of infection of the encounter that the chart is in."""

    charted: ChartedMeasurements

    @cached_property
    def suspected(self) -> datetime | None:
        """When infection was last suspected in this encounter; None: not, or it is not known (see ``unknown``)."""
        return suspected_infection(self.antibiotics, self.cultures)

    @property
    def unknown(self) -> str:
        """The missing data if a suspected infection cannot be ruled out; else empty."""
        if not self.charted.has_rows("prescriptions"):
            return "a drug ordered in this encounter"
        return "a culture taken" if self.antibiotics and not self.cultures else ""

    @cached_property
    def antibiotics(self) -> list[datetime]:
        """When each antibiotic of this encounter was ordered to start; one ordered just before it has no number yet."""
        encounter = self.charted.encounter
        if encounter is None or "prescriptions" not in self.charted.chart.table_names:
            return []
        batch = self.charted.chart.table("prescriptions").batch
        recent = encounter.began - AFTER_CULTURE
        return [
            row["starttime"]
            for row in batch.select(["hadm_id", "starttime", "drug_type", "drug", "route"]).to_pylist()
            if row["starttime"] is not None
            and (row["hadm_id"] == encounter.number or (row["hadm_id"] is None and row["starttime"] >= recent))
            and row["drug_type"] != "BASE"
            and is_antibiotic(row["drug"] or "", row["route"])
        ]

    @cached_property
    def cultures(self) -> list[Culture]:
        """Every culture of the person: one taken before an admission counts for its antibiotics."""
        if "microbiologyevents" not in self.charted.chart.table_names:
            return []
        rows = self.charted.chart.table("microbiologyevents").batch.select(["chartdate", "charttime"]).to_pylist()
        timed = [Culture(day=row["charttime"].date(), time=row["charttime"]) for row in rows if row["charttime"]]
        return timed + [Culture(day=row["chartdate"]) for row in rows if row["chartdate"] and not row["charttime"]]


# Vasopressors on a chart: which run, and at what rate, as far as the chart shows it.


PRESSORS = ("norepinephrine", "epinephrine", "dopamine", "phenylephrine", "vasopressin", "dobutamine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stretch of an infusion. ``end`` is None while it runs; ``rate``: ug/kg/min, of vasopressin units/h, None where
    the chart shows none that could be read."""

    drug: str
    start: datetime
    end: datetime | None
    rate: float | None


@dataclass(frozen=True)
class Infusions:
    """The infusions of vasopressors of the newest stay."""

    charted: ChartedMeasurements

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Every stretch. The rate worked out is hidden until a stretch ends: so long the rate that was set counts."""
        columns = ("endtime", "rate", "originalrate", "rateuom", "patientweight")
        found = []
        for drug in PRESSORS:
            unit = self.charted.unit(drug)
            for row in self.charted.rows(drug, columns):
                rate = row["originalrate"] if row["rate"] is None else row["rate"]
                known = rate is not None and row["rateuom"]
                charted_rate = in_unit(rate, row["rateuom"], unit, weight=row["patientweight"]) if known else None
                found.append(Run(drug=drug, start=row["starttime"], end=row["endtime"], rate=charted_rate))
        return tuple(found)

    def now(self, at: datetime) -> dict[str, float | None]:
        """Return the rates in force, by drug."""
        return _highest(run for run in self.runs if run.start <= at and (run.end is None or run.end > at))

    def until(self, at: datetime) -> dict[str, float | None]:
        """Return the rates in force up to a moment, by drug; a stretch that ends at the moment still counts."""
        return _highest(run for run in self.runs if run.start < at and (run.end is None or run.end >= at))


def _highest(runs: Iterable[Run]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for run in runs:
        highest = found.get(run.drug, 0.0)
        found[run.drug] = None if highest is None or run.rate is None else max(highest, run.rate)
    return found
