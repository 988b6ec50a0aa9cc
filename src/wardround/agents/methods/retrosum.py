"""ReSum, RetroSum and the ablations between them: one hook with two switches (eq. 3-5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from wardround.agents.catalogue import Method
from wardround.agents.loop.context import Block, count_message
from wardround.agents.loop.episode import Ending, Episode, prompt_text
from wardround.agents.loop.loop import AgentSpec, Hooks
from wardround.agents.loop.side_reader import SideReader, SideReply, too_short
from wardround.agents.methods.react import REACT
from wardround.agents.recall import served_text
from wardround.core import check_settings, setting

# Every ``window`` tool calls the summariser writes one summary: the paper's turn is one call with its observation, and
# a model that batches its calls would else never come to a tenth turn. A turn is not parted, so a batch may overshoot.
# A summary is due as well where the turns since the last one fill ``share`` of the actor's room: later, the budget
# would have taken out what nobody had summarised. *Summariser retrospect*: it reads the distant turns again, beside the
# recent ones, the previous summary and the question (eq. 3); without it only the recent ones. *Actor retrospect*: the
# actor keeps its history and carries the newest summary beside it (eq. 4-5); without it the summary replaces the
# history. Either way there is exactly one summary in the actor's context, the latest.
#
# A summary that fails changes nothing: the previous one stays, the history stays, the next one reads that much more.


_SUMMARY_SHARE = 0.25
"""The largest share of the actor's room for a summary: nothing removes it later."""
_LESSONS_SHARE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySettings:
    """When summaries are written."""

    window: int = setting(
        10,
        "tool calls between two summaries (the paper's turn has one call)",
        unit="calls",
        source="RetroSum, w of eq. 3-5",
        least=1,
    )
    window_share: float = setting(
        0.7,
        "share of the actor's room that, filled since the last summary, makes one due earlier",
        above=0,
        most=1,
    )
    final_summary: bool = setting(
        False,
        "write one more summary when the answer is in, for reflection to read",
        source="RetroSum, S_final of eq. 7",
    )

    def __post_init__(self) -> None:
        check_settings(self)


class Summarising(Hooks):
    """Writes a summary every ``window`` calls of a trial or ``share`` of the room, and one at the answer if ``final``
    (it is only recorded)."""

    def __init__(
        self, *, window: int, share: float, actor_retrospect: bool, summariser_retrospect: bool, final: bool = False
    ) -> None:
        self._window = window
        self._share = share
        self._actor_retrospect = actor_retrospect
        self._summariser_retrospect = summariser_retrospect
        self._final = final
        self._failures = 0
        self._trial = 0
        self._start = self._covered = self._shown = self._counted = 0
        self._calls = self._tokens = 0
        self._side_reader: SideReader | None = None
        self._previous: str = ""
        self._previous_mark: int | None = None
        self._pinned: int | None = None

    async def before_episode(self, episode: Episode) -> None:
        """Note that summaries are expected, so that an episode without a summary can be recognised."""
        episode.recorder.note("summarising", {"window": self._window, "share": self._share})

    async def before_turn(self, episode: Episode) -> None:
        """Start afresh with every trial: a summary of the one before it would be history that was withdrawn."""
        if episode.trial != self._trial:
            self._begin(episode)

    async def after_turn(self, episode: Episode) -> None:
        """Summarise where a window is full, in calls or in tokens. A turn without a call counts as one."""
        for block in self._turns(episode, self._counted):
            self._calls += max(len(block.observations), block.kind == "turn")
            self._tokens += sum(count_message(episode.counter, message) for message in block.messages)
        self._counted = len(episode.history.blocks)
        by = "calls" if self._calls >= self._window else "room"
        if by == "calls" or self._tokens >= self._share * episode.room():
            await self._summarise(episode, by=by)
            self._calls = self._tokens = 0

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        """Write the last summary of the trial, for reflection."""
        if self._final:
            await self._summarise(episode, by="answer")
        return False

    def _begin(self, episode: Episode) -> None:
        if self._pinned is not None:
            episode.history.withdraw([self._pinned])
        self._trial = episode.trial
        self._start = self._covered = self._shown = self._counted = len(episode.history.blocks)
        self._calls = self._tokens = 0
        self._side_reader, self._previous, self._previous_mark, self._pinned = None, "", None, None

    async def _summarise(self, episode: Episode, *, by: str) -> None:
        recent = self._turns(episode, self._covered)
        if not recent:
            return
        reader = self._reader(episode)
        reader.show(episode.history.blocks[self._shown :])
        self._shown = len(episode.history.blocks)
        first, end = _span(recent, episode)
        instruction = prompt_text("retrosum.summarise", first=first, last=end, previous=bool(self._previous))
        limit = int(episode.room() * _SUMMARY_SHARE)
        written = await reader.ask(instruction, purpose="summarise", limit_tokens=limit, flaw=too_short)
        self._note(episode, recent, written, by)
        if written.problem is None and by != "answer":
            self._take_over(episode, reader, written.text, end)

    def _reader(self, episode: Episode) -> SideReader:
        if self._side_reader is None:
            lessons = served_text(episode, "summariser", share=_LESSONS_SHARE)
            system = prompt_text("retrosum.system", lessons=lessons)
            self._side_reader = SideReader(episode, role="summariser", system=system)
        return self._side_reader

    def _take_over(self, episode: Episode, reader: SideReader, text: str, end: int) -> None:
        """Put the new summary in the place of the old one, with the actor and with the summariser."""
        gone = [] if self._pinned is None else [self._pinned]
        if not self._actor_retrospect:
            gone += [block.number for block in episode.history.visible() if block.kind != "pinned"]
        episode.history.withdraw(gone)
        carried = prompt_text("retrosum.carried", text=text, last=end, replaced=not self._actor_retrospect)
        self._pinned = episode.pin(carried)
        if self._summariser_retrospect:
            reader.take_out([] if self._previous_mark is None else [self._previous_mark])
        else:
            reader.forget()
        self._previous = text
        self._previous_mark = reader.say(prompt_text("retrosum.so_far", text=text, last=end))
        self._covered = self._shown = len(episode.history.blocks)

    def _note(self, episode: Episode, recent: list[Block], written: SideReply, by: str) -> None:
        """Note what was summarised, or that nothing was and what stays instead."""
        distant = len(_real_turns(self._turns(episode, self._start, self._covered)))
        detail = {
            "turn": episode.turn,
            "trial": episode.trial,
            "by": by,
            "recent_calls": sum(len(block.observations) for block in recent),
            "recent_turns": len(_real_turns(recent)),
            "distant_turns": distant if self._summariser_retrospect else 0,
            "previous_summary": bool(self._previous),
        }
        if written.problem is None:
            episode.recorder.note("summary", {**detail, "cut": written.cut})
            return
        self._failures += 1
        kept = "the previous summary" if self._previous else "the history"
        failed = {"failed": written.problem, "kept": kept, "failures": self._failures}
        episode.recorder.note("summary", {**detail, **failed})

    def _turns(self, episode: Episode, start: int, end: int | None = None) -> list[Block]:
        return [block for block in episode.history.blocks[start:end] if block.kind != "pinned"]


def _real_turns(blocks: list[Block]) -> set[int]:
    return {block.turn for block in blocks}


def _span(blocks: list[Block], episode: Episode) -> tuple[int, int]:
    """Return the first and last turn, counted within the trial."""
    before = episode.turn - episode.trial_turn
    return blocks[0].turn - before, blocks[-1].turn - before


def summing(*, actor: bool = True, summariser: bool = True) -> Callable[[SummarySettings], AgentSpec]:
    """Return the maker of one row of table 4: who looks back."""

    def make(settings: SummarySettings) -> AgentSpec:
        def hook() -> Hooks:
            return Summarising(
                window=settings.window,
                share=settings.window_share,
                actor_retrospect=actor,
                summariser_retrospect=summariser,
                final=settings.final_summary,
            )

        return replace(REACT, hooks=(hook,), prompts=("retrosum",))

    return make


_row = partial(Method, settings=SummarySettings, section="retrosum", paper="retrosum")

METHODS = (
    Method(  # RetroSum's hook without either retrospect: a summary of the newest calls replaces the history (eq. 3-5)
        name="resum",
        title="ReSum: every w calls a summary replaces the history",
        make=summing(actor=False, summariser=False),
        settings=SummarySettings,
        tables=(2, 4),
        paper="retrosum",
    ),
    _row(
        name="retrosum",
        title="RetroSum: the summariser rereads everything, the actor keeps its history and the latest summary",
        make=summing(),
        tables=(2, 4),
    ),
    _row(
        name="retrosum-evolved",
        title="RetroSum with experiences for the actor and for the summariser",
        make=summing(),
        memory=("actor", "summariser"),
        tables=(2, 4),
    ),
    _row(
        name="retrosum-actor-only",
        title="Ablation: the actor keeps its history, the summariser reads only the last w calls",
        make=summing(summariser=False),
        tables=(4,),
    ),
    _row(
        name="retrosum-summariser-only",
        title="Ablation: the summariser rereads everything, its summary replaces the actor's history",
        make=summing(actor=False),
        tables=(4,),
    ),
    _row(
        name="retrosum-evolved-actor",
        title="Ablation: RetroSum with experiences for the actor only",
        make=summing(),
        memory=("actor",),
        tables=(4,),
    ),
    _row(
        name="retrosum-evolved-summariser",
        title="Ablation: RetroSum with experiences for the summariser only",
        make=summing(),
        memory=("summariser",),
        tables=(4,),
    ),
)
