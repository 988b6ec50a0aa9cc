"""Credit: how an outcome changes qualities (eq. 4, 8-10), and the effect of an experience from coin tosses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from wardround.core import derive_seed

# How an outcome moves the memory that was used: equations 4 and 8 to 10 of the GSEM paper, as pure functions.


DECAY = 0.8
QUALITY_RATE = 0.1
WEIGHT_RATE = 0.05
Pair = tuple[str, str]
WeightReading = Literal["prior", "compounding"]


def first_quality(successes: int, trials: int) -> float:
    """Equation 4: sigmoid of the accuracy above the baseline mu, the least share of trials that is at least half."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} successes of {trials} trials")
    baseline = math.ceil(trials / 2) / trials
    return 1.0 / (1.0 + math.exp(baseline - successes / trials))


def node_credit(ranked: Sequence[str], *, decay: float = DECAY) -> dict[str, float]:
    """Equation 8: the share of each experience by its rank (the first has rank 1); the shares add up to 1.

    Whether ranks start at 0 or 1 does not matter: the factor cancels.
    """
    if len(set(ranked)) != len(ranked):
        raise ValueError("an experience is ranked twice")
    powers = [decay**rank for rank in range(1, len(ranked) + 1)]
    return {name: power / sum(powers) for name, power in zip(ranked, powers, strict=True)}


def edge_credit(credit: Mapping[str, float], edges: Iterable[Pair]) -> dict[Pair, float]:
    """Equation 9: the share of each existing edge between experiences that were used; the shares add up to 1."""
    products = {
        (source, target): credit[source] * credit[target]
        for source, target in edges
        if {source, target} <= credit.keys()
    }
    total = sum(products.values())
    return {pair: product / total for pair, product in products.items()} if total else {}


def signal(score: float) -> float:
    """Delta: -1 for a score of 0, 1 for a score of 1."""
    return 2.0 * score - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBaseline:
    """The mean score of a task type so far. Against it Delta does not drift with the base rate: where most episodes
    succeed, the printed Delta lifts whatever is served, useful or not. It starts as one episode of score 1/2."""

    total: float = 0.5
    episodes: int = 1

    def signal(self, score: float) -> float:
        """Delta as the score less the mean of the earlier ones: in -1 to 1 without a cut, which would drift again."""
        return score - self.total / self.episodes

    def with_score(self, score: float) -> ScoreBaseline:
        """Return the baseline after one more episode."""
        return ScoreBaseline(total=self.total + score, episodes=self.episodes + 1)


def moved_quality(quality: float, credit: float, delta: float, *, rate: float = QUALITY_RATE) -> float:
    """Equation 10, first line."""
    return _clip(quality + rate * credit * delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeHistory:
    """An edge's weight when it was made, its weight now, and phi, what its outcomes have added up to."""

    prior: float
    weight: float
    phi: float = 0.0


def moved_edge(
    edge: EdgeHistory, credit: float, delta: float, *, rate: float = WEIGHT_RATE, reading: WeightReading = "prior"
) -> EdgeHistory:
    """Equation 10, second and third line.

    ``prior`` adds phi to the weight the edge was made with, as the text says (priors are refined); printed is
    ``compounding``, which adds all of phi to the last weight at every step, so that old outcomes count again and again.
    """
    phi = edge.phi + rate * credit * delta
    start = edge.prior if reading == "prior" else edge.weight
    return EdgeHistory(prior=edge.prior, weight=_clip(start + phi), phi=phi)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


# What an experience does to the outcome: its effect, from episodes in which a coin decided whether it was shown.
#
# Likeness, rank and the base rate of success do not enter: an experience that only comes along with easy cases is shown
# and masked by the same coin on them. Pure functions; other modules decide what is served to whom.


MASKED_SHARE = 0.5
RETEST_SHARE = 0.05
HALF_LIFE = 240.0
RECENT_PART = 0.1
"""The half-life of the recent evidence, as a share of that of the lasting evidence. New harm shows there first."""
PRIOR_EFFECT_SD = 0.2
"""Before any episode the effect lies around 0 with this standard deviation, in units of score."""
PRIOR_QUALITY = 0.5
CAUTION = 2.0
"""How many posterior standard deviations of an effect are not believed yet."""
_SHARED_BY_TASKS = 0.25
"""The part of the prior's variance that all tasks of an experience have in common; the rest is each task's own."""
_FAIR_COIN = 0.25
_SCORE_VARIANCE = 0.25
_VARIANCE_EPISODES = 2.0
"""The widest variance of a score in [0, 1], counted as so many episodes, so that a few equal scores prove nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeName:
    """One run of an agent on a sample: the unit that a coin is tossed for."""

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
class FadingSums:
    """Sums over episodes, recent ones first in weight.

    Each episode adds its toss (1 shown, 0 masked, less the chance of being shown) times its residual (score less the
    mean of the task before it), so that neither a coin that changed nor a stream that got better looks like an effect.
    ``signal`` is the sum of these, ``information`` of squared tosses, ``spread`` of squared tosses by squared weight,
    ``squares`` of squared residuals, ``weight`` of the weights.
    """

    signal: float = 0.0
    information: float = 0.0
    spread: float = 0.0
    squares: float = 0.0
    weight: float = 0.0

    def with_toss(self, toss: float, residual: float, *, kept: float) -> FadingSums:
        """Return the sums after one more episode. ``kept`` is the share of the earlier ones that stays."""
        return FadingSums(
            signal=kept * self.signal + toss * residual,
            information=kept * self.information + toss**2,
            spread=kept**2 * self.spread + toss**2,
            squares=kept * self.squares + residual**2,
            weight=kept * self.weight + 1.0,
        )

    def joined(self, other: FadingSums) -> FadingSums:
        """Return the pooled sums of two experiences with the same content."""
        return FadingSums(
            signal=self.signal + other.signal,
            information=self.information + other.information,
            spread=self.spread + other.spread,
            squares=self.squares + other.squares,
            weight=self.weight + other.weight,
        )

    @property
    def difference(self) -> float:
        """The score shown less the score masked, without a prior; 0 without informative coins."""
        return self.signal / self.information if self.information else 0.0

    @property
    def noise(self) -> float:
        """The variance of the difference: of what the tosses leave unexplained (least squares), by their spread."""
        if not self.information:
            return math.inf
        unexplained = max(0.0, self.squares - self.signal * self.difference)
        variance = (unexplained + _VARIANCE_EPISODES * _SCORE_VARIANCE) / (self.weight + _VARIANCE_EPISODES)
        return variance * self.spread / self.information**2


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinEvidence:
    """What coins showed of one experience in one task: ``lasting``, and ``recent``, which fades ten times as fast.
    ``shown`` and ``masked`` count episodes, unweighted."""

    lasting: FadingSums = FadingSums()
    recent: FadingSums = FadingSums()
    shown: int = 0
    masked: int = 0

    @property
    def episodes(self) -> int:
        """The episodes in which it was eligible."""
        return self.shown + self.masked

    def with_episode(
        self, residual: float, *, shown: bool, masked_share: float = MASKED_SHARE, half_life: float = HALF_LIFE
    ) -> CoinEvidence:
        """Return the evidence after one more episode.

        ``half_life`` of the lasting evidence is in episodes of a fair coin. A less informative toss fades less of the
        evidence, so a rarely shown experience is not forgotten sooner. Raises ValueError for a residual outside [-1,
        1].
        """
        if not -1.0 <= residual <= 1.0:
            raise ValueError(f"a score less a mean score lies between -1 and 1, not {residual}")
        chance = 1.0 - masked_share
        toss = float(shown) - chance
        kept = 0.5 ** (chance * masked_share / _FAIR_COIN / half_life)
        return CoinEvidence(
            lasting=self.lasting.with_toss(toss, residual, kept=kept),
            recent=self.recent.with_toss(toss, residual, kept=kept ** (1 / RECENT_PART)),
            shown=self.shown + shown,
            masked=self.masked + (not shown),
        )

    def joined(self, other: CoinEvidence) -> CoinEvidence:
        """Return the pooled evidence of two experiences with the same content."""
        return CoinEvidence(
            lasting=self.lasting.joined(other.lasting),
            recent=self.recent.joined(other.recent),
            shown=self.shown + other.shown,
            masked=self.masked + other.masked,
        )


def joined(evidence: Iterable[CoinEvidence]) -> CoinEvidence:
    """Add up the evidence of experiences that say the same."""
    return reduce(CoinEvidence.joined, evidence, CoinEvidence())


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectPosterior:
    """The posterior of an effect, in units of score, and the episodes of either side that it rests on. ``harm``: the
    probability that the effect is below 0, by the lasting evidence or by the recent, whichever says more: two looks,
    so that what harms for long is not forgotten and what turned harmful is seen early."""

    mean: float
    sd: float
    harm: float
    shown: int
    masked: int


def effect_of(
    evidence: CoinEvidence, elsewhere: Iterable[CoinEvidence] = (), *, prior_sd: float = PRIOR_EFFECT_SD
) -> EffectPosterior:
    """Normal posterior of the effect in a task. ``elsewhere`` is the evidence of other tasks, which moves the prior as
    far as tasks have their effect in common: an effect is a common part and a part of the task, both normal around 0.
    """
    others = list(elsewhere)
    mean, sd = _posterior(evidence.lasting, [other.lasting for other in others], prior_sd)
    recent_mean, recent_sd = _posterior(evidence.recent, [other.recent for other in others], prior_sd)
    return EffectPosterior(
        mean=mean,
        sd=sd,
        harm=max(_below_zero(mean, sd), _below_zero(recent_mean, recent_sd)),
        shown=evidence.shown,
        masked=evidence.masked,
    )


def _posterior(sums: FadingSums, elsewhere: Iterable[FadingSums], prior_sd: float) -> tuple[float, float]:
    """Mean and standard deviation of an effect."""
    common, own = _SHARED_BY_TASKS * prior_sd**2, (1.0 - _SHARED_BY_TASKS) * prior_sd**2
    weights = [(1.0 / (one.noise + own), one.difference) for one in elsewhere if one.information]
    precision = 1.0 / common + sum(weight for weight, _ in weights)
    prior_mean = sum(weight * difference for weight, difference in weights) / precision
    prior_variance = own + 1.0 / precision
    noise = sums.noise
    kept = 0.0 if math.isinf(noise) else prior_variance / (prior_variance + noise)
    return prior_mean + kept * (sums.difference - prior_mean), math.sqrt(prior_variance * (1.0 - kept))


def _below_zero(mean: float, sd: float) -> float:
    return 0.5 * math.erfc(mean / sd / math.sqrt(2.0))


def cautious_quality(effect: EffectPosterior, *, prior: float = PRIOR_QUALITY, caution: float = CAUTION) -> float:
    """Q: the prior, moved by half of what of the effect is left beyond ``caution`` standard deviations, in [0, 1].

    An effect of 1 is the whole way from a quality of 1/2 to 1. What the evidence does not tell from 0 moves nothing.
    """
    believed = math.copysign(max(0.0, abs(effect.mean) - caution * effect.sd), effect.mean)
    return min(1.0, max(0.0, prior + believed / 2))


def effect_in(evidence: Mapping[str, CoinEvidence], task: str) -> EffectPosterior:
    """Return the posterior effect in one task, given the evidence of all tasks."""
    others = [one for name, one in sorted(evidence.items()) if name != task]
    return effect_of(evidence.get(task, CoinEvidence()), others)


def quality_in(evidence: Mapping[str, CoinEvidence], task: str, *, prior: float = PRIOR_QUALITY) -> float:
    """Q for a task; for all of them together (``task`` empty) the mean, each counting as much as it has episodes."""
    if task:
        return cautious_quality(effect_in(evidence, task), prior=prior)
    episodes = sum(one.episodes for one in evidence.values())
    moved = sum(one.episodes * (quality_in(evidence, name, prior=prior) - prior) for name, one in evidence.items())
    return prior + moved / episodes if episodes else prior
