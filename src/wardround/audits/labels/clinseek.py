"""ClinSeek-Bench's answers worked out a second time from MIMIC-IV's raw files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path

from wardround.audits.labels.raw_files import ADDED_LATER, MINUTE, Named, RawFiles, RawStay, Row, when
from wardround.clinical.codes import load_ccs, load_drugs

# Where ClinSeek-Bench may ask for a next event, and which answers it offers, read from its paper, not its tasks.
#
# A decision is asked inside a stay of the right kind, about an event that follows within 24 hours and before that stay
# is over. Kinds, hours and answers are written down here once more, so that a rule which drops an answer is seen.


Interval = tuple[datetime, datetime, str]
"""Begin, end (``datetime.max`` while it is open) and the number of the stay in hospital."""

DAY = timedelta(days=1)
MOVES = ("admit", "transfer", "discharge")
_IN_EMERGENCY = ("admissions", "pyxis", "medrecon", "medrecon_atc", "diagnosis", "diagnosis_ccs")
_IN_UNIT = ("chartevents", "ingredientevents", "datetimeevents", "procedureevents", "inputevents", "outputevents")
_IN_BOTH = ("transfers", "radiology", "next_event")
_LATER = {"omr": timedelta(days=30), "admissions": DAY}
"""Events that may follow after the stay, and how soon they do."""


class RawPlaces:
    """The stays of every subject, as intervals."""

    def __init__(self, raw: RawFiles) -> None:
        self._raw = raw

    def may_ask(self, task: str, subject: int, asked: datetime, begun: datetime, names: frozenset[str]) -> bool:
        """Whether a moment lies in a stay of the task's kind from which an event beginning at ``begun`` may follow."""
        name = task.rpartition(".")[2]
        if begun > asked + _LATER.get(name, DAY):
            return False
        return any(
            start <= asked < end and (name in _LATER or begun <= end or self._ends(name, subject, stay, begun, names))
            for start, end, stay in self._of(name, subject)
        )

    def moves(self) -> Counter[str]:
        """Count the kinds of moves in the raw files: what ``clinseek.transfers`` should be answered with."""
        admitted = {stay for intervals in self._stays.values() for _, _, stay in intervals}
        rows = self._raw.rows_of("hosp/transfers")
        return Counter(row["eventtype"] for row in rows if row["hadm_id"] in admitted and row["eventtype"] in MOVES)

    def _ends(self, name: str, subject: int, stay: str, begun: datetime, names: frozenset[str]) -> bool:
        """Whether an event is the row with which a stay ends, written some minutes after its discharge."""
        return name == "transfers" and names == {"discharge"} and begun in self._discharges.get((subject, stay), ())

    def _of(self, name: str, subject: int) -> Iterator[Interval]:
        if name in _IN_EMERGENCY + _IN_BOTH:
            yield from self._visits.get(subject, ())
        if name in _IN_UNIT:
            yield from self._units.get(subject, ())
        elif name not in _IN_EMERGENCY:
            yield from self._stays.get(subject, ())

    @cached_property
    def _stays(self) -> Mapping[int, list[Interval]]:
        return self._intervals("hosp/admissions", "admittime", ("dischtime", "deathtime"))

    @cached_property
    def _visits(self) -> Mapping[int, list[Interval]]:
        return self._intervals("ed/edstays", "intime", ("outtime",))

    @cached_property
    def _units(self) -> Mapping[int, list[Interval]]:
        return self._intervals("icu/icustays", "intime", ("outtime",))

    @cached_property
    def _discharges(self) -> Mapping[tuple[int, str], list[datetime]]:
        found: dict[tuple[int, str], list[datetime]] = {}
        for row in self._raw.rows_of("hosp/transfers"):
            if row["eventtype"] == "discharge" and row["intime"]:
                found.setdefault((int(row["subject_id"]), row["hadm_id"]), []).append(when(row["intime"]))
        return found

    def _intervals(self, file: str, start: str, ends: tuple[str, ...]) -> Mapping[int, list[Interval]]:
        found: dict[int, list[Interval]] = {}
        for row in self._raw.rows_if_there(file):
            if row[start]:
                over = max((when(row[end]) for end in ends if row[end]), default=datetime.max)
                found.setdefault(int(row["subject_id"]), []).append((when(row[start]), over, row["hadm_id"]))
        return found


# ClinSeek-Bench's decisions from MIMIC-IV's raw files: what the first event of a sort after a moment is called.


Placed = tuple[Row, str, str]
"""A row, its time and its name as written; without either it is no event."""

COLUMNS: Mapping[str, tuple[str, str, str]] = {
    "admissions": ("hosp/admissions", "admittime", "admission_type"),
    "omr": ("hosp/omr", "chartdate", "result_name"),
    "emar": ("hosp/emar", "charttime", "medication"),
    "services": ("hosp/services", "transfertime", "curr_service"),
    "poe": ("hosp/poe", "ordertime", "order_type"),
    "pyxis": ("ed/pyxis", "charttime", "name"),
    "medrecon": ("ed/medrecon", "charttime", "name"),
}
"""File, time and name of what one file tells alone."""
ITEMS: Mapping[str, tuple[str, str]] = {
    "chartevents": ("icu/chartevents", "charttime"),
    "ingredientevents": ("icu/ingredientevents", "starttime"),
    "datetimeevents": ("icu/datetimeevents", "charttime"),
    "procedureevents": ("icu/procedureevents", "starttime"),
    "inputevents": ("icu/inputevents", "starttime"),
    "outputevents": ("icu/outputevents", "charttime"),
}
"""File and time of intensive care's tables, whose items a dictionary names."""
TIMED: Mapping[str, tuple[str, str]] = {
    **{name: (file, time) for name, (file, time, _) in COLUMNS.items()},
    "transfers": ("hosp/transfers", "intime"),
    **ITEMS,
    "labevents": ("hosp/labevents", "charttime"),
    "hcpcsevents": ("hosp/hcpcsevents", "chartdate"),
    "procedures_icd": ("hosp/procedures_icd", "chartdate"),
    "pharmacy": ("hosp/pharmacy", "entertime"),
    "icustays": ("icu/icustays", "intime"),
    "edstays": ("ed/edstays", "intime"),
    "vitalsign": ("ed/vitalsign", "charttime"),
    "discharge": ("note/discharge", "charttime"),
    "radiology": ("note/radiology", "charttime"),
}
"""Tables of the record whose rows tell their own time."""
JOINED: Mapping[str, tuple[str, str, str, str]] = {
    "diagnoses_icd": ("hosp/diagnoses_icd", "hadm_id", "hosp/admissions", "dischtime"),
    "drgcodes": ("hosp/drgcodes", "hadm_id", "hosp/admissions", "dischtime"),
    "poe_detail": ("hosp/poe_detail", "poe_id", "hosp/poe", "ordertime"),
    "emar_detail": ("hosp/emar_detail", "emar_id", "hosp/emar", "charttime"),
    "triage": ("ed/triage", "stay_id", "ed/edstays", "intime"),
    "diagnosis": ("ed/diagnosis", "stay_id", "ed/edstays", "outtime"),
    "discharge_detail": ("note/discharge_detail", "note_id", "note/discharge", "charttime"),
    "radiology_detail": ("note/radiology_detail", "note_id", "note/radiology", "charttime"),
}
"""Tables whose rows happen when a row of another file does: file, key, the other file, its time."""
_BY_DAY = ("omr", "procedures_icd", "procedures_ccs")


class RawEvents:
    """The events of every sort. ``user_codes`` is where a user's drug names lie."""

    def __init__(self, raw: RawFiles, user_codes: Path | None = None) -> None:
        self._raw = raw
        self._user_codes = user_codes
        self._known: dict[str, Mapping[int, list[Named]]] = {}
        self._places = RawPlaces(raw)

    def answer(self, task: str, subject: int, asked: datetime) -> frozenset[str]:
        """Return the names of the first event after a moment, none where the task may not be asked then.

        KeyError: there is no second path for the task."""
        if task not in self._known:
            self._known[task] = _ordered(DECISION_TASKS[task](self), by_day=task.rpartition(".")[2] in _BY_DAY)
        begun, first = _first_after(self._known[task][subject], asked)
        names = frozenset(" ".join(name.split()).casefold() for name in first)
        return names if self._places.may_ask(task, subject, asked, begun, names) else frozenset()

    def expected(self, task: str) -> Counter[str]:
        """Count the answers that the raw files hold for a task with few answers; nothing of any other task."""
        return self._places.moves() if task == "clinseek.transfers" else Counter()

    def moves(self) -> Iterator[Placed]:
        """Moves of patients: to be admitted, transferred, discharged."""
        for row in self._raw.rows_of("hosp/transfers"):
            yield row, row["intime"], row["eventtype"] if row["eventtype"] in MOVES else ""

    def of_file(self, task: str) -> Iterator[Placed]:
        """Events that one file tells alone."""
        file, time, name = COLUMNS[task]
        return ((row, row[time], row[name]) for row in self._raw.rows_if_there(file))

    def of_items(self, task: str) -> Iterator[Placed]:
        """Events of intensive care, by their items' names."""
        file, time = ITEMS[task]
        return ((row, row[time], self._items.get(row["itemid"], "")) for row in self._raw.rows_if_there(file))

    def laboratory(self) -> Iterator[Placed]:
        """Tests by the specimen's time."""
        names = {row["itemid"]: row["label"] for row in self._raw.rows_of("hosp/d_labitems")}
        rows = self._raw.rows_of("hosp/labevents")
        return ((row, row["charttime"], names.get(row["itemid"], "")) for row in rows)

    def cultures(self) -> Iterator[Placed]:
        """Tests that were asked for at a time of day."""
        for row in self._raw.rows_of("hosp/microbiologyevents"):
            if not any(word in row["test_name"].casefold() for word in ADDED_LATER):
                yield row, row["charttime"], row["test_name"]

    def orders(self) -> Iterator[Placed]:
        """Prescriptions by their drug's name."""
        return ((row, self._ordered(row), row["drug"]) for row in self._raw.rows_of("hosp/prescriptions"))

    def orders_by_atc(self) -> Iterator[Placed]:
        """Prescriptions by ATC name."""
        drugs = load_drugs(self._user_codes)
        for row in self._raw.rows_of("hosp/prescriptions"):
            yield row, self._ordered(row), drugs.label(row["drug"], row["ndc"]) or ""

    def home_medicines_by_atc(self) -> Iterator[Placed]:
        """Home medicines by ATC name."""
        drugs = load_drugs(self._user_codes)
        for row in self._raw.rows_if_there("ed/medrecon"):
            yield row, row["charttime"], drugs.label(row["name"], row["ndc"]) or ""

    def coded(self, kind: str, *, grouped: bool) -> Iterator[Placed]:
        """Diagnoses or procedures of stays, by title or category."""
        titles = self._titles(kind)
        for row, time in self._coded_rows(kind):
            key = row["icd_code"].strip(), row["icd_version"]
            yield row, time, _category(kind, *key) if grouped else titles.get(key, "")

    def emergency_diagnoses(self, *, grouped: bool) -> Iterator[Placed]:
        """Diagnoses of emergency visits, by title or category."""
        for row, time in self._joined("diagnosis"):
            title = row["icd_title"]
            yield row, time, _category("diagnoses", row["icd_code"], row["icd_version"]) if grouped else title

    def examinations(self) -> Iterator[Placed]:
        """Radiology examinations when the images were taken."""
        for row, time in self._joined("radiology_detail"):
            if row["field_name"] == "exam_name":
                yield row, time, row["field_value"]

    def anything(self) -> Iterator[Placed]:
        """Rows of every table that has times, by the table's name."""
        for table, (file, time) in TIMED.items():
            yield from ((row, row[time], table) for row in self._raw.rows_if_there(file))
        for table in JOINED:
            yield from ((row, time, table) for row, time in self._joined(table))
        for row in self._raw.rows_of("hosp/prescriptions"):
            yield row, self._ordered(row), "prescriptions"
        for row in self._raw.rows_of("hosp/microbiologyevents"):
            stored = min(filter(None, (row["chartdate"], row["storetime"])), key=when, default="")
            yield row, row["charttime"] or stored, "microbiologyevents"
        admitted = self._times("hosp/admissions", "hadm_id", "admittime")
        for row in self._raw.rows_if_there("note/discharge"):
            if row["note_type"] == "DS":
                yield row, admitted.get(row["hadm_id"], ""), "admission_note"

    @cached_property
    def _items(self) -> Mapping[str, str]:
        return {row["itemid"]: row["label"] for row in self._raw.rows_if_there("icu/d_items")}

    @cached_property
    def _entered(self) -> Mapping[str, str]:
        return self._times("hosp/pharmacy", "pharmacy_id", "entertime")

    @cached_property
    def _left(self) -> Mapping[str, str]:
        return self._times("hosp/admissions", "hadm_id", "dischtime")

    def _ordered(self, row: Row) -> str:
        return self._entered.get(row["pharmacy_id"], "") or row["starttime"] or self._left.get(row["hadm_id"], "")

    def _times(self, file: str, key: str, time: str) -> Mapping[str, str]:
        return {row[key]: row[time] for row in self._raw.rows_if_there(file)}

    def _joined(self, table: str) -> Iterator[tuple[Row, str]]:
        file, key, other, time = JOINED[table]
        times = self._times(other, key, time)
        return ((row, times.get(row[key], "")) for row in self._raw.rows_if_there(file))

    def _coded_rows(self, kind: str) -> Iterator[tuple[Row, str]]:
        if kind == "diagnoses":
            return self._joined("diagnoses_icd")
        return ((row, row["chartdate"]) for row in self._raw.rows_of("hosp/procedures_icd"))

    def _titles(self, kind: str) -> Mapping[tuple[str, str], str]:
        rows = self._raw.rows_if_there(f"hosp/d_icd_{kind}")
        return {(row["icd_code"].strip(), row["icd_version"]): row["long_title"] for row in rows}


def _category(kind: str, code: str, version: str) -> str:
    found = load_ccs("procedures" if kind == "procedures" else "diagnoses").category(code, version)
    return "" if found is None else found.label


def _ordered(rows: Iterator[Placed], *, by_day: bool) -> Mapping[int, list[Named]]:
    found: dict[int, list[Named]] = defaultdict(list)
    for row, time, name in rows:
        if time and name.strip():
            moment = datetime.fromisoformat(time[:10]) if by_day else when(time)
            found[int(row["subject_id"])].append((moment, name))
    for events in found.values():
        events.sort()
    return found


def _first_after(events: list[Named], asked: datetime) -> tuple[datetime, list[str]]:
    """When the first event after a moment begins, and its names: rows less than a minute apart are one event."""
    names: list[str] = []
    first = begun = last = datetime.min
    for moment, name in events:
        if moment - last >= MINUTE:
            if names:
                break
            begun = moment
        last = moment
        if begun > asked:
            first = begun
            names.append(name)
    return first, names


def _of_file(task: str) -> Callable[[RawEvents], Iterator[Placed]]:
    return lambda events: events.of_file(task)


def _of_items(task: str) -> Callable[[RawEvents], Iterator[Placed]]:
    return lambda events: events.of_items(task)


DECISION_TASKS: Mapping[str, Callable[[RawEvents], Iterator[Placed]]] = {
    **{f"clinseek.{task}": _of_file(task) for task in COLUMNS},
    **{f"clinseek.{task}": _of_items(task) for task in ITEMS},
    "clinseek.transfers": RawEvents.moves,
    "clinseek.labevents": RawEvents.laboratory,
    "clinseek.microbiologyevents": RawEvents.cultures,
    "clinseek.prescriptions": RawEvents.orders,
    "clinseek.prescriptions_atc": RawEvents.orders_by_atc,
    "clinseek.medrecon_atc": RawEvents.home_medicines_by_atc,
    "clinseek.diagnoses_icd": lambda events: events.coded("diagnoses", grouped=False),
    "clinseek.diagnoses_ccs": lambda events: events.coded("diagnoses", grouped=True),
    "clinseek.procedures_icd": lambda events: events.coded("procedures", grouped=False),
    "clinseek.procedures_ccs": lambda events: events.coded("procedures", grouped=True),
    "clinseek.diagnosis": lambda events: events.emergency_diagnoses(grouped=False),
    "clinseek.diagnosis_ccs": lambda events: events.emergency_diagnoses(grouped=True),
    "clinseek.radiology": RawEvents.examinations,
    "clinseek.next_event": RawEvents.anything,
}
"""The 27 decisions."""


# ClinSeek-Bench's risks from MIMIC-IV's raw files: what became of the stay that a moment lies in.


RISK_DAY, HOUR = timedelta(days=1), timedelta(hours=1)


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
        return frozenset(str(int(yes)) for yes in RISK_TASKS[task](self, subject, asked))

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
            yield from (unit.start + RISK_DAY for unit in self._units.get(subject, ()))
        elif name.startswith("Readmission"):
            yield from (stay.over for stay in self._raw.stays.get(subject, ()))
        else:
            yield from (stay.start + RISK_DAY for stay in self._raw.stays.get(subject, ()))

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
        return (stay.over - stay.start > days * RISK_DAY for stay in self._first_days(subject, asked))

    def dies_in_stay(self, subject: int, asked: datetime) -> Iterator[bool]:
        """Whether the person dies in the stay in hospital."""
        return (self._dies(subject, stay.start, stay.over) for stay in self._first_days(subject, asked))

    def dies_within(self, subject: int, asked: datetime, *, days: int) -> Iterator[bool]:
        """Whether the person in intensive care dies within some days of the moment."""
        for unit in self._first_unit_days(subject, asked):
            yield any(unit.start <= death < asked + days * RISK_DAY for death in self._deaths.get(subject, ()))

    def unit_lasts(self, subject: int, asked: datetime, *, days: int) -> Iterator[bool]:
        """Whether the stay in intensive care lasts some days or more."""
        for unit in self._first_unit_days(subject, asked):
            yield unit.over is not None and unit.over >= unit.start + days * RISK_DAY

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
        return (stay for stay in here if asked == stay.start + RISK_DAY < stay.over)

    def _first_unit_days(self, subject: int, asked: datetime) -> Iterator[RawVisit]:
        for unit in self._units.get(subject, ()):
            if unit.over is not None and asked == unit.start + RISK_DAY < unit.over:
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


RISK_TASKS: Mapping[str, Answer] = {
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
