"""The score of one episode: a line of a results file, from which every table is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any

from wardround.clinical.codes import LabelSet
from wardround.core import Usage
from wardround.log import Played, PlayedTurn
from wardround.tasks.answers import AnswerKind
from wardround.tasks.benchmarks import Sample, get_task
from wardround.tasks.scoring.errors import ErrorClass, NoPrediction, classify_errors, no_prediction_mode, trials_of
from wardround.tasks.scoring.grounding import GroundingCounts, grounding_counts
from wardround.tasks.scoring.scorer import scorer_of
from wardround.tasks.scoring.sets import SetScore
from wardround.tasks.scoring.stays import StepCounts, step_counts
from wardround.tasks.scoring.task_means import NOTES, PACKAGE, events_left_out, package_hours

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeUse:
    """What an episode cost. ``turns`` are the actor's, over all trials; ``trial_turns`` those of each trial, which is
    what the turn limit holds for. ``model_calls`` include summaries and the like. ``tool_calls`` were made, not only
    proposed.

    ``usage`` is None when an endpoint did not count its tokens, ``cost`` (US dollars) when a price is not known:
    a sum over some of the calls would be a wrong number. ``seconds`` of model and tools are wall time. ``tables``
    counts the results that showed rows of each record table. ``summarises``: its method writes summaries;
    ``summaries`` were tried while it played (not after its answer), ``failed_summaries`` of them left the one before in
    place. ``experiences`` were served from a bank, None without a bank; of ``unchecked_experiences`` of them a
    condition or an exclusion could not be checked. ``evidence_left_out``: the events of its evidence that one prompt
    lost at most, None where it had none; ``package_hours``: how many hours an evidence package showed, and of how many.
    """

    turns: int
    model_calls: int
    usage: Usage | None
    cost: float | None
    model_seconds: float
    tool_seconds: float
    trial_turns: tuple[int, ...] = ()
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    tool_errors: int = 0
    tables: Mapping[str, int] = field(default_factory=dict)
    prefix_share: float | None = None
    summarises: bool = False
    summaries: int = 0
    failed_summaries: int = 0
    experiences: int | None = None
    unchecked_experiences: int = 0
    evidence_left_out: int | None = None
    package_hours: tuple[float, float] | None = None

    @property
    def summarised(self) -> bool:
        """Whether at least one summary was written while it played."""
        return self.summaries > self.failed_summaries


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScore:
    """One scored episode: agent, model, sample, figures, cost and errors.

    ``score`` counts the names that an answer and its target share; ``figures`` are those that the scorer of its kind
    adds, the main one first; ``probabilities`` are those of the labels, where the agent requested them. ``target`` is
    kept where figures over all samples need it, and empty elsewhere. ``steps``: what was noted of a stay.
    ``subject_id`` is the person whom the sample is about, whose samples no resampling parts. ``winnable_recall`` is the
    share of the target that can be reached at all, ``listed_recall`` by the names that the question lists.
    """

    episode: str
    agent: str
    model: str
    task: str
    sample: str
    epoch: int
    subject_id: int
    split: str
    stratum: str
    finish: str
    answer: tuple[str, ...] | None
    score: SetScore
    winnable_recall: float
    grounding: GroundingCounts
    errors: frozenset[ErrorClass]
    no_prediction: NoPrediction | None
    use: EpisodeUse
    target: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    probabilities: Mapping[str, float] = field(default_factory=dict)
    steps: StepCounts | None = None
    listed_recall: float = 1.0

    @property
    def value(self) -> float:
        """The figure that tables show and tests compare."""
        return main_figure(self.score, self.figures)

    @property
    def right(self) -> bool:
        """Whether there is an answer and it has its scorer's full score."""
        return self.answer is not None and scorer_of(get_task(self.task).answer).is_right(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        usage = self.use.usage
        seldom = {"figures": dict(self.figures), "probabilities": dict(self.probabilities)}
        seldom |= {"steps": {} if self.steps is None else _shallow(self.steps)}
        return (
            {"schema": SCHEMA}
            | {name: value for name, value in _shallow(self).items() if name not in seldom}
            | {name: value for name, value in seldom.items() if value}
            | {
                "answer": None if self.answer is None else list(self.answer),
                "target": list(self.target),
                "errors": sorted(self.errors),
                "score": _shallow(self.score) | {"outside": list(self.score.outside)},
                "grounding": _shallow(self.grounding),
                "use": _shallow(self.use) | {"usage": None if usage is None else _shallow(usage)},
            }
        )

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> EpisodeScore:
        """Read what :meth:`to_json` wrote."""
        values = {name: value for name, value in body.items() if name != "schema"}
        use = values["use"]
        usage = use["usage"]
        return cls(
            **values
            | {
                "answer": None if values["answer"] is None else tuple(values["answer"]),
                "target": tuple(values.get("target", ())),
                "score": SetScore(**values["score"] | {"outside": tuple(values["score"]["outside"])}),
                "grounding": GroundingCounts(**values["grounding"]),
                "steps": StepCounts(**values["steps"]) if values.get("steps") else None,
                "errors": frozenset(map(ErrorClass, values["errors"])),
                "no_prediction": None if values["no_prediction"] is None else NoPrediction(values["no_prediction"]),
                "use": EpisodeUse(
                    **use
                    | {
                        "usage": None if usage is None else Usage(**usage),
                        "trial_turns": tuple(use.get("trial_turns", ())),
                        "package_hours": tuple(use["package_hours"]) if use.get("package_hours") else None,
                    }
                ),
            }
        )


def _shallow(one: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as they are: ``asdict`` copies everything below, too, for ten times as long."""
    return {name: getattr(one, name) for name in one.__slots__}


def score_episode(
    trajectory: Played,
    sample: Sample,
    label_set: LabelSet | None,
    candidate_tools: Iterable[str],
    candidate_tables: Iterable[str] = (),
    *,
    reasoning: Mapping[str, float] | None = None,
) -> EpisodeScore:
    """Score one finished episode against its sample.

    ``label_set`` are the labels and spellings that answers to the task may have, None where any text may be one. The
    facts given when the episode began name its agent, model and epoch. ``reasoning`` are the figures that a judge gave
    of it. An episode without an answer, for whatever
    reason, scores 0.
    """
    outcome = trajectory.outcome or {}
    given = outcome.get("answer")
    answer = None if given is None else tuple(map(intern, given))
    kind = get_task(sample.task).answer
    scorer, labels = scorer_of(kind), kind.labels(sample.task, label_set)
    winnable = len(sample.target) - len(sample.unwinnable)
    score = scorer.score(answer, sample.target, labels)
    figures = dict(scorer.figures(answer, sample.target, labels))
    if reasoning:
        figures = {scorer.metric: main_figure(score, figures)} | figures | dict(reasoning)
    return EpisodeScore(
        episode=trajectory.episode,
        agent=intern(str(trajectory.facts.get("agent", ""))),
        model=intern(str(trajectory.facts.get("model", ""))),
        task=sample.task,
        sample=sample.id,
        epoch=int(trajectory.facts.get("epoch", 0)),
        subject_id=sample.person,
        split=sample.split,
        stratum=sample.stratum,
        finish=intern(str(outcome.get("finish", "open"))),
        answer=answer,
        score=score,
        figures=figures,
        winnable_recall=winnable / len(sample.target),
        grounding=grounding_counts(outcome.get("citations", ()), answer),
        errors=_once(classify_errors(trajectory, candidate_tools, candidate_tables) - _not_expected(kind)),
        no_prediction=no_prediction_mode(trajectory),
        use=episode_use(trajectory),
        target=sample.target if scorer.keeps_target else (),
        probabilities=_probabilities(trajectory),
        steps=step_counts(trajectory),
        listed_recall=float(sample.facts.get("listed_share", 1.0)),
    )


def score_answer(answer: Iterable[str] | None, sample: Sample, label_set: LabelSet | None) -> float:
    """Return the main figure of an answer, by the scorer of its kind."""
    kind = get_task(sample.task).answer
    scorer, labels = scorer_of(kind), kind.labels(sample.task, label_set)
    given = None if answer is None else tuple(answer)
    return main_figure(scorer.score(given, sample.target, labels), scorer.figures(given, sample.target, labels))


def main_figure(score: SetScore, figures: Mapping[str, float]) -> float:
    """The first of a kind's own figures; the F1 of the set where it has none."""
    return next(iter(figures.values()), score.f1)


def _probabilities(trajectory: Played) -> Mapping[str, float]:
    """Return the last noted probabilities of the labels; empty without any."""
    noted = [note.detail.get("labels") for note in trajectory.notes if note.kind == "probabilities"]
    return (noted[-1] if noted else None) or {}


@lru_cache(maxsize=64)
def _once(errors: frozenset[ErrorClass]) -> frozenset[ErrorClass]:
    """Return one shared object for equal sets, to save memory over many episodes."""
    return errors


def _not_expected(kind: AnswerKind) -> frozenset[ErrorClass]:
    """Error classes that do not apply to a task: without a table of answers there are no candidates to look up."""
    return frozenset() if kind.spaces else frozenset({ErrorClass.NO_CANDIDATE_TOOL})


def episode_use(trajectory: Played) -> EpisodeUse:
    """Add up tokens, money, time and tool calls of an episode."""
    turns = trajectory.turns
    acts = [turn for turn in turns if turn.purpose == "act"]
    records = [record for turn in turns for record in turn.results]
    counted = all("input_tokens" not in turn.unreported and "output_tokens" not in turn.unreported for turn in turns)
    costs = [turn.cost for turn in turns]
    tried = [note.detail for note in trajectory.notes if note.kind == "summary"]
    summaries = [detail for detail in tried if detail.get("by") != "answer"]
    recalls = [note.detail for note in trajectory.notes if note.kind == "experiences"]
    return EpisodeUse(
        turns=len(acts),
        model_calls=len(turns),
        usage=trajectory.usage if counted else None,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        model_seconds=sum(turn.seconds for turn in turns),
        tool_seconds=sum(record.seconds for record in records),
        trial_turns=tuple(map(len, trials_of(trajectory))),
        tool_calls=_counts(call.name for turn in acts for call in turn.reply.tool_calls),
        tool_errors=sum(record.is_error for record in records),
        tables=_counts(name for record in records if record.table for name in record.table.split(", ") if name),
        prefix_share=_prefix_share(turns),
        summarises=bool(tried) or any(note.kind == "summarising" for note in trajectory.notes),
        summaries=len(summaries),
        failed_summaries=sum("failed" in detail for detail in summaries),
        evidence_left_out=events_left_out(note.detail for note in trajectory.notes if note.kind in NOTES),
        package_hours=package_hours(note.detail for note in trajectory.notes if note.kind == PACKAGE),
        experiences=sum(len(detail.get("served", ())) for detail in recalls) if recalls else None,
        unchecked_experiences=sum(map(_is_unchecked, (one for detail in recalls for one in detail.get("served", ())))),
    )


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Count names, in order; equal names share one object, to save memory over many episodes."""
    return {intern(name): count for name, count in sorted(Counter(names).items())}


def _is_unchecked(served: object) -> bool:
    """Whether a note on an experience names a condition or an exclusion that could not be checked."""
    return isinstance(served, Mapping) and bool(served.get("unchecked"))


def _prefix_share(turns: Iterable[PlayedTurn]) -> float | None:
    total = sum(turn.prompt_bytes for turn in turns)
    return sum(turn.prefix_bytes for turn in turns) / total if total else None
