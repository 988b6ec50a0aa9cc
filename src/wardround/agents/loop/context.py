"""Context policies: what of the history goes into the next prompt.

``FullContext`` shows everything, append-only, as long as it fits. When it does not, it makes room in this order, each
step noted, each step down to a low-water mark so that the prompt's prefix then stays as it is for many turns:

1. *cut*: observations of one recent turn that would take half of the room lose their last lines;
2. *collapse*: observations, oldest first, become one line that keeps the row count and a handle to fetch them again;
3. *fold*: whole turns, oldest first, become one line each in a digest after the prompt (after step 4 where that alone
   would not do: stubs are cheap, and leaving them alone keeps the prefix);
4. *collapse recent*: observations of the last turns too, but for the newest;
5. *cut newest*, *fold recent*: the last resorts.

The prompt and pinned messages are never touched; if they alone do not fit, the episode ends at its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wardround.agents.loop.history import Block, History
from wardround.agents.loop.reductions import collapse, cut, digest_line, digest_text
from wardround.agents.loop.tokens import TokenCounter, count_message
from wardround.core import LimitReached, Message, Registry


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


class _Form:
    """How a block looks at present, with the tokens of each of its messages."""

    __slots__ = ("block", "messages", "sizes", "tokens")

    def __init__(self, block: Block, counter: TokenCounter) -> None:
        self.block = block
        self.show(block.messages, counter)

    def show(self, messages: tuple[Message, ...], counter: TokenCounter) -> None:
        self.messages = messages
        self.sizes = [count_message(counter, message) for message in messages]
        self.tokens = sum(self.sizes)


@CONTEXT_POLICIES.named("full")
class FullContext:
    """Everything, until it does not fit; then what is oldest makes room, step by step.

    ``keep_turns``: the last turns that steps 2 and 3 leave alone. ``low_water``: the share of the room to come down to.
    ``digest_share``: the share of the room the digest may take. ``largest_share``: the share of it that the
    observations of one turn may take when room is short.
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
        return self._rendered(history, decisions)

    def _follow(self, history: History, room: int) -> None:
        if not self._prompt_sizes:
            self._prompt_sizes = [count_message(self._counter, message) for message in history.prompt]
        if history.revision != self._revision:
            self._revision = history.revision
            self._forget(history.withdrawn, room)
        self._forms.extend(_Form(block, self._counter) for block in history.visible(self._seen))
        self._seen = len(history.blocks)

    def _forget(self, withdrawn: set[int], room: int) -> None:
        self._forms = [form for form in self._forms if form.block.number not in withdrawn]
        kept = [folded for folded in self._folded if folded[0].number not in withdrawn]
        if len(kept) < len(self._folded):
            self._folded = kept
            self._write_digest(room)

    def _total(self) -> int:
        return sum(self._prompt_sizes) + self._digest_tokens + _tokens(self._forms)

    def _rendered(self, history: History, decisions: list[Decision]) -> Rendered:
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

    def _reduce(self, room: int) -> list[Decision]:
        low = int(room * self._low_water)
        older, recent = self._split()
        decisions: list[Decision] = []

        def step(name: str, goal: int, action: Callable[[int], list[Block]]) -> None:
            before = self._total()
            touched = action(goal) if before > goal else []
            if touched:
                decisions.append(_decision(name, touched, before, self._total(), room))

        step("cut", room, lambda goal: self._cut(recent, int(room * self._largest_share)))
        step("collapse", low, lambda goal: self._collapse(older, goal))
        if self._total() - _tokens(older) <= room:
            step("fold", low, lambda goal: self._fold(older, goal, room))
        step("collapse recent", room, lambda goal: self._collapse(recent[:-1], goal))
        if self._total() > room:
            step("fold", low, lambda goal: self._fold(older, goal, room))
        step("cut newest", room, lambda goal: self._cut(recent[-1:], _tokens(recent[-1:]) - self._total() + goal))
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
            words = form.tokens - sum(self._observation_sizes(form))
            if form.tokens > limit and self._show(form, cut(form.messages, self._counter, limit - words)):
                touched.append(form.block)
        return touched

    def _observation_sizes(self, form: _Form) -> list[int]:
        return [size for size, message in zip(form.sizes, form.messages, strict=True) if message.role == "tool"]

    def _show(self, form: _Form, messages: tuple[Message, ...]) -> bool:
        changed = messages != form.messages
        if changed:
            form.show(messages, self._counter)
        return changed

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


def _tokens(forms: Sequence[_Form]) -> int:
    return sum(form.tokens for form in forms)


def _common_start(messages: Sequence[Message], previous: Sequence[Message]) -> int:
    for index, (now, before) in enumerate(zip(messages, previous, strict=False)):
        if now is not before:
            return index
    return min(len(messages), len(previous))


def _decision(step: str, blocks: Sequence[Block], before: int, after: int, room: int) -> Decision:
    calls = [seen.call.id for block in blocks for seen in block.observations]
    turns = [block.turn for block in blocks]
    detail = {"turns": turns, "calls": calls, "tokens_before": before, "tokens_after": after, "room": room}
    return Decision(step=step, detail=detail)
