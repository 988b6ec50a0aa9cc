"""AgentEHR's answers from MIMIC-IV's raw files, under the clocks of what was known: what is right at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property

from wardround.audits.labels.raw_files import RawFiles, Row, when
from wardround.clinical.codes import load_ccs, normalise_drug_name

MINUTE = timedelta(minutes=1)
ADDED_LATER = (
    "bottle gram stain",
    "virus identification",
    "confirmation",
    "confirmatory",
    "susceptibility",
    "sensitivities",
    "serotyping",
    "serogrouping",
    "genotyping",
    "typing,",
    "identification of",
    "quantitative rpr",
    "treponemal antibody",
)
"""Tests that the laboratory adds because of a result: nobody ordered them at the draw."""
Named = tuple[datetime, str]


class RawAnswers:
    """What happens to a subject next, or is written down of a stay."""

    def __init__(self, raw: RawFiles) -> None:
        self._raw = raw

    def answer(self, task: str, subject: int, asked: datetime) -> frozenset[str]:
        """Return the names that are right. KeyError: there is no second path for the task."""
        return frozenset(_spelt(name) for name in TASKS[task](self, subject, asked))

    def transfers(self, subject: int, asked: datetime) -> Iterable[str]:
        """The unit of the next minute."""
        return [unit for moment, unit in self._moves[subject] if moment == asked + MINUTE]

    def labevents(self, subject: int, asked: datetime) -> Iterable[str]:
        """The tests of the draw that the next minute begins."""
        return _session(self._draws[subject], asked + MINUTE)

    def microbiology(self, subject: int, asked: datetime) -> Iterable[str]:
        """The cultures that the next minute begins."""
        return _session(self._cultures[subject], asked + MINUTE)

    def prescriptions(self, subject: int, asked: datetime) -> Iterable[str]:
        """The drugs of the orders that the next minute begins."""
        return _session(self._orders[subject], asked + MINUTE)

    def diagnoses(self, subject: int, asked: datetime) -> Iterable[str]:
        """The categories of the stay that ends in a minute."""
        ending = [stay.hadm_id for stay in self._raw.stays[subject] if stay.discharged == asked + MINUTE]
        return [name for hadm_id in ending for name in self._coded[hadm_id]]

    def procedures(self, subject: int, asked: datetime) -> Iterable[str]:
        """The categories of the day that begins, or of the rest of the day of admission."""
        for stay in self._raw.stays[subject]:
            begins = max(stay.start, datetime.combine(asked.date(), datetime.min.time()))
            if begins == asked:
                yield from self._done[stay.hadm_id, str(asked.date())]

    @cached_property
    def _moves(self) -> Mapping[int, list[Named]]:
        def moved(row: Row) -> bool:
            return row["eventtype"] in ("admit", "transfer") and row["careunit"].strip().upper() != "UNKNOWN"

        rows = (row for row in self._raw.rows_of("hosp/transfers") if moved(row))
        return _by_subject((row, row["intime"], row["careunit"]) for row in rows)

    @cached_property
    def _draws(self) -> Mapping[int, list[Named]]:
        names = {row["itemid"]: row["label"] for row in self._raw.rows_of("hosp/d_labitems")}
        rows = self._raw.rows_of("hosp/labevents")
        return _by_subject((row, row["charttime"], names.get(row["itemid"], "")) for row in rows)

    @cached_property
    def _cultures(self) -> Mapping[int, list[Named]]:
        rows = self._raw.rows_of("hosp/microbiologyevents")
        asked_for = (row for row in rows if not any(word in row["test_name"].casefold() for word in ADDED_LATER))
        return _by_subject((row, row["charttime"], row["test_name"]) for row in asked_for)

    @cached_property
    def _orders(self) -> Mapping[int, list[Named]]:
        entered = {row["pharmacy_id"]: row["entertime"] for row in self._raw.rows_of("hosp/pharmacy")}
        left = {stay.hadm_id: str(stay.discharged) for stays in self._raw.stays.values() for stay in stays}

        def ordered(row: Row) -> str:
            return entered.get(row["pharmacy_id"], "") or row["starttime"] or left.get(row["hadm_id"], "")

        rows = self._raw.rows_of("hosp/prescriptions")
        return _by_subject((row, ordered(row), normalise_drug_name(row["drug"]) or "") for row in rows)

    @cached_property
    def _coded(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for row, name in self._categories("hosp/diagnoses_icd", "diagnoses"):
            found[row["hadm_id"]].append(name)
        return found

    @cached_property
    def _done(self) -> Mapping[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for row, name in self._categories("hosp/procedures_icd", "procedures"):
            found[row["hadm_id"], row["chartdate"][:10]].append(name)
        return found

    def _categories(self, file: str, kind: str) -> Iterator[tuple[Row, str]]:
        ccs = load_ccs("procedures" if kind == "procedures" else "diagnoses")
        for row in self._raw.rows_of(file):
            category = ccs.category(row["icd_code"].strip(), row["icd_version"])
            if category is not None:
                yield row, category.label


def _by_subject(rows: Iterable[tuple[Row, str, str]]) -> Mapping[int, list[Named]]:
    """Order what happened by time; what has no time has no place, what has no name is a moment all the same."""
    found: dict[int, list[Named]] = defaultdict(list)
    for row, time, name in rows:
        if time:
            found[int(row["subject_id"])].append((when(time), name))
    for events in found.values():
        events.sort()
    return found


def _session(events: Iterable[Named], start: datetime) -> Iterator[str]:
    """Yield the names from a moment on, until nothing happens for a minute."""
    last = start
    for moment, name in events:
        if moment < start:
            continue
        if moment - last >= MINUTE:
            return
        last = moment
        yield name


def _spelt(name: str) -> str:
    return " ".join(name.split()).casefold()


TASKS: Mapping[str, Callable[[RawAnswers, int, datetime], Iterable[str]]] = {
    "transfers": RawAnswers.transfers,
    "labevents": RawAnswers.labevents,
    "microbiology": RawAnswers.microbiology,
    "prescriptions": RawAnswers.prescriptions,
    "diagnoses": RawAnswers.diagnoses,
    "procedures": RawAnswers.procedures,
}
