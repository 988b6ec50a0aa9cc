"""A stay's timeline for its page: at every step what was foretold, what came, and what the audit said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wardround.answers import StepAction
from wardround.benchmarks import Sample
from wardround.log import Trajectory
from wardround.scoring.steps import MOST, step_hits

_MOST_RULES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """One step in words. ``recall``: by type, hits of decisions, empty where nothing was decided."""

    step: int
    hour: str
    rules: str
    foretold: str
    came: str
    recall: str
    audit: str


def timeline(trajectory: Trajectory, sample: Sample) -> tuple[TimelineStep, ...]:
    """Return a stay's steps in order; none of an episode that was played by turns."""
    came: dict[int, list[str]] = {}
    for action in map(StepAction.parse, sample.target if _by_steps(trajectory) else ()):
        came.setdefault(action.step or 0, []).append(action.name)
    hits: dict[int, list[str]] = {}
    if _by_steps(trajectory):
        for one in step_hits((trajectory.outcome or {}).get("answer"), sample.target):
            hits.setdefault(one.step, []).append(f"{one.kind.lower()} {one.hits}/{one.targets}")
    return tuple(
        TimelineStep(
            step=note.detail["step"],
            hour=note.detail["hour"],
            rules=_rules(note.detail),
            foretold=_foretold(note.detail),
            came=", ".join(came.get(note.detail["step"], ())),
            recall=", ".join(hits.get(note.detail["step"], ())),
            audit=_audit(note.detail.get("audit", {})),
        )
        for note in trajectory.notes
        if note.kind == "step"
    )


def _by_steps(trajectory: Trajectory) -> bool:
    return any(note.kind == "step" for note in trajectory.notes)


def _rules(detail: Mapping[str, Any]) -> str:
    """The rules that were read, those that predictions stand on first; of many the rest is counted."""
    cited = [one for action in detail["actions"] for one in action.get("because", ())]
    read = sorted(detail.get("read", ()), key=lambda one: one not in cited)
    more = f" and {len(read) - _MOST_RULES} more" if len(read) > _MOST_RULES else ""
    return ", ".join(read[:_MOST_RULES]) + more


def _foretold(detail: Mapping[str, Any]) -> str:
    """At most so many names of each type."""
    by_kind: dict[str, list[str]] = {}
    for action in detail["actions"]:
        by_kind.setdefault(action["kind"], []).append(action["name"])
    return "; ".join(f"{kind.lower()}: {', '.join(names[:MOST])}" for kind, names in by_kind.items())


def _audit(audit: Mapping[str, Any]) -> str:
    """Why the model was asked, what code or model found, and what nobody could check."""
    fired, said, unchecked = audit.get("fired", ()), audit.get("critique", ""), audit.get("unchecked", ())
    gate = f" ({', '.join(fired)})" if fired else ""
    found = f"{audit.get('status', '')}{gate}{f': {said}' if said else ''}" if fired or said else ""
    return "; ".join(filter(None, (found, *(f"unchecked: {one}" for one in unchecked))))
