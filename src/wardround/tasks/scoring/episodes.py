"""The score of one episode: a line of a results file, from which every table is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from statistics import fmean
from sys import intern
from typing import Any

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import Usage
from wardround.log import Played
from wardround.tasks.benchmarks import Sample, get_task
from wardround.tasks.scoring.errors import ErrorClass, NoPrediction, classify_errors, no_prediction_mode, trials_of
from wardround.tasks.scoring.scorer import SetScore, scorer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundingCounts:
    """Citations of one or many episodes. ``passed`` ones exist on the chart, were read and support their answer;
    ``backed`` of the ``answers`` have at least one of those."""

    citations: int = 0
    existing: int = 0
    read: int = 0
    supporting: int = 0
    passed: int = 0
    answers: int = 0
    backed: int = 0

    @classmethod
    def total(cls, counts: Iterable[GroundingCounts]) -> GroundingCounts:
        """Add up the counts of many episodes, column by column; most of them cite nothing."""
        telling = [one for one in counts if one.citations or one.answers]
        return cls(**{name: sum(map(attrgetter(name), telling)) for name in cls.__slots__})

    @property
    def share(self) -> float | None:
        """The grounding metric: passed / citations; None where nothing was cited."""
        return self.passed / self.citations if self.citations else None


def grounding_counts(citations: Iterable[Mapping[str, Any]], answer: Sequence[str] | None) -> GroundingCounts:
    """Count the citation checks of an outcome (``answer``, ``row_id``, ``exists``, ``read``, ``supports``)."""
    checked = list(citations)
    passed = [one for one in checked if one["exists"] and one["read"] and one["supports"]]
    answers = {normalise_label(text) for text in answer or ()}
    return GroundingCounts(
        citations=len(checked),
        existing=sum(bool(one["exists"]) for one in checked),
        read=sum(bool(one["read"]) for one in checked),
        supporting=sum(bool(one["supports"]) for one in checked),
        passed=len(passed),
        answers=len(answers),
        backed=len(answers & {normalise_label(one["answer"]) for one in passed}),
    )


# Where the budget cut a method's evidence: its figures are then those of the method in that budget, and tables say so.
# An episode's loss is that of the prompt that lost most: the actor's, or one of a reader beside it.

PACKAGE = "curated"
NOTES = ("evidence", PACKAGE)
"""The kinds of notes in which an agent says what of its evidence a prompt shows; ``PACKAGE`` is that of an evidence
package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCut:
    """Episodes (of ``of`` with evidence) in which events were left out, and the mean number of these events."""

    episodes: int
    of: int
    events: float = 0.0

    def __str__(self) -> str:
        return f"{self.episodes:,} of {self.of:,} episodes ({self.events:,.0f} events each)"

    @property
    def short(self) -> str:
        """Return the text of a table's cell."""
        return f"{self.episodes:,} of {self.of:,}" + (f" (-{self.events:,.0f})" if self.episodes else "")


def events_left_out(details: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many events the most shortened prompt of an episode lost; None without evidence."""
    lost = [int(detail.get("events_left_out", 0)) for detail in details]
    return max(lost) if lost else None


def evidence_cut(lost: Iterable[int | None]) -> EvidenceCut | None:
    """Sum up episodes; None where none had evidence."""
    known = [events for events in lost if events is not None]
    if not known:
        return None
    cut = [events for events in known if events]
    return EvidenceCut(episodes=len(cut), of=len(known), events=fmean(cut) if cut else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Counts of an agent's notes over the steps of a stay.

    ``cited``: a prediction names an activated rule (adherence as the paper prints it). ``strict``: and the rule's
    trigger held at that step. ``audited``: the Auditor ran. ``failed``: it found something, by flaw. ``unchecked``:
    something passed that could not be checked. ``grades``: grades of its plans by a judge, 1 to 5.
    """

    steps: int
    activated: int
    cited: int
    strict: int
    audited: int
    failed: int
    flaws: Mapping[str, int]
    unchecked: int = 0
    grades: Sequence[int] = ()


def step_counts(trajectory: Played) -> StepCounts | None:
    """Return the counts of a stay's notes; None for an episode without steps."""
    notes = [note.detail for note in trajectory.notes if note.kind == "step"]
    if not notes:
        return None
    cited_rules = [
        {rule for action in note.get("actions", ()) for rule in action.get("because", ())}
        | set(note.get("citations", ()))
        for note in notes
    ]
    audits = [note.get("audit", {}) for note in notes]
    objections = [one["flaw"] for audit in audits for one in audit.get("objections", ())]
    return StepCounts(
        steps=len(notes),
        activated=sum(bool(note.get("read")) for note in notes),
        cited=sum(not rules.isdisjoint(note.get("read", ())) for rules, note in zip(cited_rules, notes, strict=True)),
        strict=sum(not rules.isdisjoint(note.get("held", ())) for rules, note in zip(cited_rules, notes, strict=True)),
        audited=sum(bool(audit.get("fired")) for audit in audits),
        failed=sum(bool(audit.get("objections")) for audit in audits),
        flaws={flaw: objections.count(flaw) for flaw in sorted(set(objections))},
        unchecked=sum(bool(audit.get("unchecked")) for audit in audits),
    )


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
    errors = classify_errors(trajectory, candidate_tools, candidate_tables)
    if not kind.spaces:  # without a table of answers there are no candidates to look up
        errors -= {ErrorClass.NO_CANDIDATE_TOOL}
    probabilities = [note.detail.get("labels") for note in trajectory.notes if note.kind == "probabilities"]
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
        errors=_once(errors),
        no_prediction=no_prediction_mode(trajectory),
        use=episode_use(trajectory),
        target=sample.target if scorer.keeps_target else (),
        probabilities=(probabilities[-1] if probabilities else None) or {},
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


@lru_cache(maxsize=64)
def _once(errors: frozenset[ErrorClass]) -> frozenset[ErrorClass]:
    """Return one shared object for equal sets, to save memory over many episodes."""
    return errors


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
    served = [one for detail in recalls for one in detail.get("served", ())]
    packages = [note.detail for note in trajectory.notes if note.kind == PACKAGE]
    hours = [(float(detail["hours_shown"]), float(detail["hours"])) for detail in packages if "hours" in detail]
    prompt_bytes = sum(turn.prompt_bytes for turn in turns)
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
        prefix_share=sum(turn.prefix_bytes for turn in turns) / prompt_bytes if prompt_bytes else None,
        summarises=bool(tried) or any(note.kind == "summarising" for note in trajectory.notes),
        summaries=len(summaries),
        failed_summaries=sum("failed" in detail for detail in summaries),
        evidence_left_out=events_left_out(note.detail for note in trajectory.notes if note.kind in NOTES),
        package_hours=hours[-1] if hours else None,
        experiences=len(served) if recalls else None,
        unchecked_experiences=sum(isinstance(one, Mapping) and bool(one.get("unchecked")) for one in served),
    )


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Count names, in order; equal names share one object, to save memory over many episodes."""
    return {intern(name): count for name, count in sorted(Counter(names).items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Successes:
    """Corrupt successes: answers that are right while rows cited for them are wrong or were never read.

    Of the ``right`` answers, ``cited`` cite rows, the others cannot be judged; ``corrupt`` of those cite at least one
    row that does not exist, was not read or does not support the answer (where the answer is a class, no row names it,
    and support is not checked). ``unread`` of those cite a missing or unread row; the others cite only rows that do not
    support the answer.
    """

    right: int = 0
    cited: int = 0
    corrupt: int = 0
    unread: int = 0

    @property
    def uncited(self) -> int:
        """Right answers without any citation."""
        return self.right - self.cited

    @property
    def share(self) -> float | None:
        """Return the share of corrupt ones among right answers with citations; None without such answers."""
        return self.corrupt / self.cited if self.cited else None

    @property
    def short(self) -> str:
        """The corrupt ones in a table's cell; empty where no right answer cites a row."""
        return "" if self.share is None else f"{self.corrupt} of {self.cited} ({self.share:.0%})"


def successes(scores: Iterable[EpisodeScore]) -> Successes:
    """Count right, cited and corrupt answers among some episodes."""
    right = [score for score in scores if score.right]
    cited = [score for score in right if score.grounding.citations]
    corrupt = unread = 0
    for score in cited:
        counts = score.grounding
        # a missing row cannot have been read, but an episode may have been shown its name
        cites_unread = min(counts.existing, counts.read) < counts.citations
        # a row that names a disease can be seen to support it; none names a class
        can_support = scorer_of(get_task(score.task).answer).rows_name_answers
        unread += cites_unread
        corrupt += counts.passed < counts.citations if can_support else cites_unread
    return Successes(right=len(right), cited=len(cited), corrupt=corrupt, unread=unread)
