"""The same samples on the published clocks: what they give away is there, and on the strict ones it is not."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.records import Policy, Store
from wardround.tasks.benchmarks import Benchmark, Sample, build_clinseek, reclock


def _stay_known(store: Store, sample: Sample, policy: Policy) -> timedelta | None:
    """How long the stay will last, off the unit's outtime, as the paper's own episode reads it (its figure 9)."""
    chart = store.chart(sample.subject_id, sample.prediction_time, policy=policy)
    admitted = max(row["admittime"] for row in chart.table("admissions").batch.to_pylist())
    moves = [row for row in chart.table("transfers").batch.to_pylist() if row["eventtype"] != "discharge"]
    known = [row["outtime"] for row in moves if row["outtime"] is not None]
    last: datetime | None = max(known, default=None)
    return last - admitted if last is not None and last > sample.prediction_time else None


def test_the_published_clocks_show_the_end_of_the_stay_and_the_strict_ones_do_not(
    synthetic_store: Store, tmp_path: Path
) -> None:
    """On charts of a first day: when the unit will be left, and the billing group of the whole stay."""
    bench = build_clinseek(synthetic_store, tmp_path / "bench", seed=3, per_task=10, tasks=["LengthOfStay_3day"])
    samples = bench.samples(split="test")
    assert len(samples) == 10
    early = [_groups(synthetic_store, one, "published") - _groups(synthetic_store, one, "known_at") for one in samples]
    assert min(early) >= 0
    assert sum(more > 0 for more in early) >= 9, "a stay may have no billing group at all"
    for one in samples:
        assert _stay_known(synthetic_store, one, "known_at") is None
        assert _stay_known(synthetic_store, one, "published") is not None


def _groups(store: Store, sample: Sample, policy: Policy) -> int:
    """How many billing groups a chart shows."""
    return store.chart(sample.subject_id, sample.prediction_time, policy=policy).table("drgcodes").num_rows


def test_it_has_the_same_samples_and_says_whose_clocks(clinseek_path: Path, tmp_path: Path) -> None:
    strict = Benchmark.open(clinseek_path)
    leaking = reclock(strict, "published", tmp_path / "leaking")
    again = Benchmark.open(tmp_path / "leaking")
    assert again.digest == leaking.digest == strict.digest
    assert (again.policy, again.manifest["reclocked"]["from"]) == ("published", "known_at")
    with pytest.raises(UserError, match="uses the clocks 'published' already"):
        reclock(again, "published", tmp_path / "twice")


def test_two_runs_say_what_the_leak_was_worth(
    clinseek_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "reclock", str(clinseek_path), "--out", str(tmp_path / "leaking")]) == 0
    where = ["--store", str(synthetic_store_path), "--task", "clinseek.services", "--agent", "react"]
    for name, bench in (("strict", clinseek_path), ("loose", tmp_path / "leaking")):
        assert main(["run", "--benchmark", str(bench), "--out", str(tmp_path / name), *where]) == 0
    capsys.readouterr()
    runs = [str(tmp_path / "strict"), str(tmp_path / "loose")]
    assert main(["compare", *runs]) != 0
    assert "differ in policy" in capsys.readouterr().err
    assert main(["compare", *runs, "--clocks"]) == 0
    assert "published less known_at: the effect of the leak" in capsys.readouterr().out
    assert main(["compare", runs[0], runs[0], "--clocks"]) != 0
