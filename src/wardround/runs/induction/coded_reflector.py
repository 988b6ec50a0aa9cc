"""The Reflector in code: from counts of what followed what, over steps that were not foretold, to rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wardround.protocols import ProtocolRule, RuleOrigin
from wardround.runs.induction.growing import GrownRule, InductionSettings, grow_rules
from wardround.runs.induction.step_table import StepTable

PRIOR = "PRIOR"
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
    return " AND ".join(sorted(table.triggers[place] for place in rule.triggers))


def _rule(table: StepTable, trigger: str, grown: Sequence[GrownRule], place: int) -> ProtocolRule:
    """One rule; its precision is that of its surest action."""
    said = tuple(_said(*table.actions[one.action]) for one in grown)
    shares = tuple(round(one.share, 4) for one in grown)
    return ProtocolRule(
        id=f"C{place + 1:03d}",
        category=table.actions[grown[0].action][0],
        trigger=trigger,
        actions=said,
        text=f"IF {trigger} THEN {'; '.join(said)}.",
        provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
        support=grown[0].support,
        precision=shares[0],
        shares=shares,
    )


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
