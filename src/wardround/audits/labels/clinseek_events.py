"""ClinSeek-Bench's decisions from MIMIC-IV's raw files: what the first event of a sort after a moment is called."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path

from wardround.audits.labels.agentehr import ADDED_LATER, MINUTE, Named
from wardround.audits.labels.clinseek_places import MOVES, RawPlaces
from wardround.audits.labels.raw_files import RawFiles, Row, when
from wardround.codes import load_ccs, load_drugs

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
            self._known[task] = _ordered(TASKS[task](self), by_day=task.rpartition(".")[2] in _BY_DAY)
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


TASKS: Mapping[str, Callable[[RawEvents], Iterator[Placed]]] = {
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
