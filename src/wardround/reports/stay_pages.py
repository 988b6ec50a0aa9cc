"""Pages of a stay: every hour with its bundle, predictions, audit and outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.clinical.bundles import BundleEvent, PatientState, Trend, bundle_text, event_text, states
from wardround.clinical.bundles.events import EventKind, amends
from wardround.clinical.codes import normalise_label
from wardround.core import UserError
from wardround.log import Trajectory
from wardround.records import Store
from wardround.runs.models import protocols_of
from wardround.runs.settings import RunSettings
from wardround.runs.stays import played_bundles
from wardround.tasks.answers import StepAction
from wardround.tasks.benchmarks import Sample
from wardround.tasks.scoring.stays import MOST, step_hits

# The hours of a stay for its page, from the store: the bundle, the changes of the state, the amended rows.


_LONGEST = 4_000
"""Characters of a bundle in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StayHour:
    """One hour in words. ``changes``: entries of the state that were added, removed or changed; ``amended``: rows shown
    before whose content changed now, or that were withdrawn."""

    bundle: str
    changes: tuple[str, ...]
    amended: tuple[str, ...]


def stay_hours(store: Store, sample: Sample) -> tuple[StayHour, ...]:
    """Return the hours of a stay's steps, in order. UserError: the store does not have them."""
    past, bundles = played_bundles(store, sample)
    every = [*past, *bundles]
    before = PatientState(subject_id=sample.subject_id)
    hours = []
    for bundle, after in zip(every, states(every), strict=True):
        amended = dict.fromkeys(_amendment(event) for event in bundle.events if amends(event))
        changes = tuple(_changes(before, after))
        hours.append(StayHour(bundle=_cut(bundle_text(bundle)), changes=changes, amended=tuple(amended)))
        before = after
    return tuple(hours[len(past) :])


def stay_state(store: Store, sample: Sample, step: int) -> PatientState | None:
    """Return the state of a stay after a step; None if there is no such step. UserError as for ``stay_hours``."""
    past, bundles = played_bundles(store, sample)
    every = list(states([*past, *bundles]))[len(past) :]
    return every[step] if 0 <= step < len(every) else None


def _changes(before: PatientState, after: PatientState) -> Iterator[str]:
    """Yield the changes of the state: by name, and of trends those that are new or change direction."""
    for section in ("problems", "allergies"):
        yield from _came_and_went(
            section, Counter(getattr(before, section).keys()), Counter(getattr(after, section).keys())
        )
    ran, running = (
        Counter(medication.concept for medication in state.medications.values()) for state in (before, after)
    )
    yield from _came_and_went("given now", ran, running)
    yield from _trends(before, after)


def _came_and_went(what: str, before: Counter[str], after: Counter[str]) -> Iterator[str]:
    yield from (f"{what} + {name}" for name in after - before)
    yield from (f"{what} − {name}" for name in before - after)


def _trends(before: PatientState, after: PatientState) -> Iterator[str]:
    newer = [(before.trends.get(key), trend) for key, trend in after.trends.items()]
    newer = [(old, trend) for old, trend in newer if old is None or old.last != trend.last]
    turned = [trend for old, trend in newer if old is None or _turns(old, trend)]
    yield from map(_said, turned)
    yield from (f"trend − {key[1]}" for key in before.trends if key not in after.trends)
    if len(newer) > len(turned):
        yield f"{len(newer) - len(turned)} newer values of the same level and direction"


def _turns(before: Trend, now: Trend) -> bool:
    """Return whether the newest value of a trend has another level or direction than the one before, or is an amended
    reading."""
    same = before.last.time == now.last.time
    return same or (before.last.level, before.direction) != (now.last.level, now.direction)


def _said(trend: Trend) -> str:
    value = f"{trend.last.value:g} {trend.unit or ''}".rstrip()
    return f"{trend.concept} {value}{f', {trend.direction}' if len(trend.readings) > 1 else ''}"


def _amendment(event: BundleEvent) -> str:
    if event.kind is EventKind.RETRACTION:
        return f"{event.concept or event.row_id} withdrawn"
    return f"{event_text(event)}, version {event.revision + 1}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text) - _LONGEST:,} characters more)"


# A stay's timeline for its page: at every step the predictions, the actual decisions, and the audit's result.


_MOST_RULES, _LONGEST_RULE = 15, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class StayProposal:
    """Actions based on the same rules. ``actions``: by type, in words; ``reasons``: each rule's id and text, without
    the text if the protocol is missing; no rule if a model proposed the action by itself."""

    actions: str
    reasons: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """One step in words. ``proposals``: what was proposed, by its rules; ``done``: what was decided until the next
    step, and whether it had been proposed; ``stopped``: what the audit rejected, and its replacement. ``recall``: by
    type, hits of decisions, empty without decisions."""

    step: int
    hour: str
    rules: str
    predicted: str
    proposals: tuple[StayProposal, ...]
    done: tuple[tuple[str, bool], ...]
    came: str
    recall: str
    audit: str
    stopped: tuple[str, ...]


def rule_texts(settings: RunSettings) -> dict[str, str]:
    """Return the text of the rules of a run's protocols, by id, as in their files now; empty if a file is missing."""
    try:
        return {rule.id: _short(rule.wording) for protocol in protocols_of(settings) for rule in protocol.rules}
    except (UserError, OSError):
        return {}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_RULE else f"{text[:_LONGEST_RULE]} …"


def timeline(
    trajectory: Trajectory, sample: Sample, rules: Mapping[str, str] | None = None
) -> tuple[TimelineStep, ...]:
    """Return a stay's steps in order; empty for an episode without steps. ``rules``: their texts by id."""
    came: dict[int, list[str]] = {}
    for action in map(StepAction.parse, sample.target if _by_steps(trajectory) else ()):
        came.setdefault(action.step or 0, []).append(action.name)
    hits: dict[int, list[str]] = {}
    if _by_steps(trajectory):
        for step_hit in step_hits((trajectory.outcome or {}).get("answer"), sample.target):
            hits.setdefault(step_hit.step, []).append(f"{step_hit.kind.lower()} {step_hit.hits}/{step_hit.targets}")
    return tuple(
        TimelineStep(
            step=note.detail["step"],
            hour=note.detail["hour"],
            rules=_rules(note.detail),
            predicted=_by_kind(note.detail["actions"]),
            proposals=tuple(_proposals(note.detail, rules or {})),
            done=tuple(_done(came.get(note.detail["step"], ()), note.detail)),
            came=", ".join(came.get(note.detail["step"], ())),
            recall=", ".join(hits.get(note.detail["step"], ())),
            audit=_audit(note.detail.get("audit", {})),
            stopped=tuple(_stopped(note.detail.get("audit", {}))),
        )
        for note in trajectory.notes
        if note.kind == "step"
    )


def _by_steps(trajectory: Trajectory) -> bool:
    return any(note.kind == "step" for note in trajectory.notes)


def _rules(detail: Mapping[str, Any]) -> str:
    """Return the rules that were read, first those used by predictions; only some of many, and the number of the
    rest."""
    cited = [one for action in detail["actions"] for one in action.get("because", ())]
    read = sorted(detail.get("read", ()), key=lambda one: one not in cited)
    more = f" and {len(read) - _MOST_RULES} more" if len(read) > _MOST_RULES else ""
    return ", ".join(read[:_MOST_RULES]) + more


def _by_kind(actions: Iterable[Mapping[str, Any]]) -> str:
    """Return the first few predicted names of each type."""
    by_kind: dict[str, list[str]] = {}
    for action in actions:
        by_kind.setdefault(action["kind"], []).append(action["name"])
    return "; ".join(f"{kind.lower()}: {', '.join(names[:MOST])}" for kind, names in by_kind.items())


def _proposals(detail: Mapping[str, Any], rules: Mapping[str, str]) -> Iterator[StayProposal]:
    """Group the actions by their rules, in the order in which they were proposed."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for action in detail["actions"]:
        groups.setdefault(tuple(action.get("because", ())), []).append(action)
    for because, actions in groups.items():
        yield StayProposal(actions=_by_kind(actions), reasons=tuple((one, rules.get(one, "")) for one in because))


def _done(names: Sequence[str], detail: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Return what was decided, and whether it is among the proposed names."""
    proposed = {normalise_label(action["name"]) for action in detail["actions"]}
    yield from ((name, normalise_label(name) in proposed) for name in names)


def _stopped(audit: Mapping[str, Any]) -> Iterator[str]:
    """Return each objection with its reason, then the replacement of the rejected action."""
    for one in audit.get("objections", ()):
        yield f"{one['action']}: {one['flaw']}, because {one['because']}"
    corrected = _by_kind(audit.get("corrected_action", ()))
    if corrected:
        yield f"proposed instead: {corrected}"


def _audit(audit: Mapping[str, Any]) -> str:
    """Return why the model was called, what code or model found, and what could not be checked."""
    fired, said, unchecked = audit.get("fired", ()), audit.get("critique", ""), audit.get("unchecked", ())
    gate = f" ({', '.join(fired)})" if fired else ""
    found = f"{audit.get('status', '')}{gate}{f': {said}' if said else ''}" if fired or said else ""
    return "; ".join(filter(None, (found, *(f"unchecked: {one}" for one in unchecked))))
