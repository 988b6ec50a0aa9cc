"""Charts written by hand for the definitions: one person each, hours counted from noon of the day of intensive care."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from records.mimic_tables import write_folder
from wardround.records import Chart, Store, ingest

NOON = datetime(2150, 6, 1, 12)
BEGAN = -2.0
"""When the stay and its admission begin, in hours from noon."""


def at(hours: float) -> datetime:
    """So many hours after noon."""
    return NOON + timedelta(hours=hours)


@dataclass
class Person:
    """Rows of one person. The stay in intensive care lasts from ``BEGAN`` to 100 hours after noon."""

    number: int
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    stay: tuple[int, int] = (0, 0)

    def admit(self, begin: float = BEGAN, end: float = 100.0, *, intensive: bool = True) -> Person:
        """An admission, and a stay in intensive care as long; the rows that follow are of these."""
        count = len(self.rows.get("admissions", ()))
        self.stay = (self.number * 100 + count, 3_000_000 + self.number * 100 + count)
        span = {"hadm_id": self.stay[0], "admittime": at(begin), "dischtime": at(end)}
        self._add("admissions", **span, admission_type="EW EMER.")
        if intensive:
            self._add("icustays", hadm_id=self.stay[0], stay_id=self.stay[1], intime=at(begin), outtime=at(end),
                      first_careunit="MICU", last_careunit="MICU")  # fmt: skip
        return self

    def charted(
        self, item: int, hours: float, value: float | str, unit: str | None = None, *, said: str = ""
    ) -> Person:
        """A row of chartevents: a number, with other words in ``said``; or words."""
        number = value if isinstance(value, int | float) else None
        return self._icu("chartevents", charttime=at(hours), storetime=at(hours), itemid=item, value=said or value,
                         valuenum=number, valueuom=unit)  # fmt: skip

    def lab(self, item: int, hours: float, value: float | str, unit: str | None = None, *, specimen: int = 0) -> Person:
        """A laboratory result; those of one gas share their specimen."""
        number = value if isinstance(value, int | float) else None
        count = len(self.rows.get("labevents", ()))
        return self._add("labevents", hadm_id=self.stay[0], labevent_id=self.number * 10_000 + count, itemid=item,
                         specimen_id=self.number * 1000 + (specimen or 100 + count), charttime=at(hours),
                         storetime=at(hours), value=value, valuenum=number, valueuom=unit)  # fmt: skip

    def gas(self, hours: float, pressure: float, kind: str | None, **more: float) -> Person:
        """A blood gas: PaO2, and in ``more`` oxygen (FiO2) and carbon (PaCO2)."""
        specimen = 1 + len(self.rows.get("labevents", ()))
        self.lab(50821, hours, pressure, "mm Hg", specimen=specimen)
        for name, item, unit in (("oxygen", 50816, "%"), ("carbon", 50818, "mm Hg")):
            if name in more:
                self.lab(item, hours, more[name], unit, specimen=specimen)
        return self if kind is None else self.lab(52033, hours, kind, specimen=specimen)

    def drip(
        self, item: int, start: float, end: float, rate: float | None, unit: str | None, *, weight: float | None = 80
    ) -> Person:
        """A stretch of an infusion; its rate worked out is 0.9 of the rate set, so that tests see which counts."""
        worked_out = None if rate is None else rate * 0.9
        order = self.number * 1000 + len(self.rows.get("inputevents", ()))
        return self._icu("inputevents", starttime=at(start), endtime=at(end), storetime=at(start), itemid=item,
                         rate=worked_out, originalrate=rate, rateuom=unit, patientweight=weight, amount=1,
                         orderid=order, linkorderid=order, statusdescription="FinishedRunning")  # fmt: skip

    def urine(self, hours: float, value: float, item: int = 226559) -> Person:
        """A row of outputevents, in mL."""
        return self._icu("outputevents", charttime=at(hours), storetime=at(hours), itemid=item, value=value,
                         valueuom="ml")  # fmt: skip

    def procedure(self, item: int, start: float, end: float) -> Person:
        """A procedure of intensive care from when to when."""
        return self._icu("procedureevents", starttime=at(start), endtime=at(end), storetime=at(start), itemid=item,
                         value=(end - start) * 60, valueuom="min",
                         orderid=self.number * 1000 + len(self.rows.get("procedureevents", ())))  # fmt: skip

    def drug(self, name: str, hours: float, route: str = "IV", *, kind: str = "MAIN", early: bool = False) -> Person:
        """A drug ordered; ``early``: before the admission, whose number its row has not."""
        count = len(self.rows.get("prescriptions", ()))
        return self._add("prescriptions", hadm_id=None if early else self.stay[0], drug=name,
                         pharmacy_id=self.number * 1000 + count, starttime=at(hours),
                         stoptime=at(hours + 24), drug_type=kind, route=route)  # fmt: skip

    def culture(self, hours: float, *, day_only: bool = False, specimen: str = "BLOOD CULTURE") -> Person:
        """A culture taken, of which a result is in a day later."""
        count = len(self.rows.get("microbiologyevents", ()))
        day = at(hours).replace(hour=0, minute=0)
        return self._add("microbiologyevents", hadm_id=self.stay[0], microevent_id=self.number * 1000 + count,
                         micro_specimen_id=self.number * 1000 + count, chartdate=day,
                         charttime=None if day_only else at(hours), spec_itemid=70012, spec_type_desc=specimen,
                         test_seq=1, storedate=day, storetime=at(hours + 24), test_itemid=90201,
                         test_name="Blood Culture, Routine")  # fmt: skip

    def _icu(self, table: str, **row: Any) -> Person:
        return self._add(table, hadm_id=self.stay[0], stay_id=self.stay[1], **row)

    def _add(self, table: str, **row: Any) -> Person:
        self.rows.setdefault(table, []).append({"subject_id": self.number, **row})
        return self


@dataclass
class Ward:
    """People by name, and after ``open`` their charts."""

    people: dict[str, Person] = field(default_factory=dict)

    def person(self, name: str) -> Person:
        """A new person, admitted."""
        return self.newcomer(name).admit()

    def newcomer(self, name: str) -> Person:
        """A new person, not yet admitted."""
        return self.people.setdefault(name, Person(number=len(self.people) + 1))

    def open(self, folder: Path) -> Charts:
        """Write everybody's rows and take them in."""
        tables: dict[str, list[Mapping[str, Any]]] = {}
        for person in self.people.values():
            patient = {"subject_id": person.number, "gender": "F", "anchor_age": 60, "anchor_year": 2150,
                       "anchor_year_group": "2014 - 2016"}  # fmt: skip
            tables.setdefault("patients", []).append(patient)
            for table, rows in person.rows.items():
                tables.setdefault(table, []).extend(rows)
        raw = write_folder(folder / "raw", tables)
        names = "itemid,label,fluid,category\n50912,Creatinine,Blood,Chemistry\n"
        (raw / "hosp" / "d_labitems.csv").write_text(names, encoding="utf-8")
        ingest("mimiciv", raw, folder / "store")
        return Charts(store=Store.open(folder / "store"), numbers={n: p.number for n, p in self.people.items()})


@dataclass(frozen=True)
class Charts:
    """The charts of a ward's people."""

    store: Store
    numbers: Mapping[str, int]

    def of(self, name: str, hours: float) -> Chart:
        """Somebody's chart so many hours after noon."""
        return self.store.chart(self.numbers[name], at(hours))
