"""ClinSeek-Bench's risks from MIMIC-IV's raw files: what became of the stay that a moment lies in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from wardround.audits.labels.raw_files import RawFiles, RawStay, when

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawVisit:
    """One visit of the emergency department or stay in intensive care. ``over`` is None while it is open."""

    start: datetime
    over: datetime | None
    hadm_id: str


Kept = Mapping[int, Sequence[RawVisit]]
Answer = Callable[["RawRisks", int, datetime], Iterator[bool]]


class RawRisks:
    """Whether something came about, for every stay that a moment could be asked about."""

    def __init__(self, raw: RawFiles) -> None:
        self._raw = raw
        self._emergency = _visits(raw, "ed/edstays")
        self._units = _visits(raw, "icu/icustays")
        self._deaths = _deaths(raw)

    def answers(self, task: str, subject: int, asked: datetime) -> frozenset[str]:
        """Return the labels that fit, one unless several stays lie at the moment. KeyError: no second path."""
        return frozenset(str(int(yes)) for yes in TASKS[task](self, subject, asked))

    def expected(self, task: str) -> Counter[str]:
        """Count the answers at the moments at which the raw files say that a task may be asked."""
        found: Counter[str] = Counter()
        for subject in sorted({*self._raw.stays, *self._emergency, *self._units}):
            for moment in self._moments(task.rpartition(".")[2], subject):
                found.update(self.answers(task, subject, moment))
        return found

    def _moments(self, name: str, subject: int) -> Iterator[datetime]:
        if name.startswith("ED_"):
            for visit in self._emergency.get(subject, ()):
                if visit.over is not None:
                    yield visit.start + 2 * HOUR if name == "ED_Hospitalization" else visit.over - timedelta(seconds=1)
        elif name.startswith("ICU_"):
            yield from (unit.start + DAY for unit in self._units.get(subject, ()))
        elif name.startswith("Readmission"):
            yield from (stay.over for stay in self._raw.stays.get(subject, ()))
        else:
            yield from (stay.start + DAY for stay in self._raw.stays.get(subject, ()))

    def admitted(self, subject: int, asked: datetime) -> Iterator[bool]:
        """Whether the visit leads to a stay in hospital: two hours after arrival, if it has not yet."""
        for visit in self._visits_at(subject, asked):
            stay = self._stay_of(subject, visit)
            if asked == visit.start + 2 * HOUR and (stay is None or stay.start > asked):
                yield stay is not None

    def dies_after_visit(self, subject: int, asked: datetime) -> Iterator[bool]:
        """Whether the person dies in the stay that the visit leads to, or in the visit."""
        return (self._dies_after(subject, visit) for visit in self._visits_at(subject, asked))

    def unit_after_visit(self, subject: int, asked: datetime, *, hours: int) -> Iterator[bool]:
        """Whether intensive care begins from the visit's beginning to some hours after its end."""
        return (self._unit_after(subject, visit, hours) for visit in self._visits_at(subject, asked))

    def critical(self, subject: int, asked: datetime, *, hours: int) -> Iterator[bool]:
        """Either of the two."""
        for visit in self._visits_at(subject, asked):
            yield self._unit_after(subject, visit, hours) or self._dies_after(subject, visit)

    def returns(self, subject: int, asked: datetime, *, hours: int) -> Iterator[bool]:
        """Whether another visit begins within some hours of the end of this one."""
        for visit in self._visits_at(subject, asked):
            others = [one for one in self._emergency.get(subject, ()) if one is not visit]
            yield any(_begins_within(one.start, visit.over, hours) for one in others)

    def stays_longer(self, subject: int, asked: datetime, *, days: int) -> Iterator[bool]:
        """Whether the stay in hospital lasts more than some days."""
        return (stay.over - stay.start > days * DAY for stay in self._first_days(subject, asked))

    def dies_in_stay(self, subject: int, asked: datetime) -> Iterator[bool]:
        """Whether the person dies in the stay in hospital."""
        return (self._dies(subject, stay.start, stay.over) for stay in self._first_days(subject, asked))

    def dies_within(self, subject: int, asked: datetime, *, days: int) -> Iterator[bool]:
        """Whether the person in intensive care dies within some days of the moment."""
        for unit in self._first_unit_days(subject, asked):
            yield any(unit.start <= death < asked + days * DAY for death in self._deaths.get(subject, ()))

    def unit_lasts(self, subject: int, asked: datetime, *, days: int) -> Iterator[bool]:
        """Whether the stay in intensive care lasts some days or more."""
        for unit in self._first_unit_days(subject, asked):
            yield unit.over is not None and unit.over >= unit.start + days * DAY

    def returns_to_unit(self, subject: int, asked: datetime) -> Iterator[bool]:
        """Whether another stay in intensive care begins after this one, in the same stay in hospital."""
        for unit in self._first_unit_days(subject, asked):
            around = [stay for stay in self._raw.stays.get(subject, ()) if stay.start <= unit.start <= stay.over]
            last = min(around, key=lambda stay: stay.start).over if around else datetime.max
            others = [one for one in self._units.get(subject, ()) if one is not unit]
            yield any(unit.over is not None and unit.over <= one.start <= last for one in others)

    def readmitted(self, subject: int, asked: datetime, *, days: int) -> Iterator[bool]:
        """Whether another stay in hospital begins within some days of the end of this one, which was survived."""
        stays = self._raw.stays.get(subject, ())
        for stay in stays:
            if asked == stay.over and not self._dies(subject, stay.start, stay.over):
                others = [one for one in stays if one is not stay]
                yield any(_begins_within(one.start, stay.over, 24 * days) for one in others)

    def _visits_at(self, subject: int, asked: datetime) -> Iterator[RawVisit]:
        here = self._emergency.get(subject, ())
        return (visit for visit in here if visit.over is not None and visit.start <= asked < visit.over)

    def _first_days(self, subject: int, asked: datetime) -> Iterator[RawStay]:
        here = self._raw.stays.get(subject, ())
        return (stay for stay in here if asked == stay.start + DAY < stay.over)

    def _first_unit_days(self, subject: int, asked: datetime) -> Iterator[RawVisit]:
        for unit in self._units.get(subject, ()):
            if unit.over is not None and asked == unit.start + DAY < unit.over:
                yield unit

    def _stay_of(self, subject: int, visit: RawVisit) -> RawStay | None:
        """The stay that a visit's row names; where it names none, one that begins in the visit."""
        for stay in sorted(self._raw.stays.get(subject, ()), key=lambda one: one.start):
            inside = visit.over is not None and visit.start <= stay.start <= visit.over
            if stay.hadm_id == visit.hadm_id or (not visit.hadm_id and inside):
                return stay
        return None

    def _dies_after(self, subject: int, visit: RawVisit) -> bool:
        stay = self._stay_of(subject, visit)
        if stay is not None:
            return self._dies(subject, stay.start, stay.over)
        return visit.over is not None and self._dies(subject, visit.start, visit.over)

    def _unit_after(self, subject: int, visit: RawVisit, hours: int) -> bool:
        until = (visit.over or visit.start) + hours * HOUR
        return any(visit.start <= unit.start <= until for unit in self._units.get(subject, ()))

    def _dies(self, subject: int, start: datetime, over: datetime) -> bool:
        return any(start <= death <= over for death in self._deaths.get(subject, ()))


def _begins_within(start: datetime, end: datetime | None, hours: int) -> bool:
    return end is not None and end <= start < end + hours * HOUR


def _visits(raw: RawFiles, file: str) -> Kept:
    found: dict[int, list[RawVisit]] = {}
    for row in raw.rows_if_there(file):
        if row["intime"]:
            over = when(row["outtime"]) if row["outtime"] else None
            one = RawVisit(start=when(row["intime"]), over=over, hadm_id=row["hadm_id"])
            found.setdefault(int(row["subject_id"]), []).append(one)
    return found


def _deaths(raw: RawFiles) -> Mapping[int, list[datetime]]:
    """Every time at which a file says that a person died; a date is the end of its day."""
    found: dict[int, list[datetime]] = {}
    for file, column in (("hosp/admissions", "deathtime"), ("hosp/patients", "dod")):
        for row in raw.rows_of(file):
            if row[column]:
                found.setdefault(int(row["subject_id"]), []).append(when(row[column]))
    return found


TASKS: Mapping[str, Answer] = {
    "clinseek.ED_Hospitalization": RawRisks.admitted,
    "clinseek.ED_Inpatient_Mortality": RawRisks.dies_after_visit,
    "clinseek.ED_ICU_Tranfer_12hour": partial(RawRisks.unit_after_visit, hours=12),
    "clinseek.ED_Reattendance_3day": partial(RawRisks.returns, hours=72),
    "clinseek.ED_Critical_Outcomes": partial(RawRisks.critical, hours=12),
    "clinseek.LengthOfStay_3day": partial(RawRisks.stays_longer, days=3),
    "clinseek.LengthOfStay_7day": partial(RawRisks.stays_longer, days=7),
    "clinseek.Inpatient_Mortality": RawRisks.dies_in_stay,
    **{f"clinseek.ICU_Mortality_{days}day": partial(RawRisks.dies_within, days=days) for days in (1, 2, 3, 7, 14)},
    **{f"clinseek.ICU_Stay_{days}day": partial(RawRisks.unit_lasts, days=days) for days in (7, 14)},
    "clinseek.ICU_Readmission": RawRisks.returns_to_unit,
    **{f"clinseek.Readmission_{days}day": partial(RawRisks.readmitted, days=days) for days in (30, 60)},
}
"""The 18 risks."""
