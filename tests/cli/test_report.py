"""``wardround report``: what the terminal says of a run."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import wardround.reports.report
import wardround.runs.results
from wardround.cli import main
from wardround.runs import RunFolder, score_run


def test_epochs_are_reported_as_best_of_k(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    new = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--out", run]
    assert main([*new, "--task", "transfers", "--limit", "2", "--epochs", "2", "--workers", "1"]) == 0
    assert main(["report", run, "--no-episodes"]) == 0
    said = capsys.readouterr().out
    assert "react · offline, transfers, Best@K F1: K=1 " in said
    assert "react · offline, transfers, pass^k: k=1 " in said
    assert "<td>pass^k</td>" in Path(run, "report", "index.html").read_text()
    assert '<th class="number">corrupt</th>' in Path(run, "report", "index.html").read_text()


@pytest.fixture(scope="module")
def played(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run of four episodes."""
    run = tmp_path_factory.mktemp("report") / "run"
    new = ["run", "--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--out", str(run)]
    assert main([*new, "--task", "transfers", "diagnoses", "--limit", "2", "--workers", "1"]) == 0
    return run


def test_results_by_subgroup_are_printed_and_written(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(played), "--no-episodes", "--by", "sex"]) == 0
    said = capsys.readouterr().out
    assert "\nreact · offline is not shown to differ from the best trivial baseline on any of 2 tasks; " in said
    lines = [line for line in said.splitlines()[2:] if str(played) not in line]
    assert max(map(len, lines)) <= 100, "sentences and tables fit a terminal"
    assert "by sex, from the chart at the time of the question" in said
    assert re.search(r"transfers +(female|male) +[12] +[12] +F1 ", said)
    assert "<h3>Results by sex</h3>" in (played / "report" / "index.html").read_text()


def pages(folder: Path) -> list[Path]:
    return sorted((folder / "episodes").glob("*.html"))


def test_pages_of_a_large_run_are_made_on_demand(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wardround.reports.report, "MOST_PAGES", 3)
    out = tmp_path / "report"
    assert main(["report", str(played), "--out", str(out)]) == 0
    assert "4 episode pages (about 0 MB) are left out; --all-episodes" in capsys.readouterr().err
    assert not pages(out)
    assert "episodes/" not in (out / "index.html").read_text()
    one, other = sorted({score.sample for score in score_run(RunFolder.open(played))})[:2]
    for number, sample in enumerate((one, other), start=1):
        assert main(["report", str(played), "--out", str(out), "--episode", sample]) == 0
        assert len(pages(out)) == number
        assert (out / "index.html").read_text().count('href="episodes/') == number
    assert main(["report", str(played), "--out", str(out), "--all-episodes"]) == 0
    assert len(pages(out)) == 4
    assert all(re.search(r"\d+-year-old (wo)?man|90 years or older", page.read_text()) for page in pages(out))
    assert main(["report", str(played), "--out", str(out), "--episode", "nobody"]) == 2
    assert "no finished episode of sample nobody" in capsys.readouterr().err


def test_a_run_that_nobody_may_write_is_reported(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["report", str(played)]) == 0
    expected = capsys.readouterr().out.partition("\nreport:")[0]
    run = tmp_path / "read-only"
    shutil.copytree(played, run, ignore=shutil.ignore_patterns("report", "results.jsonl"))
    before = sorted(run.rglob("*"))
    read_only.folder = run
    try:
        assert main(["report", str(run)]) == 0
        found = capsys.readouterr().out
        assert found.startswith(expected)
        assert "is read-only, so no report was written; name a folder with --out" in found
        assert main(["report", str(run), "--out", str(tmp_path / "out")]) == 0
        assert len(pages(tmp_path / "out")) == 4
        assert main(["report", str(run), "--out", str(run / "again")]) == 2
    finally:
        read_only.folder = None
    assert sorted(run.rglob("*")) == before


class _ReadOnly:
    """Refuses to change anything in a folder: what a read-only disk does, whoever asks (root passes all modes)."""

    folder: Path | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None or event not in ("os.mkdir", "os.rename", "os.remove", "open"):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if str(arguments[0]).startswith(str(self.folder)):
            raise OSError(errno.EROFS, "Read-only file system", str(arguments[0]))


read_only = _ReadOnly()
sys.addaudithook(read_only)


def test_pages_run_no_scripts_and_load_nothing(played: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    assert main(["report", str(played), "--out", str(out)]) == 0
    for page in (out / "index.html", *pages(out)):
        text = page.read_text()
        policy = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
        [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert policy == [f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"]
        assert text.index("Content-Security-Policy") < text.index("<style>")
        assert not re.search(r"<script|<[^>]+\s(?:style|on\w+)=|javascript:", text)


def test_shares_of_a_run_score_as_the_whole(played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = score_run(RunFolder.open(played))
    monkeypatch.setattr(wardround.runs.results, "_FEW", 0)
    monkeypatch.setattr(wardround.runs.results, "_SHARE", 1)  # several, of which this process takes some
    assert score_run(RunFolder.open(played), workers=2) == whole
