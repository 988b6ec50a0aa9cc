"""The definitions on a chart of MIMIC-IV as of its moment: windows end there, however long they have been open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wardround.core import UserError
from wardround.definitions.catalogue import DEFINITIONS
from wardround.definitions.infection import is_sepsis, suspected_infection
from wardround.definitions.kidney import UrineRates, kdigo_creatinine, kdigo_stage, kdigo_urine, meld, urine_rate
from wardround.definitions.organs import (
    PartialScore,
    coma_scale,
    inflammatory_response,
    quick_sofa,
    sofa_brain,
    sofa_circulation,
    sofa_coagulation,
    sofa_kidney,
    sofa_liver,
    sofa_respiration,
)
from wardround.definitions.support import norepinephrine_equivalent, ventilation_status
from wardround.records import Chart
from wardround.vocabulary import drug_classes

CHART = {
    "heart_rate": (220045,), "systolic": (220179, 220050, 225309), "mean_pressure": (220052, 220181, 225312),
    "breaths": (220210, 224690), "celsius": (223762,), "fahrenheit": (223761,), "eye": (220739,), "verbal": (223900,),
    "motor": (223901,), "oxygen": (223835,), "weight": (224639, 226512), "device": (226732,), "mode": (223849, 229314),
}  # fmt: skip
LABS = {
    "creatinine": (50912,), "bilirubin": (50885,), "platelets": (51265,), "white_cells": (51301, 51300),
    "inr": (51237,), "sodium": (50983,), "oxygen_pressure": (50821,), "carbon_dioxide": (50818,), "bands": (51144,),
}  # fmt: skip
URINE = (226559, 226560, 226561, 226563, 226564, 226565, 226567, 226557, 226558, 226584)
PRESSORS = {
    "norepinephrine": 221906, "epinephrine": 221289, "dopamine": 221662, "phenylephrine": 221749,
    "vasopressin": 222315, "dobutamine": 221653,
}  # fmt: skip
DIALYSIS = (225441, 225802, 225803, 225809, 225955)
"""Item numbers of MIMIC-IV, as the MIMIC Code Repository lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAt:
    """A definition's value at a moment. ``value`` is None where it is unknown; ``unknown`` names what was not charted;
    ``parts`` are those of a score that has some."""

    name: str
    as_of: datetime
    hours: int
    value: float | str | bool | datetime | None
    unknown: tuple[str, ...] = ()
    parts: Mapping[str, int | None] = field(default_factory=dict)


def score_at(chart: Chart, name: str, *, hours: int | None = None) -> ScoreAt:
    """Evaluate one definition. ``hours``: another window than the published one; it ends at the chart's moment.

    UserError: no such definition, or a source whose item numbers are not known here.
    """
    if name not in DEFINITIONS:
        raise UserError(f"there is no definition {name!r}; there are {', '.join(DEFINITIONS)}")
    if chart.spec.name != "mimiciv":
        raise UserError(f"definitions are known for mimiciv, not for {chart.spec.name!r}: its items have other numbers")
    window = DEFINITIONS[name].hours if hours is None else hours
    return _SCORES[name](_Charted(chart, window), name, window)


class _Charted:
    """What a chart shows of measurements within a window that ends at its moment."""

    def __init__(self, chart: Chart, hours: float) -> None:
        self.chart = chart
        self.now: datetime = chart.as_of
        self.since = self.now - timedelta(hours=hours)

    def rows(self, table: str, items: Iterable[int], since: datetime | None = None) -> list[dict[str, Any]]:
        """Return the rows of some items, oldest first."""
        if table not in self.chart.table_names:
            return []
        batch = self.chart.table(table).batch
        time = next(name for name in ("charttime", "starttime") if name in batch.schema.names)
        wanted = pc.is_in(batch.column("itemid"), value_set=pa.array(list(items), batch.column("itemid").type))
        found = [row for row in batch.filter(wanted).to_pylist() if row[time] is not None]
        return sorted((row for row in found if row[time] >= (since or self.since)), key=lambda row: row[time])

    def values(self, table: str, items: Iterable[int], since: datetime | None = None) -> list[tuple[datetime, float]]:
        """Return the numbers of some items."""
        rows = self.rows(table, items, since)
        return [(row["charttime"], float(row["valuenum"])) for row in rows if row["valuenum"] is not None]

    def worst(self, table: str, items: Iterable[int], pick: Callable[[Iterable[float]], float]) -> float | None:
        """Return the lowest or highest number; None where none is charted."""
        found = [value for _, value in self.values(table, items)]
        return pick(found) if found else None

    def lab(self, name: str, pick: Callable[[Iterable[float]], float]) -> float | None:
        return self.worst("labevents", LABS[name], pick)

    def vital(self, name: str, pick: Callable[[Iterable[float]], float]) -> float | None:
        return self.worst("chartevents", CHART[name], pick)

    def newest(self, table: str, items: Iterable[int], since: datetime | None = None) -> float | None:
        found = self.values(table, items, since)
        return found[-1][1] if found else None

    def temperature(self, pick: Callable[[Iterable[float]], float]) -> float | None:
        """degC."""
        celsius, fahrenheit = self.vital("celsius", pick), self.vital("fahrenheit", pick)
        known = [*([celsius] if celsius is not None else ()), *([(fahrenheit - 32) / 1.8] if fahrenheit else ())]
        return pick(known) if known else None

    def weight(self) -> float | None:
        return self.newest("chartevents", CHART["weight"], datetime.min)

    def urine(self, hours: float) -> float | None:
        """mL over the last hours; None where none was charted in them, or charting began later than that."""
        since = self.now - timedelta(hours=hours)
        rows = [row for row in self.rows("outputevents", URINE, datetime.min) if row["value"] is not None]
        within = [float(row["value"]) for row in rows if row["charttime"] > since]
        return sum(within) if within and rows[0]["charttime"] <= since else None

    def rates(self) -> UrineRates:
        weight = self.weight()
        if not weight:
            return UrineRates()
        found = {hours: self.urine(hours) for hours in (6, 12, 24)}
        known = {hours: None if ml is None else urine_rate(ml, weight, hours) for hours, ml in found.items()}
        return UrineRates(hours_6=known[6], hours_12=known[12], hours_24=known[24])

    def pressors(self) -> dict[str, float]:
        """Rates that ran within the window, the highest of each; with a window of nothing, those that run now."""
        found: dict[str, float] = {}
        for name, item in PRESSORS.items():
            for row in self.rows("inputevents", [item], datetime.min):
                ended = row["endtime"]
                if row["rate"] is not None and (ended is None or ended >= self.since):
                    found[name] = max(found.get(name, 0.0), _per_kilogram(row, name))
        return found

    def device(self) -> tuple[str | None, str | None]:
        rows = {name: self.rows("chartevents", CHART[name]) for name in ("device", "mode")}
        return tuple(str(some[-1]["value"]) if some else None for some in rows.values())  # type: ignore[return-value]

    def ventilated(self) -> bool | None:
        status = ventilation_status(*self.device())
        return None if status is None else status in ("invasive", "tracheostomy")

    def coma(self, pick: Callable[[Iterable[float]], float] = min) -> int | None:
        parts = [self.vital(name, pick) for name in ("eye", "verbal", "motor")]
        whole = [None if part is None else int(part) for part in parts]
        return coma_scale(*whole, intubated=self.ventilated() is True)

    def dialysed(self) -> bool:
        return bool(self.rows("procedureevents", DIALYSIS))


def _per_kilogram(row: Mapping[str, Any], name: str) -> float:
    """A rate in ug/kg/min, of vasopressin in units/h."""
    rate, unit = float(row["rate"]), str(row["rateuom"] or "").lower()
    if name == "vasopressin":
        return rate * 60 if "min" in unit else rate
    rate = rate * 1000 if unit.startswith("mg") else rate
    weight = row.get("patientweight")
    return rate / float(weight) if "kg" not in unit and weight else rate


def _sofa(charted: _Charted, name: str, hours: int) -> ScoreAt:
    oxygen, pressure = charted.vital("oxygen", max), charted.lab("oxygen_pressure", min)
    ratio = None if not oxygen or pressure is None else pressure / (oxygen / 100 if oxygen > 1 else oxygen)
    running = {drug: rate for drug, rate in charted.pressors().items() if drug in _SOFA_DRUGS}
    creatinine = charted.lab("creatinine", max)
    parts = {
        "respiration": sofa_respiration(ratio, ventilated=charted.ventilated()),
        "coagulation": sofa_coagulation(charted.lab("platelets", min)),
        "liver": sofa_liver(charted.lab("bilirubin", max)),
        "circulation": sofa_circulation(charted.vital("mean_pressure", min), **running),
        "brain": sofa_brain(charted.coma()),
        "kidney": sofa_kidney(creatinine, charted.urine(24)),
    }
    return _partial(charted, name, hours, PartialScore(parts=parts))


_SOFA_DRUGS = ("dopamine", "epinephrine", "norepinephrine", "dobutamine")


def _quick_sofa(charted: _Charted, name: str, hours: int) -> ScoreAt:
    score = quick_sofa(charted.vital("breaths", max), charted.vital("systolic", min), charted.coma())
    return _partial(charted, name, hours, score)


def _sirs(charted: _Charted, name: str, hours: int) -> ScoreAt:
    def criteria(pick: Callable[[Iterable[float]], float]) -> PartialScore:
        return inflammatory_response(
            temperature=charted.temperature(pick),
            heart_rate=charted.vital("heart_rate", max),
            breaths=charted.vital("breaths", max),
            carbon_dioxide=charted.lab("carbon_dioxide", min),
            white_cells=charted.lab("white_cells", pick),
            bands=charted.lab("bands", max),
        )

    low, high = criteria(min).parts, criteria(max).parts
    worst = {part: max((v for v in (low[part], high[part]) if v is not None), default=None) for part in low}
    return _partial(charted, name, hours, PartialScore(parts=worst))


def _partial(charted: _Charted, name: str, hours: int, score: PartialScore) -> ScoreAt:
    return ScoreAt(
        name=name, as_of=charted.now, hours=hours, value=score.total, unknown=score.unknown, parts=score.parts
    )


def _plain(charted: _Charted, name: str, hours: int, value: Any, missing: str = "") -> ScoreAt:
    unknown = (missing or name,) if value is None else ()
    return ScoreAt(name=name, as_of=charted.now, hours=hours, value=value, unknown=unknown)


def _kdigo(charted: _Charted, name: str, hours: int) -> ScoreAt:
    items, now = LABS["creatinine"], charted.now
    newest = charted.newest("labevents", items, now - timedelta(days=7))
    lows = {
        days: min((v for _, v in charted.values("labevents", items, now - timedelta(days=days))), default=None)
        for days in (2, 7)
    }
    by_creatinine = kdigo_creatinine(newest, lowest_48=lows[2], lowest_7=lows[7])
    by_urine = kdigo_urine(charted.rates())
    stage = kdigo_stage(by_creatinine, by_urine, replaced=charted.dialysed())
    parts = {"creatinine": by_creatinine, "urine": by_urine}
    unknown = tuple(part for part, found in parts.items() if found is None)
    return ScoreAt(name=name, as_of=now, hours=hours, value=stage, unknown=unknown, parts=parts)


def _meld(charted: _Charted, name: str, hours: int) -> ScoreAt:
    labs = {lab: charted.lab(lab, max) for lab in ("creatinine", "bilirubin", "inr")}
    value = meld(**labs, sodium=charted.lab("sodium", min), dialysis=charted.dialysed())
    return _plain(charted, name, hours, value, "a test of creatinine, bilirubin, INR and sodium")


def _coma(charted: _Charted, name: str, hours: int) -> ScoreAt:
    return _plain(charted, name, hours, charted.coma())


def _urine(charted: _Charted, name: str, hours: int) -> ScoreAt:
    weight, amount = charted.weight(), charted.urine(hours)
    value = None if not weight or amount is None else urine_rate(amount, weight, hours)
    return _plain(charted, name, hours, value, "urine for so long, or weight")


def _vasopressors(charted: _Charted, name: str, hours: int) -> ScoreAt:
    if not _charts(charted.chart, "inputevents"):
        return _plain(charted, name, hours, None, "anything infused")
    running = {drug: rate for drug, rate in charted.pressors().items() if drug != "dobutamine"}
    return _plain(charted, name, hours, norepinephrine_equivalent(**running))


def _ventilation(charted: _Charted, name: str, hours: int) -> ScoreAt:
    return _plain(charted, name, hours, ventilation_status(*charted.device()), "oxygen device")


def _suspected(charted: _Charted) -> datetime | None:
    chart = charted.chart
    cultures = [
        row["charttime"]
        for row in (chart.table("microbiologyevents").batch.to_pylist() if _has(chart, "microbiologyevents") else ())
        if row["charttime"] is not None
    ]
    return suspected_infection(_antibiotics(chart), cultures)


def _antibiotics(chart: Chart) -> list[datetime]:
    rows = chart.table("prescriptions").batch.to_pylist() if _has(chart, "prescriptions") else ()
    return [row["starttime"] for row in rows if row["starttime"] and "antibiotics" in drug_classes(row["drug"] or "")]


def _has(chart: Chart, table: str) -> bool:
    return table in chart.table_names


def _charts(chart: Chart, table: str) -> bool:
    return _has(chart, table) and chart.table(table).batch.num_rows > 0


def _suspicion(charted: _Charted, name: str, hours: int) -> ScoreAt:
    return _plain(charted, name, hours, _suspected(charted), "antibiotic and culture near each other")


def _sepsis(charted: _Charted, name: str, hours: int) -> ScoreAt:
    """The score of the window that ends now; one of an earlier moment is that moment's own chart's to tell."""
    if not _charts(charted.chart, "prescriptions") and not _charts(charted.chart, "microbiologyevents"):
        return _plain(charted, name, hours, None, "a drug ordered or a culture taken")
    score = _sofa(charted, "sofa", hours)
    points = [] if not isinstance(score.value, int) else [(charted.now, score.value)]
    return _plain(charted, name, hours, is_sepsis(_suspected(charted), points), "SOFA near the suspicion")


_SCORES: Mapping[str, Callable[[_Charted, str, int], ScoreAt]] = {
    "gcs": _coma,
    "sofa": _sofa,
    "qsofa": _quick_sofa,
    "sirs": _sirs,
    "kdigo": _kdigo,
    "meld": _meld,
    "urine_output": _urine,
    "vasopressors": _vasopressors,
    "ventilation": _ventilation,
    "suspicion_of_infection": _suspicion,
    "sepsis3": _sepsis,
}
