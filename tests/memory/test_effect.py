"""Credit: the effect of an experience from coins, on cases worked by hand and in planted worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random

import pytest

from wardround.memory.effect import (
    EpisodeName,
    MaskedArm,
    MaskingTrial,
    cautious_quality,
    effect_of,
    is_masked,
)

EPISODES = 100


def _trial(shown: list[float], masked: list[float]) -> MaskingTrial:
    trial = MaskingTrial()
    for score in shown:
        trial = trial.with_score(score, masked=False)
    for score in masked:
        trial = trial.with_score(score, masked=True)
    return trial


def _episode(number: int, *, world: int = 0) -> EpisodeName:
    return EpisodeName(run=f"run-{world}", agent="react", sample=f"sample-{number}", epoch=1)


def test_the_posterior_by_hand() -> None:
    # means 3/4 and 1/4; deviations 0.75 + 0.75, with 2 episodes of variance 0.25: 2 / 8 = 0.25
    # noise 0.25 * (1/4 + 1/4) = 0.125; prior variance 0.125: half is kept
    effect = effect_of(_trial([1, 1, 1, 0], [0, 0, 0, 1]), prior_sd=math.sqrt(0.125))
    assert (effect.mean, effect.sd) == pytest.approx((0.25, math.sqrt(0.0625)))
    assert (effect.shown, effect.masked) == (4, 4)


def test_one_side_alone_tells_nothing() -> None:
    effect = effect_of(_trial([1.0] * 500, []))
    assert (effect.mean, effect.sd, effect.shown, effect.masked) == (0.0, 0.2, 500, 0)
    assert cautious_quality(effect) == 0.5


def test_quality_moves_by_half_of_what_is_beyond_caution() -> None:
    # 100 ones against 100 zeros: deviations 0, variance 0.5 / 200, noise 0.00005, kept 0.04 / 0.04005
    effect = effect_of(_trial([1.0] * 100, [0.0] * 100))
    kept = 0.04 / 0.04005
    assert effect.mean == pytest.approx(kept)
    assert effect.sd == pytest.approx(math.sqrt(kept * 0.00005))
    assert cautious_quality(effect) == pytest.approx(0.5 + (kept - 2 * effect.sd) / 2)
    assert cautious_quality(effect, prior=0.9) == 1.0
    harmful = effect_of(_trial([0.0] * 100, [1.0] * 100))
    assert cautious_quality(harmful) == pytest.approx(1.0 - cautious_quality(effect))


def test_a_score_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        MaskingTrial().with_score(1.5, masked=False)


def test_the_squares_are_those_of_the_scores() -> None:
    arm = MaskedArm().with_score(0.5).with_score(1.0)
    assert (arm.mean, arm.deviations) == pytest.approx((0.75, 0.125))


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


def _play(effects: Mapping[str, float], *, base: float, world: int) -> dict[str, MaskingTrial]:
    """Episodes in which every item is eligible, and what is shown adds its effect to the chance of success."""
    source = Random(world)
    trials = dict.fromkeys(effects, MaskingTrial())
    for number in range(EPISODES):
        masked = {item: is_masked(_episode(number, world=world), item, seed=3) for item in effects}
        chance = base + sum(effects[item] for item in effects if not masked[item])
        score = float(source.random() < chance)
        trials = {item: trial.with_score(score, masked=masked[item]) for item, trial in trials.items()}
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
