"""The candidate tables of the decisions: the names that training subjects' events have, by how many have them.

Nothing of a question takes part: not its target, not its subject (a training subject is asked with what other groups
have). The published candidates are the neighbours of each target instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wardround.benchmarks.clinseek.decision import DecisionAsking
from wardround.benchmarks.clinseek.definitions import space_name
from wardround.benchmarks.clinseek.timeline import Timelines
from wardround.tools.candidates import CandidateSpace, SeenByGroup, seen_space


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
