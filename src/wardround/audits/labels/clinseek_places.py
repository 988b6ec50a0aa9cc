"""Where ClinSeek-Bench may ask for a next event, and which answers it offers, read from its paper, not its tasks.

A decision is asked inside a stay of the right kind, about an event that follows within 24 hours and before that stay is
over. Kinds, hours and answers are written down here once more, so that a rule which drops an answer is seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property

from wardround.audits.labels.raw_files import RawFiles, when

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
