"""Tool calls as the taxonomy compares them: by name and by how alike their parameters are (appendix E, eq. 18)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from rapidfuzz.distance import Indel, Postfix, Prefix

from wardround.core import canonical_json
from wardround.log import PlayedCall, PlayedTurn

SIMILARITY = 0.95
_SHORT = 500
"""Characters of arguments that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: ``parameters`` in one canonical spelling, ``values`` None where the text is no JSON object."""

    name: str
    parameters: str
    values: Mapping[str, Any] | None = field(default=None, compare=False)

    @classmethod
    def read(cls, call: PlayedCall) -> Call:
        """Read a call as the model wrote it."""
        return cls.of(call.name, call.arguments)

    @classmethod
    def of(cls, name: str, arguments: str) -> Call:
        """Read a call by its parts."""
        read = _read_short if len(arguments) <= _SHORT else _read_arguments
        parameters, values = read(arguments)
        return cls(name=name, parameters=parameters, values=values)


def _read_arguments(arguments: str) -> tuple[str, Mapping[str, Any] | None]:
    """Return the canonical spelling of arguments and what they say, None where that is no JSON object."""
    try:
        values = json.loads(arguments or "{}")
        text = canonical_json(values).decode()
    except (ValueError, RecursionError):
        return arguments.strip(), None
    return text, values if isinstance(values, dict) else None


_read_short = lru_cache(maxsize=16_384)(_read_arguments)
"""Most calls of a run are made in other episodes too: the latest rows of one table, say."""


def tool_calls(turn: PlayedTurn) -> tuple[Call, ...]:
    """The calls of one turn, in order."""
    return tuple(Call.read(call) for call in turn.reply.tool_calls)


def are_identical(first: Call, second: Call) -> bool:
    """Same tool, same parameters."""
    return first == second


def are_similar(first: Call, second: Call) -> bool:
    """Same tool, Ratcliff-Obershelp similarity of the parameters above 0.95."""
    if first.name != second.name:
        return False
    return is_above(*sorted((first.parameters, second.parameters)), SIMILARITY)


def ratcliff_obershelp(first: str, second: str) -> float:
    """Return 2 K_m / (|P1| + |P2|) (eq. 18); of the two orders, which ties between matches tell apart, the larger."""
    forward = SequenceMatcher(None, first, second, autojunk=False).ratio()
    return max(forward, SequenceMatcher(None, second, first, autojunk=False).ratio())


@lru_cache(maxsize=4096)
def is_above(first: str, second: str, bound: float) -> bool:
    """Say whether the similarity exceeds a bound.

    What Ratcliff-Obershelp matches is a common subsequence, so the longest common subsequence (fast, compiled) bounds
    it from above and rules out nearly every pair. Its first match is the longest common block, so a common start or end
    that is long enough decides too. Only what is left is computed.
    """
    if first == second:
        return True
    if Indel.normalized_similarity(first, second) <= bound:
        return False
    ends = max(Prefix.similarity(first, second), Postfix.similarity(first, second))
    return 2 * ends > bound * (len(first) + len(second)) or ratcliff_obershelp(first, second) > bound
