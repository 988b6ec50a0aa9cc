"""A plug-in in one file: answers that are a list, best guess first, and what such a list is worth.

    wardround bench build tasks --plugin examples/ranked_list.py --store store --out bench \\
        --task-file examples/ranked_labs.toml

A kind of answers says how it is explained in a prompt and read out of a reply; the scorer of the same name says what an
answer is worth. Whatever ``figures`` returns becomes columns of the report and tests of ``wardround compare``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log2
from typing import ClassVar

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import PromptFile, add_prompt, load_prompt
from wardround.tasks.answers import ANSWER_KINDS, AnswerKind, parse_answer
from wardround.tasks.scoring import SCORERS, Scorer

DEPTH = 5

add_prompt(
    __name__,
    "ranked_list",
    """{# version: 1 #}
{% if part == "task" %}
How to answer
1. Read the chart with the record tools. The patient and the time are fixed for this session.
2. Call `finish` once. Its `response` is a list of at most {{ kind.most }} names, spelt as in the record, best first.
{% elif part == "reading" %}
- The answer is a list of names, the most likely first; there are no candidate tables to search.
{% elif part == "finish" %}
- Call finish once, with response as a list of at most {{ kind.most }} names, the most likely first.
{% elif part == "line" %}
- Then write a last line that is `Answer: ` and a JSON list of at most {{ kind.most }} names, the most likely first.
{% endif %}
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedList(AnswerKind):
    """At most ``most`` names, best guess first; the target is the set of names that are right."""

    name: ClassVar[str] = "ranked-list"
    most: int = DEPTH

    @property
    def prompt(self) -> PromptFile:
        return load_prompt(__name__, "ranked_list")

    def read(self, text: str | None, *, about: str = "", whole: bool = True) -> tuple[str, ...] | None:
        found = parse_answer(text)
        return None if found is None else found[: self.most]

    def settle(self, given: Iterable[str], *, about: str = "") -> tuple[str, ...] | None:
        return tuple(given)[: self.most] or None


class RankedScorer(Scorer):
    """One over the rank of the first right name; and nDCG, in which every right name counts, the higher the more."""

    metric = pooled = "reciprocal rank"

    def figures(
        self, answer: Iterable[str] | None, target: Iterable[str], labels: LabelSet | None
    ) -> Mapping[str, float]:
        right = {normalise_label(name) for name in target}
        hits = [normalise_label(name) in right for name in answer or ()]
        return {
            self.metric: next((1 / rank for rank, hit in enumerate(hits, 1) if hit), 0.0),
            "nDCG": ndcg(hits, right),
        }


def ndcg(hits: Iterable[bool], right: Iterable[str]) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen, 2002), binary, of the first ``DEPTH`` ranks."""
    gains = [1 / log2(rank + 1) for rank in range(1, DEPTH + 1)]
    ideal = sum(gains[: len(list(right))])
    return sum(gain for gain, hit in zip(gains, hits, strict=False) if hit) / ideal


ANSWER_KINDS.add(RankedList.name, RankedList)
SCORERS.add(RankedList.name, RankedScorer())
