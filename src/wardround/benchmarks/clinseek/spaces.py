"""The candidate tables of the decisions: the names that training subjects' events have, by how many have them.

Nothing of a question takes part in a table: not its target, not its subject (a training subject is asked with what
other groups have). What a question lists of it holds its target, as the published candidates do, or common names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from wardround.benchmarks.clinseek.decision import DecisionAsking
from wardround.benchmarks.clinseek.definitions import space_name
from wardround.benchmarks.clinseek.timeline import Timelines
from wardround.benchmarks.strata import draw_key
from wardround.tools.candidates import CandidateSpace, SeenByGroup, seen_space

Listing = Literal["target", "common"]
"""Which names a question lists: its target among others, or those in most use."""


def listed_names(space: CandidateSpace, target: Sequence[str], most: int, *seed: object) -> tuple[str, ...]:
    """Return the target among other names, in order of the alphabet: ``most`` in all, but half of them others at least.

    The others are drawn by the seed, each next one in proportion to how many training subjects have it. That a name is
    listed then says nothing of it beyond its use, which everybody is told by the table.
    """
    own = {space.labels.resolve(name) or name for name in target}
    uses = (
        dict.fromkeys(space.labels.labels, 1)
        if space.uses is None
        else dict(zip(space.labels.labels, space.uses.tolist(), strict=True))
    )
    others = [name for name, count in uses.items() if count and name not in own]
    drawn = sorted(others, key=lambda name: -draw_key(float(uses[name]), *seed, name))
    return tuple(sorted({*own, *drawn[: max(most - len(own), most // 2)]}))


def decision_spaces(
    decisions: Sequence[DecisionAsking], groups: Mapping[int, int], timelines: Timelines
) -> dict[str, CandidateSpace]:
    """Return a table for every decision that training subjects have events of."""
    seen = {asking.task: SeenByGroup() for asking in decisions}
    for subject, group in groups.items():
        timeline = timelines.of(subject)
        for asking in decisions:
            names = {name for event in asking.events(timeline).names for name in event}
            seen[asking.task].add(group, dict.fromkeys(sorted(names), ()))
    made = {space_name(one.rule): seen_space(space_name(one.rule), seen[one.task], groups) for one in decisions}
    return {name: space for name, space in made.items() if space is not None}
