"""How an episode ends that does not end by itself: a limit, an endpoint's failure and a tool that breaks are endings;
any other bug is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from functools import partial
from traceback import format_exception

from wardround.agents.loop.episode import Ending, Episode
from wardround.agents.loop.outcome import Outcome
from wardround.core import LimitReached, PromptWithheld, ProviderError, ToolBroke
from wardround.models.tool_questions import PURPOSE, EpisodeQuestions
from wardround.tools.grounding import Citation


async def to_its_ending(playing: Awaitable[Ending], state: Episode) -> Ending:
    """Await an episode's own ending, or say which limit or whose failure ended it."""
    limits = state.limits
    try:
        async with asyncio.timeout(limits.seconds) as clock:
            with _tools_asking_in(state):
                return await playing
    except TimeoutError:
        if not clock.expired():
            raise
        return Ending(finish="time_limit", error=f"the episode took longer than {limits.seconds:g} s")
    except ProviderError as error:
        withheld = isinstance(error, PromptWithheld)
        said = f"{error} (status {error.status}, {error.attempts} attempts)"
        return Ending(finish="content_filter" if withheld else "error", error=said)
    except ToolBroke as error:
        state.recorder.note("tool_broke", {"error": str(error), "traceback": format_exception(error.__cause__)})
        return Ending(finish="error", error=str(error))
    except LimitReached as limit:
        return Ending(finish="budget", error=str(limit))


@contextmanager
def _tools_asking_in(state: Episode) -> Iterator[None]:
    """What tools ask of models of their own is this episode's: in its log, its cost and its recordings."""
    questions = EpisodeQuestions(
        state.id,
        player=state.model,
        ordinal=lambda: state.model_calls,
        record=partial(state.charge, purpose=PURPOSE),
    )
    state.environment.ask_model = questions
    try:
        yield
    finally:
        questions.end()


def outcome_of(state: Episode, ending: Ending, *, seconds: float, citations: tuple[Citation, ...] = ()) -> Outcome:
    """What an episode came to: its ending, and what it used until then."""
    return Outcome(
        answer=ending.answer,
        evidence=ending.evidence,
        citations=citations,
        finish=ending.finish,
        turns=state.turn,
        model_calls=state.model_calls,
        usage=state.usage,
        cost=state.cost,
        seconds=seconds,
        prefix_share=state.shared_tokens / state.prompt_tokens if state.prompt_tokens else None,
        forced=ending.forced,
        error=ending.error,
    )
