"""What one finished training episode does to a bank: one transaction that keeps who was shown and masked, and moves Q
and W. Played again under the same name it does nothing, so that a stream that was cut short goes on where it was.

One writer moves Q: ``credit`` (the effect from coins) or ``eq10`` (credit by rank, as published), never both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wardround.core import UserError, check_settings, setting
from wardround.memory.bank import Bank
from wardround.memory.cascade import WITHDRAWN
from wardround.memory.credit import (
    DECAY,
    QUALITY_RATE,
    WEIGHT_RATE,
    EdgeHistory,
    WeightReading,
    edge_credit,
    moved_edge,
    moved_quality,
    node_credit,
    signal,
)
from wardround.memory.edges import Edge
from wardround.memory.effect import MASKED_SHARE, PRIOR_QUALITY, EpisodeName, MaskingTrial
from wardround.memory.graph import GraphReader
from wardround.memory.state import SERVABLE_SPLITS
from wardround.memory.trials import TrialName, last_trial
from wardround.memory.writing import is_forgotten

PLAYED = "played"
QualityWriter = Literal["credit", "eq10"]
DeltaBaseline = Literal["mean", "none"]
RETIRED = "of low quality in every task it was met in"
"""Why a stream retires an experience."""
_WRITER = "quality_writer"
_UNCOUNTED = "SELECT 1 FROM feedback WHERE episode = ? AND kind = ? AND experience = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionSettings:
    """How a bank's graph learns from an ordered stream of training episodes (section 4.3 of the GSEM paper)."""

    quality: QualityWriter = setting(
        "credit",
        "what writes Q: the effect of being shown, by coins that mask experiences (credit), or equation 10 (eq10)",
        source="ours; eq10 is published",
    )
    masked_share: float = setting(
        MASKED_SHARE, "share of eligible experiences that a coin masks, under credit", source="ours", least=0, most=1
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
    retire_at: float | None = setting(
        0.4, "retire an experience whose quality falls to this in every task; none: never", source="ours", least=0
    )
    retire_after: int = setting(20, "eligible episodes before an experience can be retired", source="ours", least=1)
    together: int = setting(1, "episodes that are played on one revision before they are learnt from", least=1)
    snapshots: tuple[int, ...] = setting(
        (50, 150, 250), "name the revision after so many updates", source="GSEM, Table 2"
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def coin_share(self) -> float:
        """How often an eligible experience is masked: never where credit does not write Q."""
        return self.masked_share if self.quality == "credit" else 0.0


DEFAULT_EVOLUTION = EvolutionSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode:
    """A scored training episode: what was shown, best first, and what was eligible but masked by its coin.

    ``sample`` is what withdrawing it names. ``delta`` is what its outcome is worth in equation 10; 2 score - 1 where it
    is not said.
    """

    name: EpisodeName
    sample: str
    task: str
    split: str
    score: float
    shown: Sequence[str]
    masked: Sequence[str] = ()
    delta: float | None = None

    @property
    def signal(self) -> float:
        """Delta of equation 10."""
        return signal(self.score) if self.delta is None else self.delta


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What an episode did: the revision of its update, how many it was eligible for, and what was retired with it."""

    revision: int
    shown: int = 0
    masked: int = 0
    retired: tuple[str, ...] = field(default_factory=tuple)


def learn(bank: Bank, played: PlayedEpisode, settings: EvolutionSettings = DEFAULT_EVOLUTION) -> Learnt | None:
    """Write what came of an episode in one transaction; None where it was learnt from before, or its sample was
    forgotten. Raises UserError for a sample that nothing may be learnt from, and where the other writer began."""
    if played.split not in SERVABLE_SPLITS:
        raise UserError(f"nothing may be learnt from sample {played.sample!r}: it is of split {played.split!r}")
    episode = str(played.name)
    with bank.batch():
        if bank.learnt_at(episode) is not None or is_forgotten(bank.file, played.sample):
            return None
        _claim_writer(bank, settings.quality)
        shown = [name for name in played.shown if _counts(bank, played, name)]
        masked = [name for name in played.masked if _counts(bank, played, name)]
        for name in (*shown, *masked):
            _keep(bank, played, name)
        credited = settings.quality == "credit"
        revision = bank.set_graph(
            qualities={} if credited else _by_rank(bank, played, shown, settings),
            trials=_tried(bank, played, shown, masked) if credited else {},
            edges=_weighed(bank, played, shown, settings),
            reason=f"learnt by {settings.quality}",
            sample=played.sample,
            episode=episode,
        )
        retired = retire_harmful(bank, (*shown, *masked), settings)
    return Learnt(revision=revision, shown=len(shown), masked=len(masked), retired=retired)


def retire_harmful(bank: Bank, names: Iterable[str], settings: EvolutionSettings) -> tuple[str, ...]:
    """Retire those of some experiences that long enough evidence holds for harmful in every task they were met in."""
    if settings.retire_at is None:
        return ()
    live, graph = bank.liveness(), bank.graph()
    retired = [name for name in names if live(name) and _is_harmful(bank, graph, name, settings)]
    for name in retired:
        bank.retire(name, reason=RETIRED)
    return tuple(retired)


def _is_harmful(bank: Bank, graph: GraphReader, name: str, settings: EvolutionSettings) -> bool:
    assert settings.retire_at is not None
    trials = graph.trials(name)
    if trials:
        met = sum(trial.episodes for trial in trials.values())
        best = max(replace(graph, task=task).quality(name) or 0.0 for task in trials)
        return met >= settings.retire_after and best <= settings.retire_at
    quality = graph.quality(name)
    if quality is None or quality > settings.retire_at:
        return False
    return sum(one.kind == PLAYED for one in bank.feedback(name)) >= settings.retire_after


def _claim_writer(bank: Bank, quality: QualityWriter) -> None:
    """One writer moves the qualities of a bank: the first."""
    writer = bank.file.setting(_WRITER)
    if writer is None:
        bank.file.connection.execute("INSERT INTO setting VALUES (?, ?)", (_WRITER, quality))
    elif writer != quality:
        raise UserError(f"the qualities of {bank.path} are written by {writer!r}: go on with it, or with another bank")


def _counts(bank: Bank, played: PlayedEpisode, name: str) -> bool:
    """Whether a sample's outcome may count for an experience: not once it was withdrawn."""
    asked = (f"withdrawn|{played.sample}", WITHDRAWN, name)
    return not bank.file.rows(_UNCOUNTED, asked)


def _keep(bank: Bank, played: PlayedEpisode, name: str) -> None:
    detail = {"task": played.task, "sample": played.sample, "masked": name in played.masked}
    bank.add_feedback(name, PLAYED, value=played.score, detail=detail, episode=str(played.name))


def _tried(
    bank: Bank, played: PlayedEpisode, shown: Sequence[str], masked: Sequence[str]
) -> Mapping[TrialName, MaskingTrial]:
    """The trials of what was eligible, with one episode more."""
    connection, revision = bank.file.connection, bank.file.last_number
    sides = dict.fromkeys(shown, False) | dict.fromkeys(masked, True)
    return {
        (name, played.task): last_trial(connection, (name, played.task), revision).with_score(
            played.score, masked=is_masked
        )
        for name, is_masked in sides.items()
    }


def _by_rank(
    bank: Bank, played: PlayedEpisode, shown: Sequence[str], settings: EvolutionSettings
) -> Mapping[str, float]:
    graph = bank.graph()
    moved = {}
    for name, share in node_credit(shown, decay=settings.decay).items():
        before = graph.quality(name)
        start = PRIOR_QUALITY if before is None else before
        moved[name] = moved_quality(start, share, played.signal, rate=settings.quality_rate)
    return moved


def _weighed(bank: Bank, played: PlayedEpisode, shown: Sequence[str], settings: EvolutionSettings) -> list[Edge]:
    """The edges among what was shown, moved by equations 9 and 10."""
    graph = bank.graph()
    edges = {(edge.source, edge.target): edge for edge in _edges_among(graph, shown)}
    shares = edge_credit(node_credit(shown, decay=settings.decay), edges)
    moved = []
    for ends, share in shares.items():
        edge, made = edges[ends], graph.first_weight(*ends)
        history = EdgeHistory(prior=edge.weight if made is None else made, weight=edge.weight, phi=edge.phi)
        step = moved_edge(history, share, played.signal, rate=settings.weight_rate, reading=settings.weight_reading)
        moved.append(replace(edge, weight=step.weight, phi=step.phi))
    return moved


def _edges_among(graph: GraphReader, names: Sequence[str]) -> Iterable[Edge]:
    there = frozenset(names)
    return (edge for name in names for edge in graph.edges(name) if edge.target in there)
