"""Where questions are chosen by what came after them: declared in ``hindsight.toml``, with the reason."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from wardround.benchmarks.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """A reason why questions of some tasks may be there because of what comes later; no ``sources`` are all."""

    name: str
    tasks: tuple[str, ...]
    reason: str
    sources: tuple[str, ...] = ()

    def holds(self, task: str, source: str) -> bool:
        """Whether it holds for a task in a source."""
        return task in self.tasks and (not self.sources or source in self.sources)


def hindsight_of(task: str, source: str) -> str | None:
    """Say why a task's questions may be chosen by what comes later, None where they may not."""
    return next((one.reason for one in load_hindsight() if one.holds(task, source)), None)


def hindsight_facts(tasks: Sequence[Task], source: str) -> dict[str, str]:
    """Say in a manifest which tasks' questions are chosen by what comes later, and why."""
    reasons = {task.name: hindsight_of(task.name, source) for task in tasks}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def draw_reason() -> str:
    """Say why another of a subject's events may be drawn in another future."""
    return next(one.reason for one in load_hindsight() if one.name == "one event of a subject")


@cache
def load_hindsight() -> tuple[Hindsight, ...]:
    """Return every declared reason."""
    text = resources.files("wardround.benchmarks").joinpath("hindsight.toml").read_text(encoding="utf-8")
    return tuple(
        Hindsight(
            name=body["name"],
            tasks=tuple(body["tasks"]),
            reason=body["reason"],
            sources=tuple(body.get("sources", ())),
        )
        for body in tomllib.loads(text)["hindsight"]
    )
