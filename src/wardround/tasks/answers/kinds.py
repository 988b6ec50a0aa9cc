"""The answer kinds: candidates, classes, labels, options, steps, judged text; and their registry."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from wardround.clinical.codes import LabelSet
from wardround.core import PromptFile, Registry, UserError, load_prompt, without_thinking
from wardround.tasks.answers.kind import AnswerKind, View, ranked_names
from wardround.tasks.answers.reading import Labels, parse_answer, read_labels, settle_labels

# Answers that are names from a candidate table, as many as hold.


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates(AnswerKind):
    """Names from a candidate table. ``tables``: its name, then those that stand in where it cannot be built.

    ``exactly_one``: one name is right, so the usual number of names is not stated.
    """

    name: ClassVar[str] = "candidates"
    tables: tuple[str, ...]
    exactly_one: bool = False

    def __post_init__(self) -> None:
        if not self.tables:
            raise ValueError("answers of the kind 'candidates' need the name of a candidate table")

    @property
    def spaces(self) -> tuple[str, ...]:
        return self.tables

    @property
    def short(self) -> str:
        return self.tables[0]

    @property
    def loss_of_an_extra_name(self) -> bool:
        return not self.exactly_one

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.tasks.answers", "candidates")

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        return parse_answer(text)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(**{**body, "tables": tuple(body["tables"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class CareUnits(Candidates):
    """Care units from a candidate table."""

    name: ClassVar[str] = "care-units"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCandidates(Candidates):
    """Names from a candidate table, of which the question itself lists those in most use: one who has no tools can
    answer it too. ``shown``: how many are listed."""

    name: ClassVar[str] = "listed-candidates"
    shown: int = 100

    @property
    def listed(self) -> int:
        return self.shown

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.tasks.answers", "listed_candidates")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedServices(ListedCandidates):
    """Hospital services by MIMIC's codes."""

    name: ClassVar[str] = "listed-services"


# Answers that are one of a few declared classes, or several of them at once.


AnswerClass = tuple[str, str]
"""A label value and what it means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes(AnswerKind):
    """What both kinds share. ``classes`` are the label values, the negative one first, with their meanings."""

    classes: tuple[AnswerClass, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len({value for value, _ in self.classes}) < len(self.classes):
            raise ValueError(f"answers of the kind {self.name!r} need two classes or more, each with its own value")

    @property
    def label_values(self) -> tuple[str, ...]:
        return tuple(value for value, _ in self.classes)

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.classes)

    @property
    @abstractmethod
    def several(self) -> bool: ...

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.tasks.answers", "classes")

    @property
    def schema(self) -> Mapping[str, Any]:
        """A list of label values."""
        most = {} if self.several else {"maxItems": 1}
        label = {"type": "string", "enum": list(self.label_values)}
        return {"type": "array", "items": label, "minItems": 1, **most}

    def labels(self, name: str, space: LabelSet | None) -> LabelSet:
        """A class may be answered by its value or by its meaning."""
        return LabelSet(name=name, labels=self.label_values, aliases={name: value for value, name in self.classes})

    def problem_of(self, target: Collection[str]) -> str | None:
        unknown = sorted(set(target) - set(self.label_values))
        if unknown:
            return f"{', '.join(unknown)} is none of its classes {', '.join(self.label_values)}"
        return None if target and (self.several or len(target) == 1) else f"{len(target)} classes hold"

    def constant(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The negative class."""
        return self.label_values[:1]

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        return read_labels(text, self._labels(about), whole=whole)

    def settle(self, given: Sequence[str], *, about: str = "") -> tuple[str, ...] | None:
        return settle_labels(given, self._labels(about))

    def _labels(self, about: str) -> Labels:
        return Labels(values=self.label_values, names=self.label_names, several=self.several, about=about)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        classes = tuple((str(value), str(name)) for value, name in body["classes"])
        return cls(**{**body, "classes": classes})


@dataclass(frozen=True, slots=True, kw_only=True)
class OneClass(Classes):
    """Exactly one class holds."""

    name: ClassVar[str] = "one-class"

    @property
    def several(self) -> bool:
        return False

    def prior(self, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The commonest class of training."""
        return ranked_names(targets)[:1]

    @property
    def short(self) -> str:
        return "classes " + " ".join(self.label_values)

    @property
    def views(self) -> tuple[View, ...]:
        """The task as it is; of more than two classes also the first against the rest, as EHRSHOT does with results."""
        whole = View(name="classes", short="", classes=self.label_values, class_names=self.label_names)
        if len(self.classes) == 2:
            return (whole,)
        first = self.label_names[0]
        rest = frozenset(self.label_values[1:])
        names = (first, f"not {first}")
        return whole, View(name="binary", short="binary", classes=("0", "1"), class_names=names, positive=rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralClasses(Classes):
    """Several classes may hold at once; the first says that none of the others does."""

    name: ClassVar[str] = "several-classes"

    @property
    def several(self) -> bool:
        return True

    @property
    def short(self) -> str:
        return f"{len(self.classes) - 1} labels"

    @property
    def views(self) -> tuple[View, ...]:
        """A question per label."""
        return tuple(
            View(
                name=f"label {name}",
                short=name,
                classes=("0", "1"),
                class_names=("absent", "present"),
                positive=frozenset({value}),
            )
            for value, name in self.classes[1:]
        )


# Answers that are names of a closed vocabulary, which a question may show or keep to itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeLabels(AnswerKind):
    """Names from ``vocabulary``, any number of them. ``shown``: the question lists them."""

    name: ClassVar[str] = "free-labels"
    vocabulary: tuple[str, ...]
    shown: bool = True

    def __post_init__(self) -> None:
        if not self.vocabulary:
            raise ValueError("answers of the kind 'free-labels' need a vocabulary")

    @property
    def short(self) -> str:
        return f"{len(self.vocabulary)} names"

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.tasks.answers", "free_labels")

    def labels(self, name: str, space: LabelSet | None) -> LabelSet:
        return LabelSet(name=name, labels=self.vocabulary)

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        return parse_answer(text)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(**{**body, "vocabulary": tuple(body["vocabulary"])})


# Answers in words of one's own, which a judge compares with the right one.


_MARK = re.compile(r"^[ \t>*_#]*(?:final\s+)?answer[ \t*_]*[:：][ \t*_]*", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedText(AnswerKind):
    """One text: a diagnosis, a plan. ``wanted`` says in a few words what is to be given."""

    name: ClassVar[str] = "judged-text"
    wanted: str = "answer"

    @property
    def several(self) -> bool:
        return False

    @property
    def judged(self) -> bool:
        return True

    @property
    def short(self) -> str:
        return "judged text"

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.tasks.answers", "judged_text")

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        """What stands behind the last ``Answer:``; a reply without one gives no answer, nor does one that was cut off
        before it."""
        spoken = without_thinking(text or "")
        marks = list(_MARK.finditer(spoken))
        answer = spoken[marks[-1].end() :].strip() if marks else ""
        return (answer,) if answer else None


# Answers that are one of the options which a question lists: every question has its own.


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOption(AnswerKind):
    """Exactly one of the options that the question lists, by its letter.

    ``options`` are those of one question, letter and text; a task by itself has none, so that no table counts what the
    letters of different questions would have in common.
    """

    name: ClassVar[str] = "one-option"
    options: tuple[AnswerClass, ...] = ()

    def for_sample(self, facts: Mapping[str, Any]) -> OneOption:
        """The kind with the options of one question."""
        return replace(self, options=tuple((letter, text) for letter, text in facts["options"]))

    @property
    def label_values(self) -> tuple[str, ...]:
        return tuple(letter for letter, _ in self.options)

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(text for _, text in self.options)

    @property
    def several(self) -> bool:
        return False

    @property
    def short(self) -> str:
        return "an option"

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.tasks.answers", "options")

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """A list of one letter."""
        if not self.options:
            return None
        label = {"type": "string", "enum": list(self.label_values)}
        return {"type": "array", "items": label, "minItems": 1, "maxItems": 1}

    def labels(self, name: str, space: LabelSet | None) -> LabelSet:
        """The letters: what an option says is another thing in every question."""
        return LabelSet(name=name, labels=tuple(LETTERS))

    def problem_of(self, target: Sequence[str]) -> str | None:  # type: ignore[override]
        return None if len(target) == 1 and target[0] in LETTERS else f"{target!r} is not the letter of an option"

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        return read_labels(text, self._labels(about), whole=whole)

    def settle(self, given: Sequence[str], *, about: str = "") -> tuple[str, ...] | None:
        return settle_labels(given, self._labels(about))

    def _labels(self, about: str) -> Labels:
        return Labels(values=self.label_values, names=self.label_names, several=False, about=about)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(options=tuple((str(letter), str(text)) for letter, text in body.get("options", ())))


# Answers that are actions at many steps of one stay: at each, names of each type, the likeliest first.


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
    """The next actions after every bundle of a stay. ``most``: names of a type that count at a step, the
    paper's five (section 5)."""

    name: ClassVar[str] = "steps"
    most: int = 5

    @property
    def prompt(self) -> PromptFile:
        return load_prompt("wardround.tasks.answers", "steps")

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


# Answer kinds by their names: those of the house, and what a plug-in adds.


ANSWER_KINDS: Registry[type[AnswerKind]] = Registry("answers", one="answer kind", of=type)
"""Classes of answers; each has a scorer of the same name in ``wardround.tasks.scoring``."""

for _kind in (
    Candidates,
    CareUnits,
    ListedCandidates,
    ListedServices,
    OneClass,
    SeveralClasses,
    FreeLabels,
    OneOption,
    JudgedText,
    StepActions,
):
    ANSWER_KINDS.add(_kind.name, _kind)


def answer_kind(body: Mapping[str, Any]) -> AnswerKind:
    """Return the kind that a manifest or a task's file declares; UserError where it is none."""
    kind = ANSWER_KINDS.get(str(body.get("kind", "")))
    try:
        return kind.from_json({key: value for key, value in body.items() if key != "kind"})
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"answer of the kind {kind.name!r}: {error}") from error
