"""Learn from one finished training episode in one transaction: what was shown and masked, and the score.

A second run under the same name changes nothing, so an interrupted stream continues where it stopped.

One writer moves Q: ``credit`` (the effect from coins) or ``eq10`` (credit by rank, as published), never both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wardround.core import UserError, check_settings, setting
from wardround.memory.bank import Bank
from wardround.memory.credit import (
    DECAY,
    HALF_LIFE,
    MASKED_SHARE,
    QUALITY_RATE,
    RETEST_SHARE,
    WEIGHT_RATE,
    EpisodeName,
    WeightReading,
)
from wardround.memory.outcomes import DeltaBaseline, ExperienceTrial, LearningRule
from wardround.memory.state import SERVABLE_SPLITS

_WRITER = "quality_writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionSettings:
    """How a bank's graph learns from an ordered stream of training episodes (section 4.3 of the GSEM paper)."""

    quality: Literal["credit", "eq10"] = setting(
        "credit",
        "what writes Q: the effect of being shown, by coins that mask experiences (credit), or equation 10 (eq10)",
        source="ours; eq10 is published",
    )
    masked_share: float = setting(
        MASKED_SHARE, "share of eligible experiences that a coin masks, under credit", source="ours", least=0, most=1
    )
    retest_share: float = setting(
        RETEST_SHARE,
        "share of episodes in which a stream shows what it would not serve (memory.graph.bar_above), to try it again",
        source="ours",
        least=0,
        most=1,
    )
    half_life: float = setting(
        HALF_LIFE,
        "after so many newer episodes with a fair coin an episode counts half in the lasting evidence, under credit, "
        "and after a tenth of them in the recent evidence",
        unit="episodes",
        source="ours",
        least=1,
    )
    decay: float = setting(DECAY, "decay of credit with rank, rho of equation 8", source="GSEM", least=0, most=1)
    quality_rate: float = setting(QUALITY_RATE, "eta_Q of equation 10", source="GSEM", least=0)
    weight_rate: float = setting(WEIGHT_RATE, "eta_W of equation 10", source="GSEM", least=0)
    weight_reading: WeightReading = setting(
        "prior", "equation 10 for W: W0 + phi (prior), or as printed (compounding)", source="ours"
    )
    delta_baseline: DeltaBaseline = setting(
        "mean", "what Delta is taken from: the mean score of the task so far, or nothing (2 score - 1)", source="ours"
    )
    insert: bool = setting(True, "draw new experiences from the stream's own episodes and link them", source="GSEM")
    together: int = setting(1, "episodes that run on one revision before they are learnt from", least=1)
    snapshots: tuple[int, ...] = setting(
        (50, 150, 250), "name the revision after so many updates", source="GSEM, Table 2"
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def masked_chance(self, *, barred: bool) -> float:
        """Return the probability that the coin masks an eligible experience; 0 if credit does not write Q."""
        if self.quality != "credit":
            return 0.0
        return 1.0 - self.retest_share if barred else self.masked_share

    @property
    def rule(self) -> LearningRule:
        """What of these settings the bank keeps with each outcome."""
        return LearningRule(
            writer=self.quality,
            half_life=self.half_life,
            decay=self.decay,
            quality_rate=self.quality_rate,
            weight_rate=self.weight_rate,
            weight_reading=self.weight_reading,
            delta_baseline=self.delta_baseline,
        )


DEFAULT_EVOLUTION = EvolutionSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode:
    """A scored training episode: what was shown, best first, and what was eligible but masked by its coin.

    ``sample`` is what withdrawing it names. ``masked_shares``: the chances of being masked that were not the settings'
    ``masked_share``.
    """

    name: EpisodeName
    sample: str
    task: str
    split: str
    score: float
    shown: Sequence[str]
    masked: Sequence[str] = ()
    masked_shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningResult:
    """What an episode did: the revision of its update, and how many experiences it met, shown and masked."""

    revision: int
    shown: int = 0
    masked: int = 0


def learn(
    bank: Bank,
    played: PlayedEpisode,
    settings: EvolutionSettings = DEFAULT_EVOLUTION,
    *,
    rule: LearningRule | None = None,
) -> LearningResult | None:
    """Write what came of an episode in one transaction; None if it was learnt from before, or its sample was withdrawn
    or forgotten. ``rule``: instead of the settings'.

    Raises UserError for a sample that nothing may be learnt from and where the other writer began, ValueError for a
    score outside [0, 1].
    """
    if played.split not in SERVABLE_SPLITS:
        raise UserError(f"nothing may be learnt from sample {played.sample!r}: its split is {played.split!r}")
    if not 0.0 <= played.score <= 1.0:
        raise ValueError(f"a score lies between 0 and 1; it is {played.score}")
    usual = settings.masked_chance(barred=False)
    sides = dict.fromkeys(played.shown, True) | dict.fromkeys(played.masked, False)
    met = [
        ExperienceTrial(experience=name, shown=is_shown, masked_share=played.masked_shares.get(name, usual))
        for name, is_shown in sides.items()
    ]
    episode = str(played.name)
    with bank.batch():
        if bank.learnt_at(episode) is not None or bank.is_withdrawn(played.sample):
            return None
        _claim_writer(bank, settings.quality)
        revision = bank.add_outcome(
            met,
            run=played.name.run,
            task=played.task,
            score=played.score,
            rule=settings.rule if rule is None else rule,
            sample=played.sample,
            episode=episode,
        )
    return LearningResult(revision=revision, shown=sum(sides.values()), masked=len(sides) - sum(sides.values()))


def _claim_writer(bank: Bank, quality: str) -> None:
    """Make the first writer of a bank's qualities the only one."""
    writer = bank.file.setting(_WRITER)
    if writer is None:
        bank.file.connection.execute("INSERT INTO setting VALUES (?, ?)", (_WRITER, quality))
    elif writer != quality:
        raise UserError(f"the qualities of {bank.path} are written by {writer!r}: go on with it, or with another bank")
