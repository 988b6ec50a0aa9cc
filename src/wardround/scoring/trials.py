"""The trials of an episode: Reflexion plays a question several times, and each trial starts afresh."""

from __future__ import annotations

from itertools import pairwise

from wardround.log import Played, PlayedTurn


def trials_of(trajectory: Played) -> tuple[tuple[PlayedTurn, ...], ...]:
    """Return the actor's turns trial by trial; methods without trials have one.

    A note says how many actions went before each further trial.
    """
    turns = tuple(turn for turn in trajectory.turns if turn.purpose == "act")
    starts = [int(note.detail["acts"]) for note in trajectory.notes if note.kind == "trial" and "trial" in note.detail]
    edges = [0, *(start for start in starts if start < len(turns)), len(turns)]
    return tuple(turns[start:end] for start, end in pairwise(edges))
