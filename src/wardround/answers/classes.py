"""Answers that are one of a few declared classes, or several of them at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from wardround.answers.kind import AnswerKind, View, ranked_names
from wardround.answers.label_phrases import Labels
from wardround.answers.label_reading import read_labels, settle_labels
from wardround.codes import LabelSet
from wardround.core import PromptFile, load_prompt

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
        return load_prompt("wardround.answers", "classes")

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
