"""The episodes of one sample, two side by side: answers, figures, rows read and the calls of each turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from wardround.log import Trajectory
from wardround.reports.episode_card import question_text
from wardround.reports.report import episode_page, official_names
from wardround.reports.summary import contender
from wardround.serve.viewer.episode import episode_stem, rows_read
from wardround.serve.viewer.run import NotFound, ViewedRun
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring import EpisodeScore

MOST_TURNS = 100
_CALL = 160
"""Turns that are laid side by side, and characters of one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSide:
    """One of the two episodes: its run's number, its key in the page's address, its content."""

    number: int
    key: str
    run: str
    score: EpisodeScore
    trajectory: Trajectory
    read: frozenset[str]

    @property
    def name(self) -> str:
        """The contender."""
        epoch = f", epoch {self.score.epoch}" if self.score.epoch else ""
        return f"{contender(self.score)}{epoch}"

    @property
    def page(self) -> str:
        """The address of its own page, relative to this one."""
        return f"../../{self.number}/{episode_page(self.score)}"


def sides_view(runs: Sequence[ViewedRun], number: int, page: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of a sample's page; ``asked``: ``left`` and ``right`` by key, else the first two.

    A single episode is shown alone. Episodes of other runs are included if their sample is the same. NotFound: no such
    sample or episode.
    """
    own = runs[number - 1].by_sample.get(page)
    if own is None:
        raise NotFound(f"no finished episode of that sample in the run {runs[number - 1].name!r}")
    sample = runs[number - 1].samples[own[0].sample]
    entries = {
        f"{one}-{episode_stem(episode_page(score))}": (one, score)
        for one in (number, *(other for other in range(1, len(runs) + 1) if other != number))
        for score in runs[one - 1].by_sample.get(page, ())
        if one == number or runs[one - 1].samples[score.sample] == sample
    }
    keys = list(entries)
    left = _asked(entries, asked, "left", keys[0])
    right = _asked(entries, asked, "right", next((key for key in keys if key != left), keys[0]))
    chosen = tuple(dict.fromkeys((left, right)))
    sides = []
    for key in chosen:
        one, score = entries[key]
        trajectory = runs[one - 1].trajectory(score.episode)
        name, read = runs[one - 1].name, rows_read(trajectory)
        sides.append(EpisodeSide(number=one, key=key, run=name, score=score, trajectory=trajectory, read=read))
    both = frozenset.intersection(*(side.read for side in sides))
    return {
        "run": runs[number - 1],
        "sample": sample,
        "sides": sides,
        "question": question_text(get_task(sample.task), sample),
        "chosen": (left, right),
        "entries": [
            (key, f"{runs[one - 1].name}: {contender(score)}, epoch {score.epoch}")
            for key, (one, score) in entries.items()
        ],
        "official": official_names(runs[number - 1].labels[sample.task]),
        "shared": len(both),
        "alone": [len(side.read - both) for side in sides],
        "turns": list(zip_longest(*(_calls(side.trajectory) for side in sides), fillvalue=()))[:MOST_TURNS],
        "most_turns": MOST_TURNS,
    }


def _asked(entries: Mapping[str, Any], asked: Mapping[str, str], side: str, usual: str) -> str:
    key = asked.get(side) or usual
    if key not in entries:
        raise NotFound(f"no episode {key!r} on this sample")
    return key


def _calls(trajectory: Trajectory) -> list[tuple[str, ...]]:
    """Return the calls of each turn in one line; for a turn without calls the beginning of its text."""
    acts = [turn for turn in trajectory.turns if turn.purpose == "act"]
    return [
        tuple(_short(f"{call.name} {call.arguments}") for call in turn.reply.tool_calls)
        or (_short(turn.reply.content or "no text"),)
        for turn in acts
    ]


def _short(text: str) -> str:
    return text if len(text) <= _CALL else f"{text[:_CALL]} …"
