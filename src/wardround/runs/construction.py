"""What a construction is told, what came of it, and what each of its stages cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from wardround.core import Usage
from wardround.log import LogReader
from wardround.memory.construction import LinkSettings
from wardround.runs.folder import RunFolder

FOLDER = "construction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstructionSettings:
    """``success``: the least score that counts as one; by default that of the task's kind of answer.

    ``rules``: draw by rules, judge nothing; with the ``offline`` model it is always so. ``link``: how edges are made.
    """

    success: float | None = None
    rules: bool = False
    link: LinkSettings = field(default_factory=LinkSettings)


@dataclass(slots=True, kw_only=True)
class Construction:
    """What came of it. ``graph_calls`` are the model calls for entities, names and pairs; ``most_graph_calls`` those of
    the experience that took most. ``notes``: what a peer's memory did, by what it was (added, replaced, linked)."""

    cases: int = 0
    unfinished: int = 0
    attempts: int = 0
    successes: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    added: int = 0
    naming_answers: int = 0
    aliases: int = 0
    linked: int = 0
    edges: Counter[str] = field(default_factory=Counter)
    graph_calls: int = 0
    most_graph_calls: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    problems: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What one kind of question has cost over all constructions of a run: its purpose, calls and tokens."""

    purpose: str
    calls: int
    usage: Usage


def stages(folder: RunFolder, place: str = FOLDER) -> tuple[Stage, ...]:
    """The calls and tokens of construction by purpose; what was asked once counts once, however often it is served.

    ``place``: another folder of the run whose calls are counted.
    """
    calls: Counter[str] = Counter()
    usage: dict[str, Usage] = {}
    if (folder.path / place).is_dir():
        with LogReader(folder.path / place, may_be_empty=True) as reader:
            for turn in (turn for trajectory in reader.trajectories() for turn in trajectory.turns):
                calls[turn.purpose] += 1
                usage[turn.purpose] = usage.get(turn.purpose, Usage()) + turn.usage
    return tuple(Stage(purpose=name, calls=calls[name], usage=usage[name]) for name in sorted(calls))
