"""Both arms of ClinSeek-Bench in one run: the same samples, one table, one picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pictures import drawn

from wardround.cli import main
from wardround.reports.arms import arm_table, group_of, win_map
from wardround.runs import RunSettings
from wardround.tasks.scoring import ArmCell, ArmFigure, ArmRow, Interval, PairedTest


def test_what_has_two_arms_is_of_clinseek_bench() -> None:
    assert group_of("clinseek.labevents") == "Decision making"
    assert group_of("clinseek.ED_Hospitalization") == "Risk prediction"
    assert group_of("labevents") is None


def test_the_map_has_a_row_per_task_risks_first_and_says_gains_with_their_sign() -> None:
    cells = [
        ArmCell(model="m", agent="react", task="clinseek.labevents", n=4, difference=-0.1),
        ArmCell(model="m", agent="react", task="clinseek.ICU_Stay_7day", n=4, difference=0.25),
    ]
    picture = win_map(cells)
    assert picture is not None
    texts = [line.rpartition(": ")[2] for line in drawn(picture) if line.startswith("text")]
    assert texts == ["m", "ICU_Stay_7day", "+25.0", "labevents", "-10.0"]
    assert [line.split()[1] for line in drawn(picture) if line.startswith("rect")] == ["gain", "loss"]
    assert win_map([]) is None


def test_a_row_of_a_model_that_only_played_curated_inputs_is_printed_without_the_other_arm() -> None:
    interval = Interval(estimate=0.5, low=0.4, high=0.6, n=40, subjects=40)
    curated = ArmFigure(
        agent="curated", mean=0.5, n=40, radius=0.0312, interval=interval, input_tokens=1234.0, output_tokens=None
    )
    (texts,) = arm_table([ArmRow(model="m", group="overall", curated=curated)]).rows
    assert texts == ("m", "–", "overall", "40", "50.0 ± 3.1", "–", "–", "–", "–", "–", "–", "–", "100 / –")


def test_one_run_plays_both_arms_and_the_report_sets_them_against_each_other(
    clinseek_path: Path, synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    asked = ["--task", "clinseek.labevents", "clinseek.LengthOfStay_3day", "--agent", "curated", "react"]
    where = ["--benchmark", str(clinseek_path), "--store", str(synthetic_store_path), "--out", str(run)]
    assert main(["run", *where, *asked, "--model", "offline"]) == 0
    assert main(["report", str(run), "--no-episodes"]) == 0
    printed = capsys.readouterr().out
    assert "curated input against evidence seeking" in printed
    row = next(line for line in printed.splitlines() if line.startswith("offline  react    overall"))
    assert row.split()[3] == "4", "two samples of each of the two tasks, in both arms"
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert "Evidence seeking less curated input, by task" in page


def test_weights_that_saw_the_data_are_named(tmp_path: Path) -> None:
    settings = RunSettings.read(
        {"run": {"models": ["mine", "offline"]}, "models": {"mine": {"name": "openai/ehr-r1", "saw_data": True}}}
    )
    assert list(settings.model_notes()) == ["mine"]
    assert "saw this data" in settings.model_notes()["mine"]


@pytest.mark.parametrize(("value", "said"), [(0.00009, "< 0.0001"), (0.0001, "0.0001"), (0.5, "0.5000"), (None, "–")])
def test_a_small_probability_is_said_as_a_bound(value: float | None, said: str) -> None:
    interval = Interval(estimate=0.5, low=0.4, high=0.6, n=40, subjects=40)
    figure = ArmFigure(
        agent="curated", mean=0.5, n=40, radius=None, interval=interval, input_tokens=None, output_tokens=None
    )
    gain = PairedTest(difference=interval, p_value=value, permutations=10, exact=False)
    row = ArmRow(model="m", group="overall", curated=figure, seeking=replace(figure, agent="react"), difference=gain)
    assert said in arm_table([row]).rows[0]
