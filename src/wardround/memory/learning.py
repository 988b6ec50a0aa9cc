"""What one finished training episode does to a bank: one transaction that keeps who was shown and masked, and moves Q
and W. Played again under the same name it does nothing, so that a stream that was cut short goes on where it was.

One writer moves Q: ``credit`` (the effect from coins) or ``eq10`` (credit by rank, as published), never both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wardround.core import UserError
from wardround.memory.bank import Bank
from wardround.memory.cascade import WITHDRAWN, weight_steps
from wardround.memory.credit import EdgeHistory, edge_credit, moved_edge, moved_quality, node_credit, signal
from wardround.memory.effect import PRIOR_QUALITY, EpisodeName, MaskingTrial, cautious_quality, effect_of
from wardround.memory.graph import Edge
from wardround.memory.state import SERVABLE_SPLITS

PLAYED = "played"
QualityWriter = Literal["credit", "eq10"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode:
    """A scored training episode: what was shown, best first, and what was eligible but masked by its coin."""

    name: EpisodeName
    task: str
    split: str
    score: float
    shown: Sequence[str]
    masked: Sequence[str] = ()


def learn(bank: Bank, played: PlayedEpisode, *, quality: QualityWriter = "credit") -> int | None:
    """Write what came of an episode as one revision, returned; None where it was learnt from before, or nothing was
    eligible. Raises UserError for a sample that nothing may be learnt from, and where the other writer began."""
    if played.split not in SERVABLE_SPLITS:
        raise UserError(f"nothing may be learnt from sample {played.name.sample!r}: it is of split {played.split!r}")
    with bank.batch():
        if not _keep(bank, played, quality):
            return None
        if quality == "credit":
            qualities = {name: credited_quality(bank, name) for name in (*played.shown, *played.masked)}
        else:
            qualities = _by_rank(bank, played)
        return bank.set_graph(
            qualities=qualities, edges=_weighed(bank, played), reason=f"learnt by {quality}", sample=played.name.sample
        )


def credited_quality(bank: Bank, experience: str) -> float:
    """Q over all task types: each one's quality counts as much as it has episodes."""
    trials = trials_of(bank, experience)
    weights = {task: trial.shown.episodes + trial.masked.episodes for task, trial in trials.items()}
    moved = sum(weights[task] * (cautious_quality(effect_of(trial)) - PRIOR_QUALITY) for task, trial in trials.items())
    return PRIOR_QUALITY + moved / sum(weights.values()) if weights else PRIOR_QUALITY


def trials_of(bank: Bank, experience: str) -> dict[str, MaskingTrial]:
    """The masking trial of an experience by task type, without the episodes of samples that were withdrawn."""
    said = bank.feedback(experience)
    gone = {one.detail["sample"] for one in said if one.kind == WITHDRAWN}
    trials: dict[str, MaskingTrial] = {}
    for one in said:
        if one.kind == PLAYED and one.value is not None and one.detail["sample"] not in gone:
            task = one.detail["task"]
            trial = trials.get(task, MaskingTrial())
            trials[task] = trial.with_score(one.value, masked=one.detail["masked"])
    return trials


def _keep(bank: Bank, played: PlayedEpisode, quality: QualityWriter) -> bool:
    """Keep the episode with every eligible experience; False where it was there, or nothing was eligible."""
    name = played.name
    episode = f"{name.run}|{name.agent}|{name.sample}|{name.epoch}"
    new = False
    for experience in (*played.shown, *played.masked):
        _check_writer(bank, experience, quality)
        detail = {
            "task": played.task,
            "sample": name.sample,
            "masked": experience in played.masked,
            "writer": quality,
        }
        new |= bank.add_feedback(experience, PLAYED, value=played.score, detail=detail, episode=episode)
    return new


def _check_writer(bank: Bank, experience: str, quality: QualityWriter) -> None:
    last = next((one for one in reversed(bank.feedback(experience)) if one.kind == PLAYED), None)
    if last is not None and last.detail["writer"] != quality:
        writer = last.detail["writer"]
        raise UserError(f"the qualities of {bank.path} are written by {writer!r}: go on with it, or with another bank")


def _by_rank(bank: Bank, played: PlayedEpisode) -> dict[str, float]:
    graph, delta = bank.graph(), signal(played.score)
    moved = {}
    for name, share in node_credit(played.shown).items():
        before = graph.quality(name)
        moved[name] = moved_quality(PRIOR_QUALITY if before is None else before, share, delta)
    return moved


def _weighed(bank: Bank, played: PlayedEpisode) -> list[Edge]:
    """The edges among what was shown, moved by equations 9 and 10 (W0 + phi)."""
    edges = {(edge.source, edge.target): edge for edge in _edges_among(bank, played.shown)}
    shares = edge_credit(node_credit(played.shown), edges)
    moved = []
    for ends, share in shares.items():
        edge = edges[ends]
        prior = next((step.value for step in weight_steps(bank, *ends) if step.value is not None), edge.weight)
        history = EdgeHistory(prior=prior, weight=edge.weight, phi=edge.weight - prior)
        moved.append(replace(edge, weight=moved_edge(history, share, signal(played.score)).weight))
    return moved


def _edges_among(bank: Bank, names: Sequence[str]) -> Iterable[Edge]:
    graph = bank.graph()
    return (edge for name in names for edge in graph.edges(name) if edge.target in names)
