"""What surrounds the fits: which are made, what may change, rows on disk, columns and codes above codes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from extras import Later, needs
from wardround.core import RecordError, UserError, to_microseconds
from wardround.predictors import PredictorSettings
from wardround.predictors.features import (
    CountTable,
    Design,
    _names,
    _parts_by_subject,
    ccs_category,
    climb,
    count_matrix,
    read_counts,
    stored_parents,
    write_counts,
)
from wardround.predictors.fit import Problem, Shots, _check_manifest, _fit_keys, _sample_facts, _usable, read_manifest
from wardround.predictors.heads import _best, _can_rank, _constant, _on_dev, _points, _used_columns
from wardround.predictors.results import FitRow, append_row, drop_torn_line, read_predictions
from wardround.tasks.benchmarks import Sample
from wardround.tasks.scoring import ClassMetrics, Interval, ScoreMetrics

pytestmark = needs("scipy")
sparse = Later("scipy.sparse")
NOON = datetime(2120, 5, 1, 12)


def sample(number: int, target: str, subject: int | None = None) -> Sample:
    return Sample(
        id=f"s{number}",
        task="t",
        subject_id=number if subject is None else subject,
        prediction_time=NOON,
        target=(target,),
        split="test",
        stratum="common",
    )


def problem_of(train: int = 2, test: int = 1, **changed: Any) -> Problem:
    some = tuple(sample(number, "01"[number % 2]) for number in range(4))
    made = Problem(
        task="t", view="v", classes=("0", "1"), class_names=("no", "yes"), train=some[:train], dev=(), test=some[:test]
    )
    return replace(made, **changed)


def test_a_fit_for_every_predictor_shot_and_replicate_and_one_of_all() -> None:
    settings = PredictorSettings(names=("count-lr", "count-gbm"), shots=("4", "all", "1"), replicates=2)
    keys = [tuple(key) for key in _fit_keys(problem_of(), settings)]
    assert keys == [
        (name, "t", "v", k, replicate)
        for name in ("count-lr", "count-gbm")
        for k, replicate in (("1", 0), ("1", 1), ("4", 0), ("4", 1), ("all", 0))
    ]
    assert [key.k for key in _fit_keys(problem_of(), PredictorSettings(shots=("2",), replicates=1))] == ["2", "2"]


def test_what_has_no_samples_to_learn_from_or_to_judge_on_is_left_out_with_the_reason() -> None:
    whole = problem_of()
    usable, left_out = _usable([whole, problem_of(train=0), problem_of(test=0, view="w")])
    assert usable == [whole]
    assert left_out == {"t (v)": "no train samples", "t (w)": "no test samples"}
    with pytest.raises(UserError, match=r"both training and test samples: t \(v\): no train and no test samples"):
        _usable([problem_of(train=0, test=0)])


def test_the_truth_is_the_place_of_the_class_or_whether_any_label_is_positive() -> None:
    some = [sample(1, "1"), sample(2, "0"), sample(3, "1")]
    assert problem_of().truth(some).tolist() == [1, 0, 1]
    assert problem_of(positive=frozenset({"0"})).truth(some).tolist() == [0, 1, 0]
    with pytest.raises(UserError, match="task t has a sample of class '7', which it does not declare"):
        problem_of().truth([sample(1, "7")])


def test_what_was_drawn_is_counted() -> None:
    samples = [sample(1, "0"), sample(2, "1", subject=1), sample(3, "1")]
    facts = _sample_facts(problem_of(), samples, Shots(places=np.array([0, 1, 1]), repeated=(0, 1)))
    assert facts == {"n": 3, "subjects": 1, "per_class": {"0": 1, "1": 2}, "repeated": {"0": 0, "1": 1}}


def manifest(**changed: Any) -> dict[str, Any]:
    settings = PredictorSettings(**changed.pop("settings", {})).to_json()
    facts = dict.fromkeys(("packages", "store_digest", "benchmark_digest", "policy", "representations_sha256"), "x")
    return {"schema": 1, "created": "now", **facts, "settings": settings, **changed}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, None),
        ({"created": "later"}, None),
        ({"settings": {"threads": 9}}, None),
        ({"settings": {"seed": 9}}, "seed"),
        ({"store_digest": "y", "policy": "y"}, "store_digest, policy"),
        ({"packages": "y", "settings": {"resamples": 7}}, "packages, resamples"),
    ],
)
def test_a_folder_goes_on_only_with_what_decides_its_figures(
    tmp_path: Path, changed: dict[str, Any], named: str | None
) -> None:
    assert read_manifest(tmp_path) is None
    _check_manifest(tmp_path, manifest())
    assert read_manifest(tmp_path) == manifest()
    if named is None:
        _check_manifest(tmp_path, manifest(**changed))
    else:
        with pytest.raises(UserError, match=f"made with other {named}; use another folder"):
            _check_manifest(tmp_path, manifest(**changed))
    assert read_manifest(tmp_path) == manifest()


def interval(estimate: float) -> Interval:
    return Interval(estimate=estimate, low=0.1, high=0.9, n=4, subjects=3, undefined=2, standard_error=0.5)


ROW = FitRow(
    predictor="count-lr",
    task="t",
    view="v",
    k="4",
    replicate=1,
    classes=("0", "1"),
    class_names=("nein", "ja"),
    features=7,
    train={"n": 8},
    dev={"n": 6},
    chosen={"C": 0.1},
    dev_auroc=None,
    points=3,
    converged=False,
    iterations=None,
    metrics=ClassMetrics(
        n=4,
        subjects=3,
        missing=0,
        outside=0,
        accuracy=interval(0.5),
        macro_f1=interval(0.4),
        class_f1={"0": interval(0.3), "1": interval(0.2)},
        support={"0": 1, "1": 3},
    ),
    scores=ScoreMetrics(positives=3, auroc=interval(0.7), auprc=None, brier=interval(0.25), macro_auroc=None),
    seconds=0.5,
    samples=("s1", "s2"),
    probabilities=((0.25, 0.75), (1.0, 0.0)),
)


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_predictions(tmp_path) == []
    append_row(tmp_path, ROW)
    append_row(tmp_path, replace(ROW, replicate=2, task="größe"))
    assert read_predictions(tmp_path) == [ROW, replace(ROW, replicate=2, task="größe")]
    assert tuple(ROW.key) == ("count-lr", "t", "v", "4", 1)
    assert "größe" in (tmp_path / "predictions.jsonl").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_row(tmp_path, replace(ROW, seconds=float("nan")))


def test_a_torn_last_line_is_dropped_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    drop_torn_line(tmp_path)
    append_row(tmp_path, ROW)
    whole = path.read_bytes()
    drop_torn_line(tmp_path)
    assert path.read_bytes() == whole
    path.write_bytes(whole + b'{"schema"')
    assert read_predictions(tmp_path) == [ROW], "what is not ended is not read"
    drop_torn_line(tmp_path)
    assert path.read_bytes() == whole
    path.write_bytes(b'{"sch')
    drop_torn_line(tmp_path)
    assert path.read_bytes() == b""
    path.write_bytes(b"{\n")
    with pytest.raises(UserError, match=r"predictions\.jsonl is damaged .*; remove it and fit again"):
        read_predictions(tmp_path)
    path.write_text(json.dumps({"schema": 9}) + "\n")
    with pytest.raises(UserError, match="has schema 9; this version reads 1"):
        read_predictions(tmp_path)


def test_a_grid_is_every_combination_in_order() -> None:
    assert list(_points({"a": (1.0, 2.0), "b": (3.0,)})) == [{"a": 1.0, "b": 3.0}, {"a": 2.0, "b": 3.0}]


class Fixed:
    """Says the same whatever it is asked."""

    def __init__(self, probabilities: list[list[float]], classes: list[int]) -> None:
        self.classes_ = np.array(classes)
        self._probabilities = np.array(probabilities)

    def predict_proba(self, rows: Any) -> Any:
        return self._probabilities


def test_a_point_is_judged_by_its_ranking_and_its_loss() -> None:
    rows, truth = np.zeros((3, 1)), np.array([0, 1, 1])
    ranked, loss = _on_dev(Fixed([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]], [0, 1]), rows, truth, 2)
    assert ranked == 1.0
    assert loss == pytest.approx(-np.mean(np.log([0.8, 0.5, 0.9])))
    worst, lost = _on_dev(Fixed([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], [0, 1]), rows, truth, 2)
    assert worst == 0.0
    assert lost == pytest.approx(-np.log(1e-15))


def test_of_several_classes_the_ranking_is_the_mean_over_those_there_are() -> None:
    truth = np.array([0, 0, 2])
    probabilities = [[0.6, 0.1, 0.3], [0.2, 0.5, 0.3], [0.4, 0.1, 0.5]]
    found, _ = _on_dev(Fixed(probabilities, [0, 1, 2]), np.zeros((3, 1)), truth, 3)
    assert found == pytest.approx((0.5 + 1.0) / 2)


def test_choosing_and_answering_without_anything_to_choose_from() -> None:
    assert (_can_rank(np.array([0, 1])), _can_rank(np.array([1, 1])), _can_rank(np.array([], int))) == (
        True,
        False,
        False,
    )
    assert _best({1: (0.5, 2.0), 2: (0.5, 2.0), 3: (0.4, 0.1)}, 0, "loss") == (1, 0.5)
    only = _constant(np.array([1, 1]), 2, 3)
    assert only.probabilities.tolist() == [[0, 1, 0]] * 2
    assert (only.chosen, only.dev_auroc, only.points, only.converged, only.iterations) == ({}, None, 0, True, None)
    assert _constant(np.array([], int), 1, 2).probabilities.tolist() == [[1, 0]]


def test_columns_without_a_training_count_are_left_out_of_all() -> None:
    train, other = sparse.csr_matrix([[0, 1, 0], [0, 0, 2]]), sparse.csr_matrix([[5, 6, 7]])
    kept, rest = _used_columns(train, other)
    assert (kept.toarray().tolist(), rest.toarray().tolist()) == ([[1, 0], [0, 2]], [[6, 7]])
    dense = np.ones((1, 2))
    assert _used_columns(dense, dense)[0] is dense


def table_of(ages: list[float]) -> CountTable:
    return CountTable(
        subjects=np.array([1, 1, 2]),
        times=np.array([to_microseconds(NOON), to_microseconds(NOON) + 1, to_microseconds(NOON)]),
        ages=np.array(ages),
        codes=("a", "b", "c"),
        starts=np.array([0, 2, 2, 3]),
        places=np.array([0, 2, 1]),
        counts=np.array([3, 4, 5]),
    )


def test_a_table_is_rows_of_counts_by_subject_and_time(tmp_path: Path) -> None:
    table = table_of([50.0, 51.0, float("nan")])
    assert table.rows([(2, NOON), (1, NOON)]).tolist() == [2, 0]
    matrix, codes = count_matrix(table, {})
    assert codes == ("a", "b", "c")
    assert matrix.toarray().tolist() == [[3, 0, 4], [0, 0, 0], [0, 5, 0]]
    with pytest.raises(KeyError):
        table.row((3, NOON))
    write_counts(tmp_path / "new" / "counts.npz", table)
    again = read_counts(tmp_path / "new" / "counts.npz")
    assert again.codes == table.codes
    for name in ("subjects", "times", "starts", "places", "counts"):
        assert getattr(again, name).tolist() == getattr(table, name).tolist()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["counts.npz"]


def test_an_event_counts_for_what_is_above_its_code_and_columns_are_in_order() -> None:
    matrix, codes = count_matrix(table_of([1.0, 2.0, 3.0]), {"a": ("0", "b"), "c": ("0",), "unused": ("z",)})
    assert codes == ("0", "a", "b", "c")
    assert matrix.toarray().tolist() == [[7, 3, 3, 4], [0, 0, 0, 0], [0, 0, 5, 0]]


def test_a_design_is_learnt_from_training_rows() -> None:
    table = table_of([40.0, 60.0, float("nan")])
    matrix, codes = count_matrix(table, {})
    design = Design.of(matrix, table, codes, np.array([0, 1]))
    assert (design.codes, design.age_mean, design.age_spread) == (("a", "c"), 50.0, 10.0)
    assert design.names == ("age", "a", "c")
    made = design.matrix(matrix, table, codes, np.array([1, 2, 0]))
    assert made.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [-1, 3, 4]]
    alone = Design.of(matrix, table, codes, np.array([0]))
    assert (alone.age_mean, alone.age_spread) == (40.0, 1.0)
    unknown = Design.of(matrix, table, codes, np.array([2]))
    assert (unknown.age_mean, unknown.age_spread, unknown.codes) == (0.0, 1.0, ("b",))


@pytest.mark.parametrize(("size", "parts"), [(1, [2, 1, 3]), (2, [2, 4]), (3, [3, 3]), (4, [6]), (99, [6])])
def test_keys_are_cut_into_parts_that_never_divide_a_subject(size: int, parts: list[int]) -> None:
    keys = [(subject, NOON) for subject in (1, 1, 2, 3, 3, 3)]
    assert [len(part) for part in _parts_by_subject(keys, size)] == parts
    assert [key for part in _parts_by_subject(keys, size) for key in part] == keys


def test_codes_above_a_code_come_nearest_first_and_a_circle_ends() -> None:
    parents = {"a": ("b", "c"), "b": ("d",), "c": ("d", "a"), "d": ("b",)}
    assert climb("a", parents) == ("b", "c", "d")
    assert climb("z", parents) == ()
    chain = {str(n): (str(n + 1),) for n in range(100)}
    assert len(climb("0", chain)) == 64


GROUPERS: Any = {
    "diagnoses": SimpleNamespace(codes={9: {"4019": 98, "E100": 1}, 10: {"I10": 98, "E100": 2, "4019": 98}}),
    "procedures": SimpleNamespace(codes={10: {"0DTJ4ZZ": 80}}),
}


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("icd-diagnosis//9//401.9", "ccs-diagnoses//98"),
        ("icd-diagnosis//4019", "ccs-diagnoses//98"),
        ("DIAGNOSIS//ICD//10//I10", "ccs-diagnoses//98"),
        ("icd-diagnosis//9//I10", None),
        ("icd-diagnosis//E100", None),
        ("icd-diagnosis//10//E100", "ccs-diagnoses//2"),
        ("icd-diagnosis//x//I10", "ccs-diagnoses//98"),
        ("icd-procedure//0DTJ4ZZ", "ccs-procedures//80"),
        ("icd-procedure//9//0DTJ4ZZ", None),
        ("LAB//I10", None),
        ("icd-diagnosisI10", None),
    ],
)
def test_an_icd_code_has_a_category_where_its_version_leaves_no_doubt(code: str, category: str | None) -> None:
    assert ccs_category(code, GROUPERS) == category


def test_parents_are_a_list_or_a_code_a_line() -> None:
    assert (_names("a\nb\n"), _names(["a", None, "b"]), _names(None), _names(7)) == (("a", "b"), ("a", "b"), (), ())


def test_a_dictionary_that_was_not_there_hides_no_other() -> None:
    class Books:
        """A store whose first dictionary had no file; of the others one says what lies above a code."""

        manifest: Any = {"dictionaries": ["missing", "plain", "codes"]}

        def dictionary(self, name: str) -> pa.Table:
            if name == "missing":
                raise RecordError("no file")
            return pa.table({"code": [7, 8], "parent_codes": [["A", "B"], []]} if name == "codes" else {"code": [1]})

    books: Any = Books()
    assert stored_parents(books) == {"7": ("A", "B")}
