"""Every definition with its publication, and its value on a chart: windows end at its moment, hidden is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from wardround.clinical.definitions.charted import (
    ChartedMeasurements,
    Infection,
    Infusions,
    Kidneys,
    Lungs,
    Pick,
    items_of,
    newest_before,
    window,
)
from wardround.clinical.definitions.formulas import (
    AFTER_SUSPICION,
    BEFORE_SUSPICION,
    MOST_POINTS,
    PartialScore,
    coma_scale,
    inflammatory_response,
    is_sepsis,
    is_tube,
    kdigo_bounds,
    kdigo_stage,
    kdigo_urine,
    meld,
    meld_bounds,
    norepinephrine_equivalent,
    quick_sofa,
    sofa_brain,
    sofa_circulation,
    sofa_coagulation,
    sofa_kidney,
    sofa_liver,
    sofa_respiration,
)
from wardround.clinical.vocabulary import Bounds
from wardround.core import UserError
from wardround.records import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinicalDefinition:
    """One definition. ``hours``: the window over which the worst value counts, as published; ``variant``: its name, if
    there are several."""

    name: str
    title: str
    doi: str
    unit: str
    hours: int = 24
    variant: str = ""


DEFINITIONS: dict[str, ClinicalDefinition] = {
    one.name: one
    for one in (
        ClinicalDefinition(name="gcs", title="Glasgow coma scale", doi="10.1016/S0140-6736(74)91639-0",
                           unit="points, 3 to 15", variant="MIMIC Code Repository: 15 while a tube bars speech"),
        ClinicalDefinition(name="sofa", title="Sequential organ failure assessment", doi="10.1007/BF01709751",
                           unit="points, 0 to 24", variant="MIMIC Code Repository: worst values of 24 hours"),
        ClinicalDefinition(name="qsofa", title="Quick SOFA", doi="10.1001/jama.2016.0288", unit="points, 0 to 3"),
        ClinicalDefinition(name="sirs", title="Systemic inflammatory response", doi="10.1378/chest.101.6.1644",
                           unit="criteria, 0 to 4"),
        ClinicalDefinition(name="kdigo", title="Stage of acute kidney injury", doi="10.1038/kisup.2012.1",
                           unit="stage, 0 to 3", variant="MIMIC Code Repository: lowest creatinine of 7 days"),
        ClinicalDefinition(name="meld", title="Model for end-stage liver disease", doi="10.1056/NEJMoa0801209",
                           unit="points, 6 to 40", variant="UNOS 2016, with sodium"),
        ClinicalDefinition(name="urine_output", title="Urine output rate", doi="10.1038/kisup.2012.1",
                           unit="mL/kg/h", hours=6),
        ClinicalDefinition(name="vasopressors", title="Vasopressors in norepinephrine equivalents",
                           doi="10.1016/j.jcrc.2020.11.002", unit="ug/kg/min", hours=0,
                           variant="MIMIC Code Repository: vasopressin 2.5/60 per unit/h"),
        ClinicalDefinition(name="ventilation", title="Ventilation status", doi="10.1093/jamia/ocx084", unit="status",
                           hours=14, variant="MIMIC Code Repository, concepts/treatment/ventilation"),
        ClinicalDefinition(name="pf_ratio", title="PaO2/FiO2", doi="10.1001/jama.2012.5669", unit="mmHg", hours=6,
                           variant="newest arterial gas, by the FiO2 in force then"),
        ClinicalDefinition(name="suspicion_of_infection", title="Suspicion of infection",
                           doi="10.1001/jama.2016.0288", unit="time",
                           variant="the newest of this admission; antibiotics that act on the whole body"),
        ClinicalDefinition(name="sepsis3", title="Sepsis-3", doi="10.1001/jama.2016.0287", unit="yes or no",
                           variant="about the newest suspicion; SOFA before it counts as 0"),
    )
}  # fmt: skip
"""By name."""


# The definitions on a chart as of its moment: windows end there, and hidden values are unknown.


COMA_HOURS = timedelta(hours=6)
"""A part of the coma scale charted so long before the others still goes with them, as in the MIMIC Code Repository."""
_Found = dict[str, Any]
"""Value, bounds, unknown inputs, parts: the content of a score beside its name and moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAt:
    """A definition's value at a moment. ``value`` is None where it is unknown, and of a score of several parts the sum
    of those known; ``bounds``: the least and the most that its number can be, None where nothing limits it or it is
    none; ``unknown`` names what was not charted; ``parts`` are those of a score that has some."""

    name: str
    as_of: datetime
    hours: int
    value: float | str | bool | datetime | None
    bounds: Bounds | None = None
    unknown: tuple[str, ...] = ()
    parts: Mapping[str, int | None] = field(default_factory=dict)


def score_at(chart: Chart, name: str, *, hours: int | None = None) -> ScoreAt:
    """Evaluate one definition. ``hours``: another window than the published one; it ends at the chart's moment.

    UserError: no such definition, or a source whose item numbers are not known here.
    """
    if name not in DEFINITIONS:
        raise UserError(f"unknown definition {name!r}; choose one of {', '.join(DEFINITIONS)}")
    if not items_of(chart.spec.name):
        raise UserError(f"definitions are known for mimiciv, not for {chart.spec.name!r}: its items have other numbers")
    window_hours = DEFINITIONS[name].hours if hours is None else hours
    found = _SCORES[name](_Bedside(ChartedMeasurements(chart)), chart.as_of, timedelta(hours=window_hours))
    return ScoreAt(name=name, as_of=chart.as_of, hours=window_hours, **found)


class _Bedside:
    """A chart's measurements, read once for every moment that a score looks at."""

    def __init__(self, charted: ChartedMeasurements) -> None:
        self.charted = charted
        self.lungs = Lungs(charted)
        self.kidneys = Kidneys(charted)
        self.infusions = Infusions(charted)

    def worst(self, name: str, pick: Pick, at: datetime, span: timedelta) -> float | None:
        return self.charted.worst(name, pick, at - span, at)

    @cached_property
    def comas(self) -> list[tuple[datetime, Bounds]]:
        """The coma scale at each minute in which a part was charted, with the others' newest of 6 hours. One of which a
        part is missing lies between the least and the most points of that part."""
        parts = {name: self.charted.readings(name) for name in ("eye", "verbal", "motor")}
        tubes = {time: is_tube(text) for time, text in self.charted.texts("verbal")}
        found = []
        for time in sorted({time for readings in parts.values() for time, _ in readings}):
            each = [newest_before(readings, time, COMA_HOURS) for readings in parts.values()]
            tube = newest_before(sorted(tubes.items()), time, COMA_HOURS)
            least = (1 if part is None else int(part) for part in each)
            most = (top if part is None else int(part) for part, top in zip(each, _COMA_POINTS, strict=True))
            totals = [coma_scale(*points, intubated=tube is True) for points in (least, most)]
            found.append((time, Bounds(totals[0] or _LEAST_COMA, totals[1] or _MOST_COMA)))
        return found

    def coma(self, at: datetime, span: timedelta) -> int | None:
        exact = (total.low for _, total in window(self.comas, at - span, at) if total.is_exact)
        return min(map(int, exact), default=None)

    def coma_bounds(self, at: datetime, span: timedelta) -> Bounds:
        """Return the lowest total of a window; if none is complete, the range that the incomplete totals leave open."""
        exact = self.coma(at, span)
        if exact is not None:
            return Bounds(exact, exact)
        begun = [total for _, total in window(self.comas, at - span, at)]
        return Bounds(
            min((coma.low for coma in begun), default=_LEAST_COMA),
            min((coma.high for coma in begun), default=_MOST_COMA),
        )


def _sofa_parts(bed: _Bedside, at: datetime, span: timedelta) -> PartialScore:
    creatinine, urine = bed.worst("creatinine", max, at, span), bed.kidneys.least_of_a_day(at - span, at)
    kidney, coma = sofa_kidney(creatinine, urine), bed.coma_bounds(at, span)
    brain = [sofa_brain(int(points)) for points in (coma.high, coma.low)]
    found = {
        "respiration": _respiration(bed, at, span),
        "coagulation": _points(sofa_coagulation(bed.worst("platelets", min, at, span))),
        "liver": _points(sofa_liver(bed.worst("bilirubin", max, at, span))),
        "circulation": _circulation(bed, at, span),
        "brain": (brain[0] if coma.is_exact else None, Bounds(brain[0] or 0, brain[1] or 0)),
        "kidney": (kidney, Bounds(kidney or 0, MOST_POINTS if creatinine is None or urine is None else kidney or 0)),
    }
    return PartialScore(
        parts={name: points for name, (points, _) in found.items()},
        within={name: bounds for name, (_, bounds) in found.items()},
    )


def _points(known: int | None) -> _Points:
    return known, Bounds(0, MOST_POINTS) if known is None else Bounds(known, known)


def _respiration(bed: _Bedside, at: datetime, span: timedelta) -> _Points:
    """Return the worst of the window's gases, each with the FiO2 and the ventilation of its own time.

    A gas without FiO2 may have any score. If a ventilator is not known, the gas counts as spontaneous breathing and may
    have more points.
    """
    gases = window(bed.lungs.gases, at - span, at)
    breathing = [(gas.ratio, bed.lungs.ventilated(time)) for time, gas in gases]
    scores = [sofa_respiration(ratio, ventilated=machine) for ratio, machine in breathing]
    points = max((score for score in scores if score is not None), default=None)
    if points is None or None in scores:
        return points, Bounds(points or 0, MOST_POINTS)
    most = max(sofa_respiration(ratio, ventilated=machine is not False) or 0 for ratio, machine in breathing)
    return points, Bounds(points, most)


def _circulation(bed: _Bedside, at: datetime, span: timedelta) -> _Points:
    """Return the worst points of the window.

    Drugs count with the rates that run now and at each full hour before, since they count when given for an hour. The
    result is unknown if a drug's rate is hidden and the others do not reach the maximum. If no infusion is charted at
    all, a drug may have run.
    """
    marks = [at - back * _HOUR for back in range(max(1, round(span / _HOUR)))]
    running = [
        {drug: rate for drug, rate in bed.infusions.until(mark).items() if drug in _SOFA_DRUGS} for mark in marks
    ]
    pressure = bed.worst("mean_pressure", min, at, span)
    scores = [
        sofa_circulation(pressure, **{drug: _SOME if rate is None else rate for drug, rate in rates.items()})
        for rates in running
    ]
    points = max((score for score in scores if score is not None), default=None)
    if any(rate is None for rates in running for rate in rates.values()) and points != MOST_POINTS:
        return None, Bounds(points or 0, MOST_POINTS)
    whole = points is not None and bed.charted.has_rows("inputevents")
    return points, Bounds(points or 0, points if whole and points is not None else MOST_POINTS)


def _sofa(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    return _partial(_sofa_parts(bed, at, span))


def _quick_sofa(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    breaths, systolic = bed.worst("breaths", max, at, span), bed.worst("systolic", min, at, span)
    coma = bed.coma_bounds(at, span)
    is_known = coma.is_exact or coma.high < _MOST_COMA
    return _partial(quick_sofa(breaths, systolic, int(coma.high) if is_known else None))


def _sirs(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    gases = [gas.carbon_dioxide for _, gas in window(bed.lungs.gases, at - span, at)]

    def criteria(pick: Pick) -> PartialScore:
        return inflammatory_response(
            temperature=bed.worst("temperature", pick, at, span),
            heart_rate=bed.worst("heart_rate", max, at, span),
            breaths=bed.worst("breaths", max, at, span),
            carbon_dioxide=min((value for value in gases if value is not None), default=None),
            white_cells=bed.worst("white_cells", pick, at, span),
            bands=bed.worst("bands", max, at, span),
        )

    low, high = criteria(min), criteria(max)
    worst = {part: max((v for v in (low.parts[part], high.parts[part]) if v is not None), default=None)
             for part in low.parts}  # fmt: skip
    within = {part: Bounds(max(one.low, high.within[part].low), max(one.high, high.within[part].high))
              for part, one in low.within.items()}  # fmt: skip
    return _partial(PartialScore(parts=worst, within=within))


def _kdigo(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    rates, replaced = bed.kidneys.rates(at), bed.kidneys.replaced(at - span, at)
    parts = {"creatinine": bed.kidneys.stage_by_creatinine(at), "urine": kdigo_urine(rates)}
    return {
        "value": kdigo_stage(parts["creatinine"], parts["urine"], replaced=replaced),
        "bounds": kdigo_bounds(parts["creatinine"], rates, replaced=replaced),
        "unknown": tuple(part for part in parts if parts[part] is None),
        "parts": parts,
    }


def _meld(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    labs = {name: bed.worst(name, max, at, span) for name in ("creatinine", "bilirubin", "inr")}
    sodium = bed.worst("sodium", min, at, span)
    replaced = bed.kidneys.replaced(at - span, at)
    value = meld(**labs, sodium=sodium, dialysis=replaced)
    is_seen = replaced or (bed.charted.stay is not None and bed.charted.stay.ended is None)
    bounds = meld_bounds(**labs, sodium=sodium, dialysis=replaced if is_seen else None)
    return _plain(value, "a test of creatinine, bilirubin, INR and sodium", bounds)


def _coma(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    return _plain(bed.coma(at, span), "eyes, speech and movement within 6 hours", bed.coma_bounds(at, span))


def _urine(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    return _plain(bed.kidneys.rate(at, span / _HOUR), "urine for so long in this stay, or weight")


def _vasopressors(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    """Return the drugs that run now, or with a window the highest rates at one full hour of it."""
    stay = bed.charted.stay
    if stay is None or stay.ended is not None or not bed.charted.has_rows("inputevents"):
        return _plain(None, "anything infused in a stay that lasts")
    marks = [bed.infusions.until(at - back * _HOUR) for back in range(1, round(span / _HOUR) + 1)]
    doses = [_equivalent(rates) for rates in (bed.infusions.now(at), *marks)]
    return _plain(
        None if None in doses else max(dose for dose in doses if dose is not None), "the rate of a drug that runs"
    )


def _equivalent(rates: Mapping[str, float | None]) -> float | None:
    known = {drug: rate for drug, rate in rates.items() if rate is not None and drug != "dobutamine"}
    hidden = any(rate is None for drug, rate in rates.items() if drug != "dobutamine")
    return None if hidden else norepinephrine_equivalent(**known)


def _ventilation(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    return _plain(bed.lungs.status(at, span), "oxygen device or ventilator mode")


def _oxygenation(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    """Return the newest arterial gas with the FiO2 in force."""
    gases = window(bed.lungs.gases, at - span, at)
    return _plain(gases[-1][1].ratio if gases else None, "an arterial gas with an FiO2")


def _suspicion(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    return _plain(Infection(bed.charted).suspected, "antibiotic and culture near each other")


def _sepsis(bed: _Bedside, at: datetime, span: timedelta) -> _Found:
    """SOFA at each hour about the current suspicion, each from the window before it as the chart shows it now."""
    infection = Infection(bed.charted)
    if infection.suspected is None:
        return _plain(None if infection.unknown else False, infection.unknown)
    last = min(at, infection.suspected + AFTER_SUSPICION)
    hours = int((last - infection.suspected + BEFORE_SUSPICION) / _HOUR)
    moments = [last - back * _HOUR for back in range(hours + 1)]
    scores = ((moment, _sofa_parts(bed, moment, span)) for moment in moments)
    found = is_sepsis(infection.suspected, ((when, one.bounds) for when, one in scores))
    return _plain(found, "parts of SOFA near the suspicion")


def _partial(score: PartialScore) -> _Found:
    return {"value": score.total, "bounds": score.bounds, "unknown": score.unknown, "parts": score.parts}


def _plain(value: Any, missing: str, bounds: Bounds | None = None) -> _Found:
    """``bounds``: the range of a number; both ends are equal for a number that is known exactly."""
    if bounds is None and isinstance(value, int | float) and not isinstance(value, bool):
        bounds = Bounds(value, value)
    return {"value": value, "bounds": bounds, "unknown": (missing,) if value is None else ()}


_SOFA_DRUGS = ("dopamine", "epinephrine", "norepinephrine", "dobutamine")
_Points = tuple[int | None, Bounds]
"""Points of a part of SOFA, None where they are unknown, and the least and the most that they can be."""
_SOME = 1e-9
"""A rate above 0: of a drug that runs at a rate that is not shown."""
_LEAST_COMA, _MOST_COMA = 3, 15
_COMA_POINTS = (4, 5, 6)
"""The most points of eyes, speech and movement."""
_HOUR = timedelta(hours=1)
_SCORES: Mapping[str, Callable[[_Bedside, datetime, timedelta], _Found]] = {
    "gcs": _coma,
    "sofa": _sofa,
    "qsofa": _quick_sofa,
    "sirs": _sirs,
    "kdigo": _kdigo,
    "meld": _meld,
    "urine_output": _urine,
    "vasopressors": _vasopressors,
    "ventilation": _ventilation,
    "pf_ratio": _oxygenation,
    "suspicion_of_infection": _suspicion,
    "sepsis3": _sepsis,
}
