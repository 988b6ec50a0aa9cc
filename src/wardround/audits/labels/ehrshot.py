"""EHRSHOT's answers from MIMIC-IV's raw files: every question there could be, with its label.

Thresholds are in MIMIC's units (g/dL, K/uL, mEq/L, mg/dL).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property

from wardround.audits.labels.raw_files import RawFiles, RawStay, last_second, when

Answer = tuple[int, datetime, str]
"""Subject, moment of the question, class."""
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
ITEMS: Mapping[str, frozenset[str]] = {
    "lab_anemia": frozenset({"51222", "50811", "51640", "51645"}),
    "lab_thrombocytopenia": frozenset({"51265", "51704"}),
    "lab_hyperkalemia": frozenset({"50971", "50822", "52610", "52452"}),
    "lab_hypoglycemia": frozenset({"50931", "50809", "52569", "52027"}),
    "lab_hyponatremia": frozenset({"50983", "50824", "52623", "52455"}),
}
_STEPS: Mapping[str, Callable[[float], tuple[bool, bool, bool]]] = {
    "lab_anemia": lambda value: (value < 7, value < 11, value < 12),
    "lab_thrombocytopenia": lambda value: (value < 50, value < 100, value < 150),
    "lab_hyperkalemia": lambda value: (value > 7, value > 6, value > 5.5),
    "lab_hypoglycemia": lambda value: (value < 54, value < 63, value <= 70.2),
    "lab_hyponatremia": lambda value: (value < 125, value < 130, value <= 135),
}
"""Severe, moderate, mild."""
CODES: Mapping[str, Callable[[str, str], bool]] = {
    "new_hypertension": lambda code, version: code.startswith("401" if version == "9" else "I10"),
    "new_hyperlipidemia": lambda code, version: (
        code[:4] in {"2720", "2721", "2722", "2723", "2724"}
        if version == "9"
        else code[:3] == "E78" and code[3:4] in set("012345")
    ),
    "new_acutemi": lambda code, version: code.startswith("410") if version == "9" else code[:3] in {"I21", "I22"},
    "new_pancan": lambda code, version: code.startswith("157" if version == "9" else "C25"),
    "new_celiac": lambda code, version: code.startswith("5790" if version == "9" else "K900"),
    "new_lupus": lambda code, version: code.startswith("7100" if version == "9" else "M32"),
}


class RawQuestions:
    """Every question of every task."""

    def __init__(self, raw: RawFiles) -> None:
        self._raw = raw

    def answers(self, task: str) -> Iterator[Answer]:
        """Yield every question of a task and its answer. KeyError: there is no second path for the task."""
        if task in ITEMS:
            return iter(self._results[task])
        return _diagnosis(self._raw, task) if task in CODES else _OF_STAYS[task](self._raw)

    @cached_property
    def _results(self) -> Mapping[str, list[Answer]]:
        """All laboratory tasks in one reading of the largest file."""
        tasks = {item: task for task, items in ITEMS.items() for item in items}
        found: dict[str, list[Answer]] = {task: [] for task in ITEMS}
        for row in self._raw.rows_of("hosp/labevents"):
            task = tasks.get(row["itemid"])
            if task is not None and row["valuenum"]:
                subject, taken = int(row["subject_id"]), when(row["charttime"])
                if taken > self._raw.begins[subject]:
                    found[task].append((subject, taken - MINUTE, _severity(task, float(row["valuenum"]))))
        return found


def _length_of_stay(raw: RawFiles) -> Iterator[Answer]:
    for subject, stay in _overnight(raw):
        yield subject, last_second(stay.start.date()), str(int(stay.over - stay.start >= 7 * DAY))


def _overnight(raw: RawFiles) -> Iterator[tuple[int, RawStay]]:
    """Stays that go on after the day of admission."""
    for subject, stays in raw.stays.items():
        yield from ((subject, stay) for stay in stays if stay.over.date() > stay.start.date())


def _intensive_care(raw: RawFiles) -> Iterator[Answer]:
    spans: dict[int, list[tuple[datetime, datetime]]] = defaultdict(list)
    for row in raw.rows_if_there("icu/icustays"):
        left = when(row["outtime"]) if row["outtime"] else datetime.max
        spans[int(row["subject_id"])].append((when(row["intime"]), left))
    for subject, stay in _overnight(raw):
        inside = [a for a, b in spans[subject] if a <= stay.over and (a >= stay.start or b > stay.start)]
        if not any(begin.date() <= stay.start.date() for begin in inside):
            yield subject, last_second(stay.start.date()), str(int(bool(inside)))


def _readmission(raw: RawFiles) -> Iterator[Answer]:
    for subject, stays in raw.stays.items():
        for stay in stays:
            asked = last_second(stay.over.date())
            others = [one for one in stays if one is not stay]
            back = any(stay.over <= one.start <= asked or one.start <= asked < one.over for one in others)
            if not back and not raw.is_dead(subject, asked):
                again = any(asked < one.start <= asked + 30 * DAY for one in others)
                yield subject, asked, str(int(again))


def _diagnosis(raw: RawFiles, task: str) -> Iterator[Answer]:
    left = {stay.hadm_id: stay.discharged for stays in raw.stays.values() for stay in stays}
    first: dict[int, datetime] = {}
    for row in raw.rows_of("hosp/diagnoses_icd"):
        if CODES[task](row["icd_code"].strip(), row["icd_version"]) and row["hadm_id"] in left:
            subject, found = int(row["subject_id"]), left[row["hadm_id"]]
            first[subject] = min(first.get(subject, found), found)
    for subject, stays in raw.stays.items():
        found = first.get(subject, datetime.max)
        for asked in {last_second(stay.over.date()) for stay in stays}:
            if found > asked and not raw.is_dead(subject, asked):
                yield subject, asked, str(int(asked + DAY <= found <= asked + 365 * DAY))


def _severity(task: str, value: float) -> str:
    return next((str(3 - place) for place, holds in enumerate(_STEPS[task](value)) if holds), "0")


_OF_STAYS: Mapping[str, Callable[[RawFiles], Iterator[Answer]]] = {
    "guo_los": _length_of_stay,
    "guo_icu": _intensive_care,
    "guo_readmission": _readmission,
}
TASKS = (*_OF_STAYS, *ITEMS, *CODES)
"""The tasks that have a second path: all but the radiographs, whose labels are a file's."""
