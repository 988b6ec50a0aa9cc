"""An episode as text, for those who read it without taking part: a summariser, a critic.

They have no tools, and some servers refuse tool calls and results in a request that offers none. A transcript is plain
text everywhere, and it does not tempt its reader to go on with the calls it shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wardround.agents.loop.tokens import TokenCounter, count_message
from wardround.core import Message

_HEADING = re.compile(r"^(?=\[(?:turn \d+|call|result)\])", re.MULTILINE)


class Transcript:
    """Writes the turns of a prompt as text, each turn once; every other message stays as it is."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._numbers: dict[int, int] = {}
        self._written: dict[tuple[int, bytes], tuple[Message, int]] = {}

    def number(self, message: Message, turn: int) -> None:
        """Say which turn an assistant message began; whoever says so keeps the message alive."""
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
    """Write one turn: what was said, each call, its result. What is quoted cannot look like one of our headings."""
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
