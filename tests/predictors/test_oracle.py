"""The count baseline on the MIMIC-IV demo in MEDS against scikit-learn on the same files, written apart from ours.

The truth here is "events with time <= prediction_time", which is what MEDS promises and the ``published`` clock of a
MEDS store shows. (Under ``known_at`` a chart-time lab of the MIMIC ETL is known a day later, so that counts differ.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from effort import often
from extras import Later, needs
from wardround.predictors import PredictorSettings, count_table, fit_predictors
from wardround.predictors.features import AGE, Design, count_matrix
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark, Sample, build_ehrshot

pytestmark = needs("sklearn")
sparse = Later("scipy.sparse")
linear_model = Later("sklearn.linear_model")
feature_extraction = Later("sklearn.feature_extraction")
metrics = Later("sklearn.metrics")
preprocessing = Later("sklearn.preprocessing")

C_GRID = [1e-8, 1e-6, 1e-4, 1e-2, 1e-1, 1, 1e2, 1e4]


@pytest.fixture(scope="module")
def benchmark(meds_demo_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    path = tmp_path_factory.mktemp("oracle") / "bench"
    return build_ehrshot(meds_demo_store, path, seed=0, policy="published", tasks=["guo_los"], per_task=often(120, 600))


@dataclass(frozen=True)
class Plain:
    """The straightforward computation: a dictionary of counts per sample."""

    events: dict[int, list[tuple[datetime | None, str]]]

    @classmethod
    def read(cls, folder: Path, subjects: set[int]) -> Plain:
        events: dict[int, list[tuple[datetime | None, str]]] = {}
        for path in sorted((folder / "data").rglob("*.parquet")):
            table = pq.read_table(
                path, columns=["subject_id", "time", "code"], filters=[("subject_id", "in", subjects)]
            )
            for row in table.to_pylist():
                events.setdefault(row["subject_id"], []).append((row["time"], row["code"]))
        return cls(events)

    def counts(self, sample: Sample) -> dict[str, int]:
        seen = [code for time, code in self.events[sample.subject_id] if time is None or time <= sample.prediction_time]
        return dict(Counter(seen))

    def age(self, sample: Sample) -> float:
        birth = min(time for time, code in self.events[sample.subject_id] if code.startswith("MEDS_BIRTH") and time)
        return (sample.prediction_time - birth) / timedelta(days=365.25)


def matrices(plain: Plain, parts: Sequence[Sequence[Sample]]) -> tuple[list[str], list[Any]]:
    """Age and counts of the parts; names and scale of the first."""
    vectorizer = feature_extraction.DictVectorizer(sparse=False)
    vectorizer.fit([plain.counts(sample) for sample in parts[0]])
    ages = np.array([plain.age(sample) for sample in parts[0]])
    made = [
        np.column_stack(
            [
                [(plain.age(sample) - ages.mean()) / ages.std() for sample in part],
                vectorizer.transform([plain.counts(sample) for sample in part]),
            ]
        )
        for part in parts
    ]
    return [AGE, *vectorizer.get_feature_names_out()], made


def truth(part: Sequence[Sample]) -> list[int]:
    return [int(sample.target[0]) for sample in part]


def test_the_count_baseline_agrees_with_scikit_learn(
    meds_demo: Path, meds_demo_store: Store, benchmark: Benchmark, tmp_path: Path
) -> None:
    parts = [benchmark.samples("guo_los", split) for split in ("train", "dev", "test")]
    assert min(map(len, parts)) > 10
    names, (train, dev, test) = matrices(
        Plain.read(meds_demo, {one.subject_id for part in parts for one in part}), parts
    )

    keys = [[(sample.subject_id, sample.prediction_time) for sample in part] for part in parts]
    table = count_table(meds_demo_store, [key for part in keys for key in part], policy="published")
    matrix, codes = count_matrix(table, {})
    design = Design.of(matrix, table, codes, table.rows(keys[0]))
    assert sorted(design.names) == sorted(names)
    ours = [design.names.index(name) for name in names]
    for wanted, part in zip((train, dev, test), keys, strict=True):
        found = design.matrix(matrix, table, codes, table.rows(part)).toarray()[:, ours]
        np.testing.assert_array_equal(found[:, 1:], wanted[:, 1:])
        np.testing.assert_allclose(found[:, 0], wanted[:, 0], atol=1e-9)

    train, dev, test = map(sparse.csr_matrix, (train, dev, test))  # most counts are none
    scaler = preprocessing.MaxAbsScaler().fit(train)
    models = {
        c: linear_model.LogisticRegression(C=c, solver="lbfgs", tol=1e-4, max_iter=1000).fit(
            scaler.transform(train), truth(parts[0])
        )
        for c in C_GRID
    }
    on_dev = {c: model.predict_proba(scaler.transform(dev))[:, 1] for c, model in models.items()}
    aurocs = {c: metrics.roc_auc_score(truth(parts[1]), scores) for c, scores in on_dev.items()}
    losses = {c: metrics.log_loss(truth(parts[1]), scores) for c, scores in on_dev.items()}
    best = max(C_GRID, key=lambda c: (aurocs[c], -losses[c]))
    scores = models[best].predict_proba(scaler.transform(test))[:, 1]

    settings = PredictorSettings(names=("count-lr",), shots=("all",), hierarchy="none", resamples=50)
    (row,) = fit_predictors(meds_demo_store, benchmark, tmp_path, settings)
    assert row.features == len(names)
    assert row.chosen == {"C": best}
    assert row.dev_auroc == pytest.approx(aurocs[best], abs=1e-9)
    assert row.samples == tuple(sample.id for sample in parts[2])
    np.testing.assert_allclose(np.array(row.probabilities)[:, 1], scores, atol=1e-6)
    assert row.scores.auroc is not None
    assert row.scores.auprc is not None
    assert row.scores.brier is not None
    assert row.scores.auroc.estimate == pytest.approx(metrics.roc_auc_score(truth(parts[2]), scores), abs=1e-9)
    assert row.scores.auprc.estimate == pytest.approx(
        metrics.average_precision_score(truth(parts[2]), scores), abs=1e-9
    )
    assert row.scores.brier.estimate == pytest.approx(metrics.brier_score_loss(truth(parts[2]), scores), abs=1e-6)
    answers = (scores > 0.5).astype(int)
    assert row.metrics.accuracy.estimate == pytest.approx(metrics.accuracy_score(truth(parts[2]), answers))
    assert row.metrics.macro_f1.estimate == pytest.approx(
        metrics.f1_score(truth(parts[2]), answers, labels=[0, 1], average="macro")
    )
