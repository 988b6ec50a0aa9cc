"""The report of a run not begun, of one that failed throughout and of one episode: what is not there is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fake_server import FakeServer, error
from wardround.cli import main
from wardround.runs import RunSettings, start

There = tuple[str, str]
"""Where the store and the benchmark are."""


@pytest.fixture
def there(synthetic_store_path: Path, synthetic_benchmark_path: Path) -> There:
    return str(synthetic_store_path), str(synthetic_benchmark_path)


def reported(run: Path, place: Path) -> tuple[str, set[str]]:
    """The text of a run's page by section, and the names of its figures."""
    words = ["report", str(run), "--no-episodes", "--out", str(place / "page"), "--figures", str(place / "figures")]
    assert main(words) == 0
    page = re.sub(r"<style>.*?</style>", "", (place / "page" / "index.html").read_text(), flags=re.DOTALL)
    return page, {file.name for file in (place / "figures").iterdir()}


def section(page: str, title: str) -> str:
    return page.partition(f"<h2>{title}</h2>")[2].partition("<h2>")[0]


def test_a_run_that_was_not_begun_says_so(there: There, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, benchmark = there
    start(tmp_path / "run", RunSettings.of(store=store, benchmark=benchmark, tasks=("transfers",), limit=1))
    page, figures = reported(tmp_path / "run", tmp_path)
    assert "No finished episode yet." in page
    assert "<svg" not in page
    assert figures == set()
    said = capsys.readouterr()
    assert f"no finished episode yet: wardround run --resume {tmp_path / 'run'} goes on" in said.out
    assert "F1" not in said.out, "no table without a row"
    assert "every chart is empty" in said.err


def test_a_run_that_failed_throughout_draws_nothing_at_zero(there: There, tmp_path: Path) -> None:
    store, benchmark = there
    words = ["run", "--benchmark", benchmark, "--store", store, "--task", "transfers", "--limit", "1", "--workers", "1"]
    with FakeServer(lambda _: error(400)) as server:
        model = ["--model", "openai/test-model", "--base-url", server.url, "--agent", "react", "retrosum"]
        assert main([*words, *model, "--out", str(tmp_path / "run")]) == 0
    page, figures = reported(tmp_path / "run", tmp_path)
    assert "2 of 2 episodes failed: they score like an empty answer" in page
    for title in ("Input tokens per episode", "Time per episode", "Score against spending"):
        assert "<p>none</p>" in section(page, title)
        assert "<svg" not in section(page, title)
    assert {"errors.svg", "turns-per-episode.svg"} <= figures
    assert not [name for name in figures if name.startswith(("input-tokens", "time-per", "score-against"))]


def test_an_interval_that_one_episode_cannot_have_is_named_where_it_would_stand(there: There, tmp_path: Path) -> None:
    store, benchmark = there
    words = ["run", "--benchmark", benchmark, "--store", store, "--task", "transfers", "--limit", "1", "--workers", "1"]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    page, _ = reported(tmp_path / "one", tmp_path)
    assert "transfers (one patient)" in section(page, "Score by task")
    assert "whisker" not in page
    assert "one patient: no interval" in section(page, "Scores")
    assert "0.000 – 0.000" not in page
    assert "failed:" not in page
