"""What agents answered and predictors scored, as meds-evaluation reads it: one file per question and method.

It knows yes and no only. A task of several classes is asked as "not the first class", and labels that may hold at once
one by one, as the predictors' own binary views are. Agents give a value, predictors a probability too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from wardround.benchmarks import Benchmark, Sample, get_task
from wardround.benchmarks.meds_labels import BinaryQuestion, binary_questions, folder_name
from wardround.core import UserError, must_be_new
from wardround.exports.meds import write_labels
from wardround.predictors import FitRow, read_predictions
from wardround.runs.folder import RunFolder
from wardround.runs.results import read_results
from wardround.scoring import EpisodeScore

_ALL_SHOTS = "all"


@dataclass(slots=True, kw_only=True)
class PredictionsReport:
    """Rows by file; by file, episodes without an answer that names a class; what was left out, with the reason."""

    rows: dict[str, int] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guesses:
    """One method's guesses at one question; ``probabilities`` where it gives them."""

    question: BinaryQuestion
    method: str
    samples: Sequence[Sample]
    values: Sequence[bool | None]
    probabilities: Sequence[float] | None = None

    @property
    def name(self) -> str:
        """The file, without its ending."""
        return f"{self.question.folder}/{folder_name(self.method)}"


def write_meds_predictions(
    run: Path, folder: Path, *, benchmark: Path | None = None, unanswered_is_no: bool = False
) -> PredictionsReport:
    """Write the predictions of every method in a run's folder. ``benchmark``: where it lies, if the run does not say.

    An episode without an answer has no value, and meds-evaluation then has no accuracy of the file;
    ``unanswered_is_no`` counts it as a no. UserError: nothing to write, or the folder holds something.
    """
    must_be_new(folder)
    scores = read_results(RunFolder.open(run)) if (run / "results.jsonl").is_file() else []
    fits = read_predictions(run)
    if not scores and not fits:
        raise UserError(f"{run}: no predictions; score it (wardround report) or fit predictors (wardround predict)")
    samples = _samples(run, benchmark)
    report = PredictionsReport()
    for guesses in [*_of_agents(scores, samples, report), *_of_predictors(fits, samples, report)]:
        unanswered = sum(value is None for value in guesses.values)
        if unanswered == len(guesses.samples):
            report.left_out[f"{guesses.name}: not one answer names a class"] = unanswered
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
        raise UserError(f"{run}: holds predictors only; say where their benchmark is (--benchmark)")
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
    """Return the classes that an answer names; None if it names none, or several where one is asked for."""
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
    """Return the yes-or-no question that a fit answers; None if it answers one of several classes."""
    questions = binary_questions(get_task(row.task))
    return next((question for question in questions if question.view == row.view), None)


def _sample(samples: Mapping[str, Sample], name: str) -> Sample:
    if name not in samples:
        raise UserError(f"sample {name!r} is not in the benchmark; is it the one that the run was made on?")
    return samples[name]


def _write(folder: Path, guesses: _Guesses) -> None:
    unknown = [None] * len(guesses.samples)
    predicted: dict[str, tuple[Any, Sequence[Any]]] = {
        "predicted_boolean_value": (pa.bool_(), guesses.values),
        "predicted_boolean_probability": (pa.float32(), guesses.probabilities or unknown),
    }
    write_labels(
        folder / f"{guesses.name}.parquet",
        [one.subject_id for one in guesses.samples],
        [one.moment for one in guesses.samples],
        {"boolean_value": [guesses.question.holds(one.target) for one in guesses.samples]},
        predicted,
    )
