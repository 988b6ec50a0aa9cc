"""The Steward keeps the patient's state; the rendering of state, rules and bundles for prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby, takewhile

from wardround.agents.loop.history import TokenCounter
from wardround.agents.stays.router import HeldRule, Suspicion
from wardround.agents.stays.settings import When
from wardround.clinical.bundles import Bundle, DoneAction, EventKind, PatientState, Trend, ValueLevel, bundle_text, fold
from wardround.clinical.bundles.fold import as_they_read

# What a prompt shows of a patient: the state with numbered entries, rules, and bundles, each within its own tokens.
#
# What has no room is left out from the end and counted in the last line; nothing here grows with the stay.


_ABNORMAL = (ValueLevel.LOW, ValueLevel.HIGH, ValueLevel.BELOW_BASELINE, ValueLevel.ABOVE_BASELINE)
_SAID = {level: level.name.lower().replace("_", " ") for level in _ABNORMAL}
_DONE = {EventKind.MEDICATION_START: "started", EventKind.ADMINISTRATION: "given", EventKind.INFUSION_START: "run"}
"""What was done with a drug; all else was done."""
_ROOM_FOR_NOTICE = 12
"""Tokens kept for the line that says how much is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownState:
    """The state as text, and the ids of the entries it shows, by which it may be cited."""

    text: str
    ids: Mapping[str, str]


def shown_state(
    state: PatientState, suspected: Mapping[str, Suspicion], counter: TokenCounter, most_tokens: int
) -> ShownState:
    """Return the state with its entries numbered ``S-01``, what matters most first."""
    return numbered(_entries(state, suspected), counter, most_tokens)


def numbered(entries: Iterable[str], counter: TokenCounter, most_tokens: int) -> ShownState:
    """Return entries of a state, numbered as far as they fit: what is left out cannot be cited."""
    entries = [f"S-{place:02d} {entry}" for place, entry in enumerate(entries, start=1)]
    kept = lines_that_fit(entries, counter, most_tokens)
    shown = entries[: len(kept)] if len(kept) == len(entries) else entries[: len(kept) - 1]
    return ShownState(text="\n".join(kept), ids={line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in shown})


def _entries(state: PatientState, suspected: Mapping[str, Suspicion]) -> Iterator[str]:
    yield from (f"allergy: {one.concept}" for one in state.allergies.values())
    yield from (f"suspected problem: {name} (by rule {one.rule})" for name, one in suspected.items())
    problems = [one.concept for one in reversed(tuple(state.problems.values())) if one.concept not in state.allergies]
    yield from (f"problem: {name}" for name in problems)
    running = sorted(state.medications.values(), key=lambda one: (one.since, one.row_id), reverse=True)
    yield from (f"given now: {one.concept}{_dose(one.dose, one.unit)}" for one in running)
    trends = sorted(state.trends.values(), key=_newest_abnormal)
    yield from (f"trend: {_trend(one)}" for one in trends if one.last.level in _ABNORMAL)
    done = sorted(sorted(state.actions.values(), key=_done_how), key=lambda one: one.last, reverse=True)
    for (verb, count, last), together in groupby(done, key=lambda one: (*_done_how(one), one.last)):
        times = f" (x{count})" if count > 1 else ""
        yield f"last {verb}: {'; '.join(one.concept for one in together)} {last:%d %b %H:%M}{times}"
    yield from (f"last value: {_trend(one)}" for one in trends if one.last.level not in _ABNORMAL)


def _done_how(action: DoneAction) -> tuple[str, int]:
    return _DONE.get(action.kind, "done"), action.count


def _newest_abnormal(trend: Trend) -> tuple[float, str]:
    return -trend.last.time.timestamp(), trend.concept


def _dose(dose: str | None, unit: str | None) -> str:
    return f" {dose} {unit or ''}".rstrip() if dose else ""


def _trend(trend: Trend) -> str:
    unit = f" {trend.unit}" if trend.unit else ""
    moving = f", {trend.direction} by {trend.change:+g} in {trend.hours:.0f} h" if len(trend.readings) > 1 else ""
    level = f" {_SAID[trend.last.level]}" if trend.last.level in _SAID else ""
    return f"{trend.concept} {trend.last.value:g}{unit}{level}{moving}"


def shown_rules(rules: Sequence[HeldRule], counter: TokenCounter, most_tokens: int) -> str:
    """Return the rules that are read, with what of each is still to be done."""
    lines = [f"[{one.id}] {one.compiled.rule.wording}{_due(one)}" for one in rules]
    return "\n".join(lines_that_fit(lines, counter, most_tokens))


def _due(rule: HeldRule) -> str:
    """What of a rule is still to be done; its actions, which its sentence names, are not said twice."""
    if not rule.due:
        return " All of it is done."
    whole = len(rule.due) == len(rule.compiled.actions)
    return f" Still to be done: {'all of it' if whole else '; '.join(map(str, rule.due))}."


def newest_bundles(bundles: Sequence[Bundle], counter: TokenCounter, most_tokens: int) -> str:
    """Return as many of the newest bundles as fit, in their order; at least the end of the newest."""
    kept: list[str] = []
    room = most_tokens
    for bundle in reversed(bundles):
        text = bundle_text(bundle)
        need = counter.count(text) + 1
        if need > room:
            if not kept:
                kept.append("\n".join(lines_that_fit(text.split("\n"), counter, most_tokens)))
            break
        kept.append(text)
        room -= need
    return "\n".join(reversed(kept))


def since(bundles: Sequence[Bundle], oldest: datetime) -> list[Bundle]:
    """Return the bundles of an hour and later, of bundles in order."""
    recent = list(takewhile(lambda bundle: bundle.hour >= oldest, reversed(bundles)))
    return recent[::-1]


def lines_that_fit(lines: Sequence[str], counter: TokenCounter, most_tokens: int) -> list[str]:
    """Return the first lines that fit, and a line that counts the rest where there is one."""
    kept: list[str] = []
    room = most_tokens
    for place, line in enumerate(lines):
        need = counter.count(line) + 1
        last = place == len(lines) - 1
        if need > (room if last else room - _ROOM_FOR_NOTICE):
            return [*kept, f"({len(lines) - place} more, left out for room)"]
        kept.append(line)
        room -= need
    return kept


# The Steward: the exact state after every bundle, and the raw bundles that prompts still show (mitosis).


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorbed:
    """The bundles that the state has just taken in, and the state ``before`` them."""

    before: PatientState | None
    bundles: tuple[Bundle, ...]


@dataclass(slots=True, kw_only=True)
class Steward:
    """Keeps a subject's state. ``keeps_all``: without it (the ablation) there is no memory beyond the window: the state
    is that of the bundles of the last ``window_hours`` alone.

    ``when``: with ``every_bundle`` a prompt shows the state after the newest bundle and that bundle, so that nothing of
    the record is shown twice; with ``at_limit`` the state as it was when the buffer last passed ``limit_tokens``, and
    every bundle since. The ablation has no state to rely on: it is shown the bundles of the window.
    """

    keeps_all: bool = True
    window_hours: float = 6.0
    when: When = "every_bundle"
    limit_tokens: int = 1_200
    state: PatientState | None = None
    absorbed: PatientState | None = None
    past: list[Bundle] = field(default_factory=list)
    buffer: list[Bundle] = field(default_factory=list)
    buffered_tokens: int = 0
    mitoses: int = 0

    def take_in(self, bundle: Bundle, counter: TokenCounter | None = None) -> Absorbed | None:
        """Fold a bundle into the state; return what the state absorbed. Without a counter it always absorbs."""
        if self.keeps_all:
            before = PatientState(subject_id=bundle.subject_id) if self.state is None else self.state
            self.state = fold(before, bundle, self.past)
        self.past.append(bundle)
        self.buffer.append(bundle)
        self.buffered_tokens += 0 if counter is None else counter.count(bundle_text(bundle)) + 1
        if counter is None or self.when == "every_bundle" or self.buffered_tokens > self.limit_tokens:
            return self._absorb()
        return None

    def _absorb(self) -> Absorbed:
        absorbed = Absorbed(before=self.absorbed, bundles=tuple(self.buffer))
        self.absorbed = self.state
        self.buffer = []
        self.buffered_tokens = 0
        self.mitoses += 1
        return absorbed

    def state_at(self, bundle: Bundle) -> PatientState:
        """Return the state after a bundle that was taken in."""
        if self.keeps_all and self.state is not None:
            return self.state
        state = PatientState(subject_id=bundle.subject_id)
        recent = since(self.past, bundle.hour - timedelta(hours=self.window_hours))
        for place, one in enumerate(recent):
            state = fold(state, one, recent[:place])
        return state

    def states_before(self, bundle: Bundle) -> Iterator[PatientState]:
        """Yield the states after each bundle before one that was taken in, as if what it amends had always been so."""
        again = Steward(keeps_all=self.keeps_all, window_hours=self.window_hours)
        read = {one.hour: one for one in as_they_read(self.past)}
        for told in self.past:
            if told.hour < bundle.hour:
                if told.hour in read:
                    again.take_in(read[told.hour])
                yield replace(again.state_at(told), hour=told.hour)

    def shown(self, bundle: Bundle) -> tuple[PatientState | None, Sequence[Bundle]]:
        """Return the state and the bundles that a prompt shows; no state without one."""
        if not self.keeps_all:
            return None, since(self.past, bundle.hour - timedelta(hours=self.window_hours))
        return self.absorbed, self.buffer or [bundle]
