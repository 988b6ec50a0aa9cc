"""A study: runs of one file, compared with the one that the file names; stopped and begun again it goes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.reports.study import read_study
from wardround.runs import RunFolder

STUDY = """
baseline = "react"
[settings.run]
benchmark = "{benchmark}"
store = "{store}"
tasks = ["transfers"]
limit = 2
[runs.direct.run]
agents = ["direct"]
[runs.react.run]
agents = ["react"]
[runs.react.budget]
turns = 40
"""


@pytest.fixture
def study(synthetic_benchmark_path: Path, synthetic_store_path: Path, tmp_path: Path) -> Path:
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format(benchmark=synthetic_benchmark_path, store=synthetic_store_path))
    return file


def test_a_study_is_one_command_and_goes_on(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["study", str(study), "--out", str(out), "--workers", "1"]) == 0
    assert "F1 less that of react · offline (react)" in capsys.readouterr().out
    assert RunFolder.open(out / "runs" / "react").settings.budget.turns == 40
    page = (out / "index.html").read_text()
    assert 'href="runs/direct/report/index.html"' in page
    assert "direct · offline (direct)" in page
    rows = pyarrow.parquet.read_table(out / "tables" / "tidy.parquet").to_pylist()
    asked = {"metric": "F1 difference", "run": "direct", "stratum": "all", "baseline": "react · offline (react)"}
    (row,) = [row for row in rows if asked.items() <= row.items()]
    assert (row["agent"], row["task"]) == ("direct", "transfers")
    logs = [file.name for file in (out / "runs").rglob("*.episodes.sqlite")]
    assert main(["study", str(study), "--out", str(out), "--workers", "1"]) == 0
    assert [file.name for file in (out / "runs").rglob("*.episodes.sqlite")] == logs, "nothing was run twice"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[runs.direct.run]", "[run.direct.run]"), "there is no 'run'. Did you mean runs?"),
        (('baseline = "react"', 'baseline = "rag"'), "the baseline 'rag' is not one of its runs: direct, react"),
        (("turns = 40", "turn = 40"), "turn"),
        (("[runs.direct.run]", '[runs."../direct".run]'), "cannot be the name of a run"),
        (('[runs.direct.run]\nagents = ["direct"]\n', ""), "two runs or more"),
    ],
)
def test_a_wrong_study_is_refused_in_a_line_before_anything_runs(
    study: Path, change: tuple[str, str], said: str
) -> None:
    study.write_text(study.read_text().replace(*change))
    with pytest.raises(UserError, match=said):
        read_study(study)
