"""Side readers: a summariser or a critic reads an episode's history as text, under its own prompt and budget.

The actor's context policy reduces its input too, and every step is noted under its role. It cannot end the episode: an
unusable reply is a named problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from wardround.agents.loop.context import Block, History, TokenCounter, count_message, cut_notice, cut_text
from wardround.agents.loop.episode import Episode, Exchange, prompt_text
from wardround.core import LimitReached, Message, ProviderError, without_thinking
from wardround.models.protocol import Model

_SUMMARY = re.compile(r"<summary>(.*?\S.*?)</summary>", re.DOTALL | re.IGNORECASE)
FEW_WORDS = 10
_TAGS = re.compile(r"</?summary>", re.IGNORECASE)


Flaw = Callable[[str], str]
"""Returns the problem of a reply, without its thinking; empty if the reply is acceptable."""


def none_found(text: str) -> str:
    """Accept any text."""
    return ""


def too_short(text: str) -> str:
    """Return the problem of a text of ten words or fewer: neither notes nor a case. Notes between their tags may be
    short."""
    count = len(text.split())
    return "" if count > FEW_WORDS or _SUMMARY.search(text) else f"its {count} words are not what was asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideReply:
    """The result of a side call: ``text``, or the ``problem`` of the reply. ``cut``: it was too long for its share."""

    text: str = ""
    problem: str | None = None
    cut: bool = False


class SideReader:
    """One reader of an episode's history. ``role`` names it in notes; its question is the task's own.

    ``model`` is its model, if it is not the agent's.
    """

    def __init__(self, episode: Episode, *, role: str, system: str, model: Model | None = None) -> None:
        self._episode = episode
        self._role = role
        self._model = model
        self._history = History((Message(role="system", content=system), *episode.history.prompt[1:]))
        self._context = episode.agent.context(episode.counter)
        self._transcript = Transcript(episode.counter)

    def show(self, blocks: Iterable[Block]) -> None:
        """Add turns and reminders after what the reader has read already."""
        before = self._episode.turn - self._episode.trial_turn
        for block in blocks:
            if block.kind == "turn":
                self._transcript.number(block.messages[0], block.turn - before)
            if block.kind != "pinned":
                self._history.add(*block.messages, turn=block.turn, kind=block.kind, observations=block.observations)

    def say(self, text: str) -> int:
        """Add a message to what the reader reads; return its number, to remove it later."""
        message = Message(role="user", content=text)
        return self._history.add(message, turn=self._episode.turn, kind="pinned").number

    def take_out(self, numbers: Iterable[int]) -> None:
        """Remove messages."""
        self._history.withdraw(numbers)

    def forget(self) -> None:
        """Remove everything that the reader was shown."""
        self.take_out(block.number for block in self._history.visible())

    async def ask(self, instruction: str, *, purpose: str, limit_tokens: int, flaw: Flaw = none_found) -> SideReply:
        """Ask for a text, cut to ``limit_tokens``; each call is recorded under ``purpose``.

        A reply that calls a tool, is empty or has a ``flaw`` is not used; the request is repeated once. The reply has
        the usual token limit: a thinking model would spend a smaller limit before it writes.
        """
        message_numbers = [self.say(instruction)]
        try:
            exchange = await self._ask(purpose)
            written = self._read(exchange, limit_tokens, flaw)
            if written.problem is not None and exchange.reply.finish_reason != "content_filter":
                detail = {"turn": self._episode.turn, "role": purpose, "problem": written.problem}
                self._episode.recorder.note("asked_again", detail)
                message_numbers.append(self.say(prompt_text("loop.ask_again", problem=written.problem)))
                written = self._read(await self._ask(purpose), limit_tokens, flaw)
        except (LimitReached, ProviderError) as error:
            return SideReply(problem=str(error))
        finally:
            self.take_out(message_numbers)
        return written

    async def _ask(self, purpose: str) -> Exchange:
        """Ask for a reply to what the reader reads, within its room; headings may need more tokens than what they
        replace."""
        episode, excess = self._episode, 0
        room = episode.room(())
        for _ in range(3):
            rendered = self._context.render(self._history, room - excess)
            episode.note_decisions(rendered, role=self._role)
            messages, tokens = self._transcript.write(rendered.messages)
            if tokens <= room:
                break
            excess += tokens - room
        exchange = await episode.ask(messages, schemas=(), counted=tokens, of=self._model)
        episode.record(exchange, purpose)
        return exchange

    def _read(self, exchange: Exchange, limit_tokens: int, flaw: Flaw) -> SideReply:
        text, problem = read_text(exchange.reply.message, exchange.reply.finish_reason)
        problem = problem or flaw(without_thinking(exchange.reply.message.content or ""))
        if problem:
            return SideReply(problem=problem)
        fitted = cut_text(text, self._episode.counter, limit_tokens, notice=cut_notice)
        return SideReply(text=fitted, cut=fitted is not text or exchange.reply.finish_reason == "length")


def read_text(message: Message, finish_reason: str) -> tuple[str, str | None]:
    """Return the text of a reply (no thinking, nothing around a summary), or the problem of an empty one."""
    reply_text = without_thinking(message.content or "")
    inside = _SUMMARY.findall(reply_text)
    text = _TAGS.sub("", inside[-1] if inside else reply_text).strip()
    if message.tool_calls or "<tool_call" in text:
        return "", "it called a tool instead"
    if finish_reason == "content_filter":
        return "", "it was withheld by the endpoint's content filter"
    return (text, None) if text else ("", "it was empty")


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
        lines.append(_HEADING.sub(" ", first.content))
    for call in first.tool_calls:
        lines.append(f"[call] {call.name}({call.arguments})")
        lines += ["[result]", _HEADING.sub(" ", results.get(call.id, ""))]
    return "\n".join(lines)


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
