"""ReAct, Reflexion and ReasoningBank on the one loop."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wardround.agents.catalogue import Method, NoSettings
from wardround.agents.loop.episode import Ending, Episode, prompt_text
from wardround.agents.loop.loop import AgentSpec, Hooks
from wardround.agents.loop.side_reader import SideReader
from wardround.core import check_settings, setting

# ReAct: the loop with nothing added. The model sees its whole history and acts on it (Yao et al., 2023).


REACT = AgentSpec(name="react", title="ReAct: reason and act on the whole history", system="react")


def make_react(settings: NoSettings) -> AgentSpec:
    """ReAct has nothing to set."""
    return REACT


# Reflexion (Shinn et al., 2023): try, criticise oneself without knowing the right answer, try again.
#
# The next trial starts from the question, the critiques so far and the answers that they are about. Every trial has the
# whole turn limit, all its turns are in the log, and the last trial's answer counts.


_CRITIQUE_SHARE = 0.15
_CRITIQUES_SHARE = 0.3
"""The largest shares of the actor's room for one critique and for all together: nothing removes them later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexionSettings:
    """How often it tries."""

    trials: int = setting(2, "attempts, the first one included", least=1)

    def __post_init__(self) -> None:
        check_settings(self)


class SelfCritique(Hooks):
    """Runs ``trials`` trials. A failed critique ends them with the current answer."""

    def __init__(self, *, trials: int) -> None:
        self._trials = trials
        self._start = 0

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        """Criticise the trial that has just ended, and start the next one."""
        if episode.trial >= self._trials or episode.spent:
            return False
        critic = SideReader(episode, role="critic", system=prompt_text("reflexion.system"))
        critic.show(episode.history.blocks[self._start :])
        self._start = len(episode.history.blocks)
        instruction = prompt_text("reflexion.criticise", answer=ending.answer, finish=ending.finish)
        limit = int(episode.room() * min(_CRITIQUE_SHARE, _CRITIQUES_SHARE / (self._trials - 1)))
        written = await critic.ask(instruction, purpose="reflect", limit_tokens=limit)
        if written.problem is not None:
            episode.recorder.note("trial", {"turn": episode.turn, "skipped": written.problem})
            return False
        if written.cut:
            episode.recorder.note("critique", {"turn": episode.turn, "trial": episode.trial, "cut": True})
        trial = episode.trial
        episode.new_trial()
        episode.pin(prompt_text("reflexion.carried", trial=trial, answer=ending.answer, text=written.text))
        return True


def _reflexion(settings: ReflexionSettings) -> AgentSpec:
    return replace(REACT, hooks=(lambda: SelfCritique(trials=settings.trials),), prompts=("reflexion",))


METHODS = (
    Method(name="react", title=REACT.title, make=make_react, paper="retrosum", tables=(2,)),
    Method(
        name="reflexion",
        title="Reflexion: try, criticise without the truth, try again",
        make=_reflexion,
        settings=ReflexionSettings,
        tables=(2,),
        paper="retrosum",
    ),
    Method(
        name="reasoningbank",
        title="ReasoningBank: strategies of similar cases, judged without the truth",
        make=make_react,
        memory=("reasoning",),
        tables=(2,),
        paper="retrosum",
    ),
)
