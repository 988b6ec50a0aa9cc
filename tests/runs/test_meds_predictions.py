"""Predictions in MEDS form: agents' answers as values, predictors' as probabilities, what has no answer as null."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from wardround.core import UserError
from wardround.predictors import FitRow
from wardround.reports.predictions import write_meds_predictions
from wardround.runs import RunFolder, RunSettings
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tasks.scoring import ClassMetrics, EpisodeScore, GroundingCounts, Interval, ScoreMetrics
from wardround.tasks.scoring.episodes import EpisodeUse
from wardround.tasks.scoring.scorer import SetScore

NOON = datetime(2150, 3, 1, 12)
TARGETS: Mapping[str, Sequence[str]] = {"guo_los": "0110", "lab_anemia": "0321"}


def sample(task: str, number: int) -> Sample:
    return Sample(
        id=f"{task}-{number}",
        task=task,
        subject_id=number,
        prediction_time=NOON + timedelta(hours=number),
        target=(TARGETS[task][number],),
        split="test",
        stratum="common",
    )


def score(task: str, number: int, answer: tuple[str, ...] | None, epoch: int = 0) -> EpisodeScore:
    return EpisodeScore(
        episode=f"rag/offline/{task}/{task}-{number}/{epoch}",
        agent="rag",
        model="small model",
        task=task,
        sample=f"{task}-{number}",
        epoch=epoch,
        subject_id=number,
        split="test",
        stratum="common",
        finish="answer",
        answer=answer,
        score=SetScore(precision=0, recall=0, f1=0, hits=0, answered=0, wanted=1, outside=()),
        winnable_recall=1.0,
        grounding=GroundingCounts(),
        errors=frozenset(),
        no_prediction=None,
        use=EpisodeUse(turns=1, model_calls=1, usage=None, cost=None, model_seconds=0, tool_seconds=0),
        target=(TARGETS[task][number],),
    )


def fit(task: str, view: str, k: str, classes: str, probabilities: Sequence[tuple[float, ...]]) -> FitRow:
    nothing = Interval(estimate=0.5, low=None, high=None, n=4, subjects=4)
    figures = ClassMetrics(
        n=4, subjects=4, missing=0, outside=0, accuracy=nothing, macro_f1=nothing, class_f1={}, support={}
    )
    return FitRow(
        predictor="count-lr",
        task=task,
        view=view,
        k=k,
        replicate=0,
        classes=tuple(classes),
        class_names=tuple(classes),
        features=3,
        train={},
        dev={},
        chosen={},
        dev_auroc=None,
        points=1,
        converged=True,
        iterations=None,
        metrics=figures,
        scores=ScoreMetrics(positives=2, auroc=None, auprc=None, brier=None),
        seconds=0.1,
        samples=tuple(f"{task}-{n}" for n in range(4)) if k == "all" else (),
        probabilities=tuple(probabilities) if k == "all" else (),
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    samples = tuple(sample(task, number) for task in TARGETS for number in range(4))
    manifest = {"name": "test", "policy": "known_at"}
    Benchmark(manifest=manifest, all_samples=samples).save(tmp_path / "bench")
    settings = RunSettings.of(benchmark=str(tmp_path / "bench"), store="store")
    folder = RunFolder.create(tmp_path / "run", settings, {})
    answers = {
        "guo_los": [("1",), ("7 days or more",), None, ("0", "1")],
        "lab_anemia": [("normal",), ("3",), ("1",), ("0",)],
    }
    scores = [score(task, number, answer) for task, given in answers.items() for number, answer in enumerate(given)]
    scores.append(score("guo_los", 0, ("0",), epoch=1))
    folder.results.write_text("".join(json.dumps(one.to_json()) + "\n" for one in scores))
    fits = [
        fit("guo_los", "classes", "8", "01", []),
        fit("guo_los", "classes", "all", "01", [(0.9, 0.1), (0.2, 0.8), (0.5, 0.5), (0.6, 0.4)]),
        fit("lab_anemia", "classes", "all", "0123", [(0.25, 0.25, 0.25, 0.25)] * 4),
        fit("lab_anemia", "binary", "all", "01", [(0.7, 0.3), (0.1, 0.9), (0.1, 0.9), (0.1, 0.9)]),
    ]
    lines = "".join(json.dumps(one.to_json()) + "\n" for one in fits)
    (folder.path / "predictions.jsonl").write_text(lines)
    return folder.path


def column(folder: Path, file: str, name: str) -> list[Any]:
    return list(pq.read_table(folder / f"{file}.parquet").column(name).to_pylist())


def test_answers_and_probabilities(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = write_meds_predictions(run, out)
    agent = "guo_los/rag-small_model"
    assert column(out, agent, "boolean_value") == [False, True, True, False]
    assert column(out, agent, "predicted_boolean_value") == [True, True, None, None]
    assert column(out, agent, "predicted_boolean_probability") == [None] * 4
    assert column(out, agent, "prediction_time") == [NOON + timedelta(hours=n) for n in range(4)]
    assert column(out, f"{agent}-epoch1", "predicted_boolean_value") == [False]
    assert column(out, "lab_anemia/binary/rag-small_model", "boolean_value") == [False, True, True, True]
    assert column(out, "lab_anemia/binary/rag-small_model", "predicted_boolean_value") == [False, True, True, False]
    chances = column(out, "guo_los/count-lr", "predicted_boolean_probability")
    assert chances == pytest.approx([0.1, 0.8, 0.5, 0.4])
    assert column(out, "guo_los/count-lr", "predicted_boolean_value") == [False, True, True, False]
    assert column(out, "lab_anemia/binary/count-lr", "predicted_boolean_value") == [False, True, True, True]
    assert report.unanswered == {agent: 2}
    assert report.left_out == {"lab_anemia, classes: more than two classes (its binary view is written)": 1}
    assert sum(report.rows.values()) == 4 + 1 + 4 + 4 + 4


def test_unanswered_may_count_as_no(run: Path, tmp_path: Path) -> None:
    report = write_meds_predictions(run, tmp_path / "out", unanswered_is_no=True)
    values = column(tmp_path / "out", "guo_los/rag-small_model", "predicted_boolean_value")
    assert values == [True, True, False, False]
    assert report.unanswered == {"guo_los/rag-small_model": 2}


def test_the_evaluators_own_schema_takes_every_file(run: Path, tmp_path: Path) -> None:
    schema = pytest.importorskip("meds_evaluation.schema", reason="needs meds-evaluation, which reads the files")
    write_meds_predictions(run, tmp_path / "out")
    files = sorted((tmp_path / "out").glob("**/*.parquet"))
    assert len(files) == 5
    for file in files:
        schema.PredictionSchema.validate(pq.read_table(file))


def test_predictors_alone_need_their_benchmark_named(run: Path, tmp_path: Path) -> None:
    (run / "manifest.json").unlink()
    (run / "results.jsonl").unlink()
    with pytest.raises(UserError, match="--benchmark"):
        write_meds_predictions(run, tmp_path / "out")
    report = write_meds_predictions(run, tmp_path / "out", benchmark=tmp_path / "bench")
    assert sorted(report.rows) == ["guo_los/count-lr", "lab_anemia/binary/count-lr"]


def test_nothing_to_export_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="wardround report"):
        write_meds_predictions(tmp_path, tmp_path / "out")
