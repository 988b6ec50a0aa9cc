"""The Reflector in code: from counts of what followed what, over steps that were not foretold, to rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wardround.core import check_settings, setting
from wardround.protocols import ProtocolRule, RuleOrigin
from wardround.runs.induction.counting import Action, TriggerCounts

PRIOR = "PRIOR"
_VERBS: Mapping[str, str] = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InductionSettings:
    """How much evidence a rule needs, and how many there may be. The paper prints 441 rules and no thresholds."""

    rules: int = setting(441, "most rules", least=1, source="TRACE, section 5")
    support: int = setting(10, "steps at which a trigger must have held", unit="steps", least=1, source="ours")
    hits: int = setting(4, "steps at which its action must have followed", unit="steps", least=1, source="ours")
    precision: float = setting(0.05, "least share of the first that are the second", least=0, most=1, source="ours")
    lift: float = setting(1.0, "least ratio to how often the action follows any step", least=0, source="ours")
    gain: int = setting(2, "decisions that a rule must foretell and no better one does", least=1, source="ours")
    actions: int = setting(5, "most actions of a type in a rule", least=1, source="ours (Recall@5)")

    def __post_init__(self) -> None:
        check_settings(self)


def reflect(counts: TriggerCounts, settings: InductionSettings) -> tuple[ProtocolRule, ...]:
    """Return rules, the most precise first: each foretells decisions that no more precise one does. Behind them the
    frequency prior, in the category that only the filling arm reads."""
    chosen = _chosen(counts, settings)
    ranked = sorted(chosen, key=lambda trigger: (-_share(counts, trigger, chosen[trigger]), trigger))
    rules = [_rule(counts, trigger, chosen[trigger], place) for place, trigger in enumerate(ranked[: settings.rules])]
    return (*rules, *_prior(counts, settings))


def _chosen(counts: TriggerCounts, settings: InductionSettings) -> dict[str, list[Action]]:
    """Greedy: pairs of trigger and action by precision; one that foretells enough that is not foretold yet is taken."""
    covered: set[tuple[Action, int]] = set()
    chosen: dict[str, list[Action]] = {}
    for trigger, action in _pairs(counts, settings):
        held = chosen.get(trigger, [])
        if sum(kind == action[0] for kind, _ in held) >= settings.actions:
            continue
        new = {(action, step) for step in counts.missed[trigger, action]} - covered
        if len(new) >= settings.gain:
            covered |= new
            chosen.setdefault(trigger, []).append(action)
    return chosen


def _pairs(counts: TriggerCounts, settings: InductionSettings) -> Iterator[tuple[str, Action]]:
    good = [
        (trigger, action)
        for (trigger, action), hits in counts.hits.items()
        if hits >= settings.hits
        and counts.held[trigger] >= settings.support
        and (trigger, action) in counts.missed
        and counts.precision(trigger, action) >= settings.precision
        and counts.lift(trigger, action) >= settings.lift
    ]
    yield from sorted(good, key=lambda pair: (-counts.precision(*pair), -counts.held[pair[0]], pair))


def _share(counts: TriggerCounts, trigger: str, actions: Sequence[Action]) -> float:
    return max(counts.precision(trigger, action) for action in actions)


def _rule(counts: TriggerCounts, trigger: str, actions: Sequence[Action], place: int) -> ProtocolRule:
    """One rule; its precision is that of its surest action."""
    said = tuple(f"{_VERBS[kind]} {name}" for kind, name in actions)
    return ProtocolRule(
        id=f"C{place + 1:03d}",
        category=actions[0][0],
        trigger=trigger,
        actions=said,
        text=f"IF {trigger} THEN {'; '.join(said)}.",
        provenance=RuleOrigin(origin="counted", source="failed steps of training stays"),
        support=counts.held[trigger],
        precision=round(_share(counts, trigger, actions), 4),
    )


def _prior(counts: TriggerCounts, settings: InductionSettings) -> Iterator[ProtocolRule]:
    for kind, verb in _VERBS.items():
        names = sorted((-number, name) for (of, name), number in counts.decided.items() if of == kind)
        if names:
            yield ProtocolRule(
                id=f"PRIOR-{kind}",
                category=PRIOR,
                trigger="hours since stay >= 0",
                actions=tuple(f"{verb} {name}" for _, name in names[: settings.actions]),
                text="What is commonest, whoever the patient is.",
                provenance=RuleOrigin(origin="counted", source="all steps of training stays"),
                support=counts.steps,
                precision=round(-names[0][0] / counts.steps, 4),
            )
