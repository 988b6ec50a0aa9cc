"""Every question of a benchmark answered a second time from MIMIC-IV's raw files, and where the two answers differ.

AgentEHR's and EHRSHOT's answers are worked out here, ClinSeek-Bench's in ``clinseek.py``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Protocol

from wardround.audits.labels.clinseek import DECISION_TASKS, RISK_TASKS, RawEvents, RawRisks
from wardround.audits.labels.raw_files import ADDED_LATER, MINUTE, Named, RawFiles, RawStay, Row, last_second, when
from wardround.clinical.codes import load_ccs, normalise_drug_name
from wardround.core import Progress, Reporter, silent

DAY = timedelta(days=1)


class RawAnswers:
    """What happens to a subject next, or is written down of a stay."""

    def __init__(self, raw: RawFiles) -> None:
        self._raw = raw

    def answer(self, task: str, subject: int, asked: datetime) -> frozenset[str]:
        """Return the names that are right. KeyError: there is no second path for the task."""
        return frozenset(" ".join(name.split()).casefold() for name in NAME_TASKS[task](self, subject, asked))

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


NAME_TASKS: Mapping[str, Callable[[RawAnswers, int, datetime], Iterable[str]]] = {
    "transfers": RawAnswers.transfers,
    "labevents": RawAnswers.labevents,
    "microbiology": RawAnswers.microbiology,
    "prescriptions": RawAnswers.prescriptions,
    "diagnoses": RawAnswers.diagnoses,
    "procedures": RawAnswers.procedures,
}


# EHRSHOT's answers from MIMIC-IV's raw files: every question there could be, with its label.
#
# Thresholds are in MIMIC's units (g/dL, K/uL, mEq/L, mg/dL).


Answer = tuple[int, datetime, str]
"""Subject, moment of the question, class."""
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
CLASS_TASKS = (*_OF_STAYS, *ITEMS, *CODES)
"""The tasks that have a second path: all but the radiographs, whose labels are a file's."""


# Both answers of every question, and where they differ.

_SHOWN = 5
_CHANCE = 0.01


class Labelled(Protocol):
    """What is needed to know of a sample."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def subject_id(self) -> int: ...
    @property
    def moment(self) -> datetime: ...
    @property
    def target(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLabels:
    """One task: how many samples, of how many the second answer is another; None where there is no second path.
    ``never``: answers that no sample has, though so many of the raw files' do that it can hardly be chance."""

    task: str
    samples: int
    differing: tuple[str, ...] | None
    never: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Say it in a line, the first differences below it."""
        if self.differing is None:
            return f"{self.task}: {self.samples:,} samples, no second path"
        shown = "".join(f"\n    {line}" for line in self.differing[:_SHOWN])
        never = "".join(f"\n    {line}" for line in self.never)
        return f"{self.task}: {self.samples:,} samples, {len(self.differing):,} differ{shown}{never}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReport:
    """The check of a benchmark's labels."""

    tasks: tuple[TaskLabels, ...]

    @property
    def clean(self) -> bool:
        """Whether no label differs, no answer is never asked for, and there was one to compare."""
        compared = [task for task in self.tasks if task.differing is not None]
        return bool(compared) and not any(task.differing or task.never for task in compared)

    def as_text(self) -> str:
        """Say it in lines for people."""
        compared = [task for task in self.tasks if task.differing is not None]
        samples = sum(task.samples for task in compared)
        differing = sum(len(task.differing or ()) for task in compared)
        whole = f"labels by two paths: {samples:,} samples of {len(compared)} tasks, {differing:,} differences"
        return "\n".join([*(task.as_text() for task in self.tasks), whole])


class _SecondPaths:
    """Every second path there is, over one reading of the files."""

    def __init__(self, files: RawFiles, user_codes: Path | None) -> None:
        self._names, self._classes = RawAnswers(files), RawQuestions(files)
        self._events, self._risks = RawEvents(files, user_codes), RawRisks(files)

    def differing(self, task: str, asked: Sequence[Labelled]) -> tuple[str, ...] | None:
        """Compare the samples of a task; None where there is no second path."""
        if task in NAME_TASKS:
            return tuple(filter(None, (_other_names(sample, self._names) for sample in asked)))
        if task in DECISION_TASKS:
            return tuple(filter(None, (_other_names(sample, self._events) for sample in asked)))
        if task in RISK_TASKS:
            return tuple(filter(None, (_other_risk(sample, self._risks) for sample in asked)))
        return _other_classes(task, asked, self._classes) if task in CLASS_TASKS else None

    def never(self, task: str, asked: Sequence[Labelled]) -> tuple[str, ...]:
        """Say which answers no sample has, though by the raw files that is less likely than one in a hundred."""
        again = self._events if task in DECISION_TASKS else self._risks if task in RISK_TASKS else None
        expected = Counter[str]() if again is None else again.expected(task)
        found = {name for sample in asked for name in sample.target}
        shares = {name: count / expected.total() for name, count in sorted(expected.items()) if name not in found}
        return tuple(
            f"{name!r} is the answer to none of {len(asked):,} samples, and to {share:.0%} of what the raw files hold"
            for name, share in shares.items()
            if (1 - share) ** len(asked) < _CHANCE
        )


def check_labels(
    samples: Iterable[Labelled], *raw: Path, user_codes: Path | None = None, report: Reporter = silent
) -> LabelReport:
    """Answer every sample again from raw files in MIMIC-IV's form. The benchmark is one under the clocks ``known_at``;
    ``user_codes``: where the drug names lie that it was built with. UserError: a file is not there."""
    by_task: dict[str, list[Labelled]] = defaultdict(list)
    for sample in samples:
        by_task[sample.task].append(sample)
    paths = _SecondPaths(RawFiles(*raw), user_codes)
    found = []
    for done, (task, asked) in enumerate(sorted(by_task.items()), start=1):
        differing, never = paths.differing(task, asked), paths.never(task, asked)
        found.append(TaskLabels(task=task, samples=len(asked), differing=differing, never=never))
        report(Progress(label="labels", done=done, total=len(by_task), unit="tasks"))
    return LabelReport(tasks=tuple(found))


def _other_names(sample: Labelled, again: RawAnswers | RawEvents) -> str | None:
    second = again.answer(sample.task, sample.subject_id, sample.moment)
    first = {" ".join(name.split()).casefold() for name in sample.target}
    if first == second - {""}:
        return None
    return f"{sample.id}: only ours {sorted(first - second)}, only the second {sorted(second - first - {''})}"


def _other_risk(sample: Labelled, again: RawRisks) -> str | None:
    second = again.answers(sample.task, sample.subject_id, sample.moment)
    if sample.target[0] in second:
        return None
    return f"{sample.id}: ours {sample.target[0]!r}, the second {sorted(second) or 'asks nothing here'}"


def _other_classes(task: str, asked: Sequence[Labelled], again: RawQuestions) -> tuple[str, ...]:
    """Several results of one minute are several questions: each label is used up by one of them."""
    second: dict[tuple[int, datetime], list[str]] = defaultdict(list)
    for subject, moment, label in again.answers(task):
        second[subject, moment].append(label)
    lines = []
    for sample in asked:
        there = second[sample.subject_id, sample.moment]
        if sample.target[0] in there:
            there.remove(sample.target[0])
        else:
            lines.append(f"{sample.id}: ours {sample.target[0]!r}, the second {there or 'asks nothing here'}")
    return tuple(lines)
