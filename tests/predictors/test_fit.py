"""Fitting end to end on invented charts: what is learnt, what may not be, and a kill in between."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effort import often
from extras import needs
from forking import commands, kill, wait_for
from predictors.invented import NOON, SUBJECTS, invented_store, questions, split_of
from wardround.cli import main
from wardround.core import Progress, UserError
from wardround.predictors import FitRow, PredictorSettings, fit_predictors, read_predictions
from wardround.predictors import fit as fit_module
from wardround.predictors.features import read_representations
from wardround.predictors.fit import read_manifest
from wardround.predictors.heads import requested_predictors
from wardround.records import Store

pytestmark = needs("sklearn", "lightgbm")

QUICK = PredictorSettings(names=("count-lr",), shots=("1", "4", "all"), replicates=2, resamples=50)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return invented_store(tmp_path_factory.mktemp("invented"))


def without_time(rows: Sequence[FitRow]) -> list[FitRow]:
    return [replace(row, seconds=0.0) for row in rows]


def row_of(rows: Sequence[FitRow], **wanted: Any) -> FitRow:
    found = [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]
    assert len(found) == 1
    return found[0]


def test_what_can_be_learnt_is_learnt_by_both_predictors(store: Store, tmp_path: Path) -> None:
    settings = replace(QUICK, names=("count-lr", "count-gbm"), shots=("2", "all"))
    rows = fit_predictors(store, questions(store), tmp_path, settings)
    keys = [(r.predictor, r.task, r.view, r.k, r.replicate) for r in rows]
    views = [("guo_los", "classes"), ("lab_anemia", "classes"), ("lab_anemia", "binary")]
    assert keys == [
        (name, task, view, k, n)
        for task, view in views
        for name in settings.names
        for k, n in (("2", 0), ("2", 1), ("all", 0))
    ]
    for name in settings.names:
        row = row_of(rows, predictor=name, task="guo_los", k="all")
        assert row.scores.auroc is not None
        assert row.scores.auroc.estimate > 0.9
        assert row.metrics.macro_f1.estimate > 0.8
        assert len(row.samples) == len(row.probabilities) == row.metrics.n == 20
    whole = row_of(rows, predictor="count-lr", task="lab_anemia", view="classes", k="all")
    assert set(whole.metrics.class_f1) == {"0", "1", "2", "3"}
    assert whole.scores.macro_auroc is not None
    assert whole.train["repeated"] == whole.dev["repeated"] == {"0": 0, "1": 0, "2": 0, "3": 0}
    assert np.allclose(np.sum(whole.probabilities, axis=1), 1)
    binary = row_of(rows, predictor="count-lr", task="lab_anemia", view="binary", k="all")
    los = row_of(rows, predictor="count-lr", task="guo_los", k="all")
    assert binary.probabilities == los.probabilities  # the same question in other words
    few = row_of(rows, predictor="count-lr", task="lab_anemia", view="classes", k="2", replicate=0)
    assert few.train["per_class"] == few.dev["per_class"] == {"0": 2, "1": 2, "2": 2, "3": 2}
    assert few.samples == ()
    assert read_predictions(tmp_path) == rows


def test_several_processes_fit_the_same_in_the_same_order(store: Store, tmp_path: Path) -> None:
    settings = replace(QUICK, names=often(("count-lr",), ("count-lr", "count-gbm")), tasks=("guo_los",))
    one = fit_predictors(store, questions(store), tmp_path / "one", settings)
    two = fit_predictors(store, questions(store), tmp_path / "two", settings, processes=2)
    assert len(one) > 2
    assert without_time(one) == without_time(two)


def test_nothing_of_the_test_split_reaches_a_fit(store: Store, tmp_path: Path) -> None:
    """With the answers of the test split turned round, every model and every probability is what it was."""
    honest = fit_predictors(store, questions(store), tmp_path / "a", QUICK)
    turned = fit_predictors(store, questions(store, flip="test"), tmp_path / "b", QUICK)
    for one, other in zip(honest, turned, strict=True):
        assert (one.chosen, one.dev_auroc, one.train, one.dev, one.features, one.iterations) == (
            (other.chosen, other.dev_auroc, other.train, other.dev, other.features, other.iterations)
        )
        assert one.probabilities == other.probabilities
    assert [one.metrics for one in honest] != [other.metrics for other in turned]
    learnt = fit_predictors(store, questions(store, flip="train"), tmp_path / "c", QUICK)
    assert [one.probabilities for one in honest] != [one.probabilities for one in learnt]  # the test can fail


def test_the_future_does_not_count(store: Store, tmp_path: Path) -> None:
    rows = fit_predictors(store, questions(store, tasks=("guo_los",)), tmp_path, replace(QUICK, shots=("all",)))
    counts = next((tmp_path / "features").glob("*.npz"))
    with np.load(counts) as held:
        codes = json.loads(bytes(held["codes"]))
    assert "NOTE//AT_NOON" in codes
    assert "FUTURE//TELLS" not in codes
    assert rows[0].features == 1 + len(set(codes) - {"ONLY//IN_TEST"})


def test_the_same_settings_give_the_same_rows_and_another_seed_others(store: Store, tmp_path: Path) -> None:
    bench = questions(store, tasks=("guo_los",))
    settings = replace(QUICK, names=("count-lr", "count-gbm"), shots=("2",))
    first, again = (without_time(fit_predictors(store, bench, tmp_path / name, settings)) for name in "ab")
    assert first == again
    other = without_time(fit_predictors(store, bench, tmp_path / "c", replace(settings, seed=1)))
    assert [row.metrics for row in other] != [row.metrics for row in first]


def test_an_interrupted_call_goes_on_and_repeats_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = questions(store)
    whole = without_time(fit_predictors(store, bench, tmp_path / "whole", QUICK))

    class Interrupted(BaseException):
        pass

    def interrupt(progress: Progress) -> None:
        if progress.label == "fitting predictors" and progress.done == 4:
            raise Interrupted

    with pytest.raises(Interrupted):
        fit_predictors(store, bench, tmp_path / "cut", QUICK, report=interrupt)
    assert len(read_predictions(tmp_path / "cut")) == 4
    with (tmp_path / "cut" / "predictions.jsonl").open("a") as file:
        file.write('{"schema": 1, "predictor": "count-l')  # a kill in the middle of a line
    fitted: list[Any] = []
    real = fit_module._Bench.fit

    def counted(self: Any, problem: Any, key: Any) -> FitRow:
        fitted.append(key)
        return real(self, problem, key)

    monkeypatch.setattr(fit_module._Bench, "fit", counted)
    monkeypatch.setattr(fit_module, "count_table", lambda *_, **__: pytest.fail("charts counted again"))
    said: list[Progress] = []
    rows = fit_predictors(store, bench, tmp_path / "cut", QUICK, report=said.append)
    assert without_time(rows) == whole
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", read_manifest(tmp_path / "cut")["created"])
    done = [(one.done, one.total) for one in said if one.label == "fitting predictors"]
    assert done == [(number, len(whole)) for number in range(4, len(whole) + 1)], "it goes on from what is there"
    assert len(fitted) == len(whole) - 4
    fit_predictors(store, bench, tmp_path / "cut", QUICK)
    assert len(fitted) == len(whole) - 4


def test_a_killed_process_leaves_rows_that_are_kept(store: Store, tmp_path: Path) -> None:
    bench = questions(store)
    folder = bench.save(tmp_path / "bench").folder
    out = tmp_path / "out"
    words = ["train", "predictors", "--benchmark", str(folder), "--store", str(store.path), "--out", str(out)]
    words += ["--predictor", "count-lr", "--shots", "1", "2", "4", "8", "all", "--replicates", "2", "--resamples", "50"]
    rows = out / "predictions.jsonl"
    forks = commands()
    group = forks.start(words)
    wait_for(lambda: rows.is_file() and rows.stat().st_size >= 4_000, group)
    kill(group)
    kept = rows.read_bytes().rpartition(b"\n")[0]
    assert 0 < kept.count(b"\n") + 1 < 27
    assert main(words) == 0
    assert rows.read_bytes().startswith(kept + b"\n")
    finished = read_predictions(out)
    assert len(finished) == len({row.key for row in finished}) == 3 * (4 * 2 + 1)


def test_other_settings_in_the_same_folder_are_refused(store: Store, tmp_path: Path) -> None:
    bench = questions(store, tasks=("guo_los",))
    fit_predictors(store, bench, tmp_path, QUICK)
    with pytest.raises(UserError, match="other seed"):
        fit_predictors(store, bench, tmp_path, replace(QUICK, seed=3))
    fit_predictors(store, bench, tmp_path, replace(QUICK, threads=2))  # decides nothing


def test_only_the_samples_that_agents_answered_are_judged(store: Store, tmp_path: Path) -> None:
    bench = questions(store, tasks=("guo_los",))
    some = tuple(sample.id for sample in bench.samples("guo_los", "test"))[:7]
    rows = fit_predictors(store, bench, tmp_path / "some", replace(QUICK, shots=("all",), samples=some))
    whole = fit_predictors(store, bench, tmp_path / "all", replace(QUICK, shots=("all",)))
    assert rows[0].samples == some
    assert (
        dict(zip(rows[0].samples, rows[0].probabilities, strict=True)).items()
        <= dict(zip(whole[0].samples, whole[0].probabilities, strict=True)).items()
    )


def write_vectors(path: Path, subjects: Sequence[int], value: float = 0.0) -> Path:
    rows = [
        {
            "subject_id": one,
            "prediction_time": NOON,
            "vector": [float(one % 7), float(one // 3 % 6 in (1, 3, 5)), value],
        }
        for one in subjects
    ]
    schema = pa.schema(
        [("subject_id", pa.int64()), ("prediction_time", pa.timestamp("us")), ("vector", pa.list_(pa.float32()))]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def test_supplied_vectors_take_the_same_head(store: Store, tmp_path: Path) -> None:
    bench = questions(store, tasks=("guo_los",))
    path = write_vectors(tmp_path / "clmbr.parquet", range(1, SUBJECTS + 1))
    settings = replace(QUICK, names=("clmbr-lr",), shots=("all",), representations=str(path))
    row = fit_predictors(store, bench, tmp_path / "out", settings)[0]
    assert row.features == 3
    assert row.scores.auroc is not None
    assert row.scores.auroc.estimate > 0.9  # the second number is the answer
    table = pq.read_table(path)
    arrays = {name: table.column(name).to_numpy() for name in ("subject_id", "prediction_time")}
    np.savez(tmp_path / "clmbr.npz", vector=np.array(table.column("vector").to_pylist()), **arrays)
    again = replace(settings, representations=str(tmp_path / "clmbr.npz"))
    assert fit_predictors(store, bench, tmp_path / "npz", again)[0].probabilities == row.probabilities


def test_vectors_that_lack_samples_are_refused_with_their_number(store: Store, tmp_path: Path) -> None:
    bench = questions(store, tasks=("guo_los",))
    some = [one for one in range(1, SUBJECTS + 1) if split_of(one) != "dev"]
    settings = replace(QUICK, names=("clmbr-lr",), representations=str(write_vectors(tmp_path / "few.parquet", some)))
    with pytest.raises(UserError, match="no vector for 20 of 60 samples"):
        fit_predictors(store, bench, tmp_path / "out", settings)
    twice = write_vectors(tmp_path / "twice.parquet", [*range(1, SUBJECTS + 1), 1])
    with pytest.raises(UserError, match="repeat a subject and time"):
        fit_predictors(store, bench, tmp_path / "out", replace(settings, representations=str(twice)))
    hole = write_vectors(tmp_path / "hole.parquet", range(1, SUBJECTS + 1), float("nan"))
    with pytest.raises(UserError, match="60 vectors have a value that is no number"):
        fit_predictors(store, bench, tmp_path / "out", replace(settings, representations=str(hole)))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"subject_id": ["1", "x"]}, "whole numbers"),
        ({"subject_id": [1.5, 2.0]}, "whole numbers"),
        ({"subject_id": [1, None]}, "1 rows have no subject_id"),
        ({"prediction_time": [NOON, None]}, "1 rows have no prediction_time"),
        ({"prediction_time": ["2120-05-01", "2120-05-02"]}, "times"),
        ({"prediction_time": pa.array([NOON, NOON], pa.timestamp("us", "UTC"))}, "UTC.*; write it .* without a zone"),
        ({"vector": [[1.0], None]}, "1 rows have no vector"),
        ({"vector": [[1.0], [1.0, 2.0]]}, "not all of one length"),
        ({"vector": [[], []]}, "list of numbers"),
        ({"vector": ["a", "b"]}, "list of numbers"),
        ({"vector": [["a"], ["b"]]}, "list of numbers|not all of one length"),
        ({"vector": [1.0, 2.0]}, "list of numbers"),
    ],
)
def test_a_file_of_vectors_that_is_not_one_says_why(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    held = {"subject_id": [1, 2], "prediction_time": [NOON, NOON], "vector": [[1.0], [2.0]]}
    pq.write_table(pa.table({**held, **changed}), tmp_path / "odd.parquet")
    with pytest.raises(UserError, match=said):
        read_representations(tmp_path / "odd.parquet")


def test_an_npz_that_is_cut_off_or_lacks_times_says_so(tmp_path: Path) -> None:
    times = np.array([NOON, "NaT"], "datetime64[us]")
    np.savez(tmp_path / "nat.npz", subject_id=np.array([1, 2]), prediction_time=times, vector=np.ones((2, 3)))
    with pytest.raises(UserError, match="1 rows have no prediction_time"):
        read_representations(tmp_path / "nat.npz")
    np.savez(tmp_path / "few.npz", subject_id=np.array([1, 2]), vector=np.ones((2, 3)))
    with pytest.raises(UserError, match=r"few\.npz.* prediction_time") as refused:
        read_representations(tmp_path / "few.npz")
    assert "cannot be read" not in str(refused.value)
    whole = (tmp_path / "nat.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    pickled = np.array([Path("x"), 2], object)
    np.savez(tmp_path / "pickled.npz", subject_id=pickled, prediction_time=times, vector=np.ones((2, 3)))
    for name in ("cut", "pickled"):
        with pytest.raises(UserError, match="cannot be read as npz"):
            read_representations(tmp_path / f"{name}.npz")


def test_wrong_settings_say_what_is_right() -> None:
    with pytest.raises(UserError, match="count-gbm"):
        requested_predictors(PredictorSettings(names=("forest",)))
    with pytest.raises(UserError, match="--representations"):
        requested_predictors(PredictorSettings(names=("clmbr-lr",)))
    with pytest.raises(UserError, match="'0'"):
        PredictorSettings(shots=("0",))


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from wardround.predictors.heads import optional

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(UserError, match=r"\.\[predictors\]"):
        optional("lightgbm")


def test_importing_the_room_imports_no_extra() -> None:
    code = "import sys, wardround.predictors as p; print(sorted({'sklearn', 'lightgbm', 'scipy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def test_public_names_are_exact() -> None:
    from types import ModuleType

    import wardround.predictors

    public = {
        name
        for name, value in vars(wardround.predictors).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(wardround.predictors.__all__)


def test_matrices_are_made_once_a_kind_and_held_for_one_task(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str]] = []

    def making(_: Any, problem: Any, kind: str) -> tuple[int, int, int]:
        made.append((problem.task, kind))
        return len(made), 0, 0

    monkeypatch.setattr(fit_module._Bench, "_build_matrices", making)
    bench = fit_module._Bench(counts=None, vectors=None, settings=QUICK)
    problems: dict[str, Any] = {task: SimpleNamespace(task=task) for task in ("los", "death")}
    wanted = [("los", "counts"), ("los", "vectors"), ("los", "counts"), ("death", "counts"), ("los", "vectors")]
    numbers = [bench._matrices(problems[task], reads)[0] for task, reads in wanted]  # type: ignore[arg-type]
    assert numbers == [1, 2, 1, 3, 4]
    assert made == [("los", "counts"), ("los", "vectors"), ("death", "counts"), ("los", "vectors")]
