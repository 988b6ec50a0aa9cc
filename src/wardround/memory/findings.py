"""What is known of one patient, as far as the limits of an experience can be checked against it: age, sex, the latest
value of each measurement, and what is there, denied, possible or past.

Not being named is no evidence of absence: only what is denied is absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isnan
from typing import Any, Protocol

from wardround.memory.places import places_of
from wardround.vocabulary import (
    KnownFindings,
    Quantity,
    Sex,
    Status,
    TextReading,
    Truth,
    charted_allergies,
    clinical_name,
    find_measurement,
    read_person,
    read_text,
    told_before,
    words_of,
)

_AROUND_A_NAME = frozenset(
    {"serum", "plasma", "blood", "total", "level", "value", "latest", "current", "count", "last"}
)
_ALSO_MEASURED = {"fever": "temperature"}
_STAYS = frozenset({"admission", "encounter", "emergency visit"})
_MEASURED = frozenset({"lab", "vital sign", "vital signs", "charted value", "output", "intake and output"})
_OF_A_STAY = frozenset(
    {"diagnosis", "procedure", "prescription", "medication", "medication given", "medication dispensed", "infusion",
     "pharmacy order", "dispense", "order", "treatment", "diagnosis list", "billing code", "care plan", "device"}
)  # fmt: skip
"""Kinds of rows that say how it was in their own stay: in a later one they are the past."""
_BEFORE_STAY = timedelta(hours=24)
"""What was measured so long before an admission, in the emergency room, belongs to it, as in rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One patient as of a moment. ``days``: the age where it is told in days; ``measured``: by clinical name the
    latest value; ``places``: the service and the unit, by the record's own names."""

    age: int | None = None
    days: float | None = None
    sex: Sex | None = None
    known: KnownFindings = field(default_factory=KnownFindings)
    measured: Mapping[str, Quantity] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def statuses(self, name: str) -> frozenset[Status]:
        """Return every way in which something is told of the patient; empty where nothing names it."""
        return self.known.statuses(name)

    def allergic_to(self, substance: str) -> Truth:
        """Say whether an allergy to a substance or class is recorded."""
        return self.known.allergic_to(substance)

    def latest(self, name: str) -> Quantity | None:
        """Return the latest value of what is measured under a name."""
        return self.measured.get(measurement_name(name))


class FindingsChart(Protocol):
    """A chart as it is needed here; ``records.Chart`` is one."""

    @property
    def age(self) -> int | None: ...
    def events(self) -> Iterator[Any]: ...


def findings_of_chart(chart: FindingsChart) -> Findings:
    """Read a chart: nothing that it does not show is in it. What an earlier stay says of itself is the past."""
    events = list(chart.events())
    began = max((event.time for event in events if event.kind in _STAYS and event.time is not None), default=None)
    measured: dict[str, Quantity] = {}
    known = KnownFindings()
    sex: Sex | None = None
    for event in events:
        text = event.text_value or ""
        is_number = event.numeric_value is not None and not isnan(event.numeric_value)
        if is_number and not _is_of_earlier_stay(event, began):
            measured[measurement_name(event.description)] = Quantity(value=event.numeric_value, unit=event.unit or None)
        if event.kind == "person":
            sex = sex or read_person(f"sex: {text}" if len(text) < 2 else text).sex
        elif event.kind == "allergy":
            allergies = charted_allergies(f"{event.description} {text}".strip())
            known.add(TextReading(allergies=allergies))
        elif not is_number or not (event.kind in _MEASURED or find_measurement(event.description) is not None):
            said = f"{event.description}: {text}" if text and "\n" not in text else text or event.description
            reading = read_text(said if not is_number else event.description)
            known.add(told_before(reading) if _is_past(event, began) else reading)
    return Findings(age=chart.age, sex=sex, known=known, measured=measured, places=places_of(events))


def findings_of_text(text: str) -> Findings:
    """Read a case that is told in words, as a question stem or a report is."""
    reading, person = read_text(text), read_person(text)
    known = KnownFindings()
    known.add(reading)
    measured = {
        measurement_name(" ".join(one.words) if one.concept is None else one.concept.name): one.quantity
        for one in reading.findings
        if one.quantity is not None and one.status == "present"
    }
    return Findings(age=person.age, days=person.days, sex=person.sex, known=known, measured=measured)


def measurement_name(text: str) -> str:
    """Return the clinical name of a measurement, without the words that laboratories add.

    >>> measurement_name("serum potassium level"), measurement_name("SBP")
    ('potassium', 'systolic blood pressure')
    """
    if find_measurement(text) is None:
        text = _ALSO_MEASURED.get(text, text.rstrip("+-"))
        shorter = " ".join(word for word in words_of(text) if word not in _AROUND_A_NAME)
        return clinical_name(shorter) if shorter else clinical_name(text)
    return clinical_name(text)


def _is_of_earlier_stay(event: Any, began: datetime | None) -> bool:
    """Whether a value was measured before the newest stay, and the day before it."""
    return began is not None and event.time is not None and event.time < began - _BEFORE_STAY


def _is_past(event: Any, began: datetime | None) -> bool:
    return event.kind in _OF_A_STAY and began is not None and event.time is not None and event.time < began
