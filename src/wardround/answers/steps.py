"""Answers that are actions at many steps of one stay: at each, names of each type, the likeliest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from wardround.answers.kind import AnswerKind
from wardround.core import PromptFile, load_prompt

SEPARATOR = "|"
EVERY_STEP = "*"
_DIGITS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAction:
    """One action at one step, as answers and targets spell it: ``00003|LABS|Lactate``; a step ``*`` is every step."""

    step: int | None
    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> StepAction:
        """Inverse of ``str``. Only the name may hold a separator."""
        step, kind, name = text.split(SEPARATOR, 2)
        return cls(step=None if step == EVERY_STEP else int(step), kind=kind, name=name)

    def __str__(self) -> str:
        step = EVERY_STEP if self.step is None else f"{self.step:0{_DIGITS}d}"
        return SEPARATOR.join((step, self.kind, self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepActions(AnswerKind):
    """What is done next, asked after every bundle of a stay. ``most``: names of a type that count at a step, the
    paper's five (section 5)."""

    name: ClassVar[str] = "steps"
    most: int = 5

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.answers", "steps")

    @property
    def by_steps(self) -> bool:
        return True

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        """No single text answers all steps."""
        return None

    def constant(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The commonest action of each type, at every step."""
        return _at_every_step(targets, 1)

    def prior(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The commonest actions of each type, at every step: what needs no reading of the patient."""
        return _at_every_step(targets, self.most)


def _at_every_step(targets: Iterable[Iterable[str]], most: int) -> tuple[str, ...]:
    counts: dict[str, Counter[str]] = {}
    for target in targets:
        for action in map(StepAction.parse, target):
            counts.setdefault(action.kind, Counter())[action.name] += 1
    return tuple(
        str(StepAction(step=None, kind=kind, name=name))
        for kind, counted in sorted(counts.items())
        for name, _ in sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:most]
    )
