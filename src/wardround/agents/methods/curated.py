"""Curated input: the other arm of ClinSeek-Bench. One prompt with an evidence package, no tools, one reply.

The package is read off the same chart that the evidence-seeking arm has tools for, so neither arm can know more than
the record did. A question without a package of its own is given the last 24 hours.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from wardround.agents.catalogue import Method, NoSettings
from wardround.agents.evidence import CuratedInput, curated_input
from wardround.agents.loop.context import count_message
from wardround.agents.loop.episode import Episode, prompt_text
from wardround.agents.loop.loop import AgentSpec, Hooks, LoopSettings
from wardround.core import Picture, UserError, to_microseconds
from wardround.records import Chart
from wardround.tasks.answers import CuratedWindow

_WINDOW = timedelta(hours=24)
_MOST_EVENTS = 100
_MESSAGE_TOKENS = 32
_VISUALIZER = "image.image_visualizer"


class ShowCurated(Hooks):
    """Pins the package before the first turn. Where not all fits, the summary is cut first, then the oldest events."""

    async def before_episode(self, episode: Episode) -> None:
        """Read the package, fit it into the room, and note its content."""
        chart = episode.environment.chart
        if chart is None:
            raise UserError(f"agent {episode.agent.name!r} shows a record, and these tools have no record")
        package = curated_input(chart, _window(episode, chart))
        pictures, unseen = await _pictures(episode)
        room = episode.room() - sum(count_message(episode.counter, message) for message in episode.history.prompt)
        asked_at = to_microseconds(chart.as_of)
        unseen_text = prompt_text("curated.unseen", number=len(unseen)) if unseen else ""
        text, facts = _fitted(package, episode, room - _MESSAGE_TOKENS - episode.counter.count(unseen_text), asked_at)
        episode.pin(f"{text}\n\n{unseen_text}" if unseen_text else text, pictures)
        shown = {"pictures": len(pictures), "pictures_not_shown": unseen}
        episode.recorder.note("curated", {"turn": episode.turn, **facts, **(shown if pictures or unseen else {})})


async def _pictures(episode: Episode) -> tuple[tuple[Picture, ...], dict[str, str]]:
    """Return the linked pictures from the tool that the other arm uses; for an unavailable picture, the reason."""
    found: list[Picture] = []
    unseen: dict[str, str] = {}
    for handle in episode.question.images if episode.question is not None else ():
        result = await episode.environment.call_async(_VISUALIZER, {"image_path": handle})
        found += result.pictures
        if not result.pictures:
            unseen[handle] = result.text
    return tuple(found), unseen


def _window(episode: Episode, chart: Chart) -> CuratedWindow:
    curated = episode.question.curated if episode.question is not None else None
    return curated or CuratedWindow(start=chart.as_of - _WINDOW, most_events=_MOST_EVENTS)


def _fitted(package: CuratedInput, episode: Episode, room: int, asked_at: int) -> tuple[str, dict[str, float]]:
    """Return the package as a text of at most ``room`` tokens, what was cut, and how many hours before ``asked_at``
    it reaches back, of how many."""
    counter = episode.counter
    whole = len(package.summary)
    without = counter.count(_text(replace(package, summary=""), cut=whole))
    events = package.events
    while events and without > room:
        events = events[len(events) // 4 + 1 :]
        without = counter.count(_text(replace(_latest(package, len(events)), summary=""), cut=whole))
    package = _latest(package, len(events))
    summary = package.summary
    while summary and counter.count(_text(replace(package, summary=summary), cut=whole - len(summary))) > room:
        summary = summary[: len(summary) * 3 // 4]
    cut = whole - len(summary)
    text = _text(replace(package, summary=summary), cut=cut)
    shown, hours = package.shown_of(asked_at)
    facts = {"events": len(events), "events_left_out": package.events_left_out, "summary_characters_cut": cut}
    reach = {"hours_shown": round(shown, 2), "hours": round(hours, 2)}
    return text, facts | reach | {"tokens": counter.count(text)}


def _latest(package: CuratedInput, events: int) -> CuratedInput:
    """Return the package with only the latest events, up to a number."""
    lost = len(package.events) - events
    left_out = package.events_left_out + lost
    return replace(package, events=package.events[lost:], begins=package.begins[lost:], events_left_out=left_out)


def _text(package: CuratedInput, *, cut: int) -> str:
    return prompt_text("curated.package", package=package, cut=cut)


def make_curated(settings: NoSettings) -> AgentSpec:
    """No settings: the question sets the window of its package."""
    return AgentSpec(
        name="curated",
        title="",
        system="curated.system",
        hooks=(ShowCurated,),
        tools="none",
        loop=LoopSettings(reminders=0),
        more_tools=(_VISUALIZER,),
        charted=True,
    )


METHODS = (
    Method(
        name="curated",
        title="Curated input: answer from the evidence package of the question",
        make=make_curated,
        paper="clinseek",
        tables=(2, 3),
        evidence=True,
    ),
)
