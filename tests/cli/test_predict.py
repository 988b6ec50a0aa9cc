"""``wardround train predictors`` and the report of what it left, as a user calls them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from extras import needs
from forking import run_command
from predictors.invented import invented_store, questions
from wardround.cli import main

pytestmark = needs("lightgbm")


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("invented")
    store = invented_store(folder)
    questions(store).save(folder / "bench")
    quick = ["--predictor", "count-lr", "--replicates", "2", "--resamples", "50"]
    return ["train", "predictors", "--benchmark", str(folder / "bench"), "--store", str(store.path), *quick]


def test_fit_report_and_go_on(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main([*words, "--out", str(out), "--shots", "2", "all"]) == 0
    text = capsys.readouterr().out
    for said in ("guo_los", "lab_anemia", "lab_anemia (binary)", "F1 severe", "AUROC", "9 fits"):
        assert said in text
    written = (out / "predictions.jsonl").read_bytes()
    assert main([*words, "--out", str(out), "--shots", "2", "all"]) == 0
    assert (out / "predictions.jsonl").read_bytes() == written
    capsys.readouterr()
    assert main(["report", str(out), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert [row["task"] for row in body["predictors"]] == ["guo_los", "lab_anemia", "lab_anemia (binary)"]
    assert body["predictors"][0]["scores"]["auroc"]["estimate"] > 0.9
    page = (out / "report" / "index.html").read_text()
    assert "Few-shot learning" in page
    assert "Baseline card" in page


def test_predictors_are_paired_with_the_best_that_reads_nothing(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", str(tmp_path / "run"), "--shots", "2", "all"]) == 0
    capsys.readouterr()
    assert main(["report", str(tmp_path / "run"), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    card = {row["task"]: row["means"][row["best"]] for row in body["card"]}
    found = {row["task"]: row["test"]["difference"]["estimate"] for row in body["against_trivial"]}
    for row in (one for one in body["predictors"] if one["task"] in card):
        accuracy = row["metrics"]["accuracy"]["estimate"]
        assert found[row["task"]] == pytest.approx(accuracy - card[row["task"]])
    assert set(found) == {"guo_los", "lab_anemia"}, "the binary view answers another question"
    assert all(row["contender"] == "count-lr · predictor" for row in body["against_trivial"])
    figures = ["report", str(tmp_path / "run"), "--figures", str(tmp_path / "figures")]
    if find_spec("matplotlib") is not None:
        assert main(figures) == 0
        names = {file.stem for file in (tmp_path / "figures").glob("*.pdf")}
        assert names == {f"{kind}-{task}" for kind in ("calibration", "learning-curve") for task in found}
    assert main(["report", str(tmp_path / "run"), "--tables", str(tmp_path / "tables")]) == 2
    assert "--tables: only for runs of agents" in capsys.readouterr().err
    folder = Path(words[words.index("--benchmark") + 1])
    moved = folder.rename(tmp_path / "moved")
    assert main(["report", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["card"] == [], "without the benchmark nothing is made up"
    if find_spec("matplotlib") is not None:
        assert main(figures) == 2
        assert "no figures: the benchmark" in capsys.readouterr().err
    moved.rename(folder)


def test_fits_that_the_solver_did_not_finish_are_counted(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*words, "--out", str(tmp_path), "--shots", "all", "--task", "guo_los"]
    assert main([*asked, "--final-iterations", "1"]) == 0
    assert "1 of 1 fits ended at the solver's limit of iterations" in capsys.readouterr().out


def test_other_settings_need_another_folder(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", str(tmp_path), "--shots", "all", "--task", "guo_los"]) == 0
    assert main([*words, "--out", str(tmp_path), "--shots", "1", "--task", "guo_los"]) == 2
    assert "other shots" in capsys.readouterr().err


def test_a_benchmark_without_classes_says_which_has(
    synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    assert main(["train", "predictors", *where, "--out", str(tmp_path / "out")]) == 2
    assert "an EHRSHOT benchmark has" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_predictor_of_a_plug_in_is_fitted_in_two_processes(words: list[str], tmp_path: Path) -> None:
    plugin = Path(__file__).resolve().parents[2] / "examples" / "own_engines.py"
    named = words[: words.index("--predictor")] + words[words.index("--predictor") + 2 :]
    asked = [*named, "--predictor", "prior", "--shots", "2", "all", "--task", "guo_los", "--processes", "2", "--json"]
    done = run_command(*asked, "--plugin", plugin, "--out", tmp_path / "fits")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["predictor"] for row in rows} == {"prior"}
    (whole,) = [row for row in rows if row["k"] == "all"]
    assert len({tuple(one) for one in whole["probabilities"]}) == 1, "the same for everybody"
    assert whole["scores"]["auroc"]["estimate"] == pytest.approx(0.5)
