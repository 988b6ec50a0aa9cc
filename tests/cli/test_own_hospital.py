"""A hospital of one's own, from its files to reports on tasks of both families, without touching our source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from own_hospital import PATIENTS, TESTS, write_hospital

from wardround.cli import main
from wardround.log import LogReader
from wardround.records import Store
from wardround.tasks.benchmarks import Benchmark, leak_check


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    spec = write_hospital(folder / "export")
    assert main(["ingest", str(spec), str(folder / "export"), "--store", str(folder / "store")]) == 0
    return folder / "store"


def test_it_goes_from_its_files_to_a_report_on_two_tasks(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, run = str(tmp_path / "bench"), str(tmp_path / "run")
    assert main(["bench", "build", "agentehr", "--store", str(store), "--out", bench, "--per-task", "3"]) == 0
    said = capsys.readouterr().out
    for task, role in (("microbiology", "culture"), ("transfers", "transfer"), ("diagnoses", "diagnosis")):
        assert f"{task} is unavailable: no table plays the role `{role}`" in said
    benchmark, opened = Benchmark.open(Path(bench)), Store.open(store)
    assert {sample.task for sample in benchmark.all_samples} == {"labevents", "prescriptions"}
    assert leak_check(benchmark, opened) == ()
    assert set(benchmark.spaces["labevents_candidates"].labels.labels) == set(TESTS)
    assert benchmark.manifest["stays"] == {"ambulant": {"no stays": PATIENTS}, "stationaer": {"stays": 2 * PATIENTS}}
    asked = ["run", "--benchmark", bench, "--store", str(store), "--agent", "react", "--model", "offline", "--out", run]
    assert main(asked) == 0
    capsys.readouterr()
    assert main(["report", run]) == 0
    table = capsys.readouterr().out
    assert "labevents" in table
    assert "prescriptions" in table
    assert errors_of_tools(tmp_path / "run") == 0


def errors_of_tools(run: Path) -> int:
    """Count the calls of a run that failed."""
    turns = [
        turn
        for file in sorted((run / "logs").glob("*.sqlite"))
        for trajectory in LogReader(file).trajectories()
        for turn in trajectory.turns
    ]
    assert turns
    return sum(result.is_error for turn in turns for result in turn.results)


def test_it_has_ehrshot_s_tasks_about_stays_and_a_reason_for_the_others(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "bench")
    build = ["bench", "build", "ehrshot", "--store", str(store), "--out", out, "--per-task", "6", "--allow-missing"]
    assert main([*build, "--task", "guo_los", "guo_readmission", "guo_icu", "lab_anemia"]) == 0
    said = capsys.readouterr().out
    tasks = json.loads((tmp_path / "bench" / "manifest.json").read_text(encoding="utf-8"))["tasks"]
    assert tasks["guo_los"]["questions"] > 0
    assert set(tasks["guo_readmission"]["by_class"]) == {"0", "1"}
    assert "guo_icu is unavailable: no row of source 'haus' is a stay in intensive care" in said
    assert "lab_anemia is unavailable: no table plays the role `lab` with `code` and `system`" in said
    assert leak_check(Benchmark.open(tmp_path / "bench"), Store.open(store)) == ()
