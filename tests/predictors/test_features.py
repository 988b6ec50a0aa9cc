"""Counts and ages by hand, from an invented MEDS data set; ancestors; what the design learns from training alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from extras import needs
from predictors.invented import NOON, SUBJECTS, events, invented_store, severity, split_of
from wardround.clinical.codes import load_ccs
from wardround.predictors.features import (
    AGE,
    CountTable,
    Design,
    ancestry,
    ccs_category,
    chart_counts,
    climb,
    count_matrix,
    count_table,
    read_counts,
    write_counts,
)
from wardround.records import Store

pytestmark = needs("scipy")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return invented_store(
        tmp_path_factory.mktemp("invented"),
        parents={"SIGN//PALE": ["SIGN", "SKIN"], "SIGN": ["FINDING"], "FINDING": []},
    )


def test_counts_are_those_of_events_up_to_the_time(store: Store) -> None:
    for subject_id in (6, 15, 17):
        wanted: dict[str, int] = {}
        for row in events(subject_id):
            if row["time"] is None or row["time"] <= NOON:
                wanted[row["code"]] = wanted.get(row["code"], 0) + 1
        found = chart_counts(store.chart(subject_id, NOON).event_columns())
        assert found == wanted
        assert "FUTURE//TELLS" not in found
        assert found["NOTE//AT_NOON"] == 1  # equality counts as known
        earlier = chart_counts(store.chart(subject_id, NOON - timedelta(seconds=1)).event_columns())
        assert "NOTE//AT_NOON" not in earlier


def test_events_with_a_value_may_be_left_out(store: Store) -> None:
    columns = store.chart(6, NOON).event_columns()
    every, without = chart_counts(columns), chart_counts(columns, valued_events=False)
    assert every.keys() - without.keys() == {"LAB//RESULT//HB"}
    assert all(every[code] == count for code, count in without.items())


def test_the_age_is_that_at_the_time(store: Store) -> None:
    table = count_table(store, [(7, NOON), (7, NOON - timedelta(days=365.25))], policy="known_at")
    born = datetime(2120 - 30 - 7, 1, 1)
    years = (NOON - born) / timedelta(days=365.25)
    assert table.ages.tolist() == pytest.approx([years - 1, years])


def test_without_a_birth_the_age_is_as_the_chart_says_it(store: Store, synthetic_store: Store) -> None:
    """MIMIC-IV has ages and no births; before anything was known there is neither."""
    subject = int(synthetic_store.subjects[0])
    late, early = datetime(2300, 1, 1), datetime(1900, 1, 1)
    said = synthetic_store.chart(subject, late).age
    assert said is not None
    table = count_table(synthetic_store, [(subject, early), (subject, late)], policy="known_at")
    assert np.isnan(table.ages[0])
    assert table.ages[1] == said


def test_processes_change_nothing_and_a_table_is_read_as_written(store: Store, tmp_path: Path) -> None:
    keys = [(subject_id, NOON + timedelta(days=n)) for subject_id in range(1, SUBJECTS + 1) for n in range(8)]
    one = count_table(store, keys, policy="known_at")
    two = count_table(store, reversed(keys), policy="known_at", processes=2)
    write_counts(tmp_path / "counts.npz", one)
    for other in (two, read_counts(tmp_path / "counts.npz")):
        assert other.codes == one.codes
        for name in ("subjects", "times", "ages", "starts", "places", "counts"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name))


def test_an_event_counts_for_everything_above_its_code(store: Store) -> None:
    table = count_table(store, [(9, NOON)], policy="known_at")
    above = ancestry(table.codes, store)
    assert above.ancestors["SIGN//PALE"] == ("SIGN", "SKIN", "FINDING")
    assert above.sources == ("parent codes of the store",)
    assert "FINDING" not in above.ancestors
    nothing = ancestry(["FINDING", "a code of nobody"], store)
    assert (nothing.ancestors, nothing.sources) == ({}, ())
    matrix, codes = count_matrix(table, above.ancestors)
    row = dict(zip(codes, matrix.toarray()[0].tolist(), strict=True))
    pale = chart_counts(store.chart(9, NOON).event_columns())["SIGN//PALE"]
    assert pale == row["SIGN//PALE"] == row["SIGN"] == row["SKIN"] == row["FINDING"]
    assert sum(row.values()) == sum(chart_counts(store.chart(9, NOON).event_columns()).values()) + 3 * pale


def test_a_circle_in_a_hierarchy_ends() -> None:
    assert climb("a", {"a": ("b",), "b": ("c",), "c": ("a", "b")}) == ("b", "c")
    assert climb("a", {"a": ("b", "c"), "b": ("d",), "c": ("d",)}) == ("b", "c", "d")


def test_an_icd_code_lies_below_its_ccs_category_where_the_version_is_certain() -> None:
    groupers = {"diagnoses": load_ccs("diagnoses"), "procedures": load_ccs("procedures")}
    infarction = ccs_category("icd-diagnosis//I21.4", groupers)  # ICD-10 alone has it
    assert infarction == ccs_category("DIAGNOSIS//ICD//10//I214", groupers) == "ccs-diagnoses//100"
    assert ccs_category("icd-diagnosis//410.71", groupers) == infarction
    assert ccs_category("icd-diagnosis//NONE", groupers) is None
    assert ccs_category("LAB//I214", groupers) is None


def test_a_design_knows_training_rows_only(store: Store) -> None:
    keys = [(subject_id, NOON) for subject_id in range(1, SUBJECTS + 1)]
    table = count_table(store, keys, policy="known_at")
    matrix, codes = count_matrix(table, {})
    training = np.array([n for n, (subject_id, _) in enumerate(keys) if split_of(subject_id) == "train"])
    design = Design.of(matrix, table, codes, training)
    assert "ONLY//IN_TEST" in codes
    assert "ONLY//IN_TEST" not in design.codes
    rows = design.matrix(matrix, table, codes, np.arange(len(keys))).toarray()
    assert design.names[0] == AGE
    assert rows[training, 0].mean() == pytest.approx(0, abs=1e-12)
    assert rows[training, 0].std() == pytest.approx(1)
    pale = rows[:, design.names.index("SIGN//PALE")]
    assert all(pale[n] >= 2 * severity(subject_id) for n, (subject_id, _) in enumerate(keys))


@pytest.mark.parametrize(
    ("training", "others"),
    [
        ([40.0, 60.0, np.nan], {50.0: 0.0, 60.0: 1.0, 30.0: -2.0, np.nan: 0.0}),  # spread 10
        ([40.0, 40.0], {50.0: 10.0, np.nan: 0.0}),  # all of one age: years
        ([np.nan, np.nan], {np.nan: 0.0}),
    ],
)
def test_an_age_is_in_standard_deviations_from_the_mean_of_training(
    training: list[float], others: dict[float, float]
) -> None:
    ages = np.array([*training, *others])
    nothing = np.zeros(0, np.int64)
    table = CountTable(
        subjects=np.arange(len(ages)),
        times=np.zeros(len(ages), np.int64),
        ages=ages,
        codes=(),
        starts=np.zeros(len(ages) + 1, np.int64),
        places=nothing,
        counts=nothing,
    )
    matrix, codes = count_matrix(table, {})
    design = Design.of(matrix, table, codes, np.arange(len(training)))
    held_out = np.arange(len(training), len(ages))
    assert design.matrix(matrix, table, codes, held_out).toarray()[:, 0].tolist() == pytest.approx([*others.values()])
