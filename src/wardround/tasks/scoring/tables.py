"""Tables of scored episodes: one row per agent, model, task and stratum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import fmean
from textwrap import fill
from typing import Any

from wardround.core.table import TableColumn, as_text, columns_of, table_of
from wardround.tasks.benchmarks import get_task
from wardround.tasks.scoring.bootstrap import Interval, mean_of_task_means, patient_bootstrap, task_mean_interval
from wardround.tasks.scoring.episodes import (
    EpisodeScore,
    EvidenceCut,
    GroundingCounts,
    Successes,
    evidence_cut,
    successes,
)
from wardround.tasks.scoring.errors import ErrorClass
from wardround.tasks.scoring.scorer import SET_F1, scorer_of

# A cell whose number was not computed is empty, never zero.


ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """One agent with one model on one task and stratum (or all of them).

    ``n`` samples of ``subjects`` patients in ``episodes`` episodes: scores of repeated epochs are averaged per sample
    first. ``f1`` is the mean over samples of the figure that ``metric`` names; with ``task`` = all, the mean of the
    tasks' means, as the papers have it: every task weighs alike. So are precision and recall. Means of tokens, cost and
    seconds are per episode, None where not known of every episode, those of ``turns`` per trial, of which an episode
    has ``trials``. ``errors`` counts episodes; ``failed`` ones ended in an endpoint's error and score 0. ``summarised``
    counts the episodes with a summary, None where the method writes none; ``summaries`` were tried,
    ``failed_summaries`` of them left the one before in place; ``evidence_cut``: where the budget had no room for all
    evidence; ``over_samples`` is the mean over all samples alike, of a row over several tasks whose papers average so;
    ``experiences`` is the mean of those served, None without a bank; ``successes`` are the right
    answers and how many of them are corrupt.
    """

    agent: str
    model: str
    task: str
    stratum: str
    n: int
    subjects: int
    episodes: int
    f1: Interval
    precision: float
    recall: float
    reachable_recall: float
    turns: float
    input_tokens: float | None
    output_tokens: float | None
    cost: float | None
    seconds: float
    grounding: GroundingCounts
    errors: Mapping[ErrorClass, int]
    failed: int
    tool_calls: Mapping[str, int]
    summarised: int | None = None
    summaries: int = 0
    failed_summaries: int = 0
    experiences: float | None = None
    trials: float = 1.0
    evidence_cut: EvidenceCut | None = None
    metric: str = SET_F1
    over_samples: Interval | None = None
    successes: Successes = field(default_factory=Successes)


def summarise(scores: Iterable[EpisodeScore], *, seed: int = 0, resamples: int = 10_000) -> tuple[SummaryRow, ...]:
    """Return a row per agent, model, task and stratum, one over the strata where there are several, and over all tasks
    where there are several, stratum by stratum and together."""
    groups: dict[tuple[str, str, str, str], list[EpisodeScore]] = {}
    for score in scores:
        for task, stratum in {(score.task, score.stratum), (score.task, ALL), (ALL, score.stratum), (ALL, ALL)}:
            groups.setdefault((score.agent, score.model, task, stratum), []).append(score)
    kept = {key: members for key, members in groups.items() if not _is_repetition(key, groups)}
    order = sorted(kept, key=lambda key: (key[0], key[1], key[2] == ALL, key[2], key[3] == ALL, key[3]))
    return tuple(_row(key, kept[key], seed, resamples) for key in order)


def per_sample(
    scores: Iterable[EpisodeScore], value: Callable[[EpisodeScore], float] = lambda one: one.value
) -> dict[str, float]:
    """Return the mean of a value over the epochs of each sample, by sample id, for paired tests."""
    return _epoch_means(_by_sample(scores), value)


def _by_sample(scores: Iterable[EpisodeScore]) -> dict[str, list[EpisodeScore]]:
    epochs: dict[str, list[EpisodeScore]] = {}
    for score in scores:
        epochs.setdefault(score.sample, []).append(score)
    return epochs


def _epoch_means(
    by_sample: Mapping[str, Sequence[EpisodeScore]], value: Callable[[EpisodeScore], float]
) -> dict[str, float]:
    return {sample: fsum(map(value, epochs)) / len(epochs) for sample, epochs in by_sample.items()}


def pooled_metric(tasks: Iterable[str]) -> str:
    """Return the name of the mean over some tasks: ``score`` where their metrics differ."""
    scorers = [scorer_of(get_task(task).answer) for task in tasks]
    names = {scorer.pooled or scorer.metric for scorer in scorers}
    return names.pop() if len(names) == 1 else "score"


def over_strata(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Return for each contender and task the row over all strata, or its only row."""
    rows = list(rows)
    whole = {(row.agent, row.model, row.task) for row in rows if row.stratum == ALL}
    return [row for row in rows if row.stratum == ALL or (row.agent, row.model, row.task) not in whole]


def render_table(rows: Sequence[SummaryRow], *, is_wide: bool = True) -> str:
    """Return the rows as an aligned plain-text table; agent and model are shown where they differ between rows.

    ``is_wide=False``: over all strata, with the columns that fit a terminal of 100, and what their names mean.
    """
    if is_wide:
        return as_text(table_of(rows, columns_of(SCORE_COLUMNS, "terminal")), has_rule=True)
    some = over_strata(rows)
    table = table_of(some, columns_of(SCORE_COLUMNS, "narrow"))
    terms = fill("; ".join(f"{name}: {help}" for name, help in table.terms.items()), 100).splitlines()
    return "\n".join([as_text(table, has_rule=True), *terms, *_warnings(some)])


def _warnings(rows: Sequence[SummaryRow]) -> list[str]:
    """Return lines about cut evidence and failed summaries, which the wide table shows in columns."""
    cut = [(row, row.evidence_cut.short) for row in rows if row.evidence_cut and row.evidence_cut.episodes]
    failed = [(row, f"{row.failed_summaries} of {row.summaries}") for row in rows if row.failed_summaries]
    details_by_warning = {"evidence cut (episodes, events lost)": cut, "summaries failed": failed}
    return [
        line
        for what, rows_and_texts in details_by_warning.items()
        if rows_and_texts
        for line in fill(
            f"! {what}: " + ", ".join(f"{row.agent} on {row.task} {text}" for row, text in rows_and_texts),
            100,
            subsequent_indent="    ",
        ).splitlines()
    ]


def _row(key: tuple[str, str, str, str], scores: list[EpisodeScore], seed: int, resamples: int) -> SummaryRow:
    agent, model, task, stratum = key
    by_sample = _by_sample(scores)
    f1 = _epoch_means(by_sample, lambda one: one.value)
    subjects = [epochs[-1].subject_id for epochs in by_sample.values()]
    tasks = [epochs[-1].task for epochs in by_sample.values()]

    def mean(value: Callable[[EpisodeScore], float]) -> float:
        return mean_of_task_means(list(_epoch_means(by_sample, value).values()), tasks)

    usages = [score.use.usage for score in scores]
    errors = Counter(name for score in scores for name in score.errors)
    calls: Counter[str] = Counter()
    for score in scores:
        calls.update(score.use.tool_calls)
    return SummaryRow(
        agent=agent,
        model=model,
        task=task,
        stratum=stratum,
        n=len(f1),
        subjects=len(set(subjects)),
        episodes=len(scores),
        f1=task_mean_interval(list(f1.values()), tasks, subjects, seed=seed, resamples=resamples),
        precision=mean(lambda one: one.score.precision),
        recall=mean(lambda one: one.score.recall),
        reachable_recall=mean(lambda one: one.winnable_recall),
        turns=fmean(turns for score in scores for turns in score.use.trial_turns or (score.use.turns,)),
        trials=fmean(len(score.use.trial_turns) or 1 for score in scores),
        input_tokens=_mean_known([None if usage is None else usage.input_tokens for usage in usages]),
        output_tokens=_mean_known([None if usage is None else usage.output_tokens for usage in usages]),
        cost=_mean_known([score.use.cost for score in scores]),
        seconds=fmean(score.use.model_seconds + score.use.tool_seconds for score in scores),
        grounding=GroundingCounts.total(score.grounding for score in scores),
        errors={name: errors[name] for name in ErrorClass},
        failed=sum(score.finish == "error" for score in scores),
        tool_calls=dict(sorted(calls.items())),
        evidence_cut=evidence_cut(score.use.evidence_left_out for score in scores),
        summarised=sum(one.use.summarised for one in scores) if any(one.use.summarises for one in scores) else None,
        summaries=sum(score.use.summaries for score in scores),
        failed_summaries=sum(score.use.failed_summaries for score in scores),
        experiences=_mean_known([score.use.experiences for score in scores]),
        metric=pooled_metric({score.task for score in scores}),
        over_samples=_over_samples(f1, tasks, subjects, seed, resamples),
        successes=successes(scores),
    )


def _over_samples(
    values: Mapping[str, float], tasks: Sequence[str], subjects: Sequence[int], seed: int, resamples: int
) -> Interval | None:
    """Return the mean over all samples of several tasks, where every task's scorer requires it."""
    names = set(tasks)
    if len(names) < 2 or not all(scorer_of(get_task(name).answer).over_samples for name in names):
        return None
    return patient_bootstrap(list(values.values()), subjects, seed=seed, resamples=resamples)


def _is_repetition(key: tuple[str, str, str, str], groups: Mapping[tuple[str, str, str, str], object]) -> bool:
    """Return whether an ``all`` row would only repeat a single row, or the row over all strata."""
    agent, model, task, stratum = key
    if stratum != ALL:
        tasks_of_stratum = {k[2] for k in groups if k[:2] == (agent, model) and k[3] == stratum and k[2] != ALL}
        strata = {k[3] for k in groups if k[:2] == (agent, model) and k[3] != ALL}
        return task == ALL and (len(tasks_of_stratum) == 1 or len(strata) == 1)
    pairs = {k[2:] for k in groups if k[:2] == (agent, model) and k[2] != ALL and k[3] != ALL}
    if task == ALL:
        return len({name for name, _ in pairs}) == 1
    return len({name for t, name in pairs if t == task}) == 1


def _mean_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _errors(row: SummaryRow) -> str:
    return " ".join(f"{_SHORT[name]}:{count}" for name, count in row.errors.items() if count)


def _all_f1(rows: Sequence[SummaryRow]) -> bool:
    return all(row.metric == SET_F1 for row in rows)


def _column(
    name: str, value: Callable[[SummaryRow], object], tables: str, form: str = "", **more: Any
) -> TableColumn[SummaryRow]:
    return TableColumn(name=name, value=value, tables=tables, format=form, **more)


def _known(
    name: str, value: Callable[[SummaryRow], object], tables: str, form: str = "", **more: Any
) -> TableColumn[SummaryRow]:
    """A column that a table has where the value of any row is known."""
    return _column(name, value, tables, form, is_shown=lambda rows: any(value(row) is not None for row in rows), **more)


def _varied(name: str, value: Callable[[SummaryRow], object], tables: str, **more: Any) -> TableColumn[SummaryRow]:
    """A column of texts that a table has where they differ between rows."""
    return _column(name, value, tables, kind="text", is_shown=lambda rows: len(set(map(value, rows))) > 1, **more)


_IF_CITED = {"is_shown": lambda rows: any(row.successes.cited for row in rows)}
_SHORT = {
    ErrorClass.NO_PREDICTION: "none",
    ErrorClass.TOOL_REPEAT: "repeat",
    ErrorClass.SINGLE_TOOL_LOOP: "loop",
    ErrorClass.MULTI_TOOL_CYCLE: "cycle",
    ErrorClass.TOOL_USAGE: "usage",
    ErrorClass.NO_CANDIDATE_TOOL: "no-cand",
}
SCORE_COLUMNS: tuple[TableColumn[SummaryRow], ...] = (
    _column("task", lambda row: "mean of tasks" if row.task == ALL else row.task, "scores work", kind="text"),
    _varied("agent", lambda row: row.agent, "terminal narrow"),
    _varied("model", lambda row: row.model, "terminal narrow"),
    _varied("agent · model", lambda row: f"{row.agent} · {row.model}", "scores work subgroups"),
    _column("task", lambda row: row.task, "terminal narrow subgroups", kind="text"),
    _varied("stratum", lambda row: row.stratum, "terminal scores subgroups", terminal={"is_shown": lambda rows: True}),
    _column("n", lambda row: row.n, "terminal narrow scores subgroups"),
    _column("patients", lambda row: row.subjects, "terminal narrow scores subgroups"),
    _column(
        "in",
        lambda row: row.metric,
        "terminal narrow scores subgroups",
        kind="text",
        is_shown=lambda rows: not _all_f1(rows),
    ),
    _column("score", lambda row: row.f1.estimate, "scores subgroups", ".3f"),
    _column("score", lambda row: row.f1.estimate, "terminal narrow", ".3f", is_shown=lambda rows: not _all_f1(rows)),
    _column("F1", lambda row: row.f1.estimate, "terminal narrow", ".3f", is_shown=_all_f1),
    _column(
        "95 % interval",
        lambda row: row.f1.as_text(),
        "terminal narrow scores subgroups",
        kind="interval",
        terminal={"kind": "number"},
    ),
    _known("over samples", lambda row: row.over_samples and row.over_samples.estimate, "terminal", ".3f"),
    _column(
        "precision",
        lambda row: row.precision,
        "terminal narrow scores data",
        ".3f",
        terminal={"name": "P", "help": "precision"},
    ),
    _column(
        "recall", lambda row: row.recall, "terminal narrow scores data", ".3f", terminal={"name": "R", "help": "recall"}
    ),
    _column(
        "recall possible",
        lambda row: row.reachable_recall,
        "terminal narrow scores data",
        ".3f",
        terminal={"name": "R max"},
        help="the recall of a perfect answer (below 1 where the candidates lack a right label)",
    ),
    _column("turns", lambda row: row.turns, "terminal narrow work data", ".1f"),
    _column(
        "trials", lambda row: row.trials, "terminal", ".1f", is_shown=lambda rows: any(row.trials > 1 for row in rows)
    ),
    _known("input tokens", lambda row: row.input_tokens, "terminal work data", ",.0f", terminal={"name": "tokens in"}),
    _known("output tokens", lambda row: row.output_tokens, "terminal work data", ",.0f", terminal={"name": "out"}),
    _known("cost (US$)", lambda row: row.cost, "terminal narrow work data", ".4f", terminal={"name": "US$"}),
    _column("seconds", lambda row: row.seconds, "terminal work data", ".2f"),
    _known("grounded", lambda row: row.grounding.share, "terminal", ".3f"),
    _column(
        "citations valid",
        lambda row: row.grounding.share,
        "work data",
        ".0%",
        help="share of cited rows that exist on the chart, were read, and support the answer",
    ),
    _column(
        "right",
        lambda row: row.successes.right,
        "terminal work",
        terminal=_IF_CITED,
        help="episodes with the full score",
    ),
    _column(
        "corrupt",
        lambda row: row.successes.short or None,
        "terminal work",
        terminal=_IF_CITED,
        help="right answers that cite a row which does not exist, was not read or does not support them, of those that "
        "cite any",
    ),
    _column(
        "unread",
        lambda row: row.successes.unread,
        "terminal work",
        terminal=_IF_CITED,
        help="corrupt answers with a row that does not exist or was not read",
    ),
    _column(
        "uncited",
        lambda row: row.successes.uncited,
        "work",
        help="right answers that cite nothing and cannot be judged",
    ),
    _known(
        "lessons",
        lambda row: row.experiences,
        "terminal work",
        ".1f",
        help="experiences served from the bank, a mean per episode",
    ),
    _column(
        "evidence cut",
        lambda row: row.evidence_cut and row.evidence_cut.short,
        "terminal work",
        is_shown=lambda rows: any(row.evidence_cut and row.evidence_cut.episodes for row in rows),
        help="episodes whose evidence did not fit the budget, and how many events were lost",
    ),
    _known(
        "summarised",
        lambda row: None if row.summarised is None else f"{row.summarised} of {row.episodes}",
        "terminal work",
        help="episodes with a summary of what was read before",
    ),
    _known(
        "summaries failed",
        lambda row: f"{row.failed_summaries} of {row.summaries}" if row.summaries else None,
        "terminal work",
        terminal={"is_shown": lambda rows: any(row.failed_summaries for row in rows)},
        help="summaries that failed and left the one before in place, of all tried",
    ),
    _column("episodes", lambda row: row.episodes, "data"),
    _column("episodes failed", lambda row: row.failed, "data"),
    _column(
        "failed",
        lambda row: row.failed,
        "terminal narrow scores",
        is_shown=lambda rows: any(row.failed for row in rows),
        help="episodes that ended in an error and score 0",
    ),
    _column("errors (episodes)", _errors, "terminal", kind="text"),
)
"""Every column of a run's scores, by the tables that have it: ``terminal`` (``--wide``), ``narrow`` (a terminal of 100
characters), ``scores`` and ``work`` (the report's page), ``subgroups``, ``data`` (the files of ``--tables``)."""


# The other figures of a kind of answers: what its scorer gives of every answer besides the figure the tables show.


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """The mean of one figure over the samples of a task, repeated epochs averaged first."""

    agent: str
    model: str
    task: str
    figure: str
    mean: Interval


def figure_rows(scores: Iterable[EpisodeScore], *, seed: int = 0) -> tuple[FigureRow, ...]:
    """Return a row per task, contender and figure of the kinds that have figures of their own, the main one first."""
    groups: dict[tuple[str, str, str], list[EpisodeScore]] = {}
    for score in scores:
        if score.figures:
            groups.setdefault((score.task, score.agent, score.model), []).append(score)
    return tuple(
        FigureRow(agent=agent, model=model, task=task, figure=figure, mean=_figure_mean(members, figure, seed))
        for (task, agent, model), members in sorted(groups.items(), key=lambda group: group[0][0])
        for figure in dict.fromkeys(name for member in members for name in member.figures)
    )


def render_figures(rows: Sequence[FigureRow]) -> str:
    """Return the rows as an aligned plain-text table."""
    return as_text(table_of(rows, columns_of(FIGURE_COLUMNS, "terminal", kind="text")))


def _figure_mean(scores: Sequence[EpisodeScore], figure: str, seed: int) -> Interval:
    with_figure = [score for score in scores if figure in score.figures]  # a reasoning without a reference has none
    values = per_sample(with_figure, lambda score: score.figures[figure])
    subject_of = {score.sample: score.subject_id for score in with_figure}
    return patient_bootstrap(list(values.values()), [subject_of[sample] for sample in values], seed=seed)


FIGURE_COLUMNS: tuple[TableColumn[FigureRow], ...] = (
    TableColumn(name="task", value=lambda row: row.task, kind="text"),
    TableColumn(
        name="agent · model", value=lambda row: f"{row.agent} · {row.model}", kind="text", terminal={"name": ""}
    ),
    TableColumn(name="figure", value=lambda row: row.figure, kind="text"),
    TableColumn(name="mean", value=lambda row: row.mean.estimate, format=".3f"),
    TableColumn(name="95 % interval", value=lambda row: row.mean.as_text(), kind="interval"),
)
