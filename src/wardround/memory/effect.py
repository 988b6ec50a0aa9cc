"""What an experience does to the outcome: its effect, from episodes in which a coin decided whether it was shown.

Likeness, rank and the base rate of success do not enter: an experience that only comes along with easy cases is shown
and masked equally often on them. Pure functions; who is served what is decided elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from wardround.core import derive_seed

MASKED_SHARE = 0.5
PRIOR_EFFECT_SD = 0.2
"""Before any episode the effect lies around 0 with this standard deviation, in units of score."""
PRIOR_QUALITY = 0.5
CAUTION = 2.0
"""How many posterior standard deviations of an effect are not believed yet."""
_SCORE_VARIANCE = 0.25
_VARIANCE_EPISODES = 2.0
"""The widest variance of a score in [0, 1], counted as so many episodes, so that a few equal scores prove nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeName:
    """The one time that an agent of a run plays a sample: what a coin is tossed for."""

    run: str
    agent: str
    sample: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.run}|{self.agent}|{self.sample}|{self.epoch}"


def is_masked(episode: EpisodeName, experience: str, *, seed: int, share: float = MASKED_SHARE) -> bool:
    """Toss the coin of an eligible experience in one training episode; the same names always fall the same way."""
    parts = (episode.run, episode.agent, episode.sample, str(episode.epoch), experience)
    return derive_seed(seed, "mask", *parts) % 2**32 < share * 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedArm:
    """Scores in [0, 1] of the episodes of one side: how many, their sum, the sum of their squares."""

    episodes: int = 0
    total: float = 0.0
    squares: float = 0.0

    def with_score(self, score: float) -> MaskedArm:
        """One episode more."""
        return MaskedArm(episodes=self.episodes + 1, total=self.total + score, squares=self.squares + score * score)

    @property
    def mean(self) -> float:
        """The mean score; 0 of no episodes."""
        return self.total / self.episodes if self.episodes else 0.0

    @property
    def deviations(self) -> float:
        """The sum of squared deviations from the mean."""
        return max(0.0, self.squares - self.total * self.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskingTrial:
    """The episodes of one task type in which an experience was eligible, by whether the coin let it be shown."""

    shown: MaskedArm = MaskedArm()
    masked: MaskedArm = MaskedArm()

    @property
    def episodes(self) -> int:
        """The episodes of both sides."""
        return self.shown.episodes + self.masked.episodes

    def with_score(self, score: float, *, masked: bool) -> MaskingTrial:
        """One episode more. Raises ValueError for a score outside [0, 1]."""
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"a score lies between 0 and 1, not {score}")
        if masked:
            return replace(self, masked=self.masked.with_score(score))
        return replace(self, shown=self.shown.with_score(score))


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectPosterior:
    """The posterior of an effect, in units of score, and the episodes of either side that it rests on."""

    mean: float
    sd: float
    shown: int
    masked: int


def effect_of(trial: MaskingTrial, *, prior_sd: float = PRIOR_EFFECT_SD) -> EffectPosterior:
    """Normal posterior of mean(shown) - mean(masked) under a normal prior around 0; the prior until both sides are
    there. The two sides share one variance."""
    shown, masked = trial.shown, trial.masked
    if not (shown.episodes and masked.episodes):
        return EffectPosterior(mean=0.0, sd=prior_sd, shown=shown.episodes, masked=masked.episodes)
    known = shown.deviations + masked.deviations + _VARIANCE_EPISODES * _SCORE_VARIANCE
    score_variance = known / (shown.episodes + masked.episodes - 2 + _VARIANCE_EPISODES)
    noise = score_variance * (1 / shown.episodes + 1 / masked.episodes)
    kept = prior_sd**2 / (prior_sd**2 + noise)
    mean = kept * (shown.mean - masked.mean)
    return EffectPosterior(mean=mean, sd=math.sqrt(kept * noise), shown=shown.episodes, masked=masked.episodes)


def cautious_quality(effect: EffectPosterior, *, prior: float = PRIOR_QUALITY, caution: float = CAUTION) -> float:
    """Q: the prior, moved by half of what of the effect is left beyond ``caution`` standard deviations, in [0, 1].

    An effect of 1 is the whole way from a quality of 1/2 to 1. What the evidence does not tell from 0 moves nothing.
    """
    believed = math.copysign(max(0.0, abs(effect.mean) - caution * effect.sd), effect.mean)
    return min(1.0, max(0.0, prior + believed / 2))
