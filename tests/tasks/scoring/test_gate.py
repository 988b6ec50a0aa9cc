"""The gate: what harms is closed, too little evidence opens nothing, and a gated bank is no worse than none."""

from __future__ import annotations

from random import Random

import pytest

from wardround.tasks.scoring import HeldOutPairs, gate, holm, paired_test
from wardround.tasks.scoring.gate import GATE_LEVEL, GateStandard, harm_p_value, look_level

TASKS = ("diagnosis", "labs", "treatment")
SEEDS = 20
STANDARDS: tuple[GateStandard, ...] = ("benefit", "no_harm")


def _pairs(source: Random, effect: float, samples: int = 120) -> HeldOutPairs:
    """Plays without and with a bank that turns some outcomes; a tenth of the outcomes turn by chance, either way."""
    without, with_it = [], []
    for _ in range(samples):
        first = float(source.random() < 0.5)
        again = float(source.random() < 0.5) if source.random() < 0.1 else first
        turned = float(effect > 0) if source.random() < 2 * abs(effect) else again
        without.append(first)
        with_it.append(turned)
    return HeldOutPairs(without=without, with_it=with_it, subjects=range(samples))


def test_the_one_sided_p_by_hand() -> None:
    # three patients, all worse by 1: of 8 sign patterns 2 are as far from 0, 1 of them is as harmful
    worse = paired_test([1.0] * 3, [0.0] * 3, "abc", seed=1)
    assert harm_p_value(worse) == pytest.approx(1 / 8)
    better = paired_test([0.0] * 3, [1.0] * 3, "abc", seed=1)
    assert harm_p_value(better) == pytest.approx(7 / 8)
    alone = paired_test([1.0], [0.0], "a", seed=1)
    assert harm_p_value(alone) == 1.0


def test_what_harms_is_closed_and_the_numbers_are_kept() -> None:
    source = Random(5)
    pairs = {"harmed": _pairs(source, -0.2), "helped": _pairs(source, 0.2), "few": _pairs(source, 0.2, samples=10)}
    pairs["none"] = HeldOutPairs(without=[], with_it=[], subjects=[])
    found = gate(pairs, seed=1, permutations=2000)
    assert {task: one.state for task, one in found.items()} == {"harmed": "harm", "helped": "open", "few": "too_few"}
    assert found["harmed"].difference < 0 < found["helped"].difference
    assert (found["helped"].subjects, found["helped"].episodes) == (120, 240)
    assert found["harmed"].p_harm <= 0.1 < found["helped"].p_harm


def test_many_tasks_are_corrected_for() -> None:
    # four patients, all worse: 1/16 alone is harm at a level of 0.1; among five such tasks Holm makes it 5/16
    one = HeldOutPairs(without=[1.0] * 4, with_it=[0.0] * 4, subjects=range(4))
    assert gate({"a": one}, seed=1)["a"].state == "harm"
    many = gate(dict.fromkeys("abcde", one), seed=1)
    assert {verdict.p_harm for verdict in many.values()} == {5 / 16}
    assert not any(verdict.is_open for verdict in many.values())  # and four patients open nothing


def test_what_leans_to_harm_waits_for_more_evidence() -> None:
    # 20 patients, 3 worse and 2 better: p of harm 1/2, difference -0.05
    mixed = HeldOutPairs(without=[1.0] * 3 + [0.0] * 17, with_it=[0.0] * 3 + [1.0] * 2 + [0.0] * 15, subjects=range(20))
    for standard in STANDARDS:
        verdict = gate({"a": mixed}, seed=1, standard=standard)["a"]
        assert (verdict.state, verdict.is_open, verdict.difference) == ("doubtful", False, -0.05)
    even = HeldOutPairs(without=[0.0] * 20, with_it=[0.0] * 20, subjects=range(20))
    assert gate({"a": even}, seed=1, standard="no_harm")["a"].is_open
    assert gate({"a": even}, seed=1)["a"].state == "doubtful", "what does nothing loses nothing by waiting"


def test_a_benefit_opens_where_it_is_shown() -> None:
    # 20 patients, 4 better, none worse: one-sided p 1/16; with 3 better 1/8
    def better(count: int) -> HeldOutPairs:
        return HeldOutPairs(without=[0.0] * 20, with_it=[1.0] * count + [0.0] * (20 - count), subjects=range(20))

    shown = gate({"a": better(4)}, seed=1)["a"]
    assert shown.is_open
    assert shown.p_benefit == pytest.approx(1 / 16, abs=0.01)
    assert gate({"a": better(3)}, seed=1)["a"].state == "doubtful"
    assert gate({"a": better(3)}, seed=1, standard="no_harm")["a"].is_open


@pytest.mark.parametrize("looks", [1, 4, 10])
def test_a_bank_that_does_nothing_opens_some_task_in_at_most_the_declared_share_of_any_number_of_looks(
    looks: int,
) -> None:
    source, series = Random(looks), 2000

    def opens(level: float) -> bool:
        return min(holm({task: source.random() for task in TASKS}).values()) <= level

    opened = sum(any(opens(look_level(look)) for look in range(1, looks + 1)) for _ in range(series)) / series
    uncorrected = sum(any(opens(GATE_LEVEL) for _ in range(looks)) for _ in range(series)) / series
    assert opened <= GATE_LEVEL + 0.02, "three standard errors of 2,000 series"
    assert uncorrected > GATE_LEVEL / 2 * (1 if looks == 1 else 3), "the test sees what looking does"
    assert sum(map(look_level, range(1, 10_000))) < GATE_LEVEL
    with pytest.raises(ValueError, match="from 1"):
        look_level(0)


@pytest.mark.parametrize(
    "effects", [(-0.2, -0.2, -0.2), (0.2, -0.2, 0.0), (-0.1, 0.1, -0.1), (-0.05, -0.05, -0.05), (-0.03, -0.03, -0.03)]
)
def test_over_20_seeds_a_gated_bank_is_never_significantly_worse_than_none(effects: tuple[float, ...]) -> None:
    p_values = {}
    for seed in range(SEEDS):
        source = Random(f"{seed} {effects}")
        dev = {task: _pairs(source, effect) for task, effect in zip(TASKS, effects, strict=True)}
        verdicts = gate(dev, seed=seed, permutations=500)
        for task, effect in zip(TASKS, effects, strict=True):
            test = _pairs(source, effect)
            served = test.with_it if verdicts[task].is_open else test.without
            result = paired_test(test.without, served, test.subjects, seed=seed, permutations=4000)
            p_values[f"{seed} {task}"] = harm_p_value(result)
    assert min(holm(p_values).values()) > 0.05
