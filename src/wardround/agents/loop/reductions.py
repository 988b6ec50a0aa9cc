"""The three ways a block is made smaller, as plain functions: collapse, cut, and a line of the digest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from wardround.agents.loop.history import Block, Observation
from wardround.agents.loop.tokens import TokenCounter, count_pictures
from wardround.core import Message, ToolCall, load_prompt

COLLAPSED = "[collapsed for room]"
CUT = "[cut for room"
_NO_PICTURES = f"{CUT}: the pictures of this result are not shown any more; repeat the call to see them]"
_ARGUMENT_CHARACTERS = 140
_SAID_CHARACTERS = 100


def rows_of(observation: Observation) -> str:
    """Return what a call gave in a few words: ``40 of 1,204 rows``."""
    result = observation.result
    if result.is_error:
        return "an error"
    if result.pictures:
        return "a picture" if len(result.pictures) == 1 else f"{len(result.pictures)} pictures"
    if result.rows_total is None:
        return f"{len(result.text):,} characters"
    shown = result.rows_total if result.rows_shown is None else result.rows_shown
    return f"{shown:,} of {result.rows_total:,} rows"


def collapsed_text(observation: Observation) -> str:
    """Return the line that stands for an observation: what it was, how much, and how to have it again."""
    result = observation.result
    table = f" on {result.table}" if result.table else ""
    onward = f"; cursor={result.cursor} goes on after them" if result.cursor else ""
    return (
        f"{COLLAPSED} {observation.call.name}{table} gave {rows_of(observation)}. "
        f"Repeat the call to {'see' if result.pictures else 'read'} them again{onward}."
    )


def collapse(block: Block, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of a turn with every observation longer than its stub collapsed."""
    by_id = {observation.call.id: observation for observation in block.observations}
    small = []
    for message in messages:
        observation = by_id.get(message.tool_call_id or "")
        stub = collapsed_text(observation) if observation else None
        shorter = message.content is not None and (stub is not None and len(stub) < len(message.content))
        gone = stub is not None and bool(message.pictures)
        small.append(replace(message, content=stub, pictures=()) if shorter or gone else message)
    return tuple(small)


def cut_text(
    text: str, counter: TokenCounter, limit_tokens: int, *, notice: Callable[[int, int], str] | None = None
) -> str:
    """Return the first lines of a text that fit, and a line that says how much is missing. No cursor: it would skip.

    ``notice`` writes that line from the number of lines left and of all.
    """
    tokens = counter.count(text)
    if tokens <= limit_tokens:
        return text
    say = notice or _repeat_notice
    lines = text.count("\n") + 1
    length = len(text)
    while length:
        length = min(length - 1, int(length * max(limit_tokens - 40, 0) / max(tokens, 1)))
        head = text[:length]
        newline = head.rfind("\n")
        head = head[:newline] if newline > length // 2 else head
        line = say(head.count("\n") + 1 if head else 0, lines)
        shortened = f"{head}\n{line}" if head else line
        tokens = counter.count(shortened)
        if tokens <= limit_tokens:
            return shortened
    return say(0, lines) if notice else f"{CUT}: repeat the call with a narrower range]"


def cut_notice(left: int, lines: int) -> str:
    """Say how much is left of a text that nobody can ask for again; a ``notice`` of ``cut_text``."""
    return f"[cut for room: {left:,} of {lines:,} lines are left]"


def _repeat_notice(left: int, lines: int) -> str:
    return f"{CUT}: {max(left, 1):,} of {lines:,} lines are left; repeat the call with a narrower range]"


def cut(messages: Sequence[Message], counter: TokenCounter, limit_tokens: int) -> tuple[Message, ...]:
    """Return the messages of a turn with its longest observations cut so that the observations fit ``limit_tokens``."""
    tools = {i: m for i, m in enumerate(messages) if m.role == "tool"}
    sizes = {i: counter.count(m.content or "") + count_pictures(m) for i, m in tools.items()}
    shares = _fair_shares(sizes, limit_tokens)
    return tuple(
        _cut_message(message, counter, shares[i]) if i in shares and sizes[i] > shares[i] else message
        for i, message in enumerate(messages)
    )


def _cut_message(message: Message, counter: TokenCounter, limit_tokens: int) -> Message:
    """Return an observation that fits: its pictures go first, then the end of its text."""
    text = message.content or ""
    if message.pictures:
        text = f"{text}\n{_NO_PICTURES}"
    return replace(message, content=cut_text(text, counter, limit_tokens), pictures=())


def _fair_shares(sizes: dict[int, int], limit: int) -> dict[int, int]:
    """Split a limit: who needs less than an equal part gets what it needs, the others share the rest."""
    shares: dict[int, int] = {}
    left = max(limit, 0)
    waiting = sorted(sizes.items(), key=lambda item: item[1])
    for done, (index, size) in enumerate(waiting):
        shares[index] = min(size, left // (len(waiting) - done))
        left -= shares[index]
    return shares


def digest_line(block: Block) -> str:
    """Return one line for a folded block."""
    if block.kind != "turn":
        return f"turn {block.turn}: (a reminder)"
    said = _one_line(block.messages[0].content or "", _SAID_CHARACTERS)
    calls = "; ".join(f"{_call_text(seen.call)} -> {rows_of(seen)}" for seen in block.observations)
    parts = [part for part in (f"said {said!r}" if said else "", calls) if part]
    return f"turn {block.turn}: " + "; ".join(parts or ["(nothing)"])


def digest_text(lines: Sequence[str], counted: Sequence[Block]) -> str:
    """Return the digest: ``counted`` blocks only in numbers, then the lines."""
    counts = Counter(
        f"{seen.call.name} {seen.result.table}" if seen.result.table else seen.call.name
        for block in counted
        for seen in block.observations
    )
    spans = f"{counted[0].turn} to {counted[-1].turn}" if counted else ""
    return load_prompt("wardround.agents", "digest").render(
        span=spans, counts=[f"{name} x {number}" for name, number in counts.most_common(12)], lines=lines
    )


def _call_text(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments)
        listed = ", ".join(f"{key}={value}" for key, value in arguments.items())
    except (ValueError, AttributeError, RecursionError):  # no JSON, no object, nested too deep
        return f"{call.name}(?)"
    return f"{call.name}({_one_line(listed, _ARGUMENT_CHARACTERS)})"


def _one_line(text: str, limit: int) -> str:
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
