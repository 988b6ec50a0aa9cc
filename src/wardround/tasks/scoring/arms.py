"""Two arms on the same samples: curated input, and an agent that seeks (ClinSeekAgent, tables 2, 3, 5 and 6).

Sample-wise means, pooled over a group's samples as the paper pools them. Each arm has the paper's interval (Student's t
over samples) and one over patients; the difference is computed per sample, unlike in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeVar

from wardround.tasks.scoring.bootstrap import Interval, patient_bootstrap, student_radius
from wardround.tasks.scoring.episodes import EpisodeScore, EvidenceCut, evidence_cut
from wardround.tasks.scoring.paired import PairedTest, paired_test_by_key

OVERALL = "overall"
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigure:
    """One arm on a group's samples. ``radius``: half of the t interval; ``interval``: over patients. Tokens are means
    per episode, None where an endpoint did not count them. ``cut``: how often its package left events out; ``hours``
    of a package, shown and whole, are medians. None where there was no package. ``ceiling``: the share of targets that
    the arm can reach, by the listed names (curated) or by its tools, too."""

    agent: str
    mean: float
    n: int
    radius: float | None
    interval: Interval
    input_tokens: float | None
    output_tokens: float | None
    cut: EvidenceCut | None = None
    hours: tuple[float, float] | None = None
    ceiling: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One model on one group of tasks, in both arms; ``seeking`` and ``difference`` (seeking less curated) are None
    where a model has only played curated inputs."""

    model: str
    group: str
    curated: ArmFigure
    seeking: ArmFigure | None = None
    difference: PairedTest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCell:
    """The gain or loss from seeking evidence on one task: a cell of the paper's figure 3."""

    model: str
    agent: str
    task: str
    n: int
    difference: float


GroupOf = Callable[[str], str | None]
"""The group of a task by name; None of one that has no two arms."""


def arm_rows(scores: Sequence[EpisodeScore], group_of: GroupOf, *, curated: str, seed: int) -> tuple[ArmRow, ...]:
    """Return a row per model, evidence-seeking agent and group, and one over all groups; none without a curated arm."""
    rows: list[ArmRow] = []
    for model, played in _by(scores, lambda one: one.model).items():
        agents = _by([one for one in played if group_of(one.task) is not None], lambda one: one.agent)
        first = agents.pop(curated, None)
        if first is None:
            continue
        for other in list(agents.values()) or [[]]:
            rows += _rows_of(model, first, other, group_of, seed)
    return tuple(rows)


def arm_cells(scores: Sequence[EpisodeScore], group_of: GroupOf, *, curated: str) -> tuple[ArmCell, ...]:
    """Return the difference of every task, model and evidence-seeking agent over the samples that both arms have."""
    cells = []
    for (model, task), played in _by(scores, lambda one: (one.model, one.task)).items():
        agents = _by(played, lambda one: one.agent)
        first = _by_sample(agents.pop(curated, []))
        for agent, other in agents.items():
            second = _by_sample(other)
            shared = first.keys() & second.keys()
            if group_of(task) is not None and shared:
                gain = fmean(second[sample] - first[sample] for sample in shared)
                cells.append(ArmCell(model=model, agent=agent, task=task, n=len(shared), difference=gain))
    return tuple(cells)


def _rows_of(
    model: str, first: Sequence[EpisodeScore], other: Sequence[EpisodeScore], group_of: GroupOf, seed: int
) -> list[ArmRow]:
    groups = list(dict.fromkeys(str(group_of(one.task)) for one in first))
    rows = [
        _row(model, name, *([one for one in arm if group_of(one.task) == name] for arm in (first, other)), seed=seed)
        for name in sorted(groups)
    ]
    return [*rows, _row(model, OVERALL, first, other, seed=seed)] if len(groups) > 1 else rows


def _row(model: str, group: str, first: Sequence[EpisodeScore], other: Sequence[EpisodeScore], *, seed: int) -> ArmRow:
    one, two = _by_sample(first), _by_sample(other)
    if not one.keys() & two.keys():
        return ArmRow(model=model, group=group, curated=_figure(first, seed, by_list=True))
    people: dict[str, Hashable] = {score.sample: score.subject_id for score in (*first, *other)}
    return ArmRow(
        model=model,
        group=group,
        curated=_figure(first, seed, by_list=True),
        seeking=_figure(other, seed),
        difference=paired_test_by_key(one, two, people, seed=seed),
    )


def _figure(scores: Sequence[EpisodeScore], seed: int, *, by_list: bool = False) -> ArmFigure:
    values = _by_sample(scores)
    people = {score.sample: score.subject_id for score in scores}
    means = list(values.values())
    usages = [score.use.usage for score in scores]
    known = [usage for usage in usages if usage is not None]
    counted = len(known) == len(usages)
    hours = [score.use.package_hours for score in scores if score.use.package_hours is not None]
    return ArmFigure(
        agent=scores[0].agent,
        mean=fmean(means),
        n=len(means),
        radius=student_radius(means),
        interval=patient_bootstrap(means, [people[sample] for sample in values], seed=seed),
        input_tokens=fmean(usage.input_tokens for usage in known) if counted else None,
        output_tokens=fmean(usage.output_tokens for usage in known) if counted else None,
        cut=evidence_cut(score.use.evidence_left_out for score in scores if score.use.package_hours is not None),
        hours=(median(one for one, _ in hours), median(one for _, one in hours)) if hours else None,
        ceiling=fmean(score.listed_recall if by_list else score.winnable_recall for score in scores),
    )


def _by_sample(scores: Iterable[EpisodeScore]) -> dict[str, float]:
    """The mean over the epochs of each sample."""
    return {
        sample: fmean(one.value for one in epochs) for sample, epochs in _by(scores, lambda one: one.sample).items()
    }


def _by(scores: Iterable[EpisodeScore], key: Callable[[EpisodeScore], K]) -> dict[K, list[EpisodeScore]]:
    groups: dict[K, list[EpisodeScore]] = {}
    for score in scores:
        groups.setdefault(key(score), []).append(score)
    return groups
