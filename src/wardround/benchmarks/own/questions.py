"""What every task of a user's own comes down to: moments at which a subject is asked about, and labels of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from wardround.benchmarks.task import Task
from wardround.records import Chart, Policy, Store

END_OF_TIME = datetime(9999, 12, 31)
"""Labels are read from a chart as of then: it shows all that ever became known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Who is asked about, and as of when."""

    subject_id: int
    prediction_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the answer is, when it happened and which rows say so; of an answer that nothing says (a no) neither."""

    target: tuple[str, ...]
    event_time: datetime | None = None
    row_ids: tuple[str, ...] = ()


class AskingRule(Protocol):
    """Says when a task is asked. It may look at what a chart shows at that moment and at nothing else."""

    def moments(self, store: Store, policy: Policy, dropped: Counter[str]) -> Iterator[Moment]:
        """Yield the moments, subject by subject, in order; count by its reason what is not asked."""

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""


class Labelling(Protocol):
    """Says what the answer at a moment is. It may see the whole record of the subject, and the future most of all."""

    def label(self, moment: Moment, future: Chart) -> Label | None:
        """Return the label, None where there is none. UserError: it cannot be worked out at all."""

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTask:
    """A task with the two halves that must not know of each other: when it is asked, and how it is labelled."""

    task: Task
    asked: AskingRule
    labelling: Labelling
    sources: Sequence[tuple[str, str]] = ()
    """The files it comes from, with their hashes."""
    made_of: Mapping[str, Any] = field(default_factory=dict)
    """The file and what was said with it, for reading it again; empty for a plug-in's."""
