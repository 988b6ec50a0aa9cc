"""What an episode leaves behind for reflection, and its trajectory as text within a number of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import Message, estimate_tokens
from wardround.log import Trajectory

Count = Callable[[str], int]
_STUB_CHARACTERS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One finished episode. ``messages`` are the actor's replies and their tool results, in order.

    ``target`` is the right answer where reflection may know it (training samples, eq. 6-7), else None. ``summary`` is
    the last summary of a method that writes one.
    """

    task: str
    question: str
    messages: tuple[Message, ...]
    prediction: tuple[str, ...] | None
    target: tuple[str, ...] | None = None
    summary: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedText:
    """A trajectory as text. The text notes what did not fit, and this object counts it."""

    text: str
    tokens: int
    tokens_whole: int
    results_shortened: int = 0
    turns_left_out: int = 0
    characters_cut: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether nothing was left out."""
        return not (self.results_shortened or self.turns_left_out or self.characters_cut)

    def facts(self) -> dict[str, Any]:
        """Return what the log notes about this text."""
        return {
            "tokens": self.tokens,
            "tokens_whole": self.tokens_whole,
            "results_shortened": self.results_shortened,
            "turns_left_out": self.turns_left_out,
            "characters_cut": self.characters_cut,
        }


def trajectory_messages(trajectory: Trajectory) -> tuple[Message, ...]:
    """Return the actor's replies and the results of their calls, from a recorded episode."""
    messages: list[Message] = []
    for turn in trajectory.turns:
        if turn.purpose == "act":
            messages.append(turn.reply)
            messages += [
                Message(role="tool", content=record.result_text, tool_call_id=record.call.id) for record in turn.results
            ]
    return tuple(messages)


def reduced_trajectory(messages: Sequence[Message], max_tokens: int, *, count: Count = estimate_tokens) -> ReducedText:
    """Write a trajectory down within ``max_tokens``: first the oldest results shrink to their first line, then the
    oldest turns to one line of counts, then the text itself is cut in front. The newest turns stay whole longest."""
    turns = _turns(messages)
    texts = [turn.text for turn in turns]
    sizes = [count(text) + 1 for text in texts]
    whole, total = count("\n".join(texts)), sum(sizes)
    shortened = 0
    for place, turn in enumerate(turns):
        if total <= max_tokens:
            break
        if not turn.results or turn.short == turn.text:
            continue
        texts[place] = turn.short
        total += (size := count(turn.short) + 1) - sizes[place]
        sizes[place] = size
        shortened += len(turn.results)
    left_out, line = 0, ""
    while total + (count(line) if line else 0) > max_tokens and left_out < len(turns) - 1:
        shortened -= len(turns[left_out].results)
        total -= sizes[left_out]
        left_out += 1
        line = _left_out_line(turns[:left_out])
    text = "\n".join([line, *texts[left_out:]] if line else texts)
    cut = _cut_in_front(text, max_tokens, count)
    return ReducedText(
        text=cut,
        tokens=count(cut),
        tokens_whole=whole,
        results_shortened=shortened,
        turns_left_out=left_out,
        characters_cut=0 if cut == text else len(text) - len(cut),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    number: int
    reply: str
    calls: tuple[tuple[str, str, str], ...]
    results: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        return "\n".join((*self._head(), *(f"result of {name}: {result}" for name, result in self.results)))

    @property
    def short(self) -> str:
        stubs = (f"result of {name}: {_stub(result)}" for name, result in self.results)
        return "\n".join((*self._head(), *stubs))

    def _head(self) -> Iterable[str]:
        yield f"[turn {self.number}]" + (f" {self.reply}" if self.reply else "")
        yield from (f"call {name}({arguments})" for _, name, arguments in self.calls)


def _turns(messages: Sequence[Message]) -> list[_Turn]:
    turns: list[_Turn] = []
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            calls = tuple((call.id, call.name, call.arguments) for call in message.tool_calls)
            names = {call_id: name for call_id, name, _ in calls}
            text = (message.content or "").strip()
            turns.append(_Turn(number=len(turns) + 1, reply=text, calls=calls, results=()))
        elif message.role == "tool" and turns:
            last = turns[-1]
            result = (names.get(message.tool_call_id or "", "tool"), message.content or "")
            turns[-1] = _Turn(number=last.number, reply=last.reply, calls=last.calls, results=(*last.results, result))
    return turns


def _stub(result: str) -> str:
    first = result.strip().split("\n", 1)[0][:_STUB_CHARACTERS]
    left = len(result.strip()) - len(first)
    return f"{first} [{left} characters left out]" if left > 0 else first


def _left_out_line(turns: Sequence[_Turn]) -> str:
    counts = Counter(name for turn in turns for _, name, _ in turn.calls)
    calls = ", ".join(f"{name} x{times}" for name, times in counts.most_common()) or "no calls"
    last = turns[-1].number
    return f"[{'turn 1' if last == 1 else f'turns 1 to {last}'} left out for room: {calls}]"


def _cut_in_front(text: str, max_tokens: int, count: Count) -> str:
    mark = "[cut in front for room] "
    while text and count(text) > max_tokens:
        room = max(0, max_tokens - count(mark))
        keep = min(len(text) - len(mark) - 1, len(text) * room // max(1, count(text)))
        if keep <= 0:
            return ""
        text = mark + text[-keep:]
    return text
