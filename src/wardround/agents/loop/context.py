"""The history of an episode, and context policies: which part of it goes into the next prompt, counted in tokens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from wardround.agents.loop.calls import Observation
from wardround.core import (
    LimitReached,
    Message,
    Registry,
    ToolCall,
    ToolSchema,
    UserError,
    estimate_tokens,
    load_prompt,
)

# What happened in an episode, whole: blocks that are only ever added or withdrawn, never rewritten.
#
# A block is what must stay together on the wire: an assistant message with the results of all its calls, or one user
# message. What a model sees of it is the context policy's business.


BlockKind = Literal["turn", "aside", "pinned"]


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
        try:
            import tokenizers  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise UserError("a tokenizer file needs the `tokenizers` package: pip install tokenizers") from error
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(file))

    def count(self, text: str) -> int:
        """Return the number of ids the tokenizer gives, special tokens apart."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


@dataclass(slots=True)
class Calibration:
    """Turns counts into what the endpoint will report: ``factor`` starts at 1 and only rises."""

    factor: float = 1.0

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


# The three ways a block is made smaller, as plain functions: collapse, cut, and a line of the digest.


COLLAPSED = "[collapsed for room]"
CUT = "[cut for room"
_NO_PICTURES = f"{CUT}: the pictures of this result are not shown any more; repeat the call to see them]"
_ARGUMENT_CHARACTERS = 140
_TEXT_CHARACTERS = 100


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
    """Return the line that replaces an observation: what it was, its size, and how to get it again."""
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
    """Return how much is left of a text that cannot be read on; a ``notice`` of ``cut_text``."""
    return f"[cut for room: {left:,} of {lines:,} lines are left]"


def _repeat_notice(left: int, lines: int) -> str:
    return f"{CUT}: {max(left, 1):,} of {lines:,} lines are left; repeat the call with a narrower range]"


def cut(messages: Sequence[Message], counter: TokenCounter, limit_tokens: int) -> tuple[Message, ...]:
    """Return the messages of a turn with its longest observations cut so that the observations fit ``limit_tokens``."""
    tools = {i: m for i, m in enumerate(messages) if m.role == "tool"}
    sizes = {i: counter.count(m.content or "") + count_pictures(m) for i, m in tools.items()}
    shares = _fair_shares(sizes, limit_tokens)
    cut_messages = list(messages)
    for i, share in shares.items():
        if sizes[i] > share:  # the pictures go first, then the end of the text
            text = f"{tools[i].content or ''}\n{_NO_PICTURES}" if tools[i].pictures else tools[i].content or ""
            cut_messages[i] = replace(tools[i], content=cut_text(text, counter, share), pictures=())
    return tuple(cut_messages)


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
    text = _one_line(block.messages[0].content or "", _TEXT_CHARACTERS)
    calls = "; ".join(f"{_call_text(seen.call)} -> {rows_of(seen)}" for seen in block.observations)
    parts = [part for part in (f"said {text!r}" if text else "", calls) if part]
    return f"turn {block.turn}: " + "; ".join(parts or ["(nothing)"])


def digest_text(lines: Sequence[str], counted: Sequence[Block]) -> str:
    """Return the digest: ``counted`` blocks only in numbers, then the lines."""
    counts = Counter(
        f"{seen.call.name} {seen.result.table}" if seen.result.table else seen.call.name
        for block in counted
        for seen in block.observations
    )
    spans = f"{counted[0].turn} to {counted[-1].turn}" if counted else ""
    return load_prompt("wardround.agents", "loop.digest").render(
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


# Context policies: what of the history goes into the next prompt.
#
# ``FullContext`` shows everything, append-only, as long as it fits. When it does not, it makes room in this order, each
# step noted, each step down to a low-water mark so that the prompt's prefix then stays as it is for many turns:
#
# 1. *cut*: observations of one recent turn that would take half of the room lose their last lines; 2. *collapse*:
# observations, oldest first, become one line that keeps the row count and a handle to fetch them again; 3. *fold*:
# whole turns, oldest first, become one line each in a digest after the prompt (after step 4 where that alone would not
# do: stubs are cheap, and leaving them alone keeps the prefix); 4. *collapse recent*: observations of the last turns
# too, but for the newest; 5. *cut newest*, *fold recent*: the last resorts.
#
# The prompt and pinned messages are never touched; if they alone do not fit, the episode ends at its budget.


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing the budget took out of the prompt."""

    step: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A prompt. ``tokens`` are counted, not reported; ``shared_tokens`` repeat the start of the prompt before it."""

    messages: tuple[Message, ...]
    tokens: int
    shared_tokens: int
    decisions: tuple[Decision, ...] = ()


class ContextPolicy(Protocol):
    """Renders a history into at most ``room`` counted tokens. One instance serves one episode."""

    def render(self, history: History, room: int) -> Rendered:
        """Return the next prompt; raises LimitReached when it cannot be made to fit."""
        ...


ContextFactory = Callable[[TokenCounter], ContextPolicy]
CONTEXT_POLICIES: Registry[ContextFactory] = Registry("context_policies", one="context policy")
"""Every context policy by name: a maker that takes the counter of one episode."""


@dataclass(slots=True)
class _Form:
    """How a block looks at present, with the tokens of each of its messages and of all."""

    block: Block
    messages: tuple[Message, ...] = ()
    sizes: list[int] = field(default_factory=list)
    tokens: int = 0


@CONTEXT_POLICIES.named("full")
class FullContext:
    """Show the whole history until it does not fit; then shorten the oldest parts, step by step.

    ``keep_turns``: the last turns that steps 2 and 3 do not change. ``low_water``: the target share of the room.
    ``digest_share``: the largest share of the room for the digest. ``largest_share``: the largest share of it for the
    observations of one turn when room is short.
    """

    def __init__(
        self,
        counter: TokenCounter,
        *,
        keep_turns: int = 3,
        low_water: float = 0.7,
        digest_share: float = 0.15,
        largest_share: float = 0.5,
    ) -> None:
        self._counter = counter
        self._keep_turns = keep_turns
        self._low_water = low_water
        self._digest_share = digest_share
        self._largest_share = largest_share
        self._forms: list[_Form] = []
        self._folded: list[tuple[Block, str, int]] = []
        self._digest: Message | None = None
        self._digest_tokens = 0
        self._prompt_sizes: list[int] = []
        self._seen = 0
        self._revision = 0
        self._previous: list[Message] = []

    def render(self, history: History, room: int) -> Rendered:
        """Return the next prompt."""
        self._follow(history, room)
        decisions = self._reduce(room) if self._total() > room else []
        messages, sizes = list(history.prompt), list(self._prompt_sizes)
        if self._digest is not None:
            messages.append(self._digest)
            sizes.append(self._digest_tokens)
        for form in self._forms:
            messages += form.messages
            sizes += form.sizes
        shared = _common_start(messages, self._previous)
        self._previous = messages
        return Rendered(
            messages=tuple(messages), tokens=sum(sizes), shared_tokens=sum(sizes[:shared]), decisions=tuple(decisions)
        )

    def _follow(self, history: History, room: int) -> None:
        """Take over what was added to the history and withdrawn from it since the last prompt."""
        if not self._prompt_sizes:
            self._prompt_sizes = [count_message(self._counter, message) for message in history.prompt]
        if history.revision != self._revision:
            self._revision = history.revision
            self._forms = [form for form in self._forms if form.block.number not in history.withdrawn]
            kept = [folded for folded in self._folded if folded[0].number not in history.withdrawn]
            if len(kept) < len(self._folded):
                self._folded = kept
                self._write_digest(room)
        for block in history.visible(self._seen):
            self._forms.append(_Form(block))
            self._show(self._forms[-1], block.messages)
        self._seen = len(history.blocks)

    def _total(self) -> int:
        return sum(self._prompt_sizes) + self._digest_tokens + sum(form.tokens for form in self._forms)

    def _reduce(self, room: int) -> list[Decision]:
        low = int(room * self._low_water)
        older, recent = self._split()
        decisions: list[Decision] = []

        def step(name: str, goal: int, action: Callable[[int], list[Block]]) -> None:
            before = self._total()
            touched = action(goal) if before > goal else []
            if touched:
                detail = {
                    "turns": [block.turn for block in touched],
                    "calls": [seen.call.id for block in touched for seen in block.observations],
                    "tokens_before": before,
                    "tokens_after": self._total(),
                    "room": room,
                }
                decisions.append(Decision(step=name, detail=detail))

        step("cut", room, lambda goal: self._cut(recent, int(room * self._largest_share)))
        step("collapse", low, lambda goal: self._collapse(older, goal))
        if self._total() - sum(form.tokens for form in older) <= room:
            step("fold", low, lambda goal: self._fold(older, goal, room))
        step("collapse recent", room, lambda goal: self._collapse(recent[:-1], goal))
        if self._total() > room:
            step("fold", low, lambda goal: self._fold(older, goal, room))
        newest = recent[-1:]
        step("cut newest", room, lambda goal: self._cut(newest, sum(f.tokens for f in newest) - self._total() + goal))
        step("fold recent", room, lambda goal: self._fold(recent, goal, room))
        if self._total() > room:
            raise LimitReached(
                f"the prompt alone needs {self._total():,} tokens and there is room for {room:,}: "
                "raise context_tokens, lower reply_tokens, or offer fewer tools"
            )
        return decisions

    def _split(self) -> tuple[list[_Form], list[_Form]]:
        """Return the forms before and from the last ``keep_turns`` turns on, pinned ones left out."""
        free = [form for form in self._forms if form.block.kind != "pinned"]
        turns = [index for index, form in enumerate(free) if form.block.kind == "turn"]
        start = turns[-self._keep_turns] if len(turns) >= self._keep_turns else 0
        return free[:start], free[start:]

    def _collapse(self, forms: Sequence[_Form], goal: int) -> list[Block]:
        touched = []
        for form in forms:
            if self._total() <= goal:
                break
            if self._show(form, collapse(form.block, form.messages)):
                touched.append(form.block)
        return touched

    def _cut(self, forms: Sequence[_Form], limit: int) -> list[Block]:
        touched = []
        for form in forms:
            words = sum(size for size, one in zip(form.sizes, form.messages, strict=True) if one.role != "tool")
            if form.tokens > limit and self._show(form, cut(form.messages, self._counter, limit - words)):
                touched.append(form.block)
        return touched

    def _show(self, form: _Form, messages: tuple[Message, ...]) -> bool:
        """Let a block look so from now on; return whether it looked otherwise."""
        if messages == form.messages:
            return False
        form.messages = messages
        form.sizes = [count_message(self._counter, message) for message in messages]
        form.tokens = sum(form.sizes)
        return True

    def _fold(self, forms: Sequence[_Form], goal: int, room: int) -> list[Block]:
        touched: list[Block] = []
        present = set(map(id, self._forms))
        for form in (form for form in forms if id(form) in present):
            line = digest_line(form.block)
            self._folded.append((form.block, line, self._counter.count(line) + 1))
            self._forms.remove(form)
            touched.append(form.block)
            digest = min(int(room * self._digest_share), sum(size for _, _, size in self._folded))
            if self._total() - self._digest_tokens + digest <= goal:
                break
        if touched:
            self._write_digest(room)
        return touched

    def _write_digest(self, room: int) -> None:
        """Write the digest: the newest lines that fit its share, the older ones in numbers; nothing if nothing fits."""
        self._digest, self._digest_tokens = None, 0
        cap = min(int(room * self._digest_share), room - self._total())
        left, first = cap // 2, len(self._folded)
        while first and self._folded[first - 1][2] <= left:
            first -= 1
            left -= self._folded[first][2]
        blocks, lines = [block for block, _, _ in self._folded], [line for _, line, _ in self._folded]
        message = Message(role="user", content=digest_text(lines[first:], blocks[:first]))
        tokens = count_message(self._counter, message)
        if self._folded and tokens <= cap:
            self._digest, self._digest_tokens = message, tokens


def _common_start(messages: Sequence[Message], previous: Sequence[Message]) -> int:
    for index, (now, before) in enumerate(zip(messages, previous, strict=False)):
        if now is not before:
            return index
    return min(len(messages), len(previous))
