"""Credit: the effect of an experience from coins, on cases worked by hand and in planted worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

import pytest

from wardround.memory.credit import (
    CoinEvidence,
    EpisodeName,
    FadingSums,
    cautious_quality,
    effect_in,
    effect_of,
    is_masked,
)

EPISODES = 100


FOREVER = 1e12


def _evidence(shown: list[float], masked: list[float], *, half_life: float = FOREVER) -> CoinEvidence:
    """What coins showed where the mean score of the task is 1/2."""
    found = CoinEvidence()
    for score in shown:
        found = found.with_episode(score - 0.5, shown=True, half_life=half_life)
    for score in masked:
        found = found.with_episode(score - 0.5, shown=False, half_life=half_life)
    return found


def _episode(number: int, *, world: int = 0) -> EpisodeName:
    return EpisodeName(run=f"run-{world}", agent="react", sample=f"sample-{number}", epoch=1)


def test_the_posterior_by_hand() -> None:
    # means 3/4 and 1/4: tosses of 1/2 either way, residuals of 1/2: signal 8 * 1/4 - 2 * 2 * 1/4 = 1, information 2
    # unexplained 8 / 4 - 1/2, variance (3/2 + 2 / 4) / (8 + 2) = 1/5, noise 1/5 * 2 / 4 = 1/10
    # prior variance 1/10: half is kept, and the posterior's variance is 1/20
    evidence = _evidence([1, 1, 1, 0], [0, 0, 0, 1])
    assert (evidence.lasting.difference, evidence.lasting.noise) == pytest.approx((0.5, 0.1))
    effect = effect_of(evidence, prior_sd=math.sqrt(0.1))
    assert (effect.mean, effect.sd) == pytest.approx((0.25, math.sqrt(0.05)))
    assert (effect.shown, effect.masked) == (4, 4)
    assert effect.harm == pytest.approx(0.1317762), "as much of a normal as lies 1.118 deviations below its mean"


def test_without_a_coin_nothing_is_told_and_quality_stays() -> None:
    certain = CoinEvidence()
    for _ in range(500):
        certain = certain.with_episode(0.5, shown=True, masked_share=0.0)
    for effect in (effect_of(CoinEvidence()), effect_of(certain)):
        assert (effect.mean, effect.sd, effect.harm) == pytest.approx((0.0, 0.2, 0.5))
        assert cautious_quality(effect) == 0.5


def test_a_rare_coin_is_as_unbiased_as_a_fair_one() -> None:
    # shown 1 of 20 times: 5 times right, 95 times half right; toss 0.95 and -0.05
    rare = CoinEvidence()
    for _ in range(5):
        rare = rare.with_episode(0.5, shown=True, masked_share=0.95, half_life=FOREVER)
    for _ in range(95):
        rare = rare.with_episode(0.0, shown=False, masked_share=0.95, half_life=FOREVER)
    assert rare.lasting.difference == pytest.approx(5 * 0.95 * 0.5 / (5 * 0.95**2 + 95 * 0.05**2))
    fair = _evidence([1.0] * 50, [0.5] * 50)
    assert rare.lasting.spread < fair.lasting.spread / 5, "it tells less"


def test_after_a_half_life_of_fair_coins_an_episode_counts_half_and_a_rare_coin_fades_less() -> None:
    old = _evidence([1.0], [0.0])
    faded = old
    for _ in range(30):
        faded = faded.with_episode(0.0, shown=True, half_life=60.0).with_episode(0.0, shown=False, half_life=60.0)
    assert faded.lasting.signal == pytest.approx(old.lasting.signal / 2)
    assert faded.recent.signal == pytest.approx(old.recent.signal / 2**10), "a tenth of the half-life"
    assert (faded.shown, faded.masked) == (31, 31), "counts do not fade"
    kept = old.with_episode(0.0, shown=False, masked_share=0.95, half_life=60.0)
    assert kept.lasting.signal == pytest.approx(old.lasting.signal * 0.5 ** (4 * 0.95 * 0.05 / 60))


def test_what_turned_harmful_shows_in_the_recent_evidence_and_what_harms_for_long_in_the_lasting() -> None:
    turned, long = CoinEvidence(), CoinEvidence()
    for number in range(150):
        turned = turned.with_episode(0.1 if number % 2 else -0.1, shown=bool(number % 2))
    for number in range(100):
        turned = turned.with_episode(-0.1 if number % 2 else 0.1, shown=bool(number % 2))
    assert effect_of(turned).mean > -0.1, "all that was seen is still of two minds"
    assert effect_of(turned).harm == effect_of(CoinEvidence(lasting=turned.recent, recent=turned.recent)).harm > 0.9
    for number in range(300):
        residual = -0.1 if number % 2 else 0.1
        long = long.with_episode(residual + (0.4 if number % 4 < 2 else -0.4), shown=bool(number % 2))
    assert effect_of(long).harm > effect_of(CoinEvidence(lasting=long.recent, recent=long.recent)).harm


def test_quality_moves_by_half_of_what_is_beyond_caution() -> None:
    effect = effect_of(_evidence([1.0] * 100, [0.0] * 100))
    assert effect.mean > 0.95
    assert cautious_quality(effect) == pytest.approx(0.5 + (effect.mean - 2 * effect.sd) / 2)
    assert cautious_quality(effect, prior=0.9) == 1.0
    harmful = effect_of(_evidence([0.0] * 100, [1.0] * 100))
    assert cautious_quality(harmful) == pytest.approx(1.0 - cautious_quality(effect))


def test_other_tasks_move_the_prior_by_a_quarter_of_its_variance() -> None:
    # known exactly to harm by 0.2 elsewhere: common part 0.01 of 0.04, so the mean is -0.2 * 0.01 / 0.04
    harmful = _evidence([0.0] * 3, [0.2] * 3)
    sums = FadingSums(signal=-0.2e6, information=1e6, spread=1.0)
    sure = CoinEvidence(lasting=sums, recent=sums, shown=1, masked=1)
    there = effect_in({"a": sure}, "b")
    assert (there.mean, there.sd) == pytest.approx((-0.05, math.sqrt(0.03 + 0.0075)), abs=1e-4)
    assert there.harm < 0.7, "one task bars no other"
    assert effect_in({"a": harmful}, "a") == effect_of(harmful)


def test_a_residual_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between -1 and 1"):
        CoinEvidence().with_episode(1.5, shown=True)


def test_the_coin_is_fair_repeats_itself_and_differs_by_every_name() -> None:
    names = [_episode(number) for number in range(2000)]
    tossed = [is_masked(name, "one", seed=7) for name in names]
    assert tossed == [is_masked(name, "one", seed=7) for name in names]
    assert 900 < sum(tossed) < 1100
    for other in (
        [is_masked(name, "two", seed=7) for name in names],
        [is_masked(name, "one", seed=8) for name in names],
        [
            is_masked(EpisodeName(run=name.run, agent="act", sample=name.sample, epoch=1), "one", seed=7)
            for name in names
        ],
        [
            is_masked(EpisodeName(run=name.run, agent="react", sample=name.sample, epoch=2), "one", seed=7)
            for name in names
        ],
        [is_masked(_episode(number, world=1), "one", seed=7) for number in range(2000)],
    ):
        assert 900 < sum(one == two for one, two in zip(tossed, other, strict=True)) < 1100
    assert not any(is_masked(name, "one", seed=7, share=0.0) for name in names)
    assert all(is_masked(name, "one", seed=7, share=1.0) for name in names)


def _play(effects: Mapping[str, float], *, base: float, world: int) -> dict[str, CoinEvidence]:
    """Episodes in which every item is eligible, and what is shown adds its effect to the chance of success."""
    source = Random(world)
    trials = dict.fromkeys(effects, CoinEvidence())
    total, count = 0.5, 1
    for number in range(EPISODES):
        masked = {item: is_masked(_episode(number, world=world), item, seed=3) for item in effects}
        chance = base + sum(effects[item] for item in effects if not masked[item])
        score = float(source.random() < chance)
        residual = score - total / count
        total, count = total + score, count + 1
        trials = {item: one.with_episode(residual, shown=not masked[item]) for item, one in trials.items()}
    return trials


def test_of_planted_effects_nineteen_of_twenty_have_the_right_sign_after_100_episodes() -> None:
    right = total = 0
    for world in range(60):
        for flipping in (0.2, -0.2):  # two task types: what helps in one harms in the other
            effects = {"helpful": 0.2, "harmful": -0.2, "flipping": flipping, "inert": 0.0}
            trials = _play(effects, base=0.5, world=2 * world + (flipping > 0))
            planted = [item for item in effects if effects[item]]
            right += sum(effect_of(trials[item]).mean * effects[item] > 0 for item in planted)
            total += len(planted)
    assert total == 360
    assert right / total >= 0.95


@pytest.mark.parametrize("base", [0.02, 0.2, 0.5, 0.8, 0.98])
def test_what_does_nothing_stays_at_its_prior_whatever_the_base_rate(base: float) -> None:
    inert = {f"item {number}": 0.0 for number in range(10)}
    for world in range(10):
        for trial in _play(inert, base=base, world=1000 + world).values():
            assert abs(cautious_quality(effect_of(trial)) - 0.5) <= 0.05
