"""A reader at the side of the actor: a summariser or a critic reads the history under a prompt and a budget of its own.

What it reads is reduced by the same context policy as what the actor reads, and every step is noted under its role; it
reads it as text (``transcript``). Nothing it does can end the episode: a reply that cannot be used is a named problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wardround.agents.loop.episode import Asked, Episode
from wardround.agents.loop.history import Block, History
from wardround.agents.loop.reductions import cut_notice, cut_text
from wardround.agents.loop.transcript import Transcript
from wardround.core import LimitReached, Message, ProviderError, load_prompt, without_thinking
from wardround.models import Model

_SUMMARY = re.compile(r"<summary>(.*?\S.*?)</summary>", re.DOTALL | re.IGNORECASE)
FEW_WORDS = 10
_TAGS = re.compile(r"</?summary>", re.IGNORECASE)


Flaw = Callable[[str], str]
"""Why a reply, without its thinking, is not what was asked for; empty where it is."""


def none_found(text: str) -> str:
    """Any text will do."""
    return ""


def too_short(text: str) -> str:
    """Say that a text of ten words or fewer is neither notes nor a case; notes between their tags may be short."""
    count = len(text.split())
    return "" if count > FEW_WORDS or _SUMMARY.search(text) else f"its {count} words are not what was asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What came of asking: ``text``, or the ``problem`` why there is none. ``cut``: it was too long for its share."""

    text: str = ""
    problem: str | None = None
    cut: bool = False


class SideReader:
    """One reader of an episode's history. ``role`` names it in notes; the question it is given is the task's own.
    ``model`` reads, where that is not the one that plays."""

    def __init__(self, episode: Episode, *, role: str, system: str, model: Model | None = None) -> None:
        self._episode = episode
        self._role = role
        self._model = model
        self._history = History((Message(role="system", content=system), *episode.history.prompt[1:]))
        self._context = episode.agent.context(episode.counter)
        self._transcript = Transcript(episode.counter)

    def show(self, blocks: Iterable[Block]) -> None:
        """Give it turns and reminders to read, after what it has read already."""
        before = self._episode.turn - self._episode.trial_turn
        for block in blocks:
            if block.kind == "turn":
                self._transcript.number(block.messages[0], block.turn - before)
            if block.kind != "pinned":
                self._history.add(*block.messages, turn=block.turn, kind=block.kind, observations=block.observations)

    def say(self, text: str) -> int:
        """Put a message between what it reads; returns its number, to take it out again."""
        message = Message(role="user", content=text)
        return self._history.add(message, turn=self._episode.turn, kind="pinned").number

    def take_out(self, numbers: Iterable[int]) -> None:
        """Take messages out again."""
        self._history.withdraw(numbers)

    def forget(self) -> None:
        """Take everything out that it was shown."""
        self.take_out(block.number for block in self._history.visible())

    async def ask(self, instruction: str, *, purpose: str, limit_tokens: int, flaw: Flaw = none_found) -> Written:
        """Ask for a text, cut to ``limit_tokens``; each call is recorded under ``purpose``.

        A reply that calls a tool, says nothing or has a ``flaw`` is not used: it is asked for again, once. The reply
        may be as long as any: a thinking model would spend a smaller limit before it writes.
        """
        said = [self.say(instruction)]
        try:
            asked = await self._record(purpose)
            written = self._read(asked, limit_tokens, flaw)
            if written.problem is not None and asked.reply.finish_reason != "content_filter":
                self._note_unused(written.problem, purpose)
                said.append(self.say(prompt_text("ask_again", problem=written.problem)))
                written = self._read(await self._record(purpose), limit_tokens, flaw)
        except (LimitReached, ProviderError) as error:
            return Written(problem=str(error))
        finally:
            self.take_out(said)
        return written

    async def _record(self, purpose: str) -> Asked:
        asked = await self._ask()
        self._episode.record(asked, purpose)
        return asked

    def _note_unused(self, problem: str, purpose: str) -> None:
        detail = {"turn": self._episode.turn, "role": purpose, "problem": problem}
        self._episode.recorder.note("asked_again", detail)

    async def _ask(self) -> Asked:
        episode = self._episode
        messages, tokens = self._rendered()
        return await episode.ask(messages, schemas=(), counted=tokens, of=self._model)

    def _rendered(self) -> tuple[tuple[Message, ...], int]:
        """Return what it reads as text, within the room there is; headings may take more than what they replace."""
        room, excess = self._episode.room(()), 0
        for _ in range(3):
            rendered = self._context.render(self._history, room - excess)
            self._episode.note_decisions(rendered, role=self._role)
            messages, tokens = self._transcript.write(rendered.messages)
            if tokens <= room:
                break
            excess += tokens - room
        return messages, tokens

    def _read(self, asked: Asked, limit_tokens: int, flaw: Flaw) -> Written:
        text, problem = read_text(asked.reply.message, asked.reply.finish_reason)
        problem = problem or flaw(without_thinking(asked.reply.message.content or ""))
        if problem:
            return Written(problem=problem)
        fitted = cut_text(text, self._episode.counter, limit_tokens, notice=cut_notice)
        return Written(text=fitted, cut=fitted is not text or asked.reply.finish_reason == "length")


def read_text(message: Message, finish_reason: str) -> tuple[str, str | None]:
    """Return what a reply says (no thinking, nothing around a summary), or the problem why it says nothing."""
    said = without_thinking(message.content or "")
    inside = _SUMMARY.findall(said)
    text = _TAGS.sub("", inside[-1] if inside else said).strip()
    if message.tool_calls or "<tool_call" in text:
        return "", "it called a tool instead"
    if finish_reason == "content_filter":
        return "", "it was withheld by the endpoint's content filter"
    return (text, None) if text else ("", "it was empty")


def prompt_text(name: str, **values: object) -> str:
    """Fill one of the room's templates."""
    return load_prompt("wardround.agents", name).render(**values)
