"""Fit predictors on a benchmark: tasks, few-shot samples, replicates."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wardround import __version__
from wardround.core import (
    Progress,
    Reporter,
    UserError,
    content_hash,
    derive_seed,
    load_plugins,
    loaded_plugins,
    private_folder,
    silent,
    write_atomically,
)
from wardround.core.executors import starting
from wardround.predictors.features import (
    Ancestry,
    CountTable,
    Design,
    Key,
    Representations,
    ancestry,
    count_matrix,
    count_table,
    read_counts,
    read_representations,
    write_counts,
)
from wardround.predictors.heads import (
    ALL_SHOTS,
    PREDICTORS,
    Fit,
    PredictorSettings,
    Reads,
    package_versions,
    requested_predictors,
)
from wardround.predictors.results import MANIFEST, FitKey, FitRow, append_row, drop_torn_line, read_predictions
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tasks.scoring import PatientDraws, class_metrics, score_metrics

# The problems for predictors: a task's samples in their splits, each with the index of its class.
#
# A task of more than two classes gives two problems: as it is (the paper's tables) and normal against the rest (as
# EHRSHOT does with lab results). For a task with several labels per sample, each label is a problem of its own.


Part = Literal["train", "dev", "test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One classification problem for predictors."""

    task: str
    view: str
    classes: tuple[str, ...]
    class_names: tuple[str, ...]
    train: tuple[Sample, ...]
    dev: tuple[Sample, ...]
    test: tuple[Sample, ...]
    positive: frozenset[str] | None = None

    def truth(self, samples: Sequence[Sample]) -> npt.NDArray[np.int64]:
        """Return the index of each sample's class."""
        if self.positive is not None:
            return np.array([bool(self.positive & set(sample.target)) for sample in samples], np.int64)
        place = {name: n for n, name in enumerate(self.classes)}
        try:
            return np.array([place[sample.target[0]] for sample in samples], np.int64)
        except KeyError as error:
            raise UserError(f"task {self.task} has a sample of class {error}, which it does not declare") from error


def problems(
    benchmark: Benchmark,
    *,
    tasks: Collection[str] = (),
    split: str = "test",
    samples: Collection[str] | None = None,
) -> Iterator[Problem]:
    """Yield the problems of a benchmark's tasks whose answers are classes.

    ``samples``: limits the test samples to these ids.
    """
    wanted_ids = None if samples is None else set(samples)
    for task in benchmark.tasks:
        if tasks and task.name not in tasks:
            continue
        test = [
            sample for sample in benchmark.samples(task.name, split) if wanted_ids is None or sample.id in wanted_ids
        ]
        for view in task.answer.views:
            yield Problem(
                task=task.name,
                view=view.name,
                classes=view.classes,
                class_names=view.class_names,
                train=benchmark.samples(task.name, "train"),
                dev=benchmark.samples(task.name, "dev"),
                test=tuple(test),
                positive=view.positive,
            )


# EHRSHOT's few-shot samples: k of each class for fitting and k for choosing; smaller samples are part of larger ones.
#
# A class is shuffled once per replicate and read from the front, so that the sample of k is the start of the sample of
# any larger k. A class with fewer than k members is filled up with repeated members, which are counted.


Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shots:
    """Indices of the drawn samples; ``repeated`` counts, per class, the repeated ones."""

    places: Indices
    repeated: tuple[int, ...]


def draw_shots(truth: Indices, classes: int, k: int, *, seed: int, name: str) -> Shots:
    """Draw ``k`` samples of each of ``classes`` that occurs in ``truth`` (the class of every sample).

    With the same seed and name, the sample of k is the start of the sample of any larger k.
    """
    parts: list[Indices] = []
    repeated = []
    for label in range(classes):
        members = np.flatnonzero(truth == label)
        parts.append(_ordered(members, k, derive_seed(seed, "shots", name, label)) if len(members) else members)
        repeated.append(max(0, k - len(members)) if len(members) else 0)
    return Shots(places=np.concatenate(parts), repeated=tuple(repeated))


def _ordered(members: Indices, k: int, seed: int) -> Indices:
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.permutation(members), generator.choice(members, size=k)])[:k]


# Fit predictors on a benchmark: one pass over the charts, then every task, predictor, shot and replicate in turn.
#
# The same call starts a new folder and continues a killed one: rows on disk are not fitted again. All random draws use
# the seed; nothing depends on the number of processes or threads.


SCHEMA = 1
Integers = npt.NDArray[np.int64]


def fit_predictors(
    store: Store,
    benchmark: Benchmark,
    folder: Path,
    settings: PredictorSettings | None = None,
    *,
    processes: int = 1,
    report: Reporter = silent,
) -> list[FitRow]:
    """Fit what is missing and return every row; results are ``folder/predictions.jsonl`` and its manifest.

    UserError: the benchmark is of another store, has no task with classes, or the folder's rows have other settings.
    """
    settings = settings or PredictorSettings()
    predictors = requested_predictors(settings)
    all_problems = list(problems(benchmark, tasks=settings.tasks, split=settings.split, samples=settings.samples))
    if not all_problems:
        raise UserError(f"benchmark {benchmark.name!r} has no task with classes to predict; an EHRSHOT benchmark has")
    if benchmark.manifest["source"]["store_digest"] != store.digest:
        raise UserError(f"benchmark {benchmark.name!r} was built from another store than {str(store.path)!r}")
    vectors = read_representations(Path(settings.representations)) if settings.representations else None
    private_folder(folder)
    usable, left_out = _usable(all_problems)
    if vectors is not None:
        vectors.must_cover(_key(sample) for problem in usable for sample in _samples(problem))
    manifest = _manifest(store, benchmark, settings, vectors, left_out)
    _check_manifest(folder, manifest)
    drop_torn_line(folder)
    finished_keys = {row.key for row in read_predictions(folder)}
    plan = [(problem, key) for problem in usable for key in _fit_keys(problem, settings)]
    if all(key in finished_keys for _, key in plan):
        return read_predictions(folder)
    counts = None
    if any(predictor.reads == "counts" for predictor in predictors):
        counts = _counts(store, benchmark, usable, folder=folder, settings=settings, processes=processes, report=report)
        manifest["features"] = counts.facts
    _write(folder / MANIFEST, manifest)
    bench = _Bench(counts=counts, vectors=vectors, settings=settings)
    remaining = [(problem, key) for problem, key in plan if key not in finished_keys]
    finished_count = len(plan) - len(remaining)
    report(Progress(label="fitting predictors", done=finished_count, total=len(plan), unit="fits"))
    for number, row in enumerate(_fitted(bench, remaining, processes), start=finished_count + 1):
        append_row(folder, row)
        note = f"{row.predictor} {row.task} {row.view} k={row.k}"
        report(Progress(label="fitting predictors", done=number, total=len(plan), unit="fits", note=note))
    return read_predictions(folder)


def _fitted(bench: _Bench, plan: Sequence[tuple[Problem, FitKey]], processes: int) -> Iterator[FitRow]:
    """Yield the fits in the order of the plan, whatever the number of processes."""
    if processes == 1 or len(plan) < 2:
        yield from (bench.fit(problem, key) for problem, key in plan)
        return
    plugins = [plugin.path for plugin in loaded_plugins()]
    with ProcessPoolExecutor(
        processes, starting(_fit_in_worker), initializer=_set_up_worker, initargs=(bench, plugins)
    ) as pool:
        yield from pool.map(_fit_in_worker, plan)


_WORKER_BENCH: list[_Bench] = []
"""The shared data of a worker process."""


def _set_up_worker(bench: _Bench, plugins: Sequence[Path]) -> None:
    load_plugins(plugins)
    _WORKER_BENCH.append(bench)


def _fit_in_worker(task: tuple[Problem, FitKey]) -> FitRow:
    return _WORKER_BENCH[0].fit(*task)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a folder's predictions; None without one."""
    path = folder / MANIFEST
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """The count features of every sample of the benchmark."""

    table: CountTable
    matrix: Any
    codes: tuple[str, ...]
    facts: Mapping[str, Any]


class _Bench:
    """Holds the shared data of one task's fits: matrices and the draws of its test patients, made on first use."""

    def __init__(self, *, counts: _Counts | None, vectors: Representations | None, settings: PredictorSettings) -> None:
        self._counts = counts
        self._vectors = vectors
        self._settings = settings
        self._cache: dict[tuple[str, str], tuple[Any, Any, Any]] = {}
        self._draws: dict[str, PatientDraws] = {}

    def fit(self, problem: Problem, key: FitKey) -> FitRow:
        """Fit once and score on the test samples."""
        started = time.perf_counter()
        predictor = PREDICTORS.get(key.predictor)
        train, dev, test = self._matrices(problem, predictor.reads)
        truths = [problem.truth(part) for part in (problem.train, problem.dev)]
        shots = [self._shots(problem, key, truth, part) for truth, part in zip(truths, ("train", "dev"), strict=True)]
        (fitted_on, chosen_on), (truth, dev_truth) = shots, truths
        fit = predictor.head(self._settings)(
            train[fitted_on.places],
            truth[fitted_on.places],
            dev[chosen_on.places],
            dev_truth[chosen_on.places],
            test,
            len(problem.classes),
        )
        return self._row(
            problem,
            key,
            fit,
            features=train.shape[1],
            train=fitted_on,
            dev=chosen_on,
            seconds=time.perf_counter() - started,
        )

    def _row(
        self, problem: Problem, key: FitKey, fit: Fit, *, features: int, train: Shots, dev: Shots, seconds: float
    ) -> FitRow:
        truth = problem.truth(problem.test)
        draws = self._draws_of(problem)
        answers = [(problem.classes[place],) for place in fit.probabilities.argmax(axis=1)]
        whole = key.k == ALL_SHOTS
        return FitRow(
            **key._asdict(),
            classes=problem.classes,
            class_names=problem.class_names,
            features=features,
            train=_sample_facts(problem, problem.train, train),
            dev=_sample_facts(problem, problem.dev, dev),
            chosen=dict(fit.chosen),
            dev_auroc=fit.dev_auroc,
            points=fit.points,
            converged=fit.converged,
            iterations=fit.iterations,
            metrics=class_metrics(
                [(problem.classes[place],) for place in truth], answers, draws, classes=problem.classes
            ),
            scores=score_metrics(truth, fit.probabilities, draws),
            seconds=round(seconds, 4),
            samples=tuple(sample.id for sample in problem.test) if whole else (),
            probabilities=tuple(map(tuple, fit.probabilities.tolist())) if whole else (),
        )

    def _shots(self, problem: Problem, key: FitKey, truth: Integers, part: str) -> Shots:
        if key.k == ALL_SHOTS:
            return Shots(places=np.arange(len(truth)), repeated=(0,) * len(problem.classes))
        return draw_shots(
            truth,
            len(problem.classes),
            int(key.k),
            seed=self._settings.seed,
            name=f"{problem.task}/{problem.view}/{part}/{key.replicate}",
        )

    def _matrices(self, problem: Problem, reads: Reads) -> tuple[Any, Any, Any]:
        if (problem.task, reads) not in self._cache:
            self._cache = {
                key: matrices for key, matrices in self._cache.items() if key[0] == problem.task
            }  # one task at a time
            self._cache[problem.task, reads] = self._build_matrices(problem, reads)
        return self._cache[problem.task, reads]

    def _build_matrices(self, problem: Problem, reads: Reads) -> tuple[Any, Any, Any]:
        parts = [[_key(sample) for sample in part] for part in (problem.train, problem.dev, problem.test)]
        if reads == "vectors":
            assert self._vectors is not None
            train, dev, test = (self._vectors.of(keys) for keys in parts)
            return train, dev, test
        assert self._counts is not None
        table, matrix, codes = self._counts.table, self._counts.matrix, self._counts.codes
        rows = [table.rows(keys) for keys in parts]
        design = Design.of(matrix, table, codes, rows[0])
        train, dev, test = (design.matrix(matrix, table, codes, row) for row in rows)
        return train, dev, test

    def _draws_of(self, problem: Problem) -> PatientDraws:
        if problem.task not in self._draws:
            subjects = [sample.person for sample in problem.test]
            settings = self._settings
            self._draws = {problem.task: PatientDraws.of(subjects, seed=settings.seed, resamples=settings.resamples)}
        return self._draws[problem.task]


def _fit_keys(problem: Problem, settings: PredictorSettings) -> Iterator[FitKey]:
    """Yield every fit of a problem; the whole split gives one replicate, because nothing is drawn."""
    for name in settings.names:
        for k in settings.numbers:
            for replicate in range(settings.replicates):
                yield FitKey(name, problem.task, problem.view, str(k), replicate)
        if settings.with_all:
            yield FitKey(name, problem.task, problem.view, ALL_SHOTS, 0)


def _usable(all_problems: Sequence[Problem]) -> tuple[list[Problem], dict[str, str]]:
    """Separate the problems that can be fitted and scored from the others, with reasons."""
    usable: list[Problem] = []
    left_out: dict[str, str] = {}
    for problem in all_problems:
        lacking = [part for part in ("train", "test") if not getattr(problem, part)]
        if lacking:
            left_out[f"{problem.task} ({problem.view})"] = f"no {' and no '.join(lacking)} samples"
        else:
            usable.append(problem)
    if not usable:
        raise UserError(
            "no task has both training and test samples: " + "; ".join(f"{k}: {v}" for k, v in left_out.items())
        )
    return usable, left_out


def _counts(
    store: Store,
    benchmark: Benchmark,
    all_problems: Sequence[Problem],
    *,
    folder: Path,
    settings: PredictorSettings,
    processes: int,
    report: Reporter,
) -> _Counts:
    """Count every chart once, or read the counts of an interrupted call."""
    samples = [sample for problem in all_problems for sample in _samples(problem)]
    keys = sorted({_key(sample) for sample in samples})
    withheld = {_key(sample): sample.withheld for sample in samples if sample.withheld is not None}
    hidden = sorted(
        f"{subject} {time} {sorted(held.tables)} {held.since}" for (subject, time), held in withheld.items()
    )
    identity = [
        store.digest,
        benchmark.policy,
        settings.valued_events,
        [[subject, str(time)] for subject, time in keys],
        hidden,
    ]
    path = folder / "features" / f"counts-{content_hash(identity)[:16]}.npz"
    if path.is_file():
        table = read_counts(path)
    else:
        table = count_table(
            store,
            keys,
            policy=benchmark.policy,
            valued_events=settings.valued_events,
            withheld=withheld,
            processes=processes,
            report=report,
        )
        write_counts(path, table)
    above = ancestry(table.codes, store) if settings.hierarchy == "auto" else Ancestry(ancestors={})
    matrix, codes = count_matrix(table, above.ancestors)
    facts = {
        "charts": len(keys),
        "codes": len(table.codes),
        "events": int(table.counts.sum()),
        "ancestors": len(codes) - len(table.codes),
        "codes_with_ancestors": len(above.ancestors),
        "hierarchy": list(above.sources),
        "ages_unknown": int(np.isnan(table.ages).sum()),
    }
    return _Counts(table=table, matrix=matrix, codes=codes, facts=facts)


def _manifest(
    store: Store,
    benchmark: Benchmark,
    settings: PredictorSettings,
    vectors: Representations | None,
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "wardround": __version__,
        "packages": package_versions(),
        "settings": settings.to_json(),
        "store": str(store.path.resolve()),
        "store_digest": store.digest,
        "benchmark": benchmark.name,
        "benchmark_digest": benchmark.digest,
        "benchmark_folder": None if benchmark.folder is None else str(benchmark.folder.resolve()),
        "policy": benchmark.policy,
        "representations_sha256": None if vectors is None else content_hash(vectors.path.read_bytes()),
        "left_out": dict(left_out),
    }


def _check_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a new folder; in an old one check that no decisive setting has changed."""
    old_manifest = read_manifest(folder)
    if old_manifest is None:
        _write(folder / MANIFEST, manifest)
        return
    decisive = ("schema", "packages", "store_digest", "benchmark_digest", "policy", "representations_sha256")
    changed = [name for name in decisive if old_manifest.get(name) != manifest[name]]
    new_settings, old_settings = dict(manifest["settings"]), dict(old_manifest["settings"])
    changed += [name for name in new_settings if name != "threads" and new_settings[name] != old_settings.get(name)]
    if changed:
        raise UserError(
            f"{str(folder)!r} holds predictions made with other {', '.join(changed)}; use another folder, or the same "
            "settings to continue"
        )


def _write(path: Path, manifest: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(manifest, indent=2) + "\n")


def _sample_facts(problem: Problem, samples: Sequence[Sample], shots: Shots) -> dict[str, Any]:
    drawn = [samples[index] for index in shots.places.tolist()]
    truth = problem.truth(drawn)
    return {
        "n": len(drawn),
        "subjects": len({sample.subject_id for sample in drawn}),
        "per_class": {name: int((truth == index).sum()) for index, name in enumerate(problem.classes)},
        "repeated": dict(zip(problem.classes, shots.repeated, strict=True)),
    }


def _samples(problem: Problem) -> Sequence[Sample]:
    return (*problem.train, *problem.dev, *problem.test)


def _key(sample: Sample) -> Key:
    return sample.subject_id, sample.moment
