"""Predictions as tables, as few-shot curves, and as files for meds-evaluation."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import pyarrow as pa

from wardround.core import UserError, must_be_new
from wardround.exports.meds import write_labels
from wardround.predictors import ALL_SHOTS, FitRow, read_predictions
from wardround.runs.folder import RunFolder
from wardround.runs.results import read_results
from wardround.tasks.benchmarks import Benchmark, Sample, get_task
from wardround.tasks.benchmarks.meds_labels import BinaryQuestion, binary_questions, folder_name
from wardround.tasks.scoring import ClassificationRow, EpisodeScore

# The results of predictors in a run's folder, as rows of tables and as curves over the number of shots.


CLASSES_VIEW = "classes"
Value = Callable[[FitRow], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A predictor with ``k`` samples per class (None: all): mean, lowest and highest of its replicates."""

    k: int | None
    mean: float
    low: float
    high: float
    replicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A predictor on one task and view, over the shots."""

    predictor: str
    task: str
    view: str
    points: tuple[CurvePoint, ...]


def predictor_rows(rows: Iterable[FitRow]) -> tuple[ClassificationRow, ...]:
    """Return a table row per predictor, task and view: the fit on all samples, else on the largest number of shots."""
    best: dict[tuple[str, str, str], FitRow] = {}
    for row in rows:
        key = (row.task, row.view, row.predictor)
        if key not in best or _size(row) > _size(best[key]):
            best[key] = row
    return tuple(_table_row(row) for row in best.values())


def macro_f1_of(row: FitRow) -> float | None:
    """Return the figure of figure 2 of the paper."""
    return row.metrics.macro_f1.estimate


def auroc_of(row: FitRow) -> float | None:
    """Return the figure of EHRSHOT's figures."""
    return None if row.scores.auroc is None else row.scores.auroc.estimate


def curves(rows: Sequence[FitRow], value: Value) -> tuple[Curve, ...]:
    """Return a curve per task, view and predictor, in the order of the fits; fits without the value are left out."""
    found: dict[tuple[str, str, str], dict[int | None, list[float]]] = {}
    for row in rows:
        figure = value(row)
        if figure is not None:
            k = None if row.k == ALL_SHOTS else int(row.k)
            found.setdefault((row.task, row.view, row.predictor), {}).setdefault(k, []).append(figure)
    return tuple(
        Curve(
            task=task,
            view=view,
            predictor=predictor,
            points=tuple(
                CurvePoint(k=k, mean=fmean(values), low=min(values), high=max(values), replicates=len(values))
                for k, values in sorted(by_k.items(), key=lambda item: (item[0] is None, item[0] or 0))
            ),
        )
        for (task, view, predictor), by_k in found.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """``n`` samples with similar predicted probability: their mean prediction, the observed share, and its 95 % Wilson
    interval (over samples)."""

    n: int
    predicted: float
    observed: float
    low: float
    high: float


def reliability_bins(row: FitRow, truth: Mapping[str, bool], *, most: int = 10) -> tuple[ReliabilityBin, ...]:
    """Return tenths of the samples by their probability of any class but the first; empty if a fit kept none.
    ``truth``: whether a sample has such a class."""
    predictions = zip(row.samples, row.probabilities, strict=True)
    pairs = sorted((1 - shares[0], truth[sample]) for sample, shares in predictions if sample in truth)
    parts = min(most, len(pairs))
    cuts = [len(pairs) * place // parts for place in range(parts + 1)] if parts else []
    return tuple(_bin(pairs[start:end]) for start, end in pairwise(cuts))


def _bin(pairs: Sequence[tuple[float, bool]]) -> ReliabilityBin:
    """Return one tenth, with Wilson's interval of a share (1927)."""
    n, observed, z = len(pairs), fmean(is_true for _, is_true in pairs), NormalDist().inv_cdf(0.975)
    middle = (observed + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(observed * (1 - observed) / n + z * z / (4 * n * n))
    low, high = max(0.0, min(observed, middle - half)), min(1.0, max(observed, middle + half))
    return ReliabilityBin(n=n, predicted=fmean(share for share, _ in pairs), observed=observed, low=low, high=high)


def predictor_notes(rows: Sequence[FitRow], manifest: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return how the predictors were made, and what to know before comparing them."""
    if manifest is None or not rows:
        return ()
    settings, features = manifest["settings"], manifest.get("features")
    notes = []
    if features:
        above = f", and for {features['ancestors']:,} ancestors ({', '.join(features['hierarchy'])})"
        events = "every event" if settings["valued_events"] else "events without a value"
        notes.append(
            f"Counts of {events} on {features['charts']:,} charts under {features['codes']:,} codes"
            f"{above if features['ancestors'] else ''}; the columns of a fit are what its training samples have."
        )
        if features["ages_unknown"]:
            notes.append(f"The age is unknown on {features['ages_unknown']:,} charts and replaced by the mean.")
    if any(row.predictor == "count-gbm" for row in rows):
        notes.append(f"Boosting tried the grid {settings['gbm_grid']!r} ({_points(rows)} points).")
    repeated = sum(any((*row.train["repeated"].values(), *row.dev["repeated"].values())) for row in rows)
    unranked = sum(row.dev_auroc is None for row in rows)
    stopped = sum(not row.converged for row in rows)
    notes += (
        [f"In {repeated:,} of {len(rows):,} fits a class had too few samples, and samples were repeated."]
        if repeated
        else []
    )
    notes += [f"In {unranked:,} fits dev samples could not choose a setting: defaults."] if unranked else []
    notes += [f"{stopped:,} fits ended at the solver's limit of {settings['final_iterations']:,}."] if stopped else []
    notes += [f"Left out: {name}, {reason}." for name, reason in manifest["left_out"].items()]
    return tuple(notes)


def _points(rows: Iterable[FitRow]) -> int:
    return max((row.points for row in rows if row.predictor == "count-gbm"), default=0)


def _table_row(row: FitRow) -> ClassificationRow:
    names = dict(zip(row.classes, row.class_names, strict=True))
    whole = row.k == ALL_SHOTS
    return ClassificationRow(
        agent=row.predictor,
        model="" if whole else f"{row.k} per class, first draw",
        task=row.task if row.view == CLASSES_VIEW else f"{row.task} ({row.view})",
        class_names=names,
        episodes=row.metrics.n,
        metrics=row.metrics,
        scores=row.scores,
    )


def _size(row: FitRow) -> float:
    """Return a sort key: the number of shots, and of equal numbers the first replicate last."""
    return (float("inf") if row.k == ALL_SHOTS else int(row.k)) - row.replicate / 1e6


# Answers of agents and probabilities of predictors, in the form of meds-evaluation: one file per question and method.
#
# It supports only yes and no. A task of several classes becomes "not the first class"; labels that may apply together
# become one question each, as in the predictors' binary views. Agents give a value, predictors also a probability.


_ALL_SHOTS = "all"


@dataclass(slots=True, kw_only=True)
class PredictionsReport:
    """Rows by file; by file, episodes whose answer names no class; what was left out, with the reason."""

    rows: dict[str, int] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guesses:
    """One method's answers to one question; ``probabilities`` if it gives them."""

    question: BinaryQuestion
    method: str
    samples: Sequence[Sample]
    values: Sequence[bool | None]
    probabilities: Sequence[float] | None = None

    @property
    def name(self) -> str:
        """The file name without its ending."""
        return f"{self.question.folder}/{folder_name(self.method)}"


def write_meds_predictions(
    run: Path, folder: Path, *, benchmark: Path | None = None, unanswered_is_no: bool = False
) -> PredictionsReport:
    """Write the predictions of every method in a run's folder.

    ``benchmark``: its folder, if the run does not name it. An episode without an answer has no value, and
    meds-evaluation then computes no accuracy; ``unanswered_is_no`` counts it as a no. UserError: nothing to write, or
    the folder is not empty.
    """
    must_be_new(folder)
    scores = read_results(RunFolder.open(run)) if (run / "results.jsonl").is_file() else []
    fits = read_predictions(run)
    if not scores and not fits:
        raise UserError(
            f"{run}: no predictions; score it (wardround report) or fit predictors (wardround train predictors)"
        )
    samples = _samples(run, benchmark)
    report = PredictionsReport()
    for guesses in [*_of_agents(scores, samples, report), *_of_predictors(fits, samples, report)]:
        unanswered = sum(value is None for value in guesses.values)
        if unanswered == len(guesses.samples):
            report.left_out[f"{guesses.name}: no answer names a class"] = unanswered
            continue
        if unanswered_is_no:
            guesses = replace(guesses, values=[bool(value) for value in guesses.values])
        _write(folder, guesses)
        report.rows[guesses.name] = len(guesses.samples)
        if unanswered:
            report.unanswered[guesses.name] = unanswered
    return report


def _samples(run: Path, benchmark: Path | None) -> Mapping[str, Sample]:
    if benchmark is None and not (run / "manifest.json").is_file():
        raise UserError(f"{run}: has only predictors; name the folder of their benchmark (--benchmark)")
    path = benchmark or Path(RunFolder.open(run).settings.run.benchmark)
    return {sample.id: sample for sample in Benchmark.open(path).all_samples}


def _of_agents(
    scores: Iterable[EpisodeScore], samples: Mapping[str, Sample], report: PredictionsReport
) -> Iterator[_Guesses]:
    groups: dict[tuple[str, str, str, int], list[EpisodeScore]] = defaultdict(list)
    for score in scores:
        if get_task(score.task).answer.views:
            groups[score.task, score.agent, score.model, score.epoch].append(score)
        else:
            report.left_out[f"{score.task}: its answer is a set of names, not yes or no"] += 1
    for (name, agent, model, epoch), rows in sorted(groups.items()):
        task = get_task(name)
        answers = [_classes(row.answer, name) for row in rows]
        for question in binary_questions(task):
            yield _Guesses(
                question=question,
                method=f"{agent}-{model}" + (f"-epoch{epoch}" if epoch else ""),
                samples=[_sample(samples, row.sample) for row in rows],
                values=[None if answer is None else question.holds(answer) for answer in answers],
            )


def _classes(answer: Sequence[str] | None, task: str) -> list[str] | None:
    """Return the classes that an answer names; None without any, or if it names several where one is expected."""
    kind = get_task(task).answer
    labels = kind.labels(task, None)
    named = {label for text in answer or () if labels is not None and (label := labels.resolve(text)) is not None}
    return sorted(named) if len(named) == 1 or (named and kind.several) else None


def _of_predictors(
    fits: Iterable[FitRow], samples: Mapping[str, Sample], report: PredictionsReport
) -> Iterator[_Guesses]:
    for row in fits:
        if row.k != _ALL_SHOTS:
            continue
        question = _question_of(row)
        if question is None:
            report.left_out[f"{row.task}, {row.view}: more than two classes (its binary view is written)"] += 1
        elif row.samples:
            chances = [cells[1] for cells in row.probabilities]
            yield _Guesses(
                question=question,
                method=row.predictor,
                samples=[_sample(samples, name) for name in row.samples],
                values=[chance >= 0.5 for chance in chances],
                probabilities=chances,
            )


def _question_of(row: FitRow) -> BinaryQuestion | None:
    """Return the yes-or-no question that a fit answers; None if it has several classes."""
    questions = binary_questions(get_task(row.task))
    return next((question for question in questions if question.view == row.view), None)


def _sample(samples: Mapping[str, Sample], name: str) -> Sample:
    if name not in samples:
        raise UserError(f"sample {name!r} is not in the benchmark; was the run made on another one?")
    return samples[name]


def _write(folder: Path, guesses: _Guesses) -> None:
    unknown = [None] * len(guesses.samples)
    predicted: dict[str, tuple[Any, Sequence[Any]]] = {
        "predicted_boolean_value": (pa.bool_(), guesses.values),
        "predicted_boolean_probability": (pa.float32(), guesses.probabilities or unknown),
    }
    write_labels(
        folder / f"{guesses.name}.parquet",
        [sample.subject_id for sample in guesses.samples],
        [sample.moment for sample in guesses.samples],
        {"boolean_value": [guesses.question.holds(sample.target) for sample in guesses.samples]},
        predicted,
    )
