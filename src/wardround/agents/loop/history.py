"""The history of an episode, its transcript as text, and token counting."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from wardround.core import Message, ToolCall, ToolSchema, UserError, estimate_tokens
from wardround.log import ToolRecord
from wardround.tools.definition import ToolResult

# What happened in an episode, whole: blocks that are only ever added or withdrawn, never rewritten.
#
# A block is what must stay together on the wire: an assistant message with the results of all its calls, or one user
# message. What a model sees of it is the context policy's business.


BlockKind = Literal["turn", "aside", "pinned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One tool call as it went. ``seconds`` is wall time."""

    call: ToolCall
    result: ToolResult
    seconds: float

    @property
    def record(self) -> ToolRecord:
        """The call and its result as the log keeps them."""
        result = self.result
        return ToolRecord(
            call=self.call,
            result_text=result.text,
            is_error=result.is_error,
            seconds=self.seconds,
            table=result.table,
            rows_total=result.rows_total,
            rows_shown=result.rows_shown,
            row_ids=result.row_ids,
            cursor=result.cursor,
            pictures=result.pictures,
        )


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


# Counting tokens: one protocol, the offline estimator behind it by default, a real tokenizer by file path.
#
# A counter only has to be about right: ``Calibration`` raises it to what endpoints report.


MESSAGE_OVERHEAD_TOKENS = 5
"""Role marks and separators that a chat template puts round every message."""
CALL_OVERHEAD_TOKENS = 12
"""What a chat template writes round one tool call."""
PICTURE_OVERHEAD_TOKENS = 30
"""The title that goes with a picture, and the marks round it."""
_MOST_RAISED = 3.0


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return how many tokens the text is."""
        ...


class EstimatedTokens:
    """The offline default: no vocabulary, no dependency, the same everywhere."""

    def count(self, text: str) -> int:
        """Return the estimate of :func:`wardround.core.estimate_tokens`."""
        return estimate_tokens(text)


class FileTokens:
    """Exact counts from a ``tokenizer.json`` (or a folder that holds one); needs the ``tokenizers`` package."""

    def __init__(self, path: Path) -> None:
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise UserError(f"no tokenizer.json at {str(file)!r}: name the file or the folder of a downloaded model")
        self._tokenizer = _tokenizers().Tokenizer.from_file(str(file))

    def count(self, text: str) -> int:
        """Return the number of ids the tokenizer gives, special tokens apart."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _tokenizers() -> Any:
    try:
        import tokenizers  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UserError("a tokenizer file needs the `tokenizers` package: pip install tokenizers") from error
    return tokenizers


class Calibration:
    """Turns counts into what the endpoint will report: ``factor`` starts at 1 and only rises."""

    def __init__(self) -> None:
        self.factor = 1.0

    def observe(self, counted: int, reported: int) -> bool:
        """Take one reported prompt size; returns whether the factor rose."""
        if counted <= 0 or reported <= 0:
            return False
        raised = min(max(self.factor, reported / counted), _MOST_RAISED)
        rose, self.factor = raised > self.factor, raised
        return rose

    def tighten(self) -> None:
        """Count a quarter more from now on: a prompt was refused that these counts let through."""
        self.factor = min(self.factor * 1.25, _MOST_RAISED)


def count_message(counter: TokenCounter, message: Message) -> int:
    """Return the tokens of one message with its tool calls, its pictures and overheads."""
    total = MESSAGE_OVERHEAD_TOKENS + (counter.count(message.content) if message.content else 0)
    total += count_pictures(message)
    for call in message.tool_calls:
        total += CALL_OVERHEAD_TOKENS + counter.count(call.name) + counter.count(call.arguments)
    return total


def count_pictures(message: Message) -> int:
    """Return about how many tokens the pictures of a message take; see :class:`wardround.core.Picture`."""
    return sum(PICTURE_OVERHEAD_TOKENS + picture.tokens for picture in message.pictures)


def count_schemas(counter: TokenCounter, schemas: Sequence[ToolSchema]) -> int:
    """Return the tokens of the tool schemas in every prompt."""
    return sum(counter.count(schema.wire.decode()) for schema in schemas)


# An episode as text, for those who read it without taking part: a summariser, a critic.
#
# They have no tools, and some servers refuse tool calls and results in a request that offers none. A transcript is
# plain text everywhere, and it does not tempt its reader to go on with the calls it shows.


_HEADING = re.compile(r"^(?=\[(?:turn \d+|call|result)\])", re.MULTILINE)


class Transcript:
    """Writes the turns of a prompt as text, each turn once; every other message stays as it is."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._numbers: dict[int, int] = {}
        self._written: dict[tuple[int, bytes], tuple[Message, int]] = {}

    def number(self, message: Message, turn: int) -> None:
        """Set the turn that an assistant message began. The caller keeps the message alive."""
        self._numbers[id(message)] = turn

    def write(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], int]:
        """Return a prompt without tool calls and results, and its tokens."""
        parts = [self._part(group) for group in _groups(messages)]
        return tuple(message for message, _ in parts), sum(tokens for _, tokens in parts)

    def _part(self, group: Sequence[Message]) -> tuple[Message, int]:
        first = group[0]
        turn = self._numbers.get(id(first), 0)
        key = (turn, b"".join(message.digest for message in group))
        if key not in self._written:
            spoken = first.role == "assistant"
            message = Message(role="user", content=turn_text(turn, group)) if spoken else first
            self._written[key] = (message, count_message(self._counter, message))
        return self._written[key]


def turn_text(turn: int, messages: Sequence[Message]) -> str:
    """Write one turn: its text, each call, its result. Quoted text cannot look like one of our headings."""
    first, *rest = messages
    results = {message.tool_call_id: message.content or "" for message in rest}
    lines = [f"[turn {turn}]"]
    if first.content:
        lines.append(_quoted(first.content))
    for call in first.tool_calls:
        lines.append(f"[call] {call.name}({call.arguments})")
        lines += ["[result]", _quoted(results.get(call.id, ""))]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return _HEADING.sub(" ", text)


def _groups(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield what stays together: an assistant message with its results, any other message alone."""
    group: list[Message] = []
    for message in messages:
        if message.role == "tool" and group:
            group.append(message)
            continue
        if group:
            yield group
        group = [message]
    if group:
        yield group
