"""What goes into an episode and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from wardround.answers import AnswerKind, Candidates, Question
from wardround.core import Picture, Usage
from wardround.tools.grounding import Citation

Finish = Literal[
    "finish", "text", "length", "content_filter", "turn_limit", "step_limit", "time_limit", "budget", "error"
]


_NAMES = Candidates(tables=("candidates",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A task's own words. ``system`` is added to the agent's system prompt, ``user`` is the first user message, with
    ``pictures``.

    ``task`` is its name, by which memory tells the tasks apart; no model is shown it. ``question`` is the same task in
    parts, for methods that search with its queries and for reading a label out of a reply.
    """

    user: str
    system: str = ""
    task: str = ""
    pictures: tuple[Picture, ...] = ()
    question: Question | None = None

    @property
    def answers(self) -> AnswerKind:
        """What is answered with: names from a candidate table where the question says nothing else."""
        return _NAMES if self.question is None else self.question.answer

    @property
    def about(self) -> str:
        """The question's own words, empty where it is not known in parts."""
        return "" if self.question is None else self.question.about


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an episode may use.

    ``turns`` model calls that act. ``context_tokens`` hold schemas, prompt and reply of one call, of which
    ``reply_tokens`` are kept free for the reply. ``total_tokens`` (input and output of all calls) is unlimited if None,
    and so are the ``seconds`` of wall time. ``steps`` bound an episode of many steps, whose model calls are no turns.
    """

    turns: int = 100
    context_tokens: int = 64_000
    reply_tokens: int = 4096
    total_tokens: int | None = None
    seconds: float | None = None
    steps: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an episode ended.

    ``finish``: by the finish tool, by text without a call (``length``, ``content_filter``: a text that was cut off or
    withheld), at the turn limit, at the budget (an answer given in the forced last call still counts), at the limit of
    wall time, or by an endpoint's error. ``answer`` is None when there was none to read.
    ``citations`` are the environment's checks of the evidence. ``cost`` is in US dollars, None when no price is known.
    ``prefix_share`` is the part of all prompt tokens that repeats the start of the prompt before it.
    """

    answer: tuple[str, ...] | None
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    citations: tuple[Citation, ...] = ()
    finish: Finish
    turns: int
    model_calls: int
    usage: Usage
    cost: float | None
    seconds: float
    prefix_share: float | None = None
    forced: bool = False
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values for the log."""
        body = {name: getattr(self, name) for name in _PLAIN}
        return body | {
            "answer": None if self.answer is None else list(self.answer),
            "evidence": {answer: list(rows) for answer, rows in self.evidence.items()},
            "citations": [asdict(citation) for citation in self.citations],
            "usage": asdict(self.usage),
        }


_PLAIN = ("finish", "turns", "model_calls", "cost", "seconds", "prefix_share", "forced", "error")
