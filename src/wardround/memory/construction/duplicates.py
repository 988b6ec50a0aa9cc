"""Global de-duplication: an experience that says what another of the bank says already is not added.

Compared are the few that share its rarest words, of the same polarity and task type; never all with all.
"""

from __future__ import annotations

from wardround.memory.experience import Experience
from wardround.memory.words import plain_words

SAME = 0.8
"""Two experiences say the same where their condition and their content each share so much of their words."""


def words_in_common(first: str, second: str) -> float:
    """Jaccard of the words of two texts."""
    one, other = set(plain_words(first).split()), set(plain_words(second).split())
    return len(one & other) / len(one | other) if one | other else 0.0


def says_the_same(first: Experience, second: Experience) -> bool:
    """Whether two experiences differ in a few words only."""
    if (first.kind, first.task_type) != (second.kind, second.task_type):
        return False
    if {plain_words(one) for one in first.exclusions} != {plain_words(one) for one in second.exclusions}:
        return False
    return (
        words_in_common(first.condition, second.condition) >= SAME
        and words_in_common(first.content, second.content) >= SAME
    )
