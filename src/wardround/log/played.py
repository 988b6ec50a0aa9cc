"""What scoring asks of a recorded episode: trajectories have it, and so have outlines, at a fifth of the cost.

An outline is made of plain tuples: of a large run there are hundreds of thousands, and a frozen dataclass of twenty
fields takes forty times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from wardround.core import Message, Usage
from wardround.log.rows import USAGE_FIELDS, EpisodeEntry, Note


class PlayedCall(Protocol):
    """A tool call, as the model wrote it."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> str: ...


class PlayedResult(Protocol):
    """What came of a call."""

    @property
    def call(self) -> PlayedCall: ...
    @property
    def is_error(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @property
    def table(self) -> str | None: ...


class PlayedTurn(Protocol):
    """One model call and what came of it."""

    @property
    def purpose(self) -> str: ...
    @property
    def reply(self) -> Message: ...
    @property
    def results(self) -> Sequence[PlayedResult]: ...
    @property
    def unreported(self) -> tuple[str, ...]: ...
    @property
    def cost(self) -> float | None: ...
    @property
    def seconds(self) -> float: ...
    @property
    def prompt_bytes(self) -> int: ...
    @property
    def prefix_bytes(self) -> int: ...
    @property
    def tools(self) -> Sequence[Mapping[str, Any]]: ...


class Played(Protocol):
    """An episode: ``facts`` were given at its start, ``outcome`` is how it ended, None while it is open."""

    @property
    def episode(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...
    @property
    def outcome(self) -> Mapping[str, Any] | None: ...
    @property
    def turns(self) -> Sequence[PlayedTurn]: ...
    @property
    def notes(self) -> Sequence[Note]: ...
    @property
    def usage(self) -> Usage: ...


class CallOutline(NamedTuple):
    """A call."""

    id: str
    name: str
    arguments: str


class ResultOutline(NamedTuple):
    """What came of a call, without its text and its rows."""

    call: CallOutline
    is_error: bool
    seconds: float
    table: str | None


class TurnOutline(NamedTuple):
    """A turn without its prompt. ``tokens`` are those of ``USAGE_FIELDS``, None where the endpoint did not count."""

    purpose: str
    tokens: tuple[int | None, ...]
    cost: float | None
    seconds: float
    prompt_bytes: int
    prefix_bytes: int
    tools: Sequence[Mapping[str, Any]]
    reply: Message
    results: Sequence[ResultOutline]

    @property
    def unreported(self) -> tuple[str, ...]:
        """The fields of Usage that the endpoint did not count."""
        if None not in self.tokens:
            return ()
        return tuple(name for name, count in zip(USAGE_FIELDS, self.tokens, strict=True) if count is None)


class Outline(NamedTuple):
    """An episode without what was read to its models."""

    entry: EpisodeEntry
    turns: Sequence[TurnOutline]
    notes: Sequence[Note]

    @property
    def episode(self) -> str:
        """The episode's key."""
        return self.entry.key

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was said of the episode when it began."""
        return self.entry.facts

    @property
    def outcome(self) -> Mapping[str, Any] | None:
        """How it ended."""
        return self.entry.outcome

    @property
    def usage(self) -> Usage:
        """Tokens of all turns (unreported ones count as 0)."""
        columns = zip(*(turn.tokens for turn in self.turns), strict=True)
        return Usage(**{name: sum(filter(None, column)) for name, column in zip(USAGE_FIELDS, columns, strict=False)})
