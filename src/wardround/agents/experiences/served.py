"""Experiences that were retrieved for an episode, as the block of text that goes into one of its prompts."""

from __future__ import annotations

from wardround.agents.loop.episode import Episode
from wardround.memory import Experience, Kind, render_experiences


def served_text(episode: Episode, kind: Kind, *, share: float, tools: frozenset[str] | None = None) -> str:
    """Return the experiences of a kind within a share of the actor's room, empty where there are none.

    ``tools`` keeps the advice on these only. What did not fit is noted.
    """
    experiences = [one for one in episode.lessons.get(kind, ()) if tools is None or one.tool in tools]
    served = render_experiences(
        _interleaved(experiences) if kind == "tool" else experiences,
        max_tokens=int(episode.room() * share),
        count=episode.counter.count,
    )
    if served.left_out:
        episode.recorder.note("experiences_left_out", {"turn": episode.turn, "kind": kind, **served.facts()})
    return served.text


def _interleaved(experiences: list[Experience]) -> list[Experience]:
    """Order advice so that every tool's best piece comes before any tool's second."""
    seen: dict[str, int] = {}
    places = []
    for experience in experiences:
        places.append(seen.setdefault(experience.tool, 0))
        seen[experience.tool] += 1
    order = sorted(range(len(experiences)), key=lambda index: (places[index], index))
    return [experiences[index] for index in order]
