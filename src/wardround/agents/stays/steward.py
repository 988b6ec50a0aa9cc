"""The Steward, which maintains the patient's state; rendering of state, rules and bundles for prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby, takewhile

from wardround.agents.loop.context import TokenCounter
from wardround.agents.stays.router import HeldRule, Suspicion
from wardround.agents.stays.settings import When
from wardround.clinical.bundles import Bundle, DoneAction, EventKind, PatientState, Trend, ValueLevel, bundle_text, fold
from wardround.clinical.bundles.fold import as_they_read

# The patient's part of a prompt: the state with numbered entries, rules, and bundles, each within its own tokens.
#
# Entries that do not fit are left out from the end and counted in the last line; no part grows with the stay.


_ABNORMAL = (ValueLevel.LOW, ValueLevel.HIGH, ValueLevel.BELOW_BASELINE, ValueLevel.ABOVE_BASELINE)
_SAID = {level: level.name.lower().replace("_", " ") for level in _ABNORMAL}
_DONE = {EventKind.MEDICATION_START: "started", EventKind.ADMINISTRATION: "given", EventKind.INFUSION_START: "run"}
"""The verb by kind of drug action; all others are "done"."""
_ROOM_FOR_NOTICE = 12
"""Tokens reserved for the line that counts left-out entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownState:
    """The state as text, with the ids of its entries, which may be cited."""

    text: str
    ids: Mapping[str, str]


def shown_state(
    state: PatientState, suspected: Mapping[str, Suspicion], counter: TokenCounter, most_tokens: int
) -> ShownState:
    """Return the state with its entries numbered ``S-01``, the most important first."""
    return numbered(_entries(state, suspected), counter, most_tokens)


def numbered(entries: Iterable[str], counter: TokenCounter, most_tokens: int) -> ShownState:
    """Return numbered entries of a state, as many as fit; left-out entries cannot be cited."""
    entries = [f"S-{place:02d} {entry}" for place, entry in enumerate(entries, start=1)]
    kept = lines_that_fit(entries, counter, most_tokens)
    shown = entries[: len(kept)] if len(kept) == len(entries) else entries[: len(kept) - 1]
    return ShownState(text="\n".join(kept), ids={line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in shown})


def _entries(state: PatientState, suspected: Mapping[str, Suspicion]) -> Iterator[str]:
    yield from (f"allergy: {allergy.concept}" for allergy in state.allergies.values())
    yield from (f"suspected problem: {name} (by rule {one.rule})" for name, one in suspected.items())
    problems = [
        problem.concept
        for problem in reversed(tuple(state.problems.values()))
        if problem.concept not in state.allergies
    ]
    yield from (f"problem: {name}" for name in problems)
    running = sorted(
        state.medications.values(), key=lambda medication: (medication.since, medication.row_id), reverse=True
    )
    yield from (f"given now: {drug.concept}{_dose(drug.dose, drug.unit)}" for drug in running)
    trends = sorted(state.trends.values(), key=_newest_abnormal)
    yield from (f"trend: {_trend(trend)}" for trend in trends if trend.last.level in _ABNORMAL)
    done = sorted(sorted(state.actions.values(), key=_done_how), key=lambda action: action.last, reverse=True)
    for (verb, count, last), together in groupby(done, key=lambda action: (*_done_how(action), action.last)):
        times = f" (x{count})" if count > 1 else ""
        yield f"last {verb}: {'; '.join(action.concept for action in together)} {last:%d %b %H:%M}{times}"
    yield from (f"last value: {_trend(trend)}" for trend in trends if trend.last.level not in _ABNORMAL)


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
    """Return the selected rules, each with its actions that are not done yet."""
    lines = [f"[{rule.id}] {rule.compiled.rule.wording}{_due(rule)}" for rule in rules]
    return "\n".join(lines_that_fit(lines, counter, most_tokens))


def _due(rule: HeldRule) -> str:
    """Return a rule's actions that are not done yet, unless its sentence names them already."""
    if not rule.due:
        return " All of it is done."
    whole = len(rule.due) == len(rule.compiled.actions)
    return f" Still to be done: {'all of it' if whole else '; '.join(map(str, rule.due))}."


def newest_bundles(bundles: Sequence[Bundle], counter: TokenCounter, most_tokens: int) -> str:
    """Return as many of the newest bundles as fit, in order; at least the end of the newest."""
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
    """Return the bundles of an hour and later, from sorted bundles."""
    recent = list(takewhile(lambda bundle: bundle.hour >= oldest, reversed(bundles)))
    return recent[::-1]


def lines_that_fit(lines: Sequence[str], counter: TokenCounter, most_tokens: int) -> list[str]:
    """Return the first lines that fit, and a line that counts the rest, if any."""
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


# The Steward: the exact state after every bundle, and the raw bundles that prompts still show (the paper's mitosis).


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorbed:
    """The bundles that the state has just absorbed, and the state ``before`` them."""

    before: PatientState | None
    bundles: tuple[Bundle, ...]


@dataclass(slots=True, kw_only=True)
class Steward:
    """Maintains a subject's state.

    ``keeps_all`` False (the ablation): no memory beyond the window, the state is that of the bundles of the last
    ``window_hours`` alone, and prompts show these bundles. ``when``: with ``every_bundle`` a prompt shows the state
    after the newest bundle and that bundle, so nothing is shown twice; with ``at_limit`` the state as of when the
    buffer last passed ``limit_tokens``, and every bundle since.
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
        """Fold a bundle into the state; return the bundles it absorbed. Without a token counter it always absorbs."""
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
        """Return the state after a bundle that was added."""
        if self.keeps_all and self.state is not None:
            return self.state
        state = PatientState(subject_id=bundle.subject_id)
        recent = since(self.past, bundle.hour - timedelta(hours=self.window_hours))
        for place, one in enumerate(recent):
            state = fold(state, one, recent[:place])
        return state

    def states_before(self, bundle: Bundle) -> Iterator[PatientState]:
        """Yield the states after each bundle before the last one, as if its amendments had always held."""
        again = Steward(keeps_all=self.keeps_all, window_hours=self.window_hours)
        read = {bundle.hour: bundle for bundle in as_they_read(self.past)}
        for earlier in self.past:
            if earlier.hour < bundle.hour:
                if earlier.hour in read:
                    again.take_in(read[earlier.hour])
                yield replace(again.state_at(earlier), hour=earlier.hour)

    def shown(self, bundle: Bundle) -> tuple[PatientState | None, Sequence[Bundle]]:
        """Return the state and the bundles that a prompt shows; the state may be None."""
        if not self.keeps_all:
            return None, since(self.past, bundle.hour - timedelta(hours=self.window_hours))
        return self.absorbed, self.buffer or [bundle]
