"""Induction: counts by hand, rules by precision, only training people, and a run on them refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from wardround.agents.stays.charted import StateFacts
from wardround.cli import main
from wardround.clinical.bundles import EventKind, PatientState
from wardround.clinical.bundles.state import ActiveMedication, DoneAction
from wardround.clinical.protocols import ProtocolRule, read_protocol
from wardround.core import UserError
from wardround.learning.induction import InductionSettings, induce_protocol
from wardround.learning.induction.coded_reflector import GrownRule, grow_rules, reflect
from wardround.learning.induction.inducing import done_so_far, with_measures, within_budget
from wardround.learning.induction.step_table import (
    RUNNING,
    Action,
    StepTable,
    TrainingStep,
    candidate_triggers,
    cut_points,
    decisions_of,
)
from wardround.records import Store
from wardround.runs import RunSettings, start
from wardround.tasks.answers import StepAction
from wardround.tasks.benchmarks import Benchmark

EKG, HEPARIN, SODIUM = ("PROCEDURES", "EKG"), ("MEDICATIONS", "Heparin"), ("LABS", "Sodium")


def step(number: int, triggers: set[str], *decided: Action, foretold: tuple[Action, ...] = ()) -> TrainingStep:
    """A step of a stay of its own, at which nothing was done yet."""
    return TrainingStep(
        stay=number, hour=1.0, triggers=frozenset(triggers), done={}, decided=decided, predicted=foretold
    )


def hundred() -> StepTable:
    """100 steps: after a low value in 10 of them an EKG follows 8 times; heparin follows anything 10 times."""
    steps = []
    for number in range(100):
        decided = [EKG] if number < 8 else []
        decided += [HEPARIN] if number % 10 == 9 else []
        steps.append(step(number, {"always", *(["Hemoglobin < 9"] if number < 10 else [])}, *decided))
    return StepTable.of(steps, support=5, hits=2)


PLAIN = InductionSettings(support=5, hits=2, smoothing=0, caution=0, conditions=1)


def grown(table: StepTable, action: Action, settings: InductionSettings = PLAIN) -> list[GrownRule]:
    return list(grow_rules(table, table.actions.index(action), settings))


def named(rule: GrownRule, table: StepTable) -> tuple[str, ...]:
    return tuple(table.triggers[place] for place in rule.triggers)


def test_counts_by_hand() -> None:
    table = hundred()
    (rule,) = grown(table, EKG)
    assert (named(rule, table), rule.support, rule.hits, rule.gain) == (("Hemoglobin < 9",), 10, 8, 8)
    assert rule.share == pytest.approx(0.8)
    (common,) = grown(table, HEPARIN)
    assert (named(common, table), common.share) == (("always",), pytest.approx(0.1))


def test_a_share_is_drawn_towards_the_prior_by_the_steps_of_smoothing() -> None:
    """Eight of ten, and ten more steps of a prior of 0.08: 8.8 of 20."""
    (rule,) = grown(hundred(), EKG, InductionSettings(support=5, hits=2, smoothing=10, caution=0, conditions=1))
    assert rule.share == pytest.approx(8.8 / 20)


def test_the_precise_trigger_is_the_rule_and_what_it_covers_is_no_gain_to_another() -> None:
    rules = reflect(hundred(), PLAIN)
    assert [(one.trigger, one.actions, one.shares) for one in rules if one.category != "PRIOR"] == [
        ("Hemoglobin < 9", ("perform EKG",), (0.8,)),
        ("always", ("start Heparin",), (0.1,)),
    ]
    assert rules[0].support == 10


def test_a_rule_names_its_surest_action_first() -> None:
    """After t heparin starts 12 times of 20 and an EKG follows 18 times; of the names heparin's comes first."""
    steps = [step(n, {"t"}, *[EKG] * (n < 18), *[HEPARIN] * (n < 12)) for n in range(20)]
    steps += [step(n, {"other"}) for n in range(20, 80)]
    (rule,) = [one for one in reflect(StepTable.of(steps, support=5, hits=2), PLAIN) if one.trigger == "t"]
    assert (rule.actions, rule.shares) == (("perform EKG", "start Heparin"), (0.9, 0.6))


def test_weights_by_hand() -> None:
    """Ten steps of 100 have a low value. With x of the first, y of the second trigger and a penalty of 30, an EKG
    (8 times, each after a low value) solves 40 x + 10 y = 8 and 10 x + 130 y = 8; heparin 40 x + 10 y = 1, 10 x + 130 y
    = 10."""
    settings = replace(PLAIN, shrinkage=30.0)
    low, always = (one.weights for one in reflect(hundred(), settings) if one.category != "PRIOR")
    assert low == {"perform EKG": 0.188, "start Heparin": 0.006}
    assert always == {"start Heparin": 0.076, "perform EKG": 0.047}


def test_a_stay_of_many_decisions_weighs_as_much_as_one_of_few() -> None:
    """One stay has two steps with both decisions, the other two steps with none or one: 1/4, 1/4, 1, 1, over their mean
    of 0.625. One rule holds at all: sodium, decided at the first three, solves (0.4 + 0.4 + 1.6 + 1.6 + 6) x = 2.4."""
    steps = [
        TrainingStep(stay=stay, hour=float(hour), triggers=frozenset({"t"}), done={}, decided=decided)
        for stay, hour, decided in ((0, 1, (EKG, SODIUM)), (0, 2, (EKG, SODIUM)), (1, 1, (SODIUM,)), (1, 2, ()))
    ]
    table = StepTable.of(steps, support=1, hits=1)
    assert table.step_weights.tolist() == pytest.approx([0.4, 0.4, 1.6, 1.6])
    rule = reflect(table, replace(PLAIN, support=1, hits=1, shrinkage=6.0))[0]
    assert rule.weights == {"order Sodium": 0.24, "perform EKG": 0.08}


def test_a_rule_speaks_while_its_trigger_holds_and_its_action_was_not_done_since() -> None:
    """Held from hour 2 on, done at hour 3: due at hours 2 and 3, not at 4 and 5. Another stay begins anew."""
    done = {3: 3.5, 4: 3.5}
    steps = [
        TrainingStep(
            stay=stay,
            hour=float(hour),
            triggers=frozenset({"t"} if hour >= 2 else set()),
            done={EKG: done[hour - 1]} if hour - 1 in done and stay == 0 else {},
            decided=(EKG,),
        )
        for stay in (0, 1)
        for hour in range(1, 6)
    ]
    table = StepTable.of(steps, support=1, hits=1)
    assert table.due(0)[0].tolist() == [False, True, True, False, False, *[False, True, True, True, True]]


def test_conditions_are_joined_where_they_make_a_rule_surer() -> None:
    """EKG follows a and b together, and neither alone; the other half of a is followed by none."""
    steps = [step(n, {"a", "b"}, EKG) for n in range(20)]
    steps += [step(n, {"a"}) for n in range(20, 40)] + [step(n, {"b"}) for n in range(40, 70)]
    table = StepTable.of(steps, support=5, hits=2)
    joined = InductionSettings(support=5, hits=2, smoothing=0, caution=0, conditions=2)
    assert [(named(one, table), one.share) for one in grown(table, EKG, joined)] == [(("a", "b"), 1.0)]
    assert [(named(one, table), one.share) for one in grown(table, EKG)] == [(("a",), 0.5)]
    assert reflect(table, joined)[0].trigger == "a AND b"


def test_what_was_foretold_teaches_nothing() -> None:
    table = StepTable.of([step(n, {"t"}, EKG, foretold=(EKG,)) for n in range(20)], support=5, hits=2)
    assert [one.category for one in reflect(table, InductionSettings())] == ["PRIOR"]


def test_a_budget_of_calls_bounds_the_failed_steps_that_teach() -> None:
    """20 steps fail, one was foretold; of 5 calls 5 teach, and how common the action is stays what it was."""
    steps = [step(n, {"t"}, EKG) for n in range(20)] + [step(20, {"t"}, EKG, foretold=(EKG,))]
    kept = within_budget(steps, 5, seed=1)
    table = StepTable.of(kept, support=5, hits=2)
    assert (int(table.missed.sum()), table.rate(0)) == (5, 1.0)
    assert within_budget(steps, 5, seed=1) == kept != within_budget(steps, 5, seed=2)
    assert within_budget(steps, 100, seed=1) == steps


HOUR = datetime(2150, 3, 10, 9)


def done(kind: EventKind, concept: str, hours_ago: float, count: int) -> tuple[tuple[EventKind, str], DoneAction]:
    """An action that was last done so long before the end of the hour."""
    last = HOUR + timedelta(hours=1) - timedelta(hours=hours_ago)
    return (kind, concept), DoneAction(concept=concept, kind=kind, last=last, count=count, row_id="r:1")


def holding(*actions: tuple[tuple[EventKind, str], DoneAction], began: datetime) -> set[str]:
    state = PatientState(subject_id=1, hour=HOUR, actions=dict(actions))
    return set(candidate_triggers(StateFacts(state, HOUR, window_hours=6, began=began), {}))


def test_triggers_of_what_was_done_and_of_the_time() -> None:
    """A procedure counts by the hours since, up to a day; a test by its waits."""
    first_hours = holding(
        done(EventKind.PROCEDURE, "EKG", 1.5, 1),
        done(EventKind.LAB, "Lactate", 6.0, 2),
        done(EventKind.LAB, "Ferritin", 6.0, 1),
        began=HOUR,
    )
    assert first_hours == {
        "hours since stay < 2",
        "hour of day >= 8 AND hour of day < 10",
        *(f"hours since EKG < {end}" for end in (2, 4, 8, 12)),
        *(f"hours since EKG >= 1 AND hours since EKG < {end}" for end in (2, 4)),
        *(f"hours since {name} >= {wait}" for name in ("Lactate", "Ferritin") for wait in (1, 2, 3, 4, 6)),
    }
    later = holding(done(EventKind.PROCEDURE, "EKG", 24.0, 3), began=HOUR - timedelta(hours=1))
    assert later == {"hours since stay >= 2", "hour of day >= 8 AND hour of day < 10"}


def test_no_more_rules_than_the_budget_and_those_that_foretell_most() -> None:
    rules = reflect(hundred(), InductionSettings(support=5, hits=2, smoothing=0, caution=0, conditions=1, rules=1))
    assert [one.trigger for one in rules if one.category != "PRIOR"] == ["always"]


def test_cut_points_are_shares_of_training_values_and_need_twenty() -> None:
    cuts = cut_points({"a": [float(n) for n in range(101)], "b": [1.0] * 19})
    assert set(cuts) == {"a"}
    assert cuts["a"][0] == pytest.approx(5)
    assert cuts["a"][-1] == pytest.approx(95)


@pytest.fixture(scope="module")
def induced(synthetic_store: Store, synthetic_stays_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("induced") / "induced.toml"
    words = ["protocol", "induce", str(path), "--benchmark", str(synthetic_stays_path), "--limit", "6"]
    assert main([*words, "--store", str(synthetic_store.path)]) == 0
    return path


def test_an_induced_file_is_a_protocol_that_says_whom_it_came_from(induced: Path, synthetic_store: Store) -> None:
    protocol = read_protocol(induced)
    assert protocol.induced is not None
    assert (protocol.induced.stays, protocol.induced.source) == (6, "mimiciv")
    assert len(protocol) > 3
    assert main(["protocol", "lint", str(induced)]) in (0, 1)
    text = induced.read_text(encoding="utf-8")
    assert not any(str(subject) in text for subject in synthetic_store.subjects.tolist())


def test_a_decision_keeps_its_kind(induced: Path, synthetic_stays_path: Path) -> None:
    """A drug is started, a test ordered, a procedure performed; one name may be a drug and a test."""
    verbs = {"MEDICATIONS": "start", "LABS": "order", "PROCEDURES": "perform"}
    decided = {
        f"{verbs[action.kind]} {action.name}"
        for sample in Benchmark.open(synthetic_stays_path).samples(split="train")
        for action in map(StepAction.parse, sample.target)
    }
    asked = {action for rule in read_protocol(induced).rules for action in rule.actions}
    assert {action.split()[0] for action in asked} >= {"order", "perform"}
    assert asked <= decided
    stay = next(iter(Benchmark.open(synthetic_stays_path).samples(split="train")))
    both = [str(StepAction(step=3, kind=kind, name="Magnesium")) for kind in ("MEDICATIONS", "LABS")]
    assert decisions_of(replace(stay, target=tuple(both))) == {3: [("MEDICATIONS", "Magnesium"), ("LABS", "Magnesium")]}


def test_an_action_is_done_where_it_is_done_as_its_kind(synthetic_stays_path: Path, synthetic_store: Store) -> None:
    """To start a drug is not to order a test of its name, wherever that is counted."""
    samples = [sample for sample in Benchmark.open(synthetic_stays_path).all_samples if sample.target][:4]
    decided = [one for sample in samples for some in decisions_of(sample).values() for one in some]
    (kind, name), _ = Counter(one for one in decided if one[0] == "MEDICATIONS").most_common(1)[0]
    assert ("LABS", name) not in decided
    started, ordered = (
        ProtocolRule(id=verb, category="C", trigger="hours since stay >= 0", actions=(f"{verb} {name}",))
        for verb in ("start", "order")
    )
    found = with_measures((started, ordered), synthetic_store, samples)
    assert all(rule.support > 0 for rule in found)
    assert found[0].precision is not None
    assert (found[0].precision > 0, found[1].precision) == (True, 0.0), kind


def test_a_test_of_the_name_of_a_running_drug_was_last_done_when_it_was_drawn() -> None:
    began = datetime(2150, 3, 10, 8)
    drawn = DoneAction(
        concept="Magnesium", kind=EventKind.LAB, last=began + timedelta(hours=2), count=1, row_id="labevents:1"
    )
    runs = ActiveMedication(
        concept="Magnesium", kind=EventKind.MEDICATION_START, dose="", unit="", since=began, row_id="inputevents:1"
    )
    state = PatientState(
        subject_id=1,
        hour=began + timedelta(hours=5),
        actions={(drawn.kind, drawn.concept): drawn},
        medications={"Magnesium": runs},
    )
    facts = StateFacts(state, state.hour, window_hours=6, began=began)
    asked = [("MEDICATIONS", "Magnesium"), ("LABS", "Magnesium")]
    assert done_so_far(facts, asked, began) == {asked[0]: RUNNING, asked[1]: 2.0}


def test_a_run_on_the_people_it_came_from_is_refused(
    induced: Path, synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path
) -> None:
    settings = {
        "store": str(synthetic_store_path),
        "benchmark": str(synthetic_stays_path),
        "agents": ["trace"],
        "protocol": str(induced),
    }
    with pytest.raises(UserError, match="was induced from people of this split"):
        start(tmp_path / "train", RunSettings.of(**settings, split="train"))
    start(tmp_path / "test", RunSettings.of(**settings, split="test"))


def test_a_benchmark_without_stays_teaches_nothing(synthetic_store: Store, synthetic_benchmark_path: Path) -> None:
    with pytest.raises(UserError, match="no training stays"):
        induce_protocol(Benchmark.open(synthetic_benchmark_path), synthetic_store, InductionSettings())
