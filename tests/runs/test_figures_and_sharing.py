"""What charts say where there is nothing to draw, and a report without record text."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.records import Store
from wardround.reports import charts
from wardround.reports.paper_tables import _with_interval
from wardround.runs import RunFolder, open_benchmark, open_store, score_run
from wardround.tasks.scoring import Interval

LATER = datetime(2300, 1, 1)


@pytest.fixture(scope="module")
def played(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("figures") / "run"
    new = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path)]
    new += ["--out", str(folder), "--task", "labevents", "diagnoses", "--limit", "2", "--workers", "1"]
    assert main([*new, "--agent", "react"]) == 0
    return folder


def test_a_map_of_nothing_says_none() -> None:
    assert charts.heat({"react": {"a": 0.0}}, ["a"], title="t") == "<p>none</p>"
    assert "<svg" in charts.heat({"react": {"a": 0.5, "b": 0.0}}, ["a", "b"], title="t")


def test_an_interval_without_variation_is_not_printed_as_one() -> None:
    flat = Interval(estimate=0.0, low=0.0, high=0.0, n=9, subjects=9)
    assert _with_interval(flat) == "0.000 (no variation)"
    assert _with_interval(Interval(estimate=0.5, low=0.25, high=0.75, n=9, subjects=9)) == "0.500 (0.250 to 0.750)"


def test_a_share_safe_report_holds_no_record_text(played: Path, tmp_path: Path) -> None:
    """Every text of the notes and rows of the people that were asked about is looked for."""
    assert main(["report", str(played), "--share-safe", str(tmp_path / "safe")]) == 0
    files = [file for file in (tmp_path / "safe").rglob("*") if file.is_file()]
    assert [file.name for file in files] == ["index.html"]
    page = files[0].read_text()
    folder = RunFolder.open(played)
    people = {score.subject_id for score in score_run(folder)}
    texts = {text for subject in people for text in texts_of(open_store(folder), subject) if len(text) > 8}
    assert len(texts) > 50
    own_words = {task.title for task in open_benchmark(folder).tasks} | set(open_store(folder).table_names)
    assert not [text for text in texts if text in page and not any(text in words for words in own_words)]
    assert main(["report", str(played), "--share-safe", str(tmp_path / "safe")]) != 0, "only a new folder is safe"


def texts_of(store: Store, subject: int) -> set[str]:
    events = store.chart(subject, LATER).events()
    return {text for event in events for text in (event.text_value, event.description) if text}
