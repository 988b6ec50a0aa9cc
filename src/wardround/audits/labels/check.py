"""Every question of a benchmark answered a second time, and where the two answers differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from wardround.audits.labels.agentehr import TASKS as NAMES
from wardround.audits.labels.agentehr import RawAnswers
from wardround.audits.labels.clinseek import DECISION_TASKS as EVENTS
from wardround.audits.labels.clinseek import RISK_TASKS as RISKS
from wardround.audits.labels.clinseek import RawEvents, RawRisks
from wardround.audits.labels.ehrshot import TASKS as CLASSES
from wardround.audits.labels.ehrshot import RawQuestions
from wardround.audits.labels.raw_files import RawFiles
from wardround.core import Progress, Reporter, silent

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
        if task in NAMES:
            return tuple(filter(None, (_other_names(sample, self._names) for sample in asked)))
        if task in EVENTS:
            return tuple(filter(None, (_other_names(sample, self._events) for sample in asked)))
        if task in RISKS:
            return tuple(filter(None, (_other_risk(sample, self._risks) for sample in asked)))
        return _other_classes(task, asked, self._classes) if task in CLASSES else None

    def never(self, task: str, asked: Sequence[Labelled]) -> tuple[str, ...]:
        """Say which answers no sample has, though by the raw files that is less likely than one in a hundred."""
        again = self._events if task in EVENTS else self._risks if task in RISKS else None
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
