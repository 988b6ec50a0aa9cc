"""What happened in an episode, whole: blocks that are only ever added or withdrawn, never rewritten.

A block is what must stay together on the wire: an assistant message with the results of all its calls, or one user
message. What a model sees of it is the context policy's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from wardround.core import Message, ToolCall
from wardround.tools.result import ToolResult

BlockKind = Literal["turn", "aside", "pinned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One tool call as it went. ``seconds`` is wall time."""

    call: ToolCall
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Messages that stay together.

    ``turn``: an assistant message and its tool results, in the order of its calls. ``aside``: a user message that ages
    like a turn (a reminder). ``pinned``: a user message no budget removes (a summary, an experience).
    """

    number: int
    turn: int
    kind: BlockKind
    messages: tuple[Message, ...]
    observations: tuple[Observation, ...] = ()


class History:
    """The prompt and the blocks after it. ``revision`` rises whenever a block is withdrawn."""

    def __init__(self, prompt: Iterable[Message]) -> None:
        self.prompt = tuple(prompt)
        self.blocks: list[Block] = []
        self.withdrawn: set[int] = set()
        self.revision = 0

    def add(self, *messages: Message, turn: int, kind: BlockKind, observations: tuple[Observation, ...] = ()) -> Block:
        """Append a block."""
        block = Block(number=len(self.blocks), turn=turn, kind=kind, messages=messages, observations=observations)
        self.blocks.append(block)
        return block

    def withdraw(self, numbers: Iterable[int]) -> None:
        """Take blocks out of every later prompt (a summary replaced them, a trial is over)."""
        self.withdrawn.update(numbers)
        self.revision += 1

    def visible(self, start: int = 0) -> Iterator[Block]:
        """Yield the blocks from number ``start`` on that were not withdrawn, in order."""
        for block in self.blocks[start:]:
            if block.number not in self.withdrawn:
                yield block

    @property
    def turns(self) -> list[Block]:
        """All turns, withdrawn ones too."""
        return [block for block in self.blocks if block.kind == "turn"]
