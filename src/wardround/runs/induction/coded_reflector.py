"""The Reflector in code: from counts of what followed what, over steps that were not foretold, to rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wardround.protocols import ProtocolRule, RuleOrigin
from wardround.runs.induction.growing import GrownRule, InductionSettings, grow_rules
from wardround.runs.induction.step_table import StepTable

PRIOR = "PRIOR"
_AND = " AND "
_OF_THE_CLOCK: Sequence[tuple[str, str, str]] = (
    ("hours since stay <", "ADMISSION_PRIOR", "The admission prior: what is commonest when a stay begins"),
    ("hours since stay >=", "STAY_PRIOR", "The prior of a stay: what is commonest after its first hours"),
    ("hour of day", "TIME_OF_DAY_PRIOR", "The prior of the time of day: what is commonest at these hours"),
)
"""Rules that ask nothing of the patient: how their triggers begin, their category, what their text says first. A run
reads them as it reads any rule."""
_VERBS: Mapping[str, str] = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}


def reflect(table: StepTable, settings: InductionSettings) -> tuple[ProtocolRule, ...]:
    """Return rules, those of the surest action first: one for each trigger, with the share of every action of it.
    Behind them the frequency prior, in the category that only the filling arm reads."""
    grown = [rule for action in range(len(table.actions)) for rule in grow_rules(table, action, settings)]
    by_trigger: dict[str, list[GrownRule]] = {}
    for rule in grown:
        by_trigger.setdefault(_trigger(table, rule), []).append(rule)
    useful = sorted(by_trigger, key=lambda trigger: (-sum(rule.gain for rule in by_trigger[trigger]), trigger))
    kept = [(trigger, _surest_first(by_trigger[trigger])) for trigger in useful[: settings.rules]]
    ranked = sorted(kept, key=lambda one: (-one[1][0].share, one[0]))
    rules = [_rule(table, trigger, some, place) for place, (trigger, some) in enumerate(ranked)]
    return (*rules, *_prior(table, settings))


def _surest_first(grown: Sequence[GrownRule]) -> list[GrownRule]:
    return sorted(grown, key=lambda rule: (-rule.share, rule.action))


def _trigger(table: StepTable, rule: GrownRule) -> str:
    said = sorted(table.triggers[place] for place in rule.triggers)
    return _AND.join(dict.fromkeys(part for trigger in said for part in trigger.split(_AND)))


def _rule(table: StepTable, trigger: str, grown: Sequence[GrownRule], place: int) -> ProtocolRule:
    """One rule; its precision is that of its surest action."""
    said = tuple(_said(*table.actions[one.action]) for one in grown)
    shares = tuple(round(one.share, 4) for one in grown)
    prior = _prior_of_the_clock(trigger)
    category, text = prior or (table.actions[grown[0].action][0], "")
    rule = f"IF {trigger} THEN {'; '.join(said)}."
    return ProtocolRule(
        id=f"C{place + 1:03d}",
        category=category,
        trigger=trigger,
        actions=said,
        text=f"{text}, whoever the patient is. {rule}" if text else rule,
        provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
        support=grown[0].support,
        precision=shares[0],
        shares=shares,
    )


def _prior_of_the_clock(trigger: str) -> tuple[str, str] | None:
    """Return the category and the words of a rule whose trigger knows only the clock; None of any other."""
    parts = trigger.split(_AND)
    named = [(category, text) for begins, category, text in _OF_THE_CLOCK if parts[0].startswith(begins)]
    clock = all(part.startswith(("hours since stay", "hour of day")) for part in parts)
    return named[0] if named and clock else None


def _said(kind: str, name: str) -> str:
    return f"{_VERBS[kind]} {name}"


def _prior(table: StepTable, settings: InductionSettings) -> Iterator[ProtocolRule]:
    for kind in _VERBS:
        counted = [(-table.rate(row), name) for row, (of, name) in enumerate(table.actions) if of == kind]
        common = sorted(counted)[: settings.common]
        if common:
            shares = tuple(round(-rate, 4) for rate, _ in common)
            yield ProtocolRule(
                id=f"PRIOR-{kind}",
                category=PRIOR,
                trigger="hours since stay >= 0",
                actions=tuple(_said(kind, name) for _, name in common),
                text="What is commonest, whoever the patient is.",
                provenance=RuleOrigin(origin="counted", source="all steps of training stays"),
                support=table.steps,
                precision=shares[0],
                shares=shares,
            )
