"""A question in parts: what a method may know of a task besides its prompt. Never its answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

LabelKind = Literal["open", "binary", "multiclass", "multilabel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One task as of one moment (EHR-RAG, table 5).

    ``factual_query`` seeks evidence for the outcome, ``counterfactual_query`` for its absence. ``label_values`` are the
    answers there are, the negative one first, with their meanings in ``label_names``; none of either: an open answer.
    ``several`` labels may hold at once where the task is multilabel.
    """

    name: str
    title: str
    category: str
    description: str
    factual_query: str
    counterfactual_query: str
    prediction_time: datetime
    label_values: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    instructions: str = ""
    several: bool = False

    def __post_init__(self) -> None:
        if len(self.label_values) != len(self.label_names):
            raise ValueError(f"{self.name}: {len(self.label_values)} label values, {len(self.label_names)} names")

    @property
    def label_kind(self) -> LabelKind:
        """What sort of answer is asked for."""
        if not self.label_values:
            return "open"
        if self.several:
            return "multilabel"
        return "binary" if len(self.label_values) == 2 else "multiclass"
