"""Where the admission is asked about, a table that only admitted people have rows of does not say so by being there."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.predictors import count_table
from wardround.records import Store, ingest
from wardround.synth import synthesize
from wardround.tasks.benchmarks import Benchmark, Sample, build_clinseek, leak_check
from wardround.tools import Environment

PATIENTS = 60


def _built(folder: Path, *, decoys: bool) -> tuple[Store, Benchmark]:
    synthesize(folder / "raw", patients=PATIENTS, seed=5, compress=False, icu=False, notes=False, decoys=decoys)
    ingest("mimiciv", folder / "raw", folder / "store")
    store = Store.open(folder / "store")
    task = ["ED_Hospitalization"]
    return store, build_clinseek(store, folder / "bench", per_task=0, tasks=task, balanced=False)


@pytest.fixture(scope="module")
def mimic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Benchmark]:
    """A hospital as MIMIC-IV keeps it."""
    return _built(tmp_path_factory.mktemp("mimic"), decoys=False)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Benchmark]:
    """One that keeps the orders of everybody."""
    return _built(tmp_path_factory.mktemp("other"), decoys=True)


def _has_order(store: Store, sample: Sample, *, as_asked: bool) -> bool:
    """Whether a chart shows an order of the visit."""
    chart = sample.chart(store) if as_asked else store.chart(sample.subject_id, sample.moment)
    orders = chart.table("poe").batch.column("ordertime").to_pylist()
    arrived = sample.facts["curated_from"]
    return any(str(time) >= arrived for time in orders)


def test_an_order_line_would_say_who_is_admitted_and_is_not_shown(mimic: tuple[Store, Benchmark]) -> None:
    store, bench = mimic
    admitted = [one for one in bench.all_samples if one.target == ("1",)]
    home = [one for one in bench.all_samples if one.target == ("0",)]
    assert len(home) >= 3
    assert sum(_has_order(store, one, as_asked=False) for one in admitted) > len(admitted) / 2
    assert not any(_has_order(store, one, as_asked=False) for one in home)
    assert not any(_has_order(store, one, as_asked=True) for one in bench.all_samples)
    said = bench.manifest["tasks"]["clinseek.ED_Hospitalization"]
    assert list(said["withheld"]["admitted"]) == ["poe", "poe_detail", "pharmacy", "prescriptions", "services"]
    assert said["withheld"]["everybody"] == {}
    assert leak_check(bench, store) == ()


def test_earlier_stays_keep_their_orders(mimic: tuple[Store, Benchmark]) -> None:
    store, bench = mimic
    shown = [one.chart(store).table("poe").num_rows for one in bench.all_samples]
    assert max(shown) > 20


def test_nothing_that_reads_the_chart_of_a_sample_meets_the_withheld_rows(mimic: tuple[Store, Benchmark]) -> None:
    store, bench = mimic
    sample = next(one for one in bench.all_samples if _has_order(store, one, as_asked=False))
    since = sample.facts["curated_from"]
    query = {"sql_query": f"SELECT COUNT(*) AS n FROM poe WHERE ordertime >= '{since}'"}
    told = Environment(sample.chart(store)).call("run_sql_query", query).text
    open_chart = Environment(store.chart(sample.subject_id, sample.moment)).call("run_sql_query", query).text
    assert told.endswith("\nn\n0")
    assert not open_chart.endswith("\nn\n0")
    key = (sample.subject_id, sample.moment)
    assert sample.withheld is not None
    tables = [count_table(store, [key], policy="known_at", withheld=held) for held in ({}, {key: sample.withheld})]
    assert tables[0].counts.sum() > tables[1].counts.sum()


def test_orders_that_everybody_has_are_shown(other: tuple[Store, Benchmark]) -> None:
    store, bench = other
    home = [one for one in bench.all_samples if one.target == ("0",)]
    assert sum(_has_order(store, one, as_asked=True) for one in home) > len(home) / 2
    said = bench.manifest["tasks"]["clinseek.ED_Hospitalization"]["withheld"]
    assert said["everybody"]["poe"] > 5
    assert "poe" not in said["admitted"]
